//! `hosts [FILE [ZONES...]] { ... }`

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use nodens_sources::hosts::{BadLine, entries};

use super::scope::Scope;
use crate::corefile::diagnostic::{Diagnostic, nearest};
use crate::corefile::duration::{DurationError, go_duration};
use crate::corefile::parser::Line;
use crate::corefile::settings::{Hosts, InlineHost};

const OPTIONS: [&str; 5] = ["ttl", "no_reverse", "reload", "fallthrough", "fallthrough_unsupported"];
const TTL_DEFAULT: u32 = 3600;
const RELOAD_DEFAULT: Duration = Duration::from_secs(5);

/// Reads the directive.
pub(super) fn hosts(line: &Line, scope: &mut Scope<'_>) -> Option<Hosts> {
    let (file, file_span, zones) = match line.args.split_first() {
        Some((file, zones)) => (scope.path(file), file.span, scope.zones(zones)),
        None => (PathBuf::from("/etc/hosts"), line.name.span, scope.zones(&[])),
    };
    let mut hosts = Hosts {
        file,
        file_span,
        zones,
        inline: Vec::new(),
        ttl_secs: TTL_DEFAULT,
        no_reverse: false,
        reload: RELOAD_DEFAULT,
        fallthrough: None,
        fallthrough_unsupported: false,
        span: line.name.span,
    };
    let mut unsupported = None;
    for option in scope.options(line) {
        match &*option.name.text {
            "ttl" => ttl(option, &mut hosts, scope),
            "no_reverse" => hosts.no_reverse = true,
            "reload" => reload(option, &mut hosts, scope),
            "fallthrough" => hosts.fallthrough = Some(scope.fallthrough(option)),
            "fallthrough_unsupported" => {
                scope.no_args(option);
                unsupported = Some(option);
            }
            _ if hosts.fallthrough.is_some() => unknown(option, scope),
            _ => inline(option, &mut hosts, scope),
        }
    }
    if let Some(option) = unsupported {
        hosts.fallthrough_unsupported = true;
        if hosts.fallthrough.is_none() {
            let error = Diagnostic::error(option.name.span, "fallthrough_unsupported needs fallthrough");
            scope.findings.error(error.help("add a line `fallthrough`"));
        }
    }
    Some(hosts)
}

fn ttl(option: &Line, hosts: &mut Hosts, scope: &mut Scope<'_>) {
    let Some(word) = option.args.first() else {
        scope.error(option.name.span, "ttl needs a time in second");
        return;
    };
    match word.text.parse::<i64>() {
        Ok(seconds @ 1..=65_535) => hosts.ttl_secs = u32::try_from(seconds).expect("at most 65,535"),
        Ok(_) => {
            let error = Diagnostic::error(word.span, "ttl provided is invalid");
            scope.findings.error(error.label("expected 1 to 65535 seconds"));
        }
        Err(_) => {
            let error = Diagnostic::error(word.span, "ttl needs a number of second");
            scope.findings.error(error.label("expected 1 to 65535, without a unit"));
        }
    }
}

fn reload(option: &Line, hosts: &mut Hosts, scope: &mut Scope<'_>) {
    let [word] = option.args.as_slice() else {
        scope.error(option.name.span, "reload needs a duration (zero seconds to disable)");
        return;
    };
    match go_duration(&word.text) {
        Ok(every) => hosts.reload = every,
        Err(DurationError::Negative(_)) => {
            scope.error(
                word.span,
                format!("invalid negative duration for reload '{}'", word.text),
            );
        }
        Err(error) => {
            let text = format!("invalid duration for reload '{}'", word.text);
            scope
                .findings
                .error(Diagnostic::error(word.span, text).label(error.to_string()));
        }
    }
}

/// Takes a line of the block as one of a hosts file, where a wrong one is skipped: an option that was mistyped must not
/// vanish without a word.
fn inline(option: &Line, hosts: &mut Hosts, scope: &mut Scope<'_>) {
    let first = &*option.name.text;
    let address = first.split_once('%').map_or(first, |(address, _)| address);
    let words = std::iter::once(&option.name).chain(&option.args);
    let line = words.map(|word| &*word.text).collect::<Vec<_>>().join(" ");
    if address.parse::<IpAddr>().is_err() {
        let text = format!("plugin/hosts: '{first}' is neither an option nor an address: the line is skipped");
        let warning = Diagnostic::warning(option.name.span, text);
        scope.findings.warn(match nearest(first, OPTIONS) {
            Some(near) => warning.help(format!("did you mean `{near}`?")),
            None => warning,
        });
    } else {
        let bad = |bad: BadLine| {
            let text = format!("plugin/hosts: {}; it is left out", bad.text);
            scope.findings.warn(Diagnostic::warning(option.span(), text));
        };
        entries(line.as_bytes(), bad).for_each(drop);
    }
    hosts.inline.push(InlineHost {
        text: line,
        span: option.span(),
    });
}

fn unknown(option: &Line, scope: &mut Scope<'_>) {
    let first = &*option.name.text;
    if first.parse::<IpAddr>().is_ok() {
        let error = Diagnostic::error(option.name.span, format!("unknown property '{first}'"));
        scope
            .findings
            .error(error.help("addresses stand in front of `fallthrough`"));
    } else {
        scope.unknown_option(option, &OPTIONS);
    }
}
