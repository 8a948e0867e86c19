//! How a directive is written, for the help of an error that has no better one. The forms are those of the manual's pages.

use super::parser::Line;
use super::source::Span;

/// By directive: its first line, those of its options, and perhaps a brace.
const FORMS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/forms.rs"));

/// The form of the option of `line` in which `place` lies, else that of the directive itself.
pub(super) fn help(line: &Line, place: Span) -> Option<String> {
    let (_, form) = FORMS.iter().find(|(name, _)| *name == &*line.name.text)?;
    let mut lines = form.lines();
    let first = lines.next()?;
    let holds = |option: &&Line| {
        let span = option.span();
        span.file == place.file && span.start <= place.start && place.start < span.end
    };
    let option = line.options().iter().find(holds);
    let options: Vec<&str> = lines.filter(|line| *line != "}").collect();
    let form = option.and_then(|option| {
        let is_own = |line: &&&str| {
            let first = line.split_whitespace().next().unwrap_or_default();
            // A word in capitals stands for any.
            let is_any = options.len() == 1 && first.bytes().all(|byte| byte.is_ascii_uppercase());
            is_any || first.split('|').any(|name| name == &*option.name.text)
        };
        options.iter().find(is_own)
    });
    Some(match form {
        Some(form) => format!("the form is `{}`", form.trim()),
        None => match first.strip_suffix('{') {
            Some(head) => format!("the form is `{head}{{ ... }}`"),
            None => format!("the form is `{first}`"),
        },
    })
}
