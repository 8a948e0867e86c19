//! `log [NAMES...] [FORMAT] { class CLASS... }`

use nodens_wire::NameBuf;

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::log_format::LogFormat;
use crate::corefile::parser::Line;
use crate::corefile::settings::{LogClasses, LogRule};

/// Reads one rule. None when none of its names is one, since it would log nothing.
pub(super) fn log(line: &Line, scope: &mut Scope<'_>) -> Option<LogRule> {
    let mut format = LogFormat::default();
    let names = match line.args.as_slice() {
        [] => vec![NameBuf::root()],
        // A name in CoreDNS; where the log goes in the Corefiles of its first releases.
        [word] if matches!(&*word.text, "stdout" | "stderr") => {
            let text = format!("plugin/log: `log {}` is an old form and taken as `log`", word.text);
            scope
                .findings
                .warn(Diagnostic::warning(word.span, text).help("leave the word out"));
            vec![NameBuf::root()]
        }
        [names @ .., last] if !names.is_empty() && last.text.contains('{') => {
            format = LogFormat::parse(&last.text);
            scope.zones(names)
        }
        names => scope.zones(names),
    };
    let mut classes = LogClasses::NONE;
    for option in scope.options(line) {
        if &*option.name.text != "class" {
            scope.unknown_option(option, &["class"]);
            continue;
        }
        if option.args.is_empty() {
            scope.argument_count(option, "at least one class");
        }
        for word in &option.args {
            match &*word.text {
                "success" => classes.success = true,
                "denial" => classes.denial = true,
                "error" => classes.error = true,
                "all" => classes = LogClasses::ALL,
                class => {
                    let text = format!("invalid Class: {class}");
                    scope.unknown(word.span, text, class, &["success", "denial", "error", "all"]);
                }
            }
        }
    }
    if classes == LogClasses::NONE {
        classes = LogClasses::ALL;
    }
    (!names.is_empty()).then_some(LogRule {
        names,
        format,
        classes,
        span: line.name.span,
    })
}
