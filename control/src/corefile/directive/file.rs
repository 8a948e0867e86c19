//! `file DBFILE [ZONES...] { ... }`

use std::time::Duration;

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::duration::go_duration;
use crate::corefile::parser::Line;
use crate::corefile::settings::File;

const RELOAD_DEFAULT: Duration = Duration::from_secs(60);

/// Reads a stanza; `earlier` is the one before it in the block, whose reload settings go on.
pub(super) fn file(line: &Line, earlier: Option<&File>, scope: &mut Scope<'_>) -> Option<File> {
    let Some((db_file, zones)) = line.args.split_first() else {
        scope.argument_count(line, "a zone file");
        return None;
    };
    let mut file = File {
        db_file: scope.path(db_file),
        db_file_word: db_file.text.to_string(),
        db_file_span: db_file.span,
        zones: scope.zones(zones),
        reload: earlier.map_or(RELOAD_DEFAULT, |earlier| earlier.reload),
        reload_by_mtime: earlier.is_some_and(|earlier| earlier.reload_by_mtime),
        fallthrough: None,
        span: line.name.span,
    };
    for option in scope.options(line) {
        match &*option.name.text {
            "reload" => reload(option, &mut file, scope),
            "reload_by_mtime" => {
                scope.no_args(option);
                file.reload_by_mtime = true;
            }
            "fallthrough" => file.fallthrough = Some(scope.fallthrough(option)),
            "upstream" => {
                let text = "plugin/file: `upstream` has no effect: the server resolves such names itself";
                scope
                    .findings
                    .warn(Diagnostic::warning(option.name.span, text).help("leave the line out"));
            }
            _ => scope.unknown_option(option, &["reload", "reload_by_mtime", "fallthrough"]),
        }
    }
    Some(file)
}

/// Gives the `fallthrough` of the last stanza that has one to all of them.
pub(super) fn share_fallthrough(stanzas: &mut [File]) {
    let last = stanzas.iter().rev().find_map(|stanza| stanza.fallthrough.clone());
    for stanza in stanzas {
        stanza.fallthrough.clone_from(&last);
    }
}

fn reload(option: &Line, file: &mut File, scope: &mut Scope<'_>) {
    let [word] = option.args.as_slice() else {
        scope.error(option.name.span, "plugin/file: reload duration value is expected");
        return;
    };
    match go_duration(&word.text) {
        Ok(every) => file.reload = every,
        Err(error) => {
            let diagnostic = Diagnostic::error(word.span, format!("plugin/file: {error}"));
            scope
                .findings
                .error(diagnostic.label("expected a duration such as `30s`, or `0` for never"));
        }
    }
}
