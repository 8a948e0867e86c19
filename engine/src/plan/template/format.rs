//! How values are shown, as Go's `fmt` does.

use std::fmt::Write as _;

use super::write::items_of;
use super::{FUNCTIONS, Facts, Function, Value};

/// The name of a function.
pub(super) fn name_of(function: Function) -> &'static str {
    let known = FUNCTIONS.iter().find(|(_, known)| *known == function);
    known.map_or("", |(name, _)| name)
}

/// `%v`
pub(super) fn shown(value: &Value<'_>, facts: &Facts<'_>) -> String {
    match value {
        Value::Missing => "<no value>".to_owned(),
        Value::Nil => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Text(text) => text.clone().into_owned(),
        Value::Match => format!("[{}]", facts.groups.join(" ")),
        Value::Group | Value::Variables => {
            let items = items_of(value, facts).unwrap_or_default();
            let items: Vec<String> = items
                .iter()
                .map(|(key, item)| format!("{}:{}", shown(key, facts), shown(item, facts)))
                .collect();
            format!("map[{}]", items.join(" "))
        }
        Value::Question | Value::Questions | Value::Message | Value::Root => format!(
            "{{{} {} {}}}",
            facts.asked_name, facts.asked_type.0, facts.asked_class.0
        ),
    }
}

/// `fmt.Sprint`: a blank stands between two values of which neither is a text.
pub(super) fn print(values: &[Value<'_>], facts: &Facts<'_>) -> String {
    let mut out = String::new();
    let mut is_behind_text = true;
    for value in values {
        let is_text = matches!(value, Value::Text(_));
        if !is_behind_text && !is_text {
            out.push(' ');
        }
        out += &shown(value, facts);
        is_behind_text = is_text;
    }
    out
}

/// `fmt.Sprintln`: a blank between any two, and a line's end.
pub(super) fn println(values: &[Value<'_>], facts: &Facts<'_>) -> String {
    let all: Vec<String> = values.iter().map(|value| shown(value, facts)).collect();
    format!("{}\n", all.join(" "))
}

/// What stands between `%` and the letter.
#[derive(Clone, Copy, Default)]
struct Form {
    is_left: bool,
    has_sign: bool,
    is_alternate: bool,
    has_blank: bool,
    has_zeros: bool,
    width: usize,
    precision: Option<usize>,
}

/// `fmt.Sprintf`; no value is made wider than `most`.
pub(super) fn printf(form: &str, values: &[Value<'_>], facts: &Facts<'_>, most: usize) -> String {
    let mut out = String::new();
    let mut values = values.iter();
    let mut rest = form;
    while let Some((text, behind)) = rest.split_once('%') {
        out.push_str(text);
        let (form, behind) = flags(behind, most);
        let mut chars = behind.chars();
        let Some(verb) = chars.next() else {
            out.push_str("%!(NOVERB)");
            return out;
        };
        rest = chars.as_str();
        if verb == '%' {
            out.push('%');
            continue;
        }
        match values.next() {
            Some(value) => out.push_str(&padded(value, verb, form, facts)),
            None => _ = write!(out, "%!{verb}(MISSING)"),
        }
        if out.len() > most {
            return out;
        }
    }
    out.push_str(rest);
    let extra: Vec<String> = values
        .map(|value| format!("{}={}", kind(value), shown(value, facts)))
        .collect();
    if !extra.is_empty() {
        _ = write!(out, "%!(EXTRA {})", extra.join(", "));
    }
    out
}

fn flags(text: &str, most: usize) -> (Form, &str) {
    let mut form = Form::default();
    let mut rest = text;
    while let Some(flag) = rest.chars().next() {
        match flag {
            '-' => form.is_left = true,
            '+' => form.has_sign = true,
            '#' => form.is_alternate = true,
            ' ' => form.has_blank = true,
            '0' => form.has_zeros = true,
            _ => break,
        }
        rest = &rest[1..];
    }
    let (width, behind) = number(rest, most);
    form.width = width.unwrap_or(0);
    rest = behind;
    if let Some(behind) = rest.strip_prefix('.') {
        let (precision, behind) = number(behind, most);
        form.precision = Some(precision.unwrap_or(0));
        rest = behind;
    }
    (form, rest)
}

fn number(text: &str, most: usize) -> (Option<usize>, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    let value = (digits > 0).then(|| number.parse().unwrap_or(most).min(most));
    (value, rest)
}

fn padded(value: &Value<'_>, verb: char, form: Form, facts: &Facts<'_>) -> String {
    let Some(text) = verbed(value, verb, form, facts) else {
        return format!("%!{verb}({}={})", kind(value), shown(value, facts));
    };
    let missing = form.width.saturating_sub(text.chars().count());
    if form.is_left {
        return text + &" ".repeat(missing);
    }
    if !form.has_zeros {
        return " ".repeat(missing) + &text;
    }
    let sign = usize::from(matches!(value, Value::Integer(_)) && text.starts_with(['-', '+', ' ']));
    format!("{}{}{}", &text[..sign], "0".repeat(missing), &text[sign..])
}

/// A value in the form of a verb; none where they do not fit.
fn verbed(value: &Value<'_>, verb: char, form: Form, facts: &Facts<'_>) -> Option<String> {
    Some(match (value, verb) {
        (Value::Integer(number), 'd' | 'x' | 'X' | 'o' | 'b' | 'v') => {
            let size = number.unsigned_abs();
            let digits = match verb {
                'x' => format!("{size:x}"),
                'X' => format!("{size:X}"),
                'o' => format!("{size:o}"),
                'b' => format!("{size:b}"),
                _ => size.to_string(),
            };
            let zeros = form.precision.unwrap_or(0).saturating_sub(digits.len());
            let prefix = match verb {
                'x' | 'X' if form.is_alternate => format!("0{verb}"),
                'o' if form.is_alternate => "0".to_owned(),
                'b' if form.is_alternate => "0b".to_owned(),
                _ => String::new(),
            };
            let sign = match number {
                ..0 => "-",
                _ if form.has_sign => "+",
                _ if form.has_blank => " ",
                _ => "",
            };
            format!("{sign}{prefix}{}{digits}", "0".repeat(zeros))
        }
        (Value::Integer(number), 'c') => char::from_u32(u32::try_from(*number).ok()?)?.to_string(),
        (Value::Text(text), 's' | 'v' | 'q' | 'x' | 'X') => {
            let cut: String = match form.precision {
                Some(precision) => text.chars().take(precision).collect(),
                None => text.clone().into_owned(),
            };
            let hex = |upper: bool| {
                let digit = |byte: u8| {
                    if upper {
                        format!("{byte:02X}")
                    } else {
                        format!("{byte:02x}")
                    }
                };
                cut.bytes().map(digit).collect::<String>()
            };
            match verb {
                'q' => format!("{cut:?}"),
                'x' => hex(false),
                'X' => hex(true),
                _ => cut,
            }
        }
        (Value::Bool(value), 't' | 'v') => value.to_string(),
        (_, 'v') => shown(value, facts),
        (Value::Match | Value::Group | Value::Variables, 's') => shown(value, facts),
        _ => return None,
    })
}

/// The name of a value's type in Go.
fn kind(value: &Value<'_>) -> &'static str {
    match value {
        Value::Missing | Value::Nil => "<nil>",
        Value::Bool(_) => "bool",
        Value::Integer(_) => "int",
        Value::Text(_) => "string",
        Value::Match => "[]string",
        Value::Group => "map[string]string",
        Value::Variables => "map[string]interface {}",
        Value::Message => "*dns.Msg",
        Value::Questions => "[]dns.Question",
        Value::Question => "*dns.Question",
        Value::Root => "*template.templateData",
    }
}
