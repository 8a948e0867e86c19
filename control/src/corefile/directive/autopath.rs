//! `autopath [ZONES...] RESOLV-CONF`

use nodens_engine::plan::autopath::Autopath;

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::resolv_conf;
use crate::corefile::source::read_named;

/// Suffixes of a search path, at most: each is a look-up more for a name that does not exist.
const SEARCH_MAX: usize = 32;

/// Reads the directive.
pub(super) fn autopath(line: &Line, scope: &mut Scope<'_>) -> Option<Autopath> {
    scope.no_block(line);
    let Some((conf, zones)) = line.args.split_last() else {
        let error = Diagnostic::error(line.name.span, "plugin/autopath: no resolv-conf specified");
        scope
            .findings
            .error(error.label("expected a file like /etc/resolv.conf"));
        return None;
    };
    if let Some(source) = conf.text.strip_prefix('@') {
        of_source(conf, source, scope);
        return None;
    }
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

fn of_source(conf: &Word, source: &str, scope: &mut Scope<'_>) {
    let text = match source {
        "kubernetes" => "plugin/autopath: nodens does not have '@kubernetes' yet".to_owned(),
        _ => format!("plugin/autopath: {source} does not implement the AutoPather interface"),
    };
    let error = Diagnostic::error(conf.span, text);
    scope
        .findings
        .error(error.help("name a file like /etc/resolv.conf, whose `search` line holds for all clients"));
}
