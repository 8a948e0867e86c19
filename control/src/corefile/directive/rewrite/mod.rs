//! `rewrite [continue|stop] FIELD ARGS...`, or the same words in braces.

mod edns0;
mod names;

use nodens_engine::plan::rewrite::{Change, Rule};
use nodens_wire::{Rclass, Rcode, Rtype};

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::source::Span;

const FIELDS: [&str; 7] = ["name", "type", "class", "ttl", "rcode", "cname", "edns0"];
const MODES: [&str; 2] = ["continue", "stop"];
/// Greatest TTL of a range without an end (RFC 2181 §8).
const TTL_MAX: u32 = 2_147_483_647;
/// Greatest number of an rcode.
const RCODE_MAX: u16 = 23;

/// What a rule is made of.
struct Words<'w, 's, 'b> {
    all: &'w [&'w Word],
    /// From the directive's name to the last word.
    span: Span,
    scope: &'s mut Scope<'b>,
}

/// Reads a rule.
pub(super) fn rewrite(line: &Line, scope: &mut Scope<'_>) -> Option<Rule> {
    let mut words: Vec<&Word> = line.args.iter().collect();
    if words.len() < 2 {
        let inner = scope.options(line);
        words.extend(inner.flat_map(|option| std::iter::once(&option.name).chain(&option.args)));
    } else {
        scope.no_block(line);
    }
    let last = words.last().map_or(line.name.span, |word| word.span);
    let span = line.name.span.to(last);
    let first = words.first().map(|word| word.text.to_ascii_lowercase());
    let mode = first.as_deref().filter(|word| MODES.contains(word));
    if mode.is_some() {
        words.remove(0);
    }
    let Some(field) = words.first().copied() else {
        let text = match mode {
            Some(mode) => format!("{mode} rule must have at least one rule"),
            None => "no rule type specified for rewrite".to_owned(),
        };
        let error = Diagnostic::error(span, format!("plugin/rewrite: {text}"));
        scope
            .findings
            .error(error.label("expected what is rewritten, such as `name`"));
        return None;
    };
    let mut words = Words {
        all: &words[1..],
        span,
        scope,
    };
    let change = match &*field.text.to_ascii_lowercase() {
        "name" => words.name(),
        "type" => {
            let read = |word: &str| word.parse().ok().filter(|code: &Rtype| is_named(word, code.mnemonic()));
            words.pair("type", read).map(|(from, to)| Change::Type(from, to))
        }
        "class" => {
            let read = |word: &str| {
                word.parse()
                    .ok()
                    .filter(|code: &Rclass| is_named(word, code.mnemonic()))
            };
            words.pair("class", read).map(|(from, to)| Change::Class(from, to))
        }
        "ttl" => words.ttl(),
        "rcode" => words.rcode(),
        "cname" => words.cname(),
        "edns0" => words.edns0(),
        "answer" => {
            let text = "plugin/rewrite: response rewrites must begin with a name rule";
            let error = Diagnostic::error(field.span, text);
            words
                .scope
                .findings
                .error(error.help("put `name FROM TO` in front of it"));
            None
        }
        other => {
            let text = format!("plugin/rewrite: invalid rule type {:?}", field.text);
            words.scope.unknown(field.span, text, other, &FIELDS);
            None
        }
    }?;
    let is_last = mode != Some("continue");
    Some(Rule { is_last, change })
}

/// Whether a word is the mnemonic itself, and not a number behind `TYPE` or `CLASS`.
fn is_named(word: &str, mnemonic: Option<&str>) -> bool {
    mnemonic.is_some_and(|mnemonic| mnemonic.eq_ignore_ascii_case(word))
}

impl Words<'_, '_, '_> {
    fn error(&mut self, span: Span, text: &str, expected: &str) {
        let error = Diagnostic::error(span, format!("plugin/rewrite: {text}"));
        self.scope.findings.error(error.label(format!("expected {expected}")));
    }

    /// Two words of one kind.
    fn pair<T>(&mut self, kind: &str, read: impl Fn(&str) -> Option<T>) -> Option<(T, T)> {
        let [from, to] = self.all else {
            let text = format!("{kind} rules must have exactly two arguments");
            self.error(self.span, &text, &format!("one {kind} and what it becomes"));
            return None;
        };
        let mut one = |word: &Word| {
            let found = read(&word.text);
            if found.is_none() {
                let text = format!("invalid {kind} {:?}", word.text);
                self.error(word.span, &text, &format!("the name of a {kind}"));
            }
            found
        };
        let (from, to) = (one(from), one(to));
        from.zip(to)
    }

    /// `[KIND] NAME TTL`
    fn ttl(&mut self) -> Option<Change> {
        let (kind, name, range) = match self.all {
            [name, range] => (None, *name, *range),
            [kind, name, range] => (Some(*kind), *name, *range),
            _ => {
                let text = if self.all.len() < 2 {
                    "too few arguments for a ttl rule"
                } else {
                    "too many arguments for a ttl rule"
                };
                self.error(self.span, text, "a name and a TTL");
                return None;
            }
        };
        let name = self.matching("ttl", kind, name);
        let Some((min, max)) = ttl_range(&range.text) else {
            let text = format!("invalid TTL '{}' for a ttl rule", range.text);
            self.error(range.span, &text, "seconds, such as `30`, `5-30`, `5-` or `-30`");
            return None;
        };
        let name = name?;
        Some(Change::Ttl { name, min, max })
    }

    /// `[KIND] NAME FROM TO`
    fn rcode(&mut self) -> Option<Change> {
        let (kind, name, from, to) = match self.all {
            [name, from, to] => (None, *name, *from, *to),
            [kind, name, from, to] => (Some(*kind), *name, *from, *to),
            words => {
                let text = if words.len() < 3 {
                    format!("too few ({}) arguments for a rcode rule", words.len())
                } else {
                    "too many arguments for a rcode rule".to_owned()
                };
                self.error(self.span, &text, "a name, an rcode, and what it becomes");
                return None;
            }
        };
        let name = self.matching("rcode", kind, name);
        let from = self.one_rcode("matching", from);
        let to = self.one_rcode("replacement", to);
        let (name, from, to) = (name?, from?, to?);
        Some(Change::Rcode { name, from, to })
    }

    fn one_rcode(&mut self, role: &str, word: &Word) -> Option<Rcode> {
        let number = word.text.parse().ok().filter(|number| *number <= RCODE_MAX);
        let rcode = number.map(Rcode).or_else(|| Rcode::from_mnemonic(&word.text));
        if rcode.is_none() {
            let text = format!("invalid {role} RCODE '{}' for a rcode rule", word.text);
            self.error(word.span, &text, "the name of an rcode, or a number up to 23");
        }
        rcode
    }
}

/// `N`, `MIN-MAX`, `-MAX` or `MIN-`.
fn ttl_range(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+'));
    let Some((min, max)) = text.split_once('-') else {
        return number(text).map(|ttl| (ttl, ttl));
    };
    let range = match (min, max) {
        ("", "") => return None,
        ("", max) => (0, number(max)?),
        (min, "") => (number(min)?, TTL_MAX),
        (min, max) => (number(min)?, number(max)?),
    };
    (range.0 <= range.1).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ttls() {
        for (text, expected) in [
            ("5", Some((5, 5))),
            ("5-30", Some((5, 30))),
            ("-30", Some((0, 30))),
            ("5-", Some((5, TTL_MAX))),
            ("5-5", Some((5, 5))),
            ("-", None),
            ("30-5", None),
            ("1-2-3", None),
            ("", None),
            ("5s", None),
            ("+5", None),
            ("4294967296", None),
        ] {
            assert_eq!(ttl_range(text), expected, "{text}");
        }
    }
}
