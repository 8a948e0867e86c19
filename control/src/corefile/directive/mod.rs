//! Directives to settings: one function each, in a file of its own.
//!
//! A function reports what is wrong and goes on, so that one run shows everything. What it returns then is used only to
//! find more errors.

mod bind;
mod errors;
mod etcd;
mod file;
mod hosts;
mod http;
mod loadbalance;
mod log;
mod metadata;
mod scope;
mod transfer;
mod view;

use std::path::{Path, PathBuf};

use nodens_wire::NameBuf;

use super::diagnostic::{Diagnostic, Findings, nearest};
use super::parser::{Line, ParsedBlock};
use super::settings::{Key, ServerBlock};
use super::source::{Span, World};
use super::zone;
use scope::Scope;

/// The directives that nodens has, sorted; `-plugins` prints them.
pub const KNOWN: [&str; 15] = [
    "bind",
    "errors",
    "etcd",
    "file",
    "health",
    "hosts",
    "loadbalance",
    "log",
    "metadata",
    "prometheus",
    "ready",
    "root",
    "transfer",
    "view",
    "whoami",
];

/// The directives of CoreDNS, and of its old releases, that nodens does not have yet.
pub const MISSING: [&str; 48] = [
    "acl",
    "any",
    "auto",
    "autopath",
    "azure",
    "bufsize",
    "cache",
    "cancel",
    "chaos",
    "clouddns",
    "debug",
    "dns64",
    "dnssec",
    "dnstap",
    "erratic",
    "forward",
    "geoip",
    "grpc",
    "grpc_server",
    "header",
    "https",
    "https3",
    "k8s_external",
    "kubernetes",
    "local",
    "loop",
    "minimal",
    "multisocket",
    "nomad",
    "nsid",
    "on",
    "pprof",
    "proxy",
    "proxyproto",
    "quic",
    "reload",
    "rewrite",
    "route53",
    "secondary",
    "shed",
    "shutdown",
    "sign",
    "startup",
    "template",
    "timeouts",
    "tls",
    "trace",
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
        findings,
    };
    let mut block = empty_block(first.span.to(last.span));
    for line in &parsed.directives {
        directive(line, &mut scope, &mut block);
    }
    file::share_fallthrough(&mut block.file);
    block.keys = keys;
    block.root = root;
    (!block.keys.is_empty()).then_some(block)
}

fn directive(line: &Line, scope: &mut Scope<'_>, block: &mut ServerBlock) {
    match &*line.name.text {
        "bind" => block.bind.extend(bind::bind(line, scope)),
        "errors" => once(&mut block.errors, line, scope, errors::errors),
        "etcd" => block.etcd.push(etcd::etcd(line, scope)),
        "file" => {
            let earlier = block.file.last();
            let stanza = file::file(line, earlier, scope);
            block.file.extend(stanza);
        }
        "health" => {
            if block.health.is_some() {
                scope.findings.warn(Diagnostic::warning(
                    line.name.span,
                    "the `health` above has no effect: the last counts",
                ));
            }
            block.health = http::health(line, scope);
        }
        "hosts" => once(&mut block.hosts, line, scope, hosts::hosts),
        "loadbalance" if block.loadbalance.is_some() => {
            let text = "this `loadbalance` has no effect: the first one of a block counts";
            scope.findings.warn(Diagnostic::warning(line.name.span, text));
        }
        "loadbalance" => block.loadbalance = loadbalance::loadbalance(line, scope),
        "log" => block.log.extend(log::log(line, scope)),
        "metadata" => once(&mut block.metadata, line, scope, metadata::metadata),
        "prometheus" => once(&mut block.prometheus, line, scope, http::prometheus),
        "ready" => once(&mut block.ready, line, scope, http::ready),
        "transfer" => block.transfer.push(transfer::transfer(line, scope)),
        "view" => once(&mut block.view, line, scope, view::view),
        "whoami" => {
            scope.no_args(line);
            scope.no_block(line);
            block.whoami = true;
        }
        // `root` is read before all others, and what is not known is reported already.
        _ => {}
    }
}

/// A directive that may stand in a block once.
fn once<T>(setting: &mut Option<T>, line: &Line, scope: &mut Scope<'_>, read: fn(&Line, &mut Scope<'_>) -> Option<T>) {
    if setting.is_some() {
        let text = format!(
            "plugin/{}: this plugin can only be used once per Server Block",
            line.name.text
        );
        scope.findings.error(Diagnostic::error(line.name.span, text));
        return;
    }
    *setting = read(line, scope);
}

fn check_known(line: &Line, findings: &mut Findings) {
    let name = &*line.name.text;
    if KNOWN.contains(&name) {
        return;
    }
    if MISSING.contains(&name) {
        let error = Diagnostic::error(
            line.name.span,
            format!("nodens does not have the directive '{name}' yet"),
        );
        findings.error(error.help("remove it, or serve this block with CoreDNS until nodens has it"));
        return;
    }
    let error = Diagnostic::error(line.name.span, format!("Unknown directive '{name}'"));
    let near = nearest(name, KNOWN.into_iter().chain(MISSING));
    findings.error(match near {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None if line.block.is_some() && name.contains(['.', ':']) => {
            error.help("if this is the zone of a new block, the block above lacks its `}`")
        }
        None => error.label("no directive has this name"),
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
            findings,
        };
        scope.no_block(line);
        let Some(word) = scope.one_arg(line) else { continue };
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
        loadbalance: None,
        transfer: Vec::new(),
        hosts: None,
        file: Vec::new(),
        etcd: Vec::new(),
        whoami: false,
        health: None,
        ready: None,
        prometheus: None,
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
