//! Directives to settings: one function each, in a file of its own.
//!
//! A function reports what is wrong and goes on, so that one run shows everything. What it returns then is used only to
//! find more errors.

mod acl;
mod auto;
mod autopath;
mod bind;
mod cache;
mod cancel;
mod chaos;
mod dns64;
mod edns;
mod errors;
mod etcd;
mod file;
mod forward;
mod header;
mod hosts;
mod http;
mod k8s_external;
mod kubernetes;
mod loadbalance;
mod local;
mod log;
mod metadata;
mod multisocket;
mod number;
mod on;
mod pod_labels;
mod proxy;
mod reload;
mod rewrite;
mod scope;
mod secondary;
mod selector;
mod template;
mod timeouts;
mod tls;
mod transfer;
mod unbuilt;
mod upstreams;
mod view;

use std::path::{Path, PathBuf};

use nodens_wire::NameBuf;

use super::diagnostic::{Diagnostic, Findings, nearest};
use super::form;
use super::parser::{Line, ParsedBlock};
use super::settings::{Event, Key, ServerBlock, Timeouts};
use super::source::{Span, World};
use super::zone;
use scope::Scope;

pub use edns::NSID_LEN_MAX;
pub use pod_labels::POD_LABELS_MAX;

/// The directives that nodens has, sorted; `-plugins` prints them.
pub const KNOWN: [&str; 47] = [
    "acl",
    "any",
    "auto",
    "autopath",
    "bind",
    "bufsize",
    "cache",
    "cancel",
    "chaos",
    "debug",
    "dns64",
    "dnstap",
    "errors",
    "etcd",
    "file",
    "forward",
    "header",
    "health",
    "hosts",
    "k8s_external",
    "kubernetes",
    "loadbalance",
    "local",
    "log",
    "loop",
    "metadata",
    "minimal",
    "multisocket",
    "nsid",
    "on",
    "pprof",
    "prometheus",
    "proxy",
    "ready",
    "reload",
    "rewrite",
    "root",
    "secondary",
    "shutdown",
    "startup",
    "template",
    "timeouts",
    "tls",
    "trace",
    "transfer",
    "view",
    "whoami",
];

/// The directives of CoreDNS, and of its old releases, that nodens does not have yet.
pub const MISSING: [&str; 16] = [
    "azure",
    "clouddns",
    "dnssec",
    "erratic",
    "geoip",
    "grpc",
    "grpc_server",
    "https",
    "https3",
    "nomad",
    "proxyproto",
    "quic",
    "route53",
    "shed",
    "sign",
    "tsig",
];

/// Reads one block. None when it has no key that is one.
pub fn block(
    parsed: &ParsedBlock,
    default_port: u16,
    world: &dyn World,
    findings: &mut Findings,
) -> Option<ServerBlock> {
    let keys = keys(parsed, default_port, findings);
    let zones: Vec<NameBuf> = keys.iter().map(|key| key.zone.clone()).collect();
    for line in &parsed.directives {
        check_known(line, findings);
    }
    let (first, last) = (parsed.keys.first()?, parsed.keys.last()?);
    let root = root(parsed, world, findings);
    let mut scope = Scope {
        zones: &zones,
        root: root.as_deref(),
        world,
        findings,
    };
    let mut block = empty_block(first.span.to(last.span));
    for line in &parsed.directives {
        let before = scope.findings.errors.len();
        directive(line, &mut scope, &mut block);
        show_form(line, &mut scope.findings.errors[before..]);
    }
    pod_labels::keep(parsed, &mut block, &mut scope);
    file::share_fallthrough(&mut block.file);
    secondary::share_fallthrough(&mut block.secondary);
    k8s_external::check(&block, findings);
    autopath::check(&block, findings);
    block.keys = keys;
    block.root = root;
    (!block.keys.is_empty()).then_some(block)
}

fn directive(line: &Line, scope: &mut Scope<'_>, block: &mut ServerBlock) {
    match &*line.name.text {
        "acl" => block.acl.push(acl::acl(line, scope)),
        "any" => block.any |= bare(line, scope),
        "bufsize" => first(&mut block.bufsize, line, scope, edns::bufsize),
        "cancel" => block.cancel = cancel::cancel(line, scope),
        "cache" => once(&mut block.cache, line, scope, cache::cache),
        "chaos" => first(&mut block.chaos, line, scope, chaos::chaos),
        "debug" => block.debug |= bare(line, scope),
        "dnstap" => unbuilt::dnstap(line, scope),
        "auto" => {
            if block.auto.is_some() {
                let text = "the `auto` above has no effect: the last of a block counts";
                scope.findings.warn(Diagnostic::warning(line.name.span, text));
            }
            block.auto = auto::auto(line, scope);
        }
        "autopath" => autopath::autopath(line, block, scope),
        "bind" => block.bind.extend(bind::bind(line, scope)),
        "dns64" => block.dns64 = Some(dns64::dns64(line, block.dns64, scope)),
        "errors" => once(&mut block.errors, line, scope, errors::errors),
        "etcd" => block.etcd.push(etcd::etcd(line, scope)),
        "file" => {
            let earlier = block.file.last();
            let stanza = file::file(line, earlier, scope);
            block.file.extend(stanza);
        }
        "forward" => block.forward.extend(forward::forward(line, scope)),
        "health" => {
            if block.health.is_some() {
                scope.findings.warn(Diagnostic::warning(
                    line.name.span,
                    "the `health` above has no effect: the last counts",
                ));
            }
            block.health = http::health(line, scope);
        }
        "header" => first(&mut block.header, line, scope, header::header),
        "hosts" => once(&mut block.hosts, line, scope, hosts::hosts),
        "k8s_external" => once(&mut block.k8s_external, line, scope, k8s_external::k8s_external),
        "kubernetes" => once(&mut block.kubernetes, line, scope, kubernetes::kubernetes),
        "loadbalance" => first(&mut block.loadbalance, line, scope, loadbalance::loadbalance),
        "local" => block.local = local::local(line, scope),
        "log" => block.log.extend(log::log(line, scope)),
        "loop" => once(&mut block.detects_loops, line, scope, detects_loops),
        "metadata" => once(&mut block.metadata, line, scope, metadata::metadata),
        "minimal" => block.minimal |= bare(line, scope),
        "multisocket" => once(&mut block.multisocket, line, scope, multisocket::multisocket),
        "nsid" => once(&mut block.nsid, line, scope, edns::nsid),
        "on" => block.hooks.extend(on::on(line, scope)),
        "pprof" => once(&mut block.pprof, line, scope, unbuilt::pprof),
        "prometheus" => once(&mut block.prometheus, line, scope, http::prometheus),
        "proxy" => block.proxy.extend(proxy::proxy(line, scope)),
        "ready" => once(&mut block.ready, line, scope, http::ready),
        "reload" => once(&mut block.reload, line, scope, reload::reload),
        "rewrite" => block.rewrite.extend(rewrite::rewrite(line, scope)),
        "shutdown" => block.hooks.extend(on::at(line, Event::Shutdown, scope)),
        "startup" => block.hooks.extend(on::at(line, Event::Startup, scope)),
        "secondary" => block.secondary.push(secondary::secondary(line, scope)),
        "template" => block.template.extend(template::template(line, scope)),
        "trace" => unbuilt::trace(line, scope),
        "timeouts" => timeouts::timeouts(line, &mut block.timeouts, scope),
        "tls" if block.tls.is_some() => {
            let text = "plugin/tls: TLS already configured for this server instance";
            scope.error(line.name.span, text);
            tls::tls(line, scope);
        }
        "tls" => block.tls = tls::tls(line, scope),
        "transfer" => block.transfer.push(transfer::transfer(line, scope)),
        "view" => once(&mut block.view, line, scope, view::view),
        "whoami" => block.whoami |= bare(line, scope),
        // `root` is read before all others, and what is not known is reported already.
        _ => {}
    }
}

/// A directive that is one word.
fn bare(line: &Line, scope: &mut Scope<'_>) -> bool {
    scope.no_args(line);
    scope.no_block(line);
    true
}

/// `loop`
fn detects_loops(line: &Line, scope: &mut Scope<'_>) -> Option<Span> {
    bare(line, scope).then_some(line.name.span)
}

/// A directive of which the first in a block counts.
fn first<T>(setting: &mut Option<T>, line: &Line, scope: &mut Scope<'_>, read: fn(&Line, &mut Scope<'_>) -> Option<T>) {
    if setting.is_some() {
        let text = format!(
            "this `{}` has no effect: the first one of a block counts",
            line.name.text
        );
        scope.findings.warn(Diagnostic::warning(line.name.span, text));
        return;
    }
    *setting = read(line, scope);
}

/// Gives errors of a directive that say nothing of how to mend them its form.
fn show_form(line: &Line, errors: &mut [Diagnostic]) {
    for error in errors.iter_mut().filter(|error| error.help.is_none()) {
        error.help = error.span.and_then(|place| form::help(line, place));
    }
}

/// A directive that may stand in a block once. A second one is read for its own mistakes: its options may be wanted above.
fn once<T>(setting: &mut Option<T>, line: &Line, scope: &mut Scope<'_>, read: fn(&Line, &mut Scope<'_>) -> Option<T>) {
    if setting.is_some() {
        let text = format!(
            "plugin/{}: this plugin can only be used once per Server Block",
            line.name.text
        );
        let error = Diagnostic::error(line.name.span, text);
        scope
            .findings
            .error(error.help("take it out, or put its options into the one above"));
        read(line, scope);
        return;
    }
    *setting = read(line, scope);
}

/// Whether CoreDNS or nodens knows a directive of this name.
pub(super) fn is_known(line: &Line) -> bool {
    names().any(|name| *line.name.text == *name)
}

fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.into_iter().chain(MISSING)
}

fn not_there(line: &Line) -> Diagnostic {
    let text = format!("nodens does not have the directive '{}' yet", line.name.text);
    Diagnostic::error(line.name.span, text).help("remove it, or serve this block with CoreDNS until nodens has it")
}

fn check_known(line: &Line, findings: &mut Findings) {
    let name = &*line.name.text;
    if KNOWN.contains(&name) {
        return;
    }
    if MISSING.contains(&name) {
        findings.error(not_there(line));
        return;
    }
    let error = Diagnostic::error(line.name.span, format!("Unknown directive '{name}'"));
    let near = nearest(name, names());
    findings.error(match near {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None if line.block.is_some() && name.contains(['.', ':']) => {
            error.help("if this is the zone of a new block, the block above lacks its `}`")
        }
        None => error
            .label("no directive has this name")
            .help("`nodens -plugins` lists those that there are"),
    });
}

fn keys(parsed: &ParsedBlock, default_port: u16, findings: &mut Findings) -> Vec<Key> {
    let mut keys = Vec::new();
    for word in &parsed.keys {
        match zone::keys(word, default_port) {
            Ok(more) => keys.extend(more),
            Err(error) => findings.error(error),
        }
    }
    keys
}

/// The last `root` of a block.
fn root(parsed: &ParsedBlock, world: &dyn World, findings: &mut Findings) -> Option<PathBuf> {
    let mut root = None;
    for line in parsed.directives.iter().filter(|line| &*line.name.text == "root") {
        let mut scope = Scope {
            zones: &[],
            root: None,
            world,
            findings,
        };
        let before = scope.findings.errors.len();
        scope.no_block(line);
        let word = scope.one_arg(line);
        show_form(line, &mut scope.findings.errors[before..]);
        let Some(word) = word else { continue };
        if !world.exists(Path::new(&*word.text)) {
            let text = format!("plugin/root: Root path does not exist: {}", word.text);
            findings.warn(Diagnostic::warning(word.span, text));
        }
        root = Some(PathBuf::from(&*word.text));
    }
    root
}

fn empty_block(span: Span) -> ServerBlock {
    ServerBlock {
        keys: Vec::new(),
        span,
        bind: Vec::new(),
        root: None,
        errors: None,
        log: Vec::new(),
        cancel: None,
        multisocket: None,
        debug: false,
        pprof: None,
        nsid: None,
        bufsize: None,
        local: None,
        any: false,
        chaos: None,
        acl: Vec::new(),
        dns64: None,
        rewrite: Vec::new(),
        autopath: None,
        pod_autopath: None,
        cache: None,
        header: None,
        minimal: false,
        loadbalance: None,
        transfer: Vec::new(),
        hosts: None,
        file: Vec::new(),
        auto: None,
        secondary: Vec::new(),
        etcd: Vec::new(),
        kubernetes: None,
        k8s_external: None,
        template: Vec::new(),
        detects_loops: None,
        forward: Vec::new(),
        proxy: Vec::new(),
        whoami: false,
        reload: None,
        hooks: Vec::new(),
        health: None,
        ready: None,
        prometheus: None,
        tls: None,
        timeouts: Timeouts::default(),
        metadata: None,
        view: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_is_sorted_and_nothing_is_both() {
        assert!(KNOWN.is_sorted());
        assert!(MISSING.iter().all(|name| !KNOWN.contains(name)));
    }
}
