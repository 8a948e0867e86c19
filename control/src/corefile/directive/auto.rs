//! `auto [ZONES...] { directory DIR [REGEXP TEMPLATE]; reload DURATION }`

use std::path::PathBuf;
use std::time::Duration;

use regex::Regex;

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::duration::{DurationError, go_duration};
use crate::corefile::parser::Line;
use crate::corefile::settings::Auto;

const PATTERN_DEFAULT: &str = r"db\.(.*)";
const TEMPLATE_DEFAULT: &str = "${1}";
const RELOAD_DEFAULT: Duration = Duration::from_secs(60);

/// Reads a stanza.
pub(super) fn auto(line: &Line, scope: &mut Scope<'_>) -> Option<Auto> {
    let mut auto = Auto {
        zones: scope.zones(&line.args),
        directory: PathBuf::new(),
        directory_word: String::new(),
        directory_span: line.name.span,
        pattern: Regex::new(PATTERN_DEFAULT).expect("a valid pattern"),
        template: TEMPLATE_DEFAULT.to_owned(),
        reload: RELOAD_DEFAULT,
    };
    for option in scope.options(line) {
        match &*option.name.text {
            "directory" => directory(option, &mut auto, scope),
            "reload" => reload(option, &mut auto, scope),
            "upstream" => {
                let text = "plugin/auto: `upstream` has no effect: the server resolves such names itself";
                scope
                    .findings
                    .warn(Diagnostic::warning(option.name.span, text).help("leave the line out"));
            }
            _ => scope.unknown_option(option, &["directory", "reload"]),
        }
    }
    if !line.options().iter().any(|option| &*option.name.text == "directory") {
        let error = Diagnostic::error(line.name.span, "plugin/auto: a directory is required");
        scope
            .findings
            .error(error.help("add a line `directory` with the folder of the zone files"));
    }
    Some(auto)
}

fn directory(option: &Line, auto: &mut Auto, scope: &mut Scope<'_>) {
    let (folder, pattern) = match option.args.as_slice() {
        [folder] => (folder, None),
        [folder, pattern, template] => {
            // As CoreDNS has it: whatever stands in braces is a group.
            auto.template = template.text.replace('{', "${");
            (folder, Some(pattern))
        }
        _ => {
            scope.argument_count(option, "a folder, or a folder, a regular expression and a template");
            return;
        }
    };
    auto.directory = scope.path(folder);
    auto.directory_word = folder.text.to_string();
    auto.directory_span = folder.span;
    let Some(word) = pattern else { return };
    match Regex::new(&word.text) {
        Ok(pattern) if pattern.captures_len() > 1 => auto.pattern = pattern,
        Ok(_) => {
            let error = Diagnostic::error(word.span, "plugin/auto: Need at least one sub expression");
            let help = r"put the part that makes the zone's name in brackets, as in `db\.(.*)`";
            scope.findings.error(error.help(help));
        }
        Err(error) => {
            let text = format!("plugin/auto: error parsing regexp: `{}`", word.text);
            let why = error.to_string();
            let why = why
                .lines()
                .last()
                .unwrap_or_default()
                .trim_start_matches("error: ")
                .to_owned();
            scope.findings.error(Diagnostic::error(word.span, text).label(why));
        }
    }
}

fn reload(option: &Line, auto: &mut Auto, scope: &mut Scope<'_>) {
    let [word, ..] = option.args.as_slice() else {
        scope.error(option.name.span, "plugin/auto: reload duration value is expected");
        return;
    };
    match go_duration(&word.text) {
        Ok(every) => auto.reload = every,
        Err(error) => {
            let text = match error {
                DurationError::Negative(_) => "plugin/auto: invalid duration".to_owned(),
                error => format!("plugin/auto: {error}"),
            };
            let error = Diagnostic::error(word.span, text);
            scope
                .findings
                .error(error.label("expected a duration such as `30s`, or `0` for never"));
        }
    }
}
