//! `autopath [ZONES...] RESOLV-CONF | @kubernetes`

use std::path::Path;

use super::scope::Scope;
use crate::corefile::diagnostic::{Diagnostic, Findings};
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::resolv_conf;
use crate::corefile::settings::{Autopath, PodAutopath, PodNames, ServerBlock};
use crate::corefile::source::read_named;

/// Suffixes of a search path, at most: each is a look-up more for a name that does not exist.
const SEARCH_MAX: usize = 32;

/// The file whose `search` line stands behind the suffixes of a cluster.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Reads the directive; the last one of a block counts.
pub(super) fn autopath(line: &Line, block: &mut ServerBlock, scope: &mut Scope<'_>) {
    (block.autopath, block.pod_autopath) = (None, None);
    scope.no_block(line);
    let Some((conf, zones)) = line.args.split_last() else {
        let error = Diagnostic::error(line.name.span, "plugin/autopath: no resolv-conf specified");
        scope
            .findings
            .error(error.label("expected a file like /etc/resolv.conf"));
        return;
    };
    match conf.text.strip_prefix('@') {
        Some("kubernetes") => {
            let text = read_named(scope.world, Path::new(RESOLV_CONF)).unwrap_or_default();
            block.pod_autopath = Some(PodAutopath {
                zones: scope.zones(zones),
                search: resolv_conf::parse(&text).search.into_iter().take(SEARCH_MAX).collect(),
                span: line.name.span,
            });
        }
        Some(source) => {
            let text = format!("plugin/autopath: {source} does not implement the AutoPather interface");
            let error = Diagnostic::error(conf.span, text);
            scope
                .findings
                .error(error.help("write `@kubernetes`, or name a file like /etc/resolv.conf"));
        }
        None => block.autopath = of_file(conf, zones, scope),
    }
}

/// Which pod asks is known of verified ones alone.
pub(super) fn check(block: &ServerBlock, findings: &mut Findings) {
    let pods = block.kubernetes.as_ref().map(|kubernetes| kubernetes.pods);
    if let Some(autopath) = &block.pod_autopath
        && pods != Some(PodNames::Verified)
    {
        let text = "plugin/autopath: no effect: it needs `kubernetes` with `pods verified` in the block";
        findings.warn(Diagnostic::warning(autopath.span, text));
    }
}

fn of_file(conf: &Word, zones: &[Word], scope: &mut Scope<'_>) -> Option<Autopath> {
    let text = match read_named(scope.world, &scope.path(conf)) {
        Ok(text) => text,
        Err(why) => {
            let text = format!("plugin/autopath: failed to parse {:?}: {why}", conf.text);
            let error = Diagnostic::error(conf.span, text);
            scope
                .findings
                .error(error.help("name a file like /etc/resolv.conf last"));
            return None;
        }
    };
    let search = resolv_conf::parse(&text).search;
    if search.len() > SEARCH_MAX {
        let text = format!("plugin/autopath: {} has more than {SEARCH_MAX} suffixes", conf.text);
        let error = Diagnostic::error(conf.span, text);
        scope.findings.error(error.help("shorten its `search` line"));
        return None;
    }
    if search.is_empty() {
        let text = format!("plugin/autopath: no effect: {} has no `search` line", conf.text);
        scope.findings.warn(Diagnostic::warning(conf.span, text));
    }
    Some(Autopath {
        zones: scope.zones(zones),
        search,
    })
}
