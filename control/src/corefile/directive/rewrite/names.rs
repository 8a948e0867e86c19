//! Rules about names, and those about the answer that stand behind them.

use nodens_engine::captures::Captures;
use nodens_engine::plan::rewrite::{AnswerField, AnswerRule, Back, Change, NameEdit, NameMatch, NameRule, Replacement};

use super::Words;
use crate::corefile::lexer::Word;
use crate::corefile::re2;
use crate::corefile::source::Span;

/// Numbers of groups that are looked for in a replacement.
const GROUPS_LOOKED_FOR: usize = 100;

/// How names are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exact,
    Prefix,
    Suffix,
    Substring,
    Regex,
}

const KINDS: [(&str, Kind); 5] = [
    ("exact", Kind::Exact),
    ("prefix", Kind::Prefix),
    ("suffix", Kind::Suffix),
    ("substring", Kind::Substring),
    ("regex", Kind::Regex),
];

impl Kind {
    fn as_str(self) -> &'static str {
        KINDS
            .iter()
            .find(|(_, kind)| *kind == self)
            .map_or("", |(name, _)| name)
    }

    /// For a text that is absolute and in lower case.
    fn plain(self, text: &str) -> NameMatch {
        match self {
            Self::Prefix => NameMatch::Prefix(text.into()),
            Self::Suffix => NameMatch::Suffix(text.into()),
            Self::Substring => NameMatch::Substring(text.into()),
            Self::Exact | Self::Regex => NameMatch::Exact(text.into()),
        }
    }
}

impl Words<'_, '_, '_> {
    /// `[KIND] FROM TO [answer ...]`
    pub(super) fn name(&mut self) -> Option<Change> {
        let (kind, from, to, behind) = match self.all {
            [from, to] => (Kind::Exact, *from, *to, &[][..]),
            [kind, from, to, behind @ ..] => {
                let known = self.kind(kind, |word| {
                    format!(
                        "name rule supports only exact, prefix, suffix, substring, and regex name matching, received: \
                         {word}"
                    )
                })?;
                (known, *from, *to, behind)
            }
            _ => {
                self.error(
                    self.span,
                    "too few arguments for a name rule",
                    "a name and what it becomes",
                );
                return None;
            }
        };
        let edit = self.edit(kind, from, to);
        if kind == Kind::Exact {
            // It is used in the other direction, too, and as in CoreDNS both must do as patterns.
            let (from_text, to_text) = (absolute(&from.text), absolute(&to.text));
            self.pattern(&to_text, &from_text, to.span, "")?;
        }
        let (is_auto, answers) = self.answers(kind.as_str(), behind)?;
        let edit = edit?;
        let back = match kind {
            Kind::Exact => Back::Remap,
            _ if !is_auto => Back::Stay,
            Kind::Suffix => Back::Edit(NameEdit {
                matches: NameMatch::Suffix(absolute(&to.text).into()),
                to: Replacement::plain(&absolute(&from.text)),
            }),
            Kind::Prefix | Kind::Substring | Kind::Regex => Back::Remap,
        };
        Some(Change::Name(NameRule {
            edit,
            back,
            answers: answers.into(),
        }))
    }

    /// `[KIND] FROM TO`
    pub(super) fn cname(&mut self) -> Option<Change> {
        let (kind, from, to) = match self.all {
            [from, to] => (Kind::Exact, *from, *to),
            [kind, from, to] => {
                let kind = self.kind(kind, |word| format!("unknown cname rewrite type: {word}"))?;
                (kind, *from, *to)
            }
            words => {
                let many = if words.len() < 2 { "few" } else { "many" };
                let text = format!("too {many} ({}) arguments for a cname rule", words.len());
                self.error(self.span, &text, "a target and what it becomes");
                return None;
            }
        };
        // Unlike in a name rule, a beginning or a part needs not end a label.
        if matches!(kind, Kind::Prefix | Kind::Substring) {
            return Some(Change::Alias(NameEdit {
                matches: kind.plain(&from.text.to_ascii_lowercase()),
                to: Replacement::plain(&to.text.to_ascii_lowercase()),
            }));
        }
        if kind == Kind::Regex {
            // A group may hold the final dot, so there is none behind it.
            let text = to.text.to_ascii_lowercase();
            return self.by_pattern(from, to, &text, "").map(Change::Alias);
        }
        self.edit(kind, from, to).map(Change::Alias)
    }

    /// The names that a rule about answers is for.
    pub(super) fn matching(&mut self, rule: &str, kind: Option<&Word>, name: &Word) -> Option<NameMatch> {
        let kind = match kind {
            Some(word) => self.kind(word, |_| {
                format!("{rule} rule supports only exact, prefix, suffix, substring, and regex name matching")
            })?,
            None => Kind::Exact,
        };
        if kind == Kind::Regex {
            return self
                .pattern(&name.text, "", name.span, "")
                .map(|captures| NameMatch::Regex(captures.into()));
        }
        Some(kind.plain(&absolute(&name.text)))
    }

    fn kind(&mut self, word: &Word, wrong: impl FnOnce(&str) -> String) -> Option<Kind> {
        let name = word.text.to_ascii_lowercase();
        let found = KINDS.iter().find(|(known, _)| *known == name);
        if found.is_none() {
            let text = format!("plugin/rewrite: {}", wrong(&name));
            self.scope
                .unknown(word.span, text, &name, &KINDS.map(|(known, _)| known));
        }
        found.map(|(_, kind)| *kind)
    }

    fn edit(&mut self, kind: Kind, from: &Word, to: &Word) -> Option<NameEdit> {
        if kind != Kind::Regex {
            return Some(NameEdit {
                matches: kind.plain(&absolute(&from.text)),
                to: Replacement::plain(&absolute(&to.text)),
            });
        }
        self.by_pattern(from, to, &absolute(&to.text), "")
    }

    /// `text` is what is made of the word `to`.
    fn by_pattern(&mut self, from: &Word, to: &Word, text: &str, rule: &str) -> Option<NameEdit> {
        let captures = self.pattern(&from.text, &to.text, from.span, rule)?;
        let to = Replacement::new(text, captures.group_count());
        let matches = NameMatch::Regex(captures.into());
        Some(NameEdit { matches, to })
    }

    /// A pattern that has the groups which its replacement uses; `rule` stands in front of what is wrong with it.
    fn pattern(&mut self, pattern: &str, replacement: &str, span: Span, rule: &str) -> Option<Captures> {
        let captures = re2::check_len(pattern)
            .and_then(|()| Captures::new(&re2::translated(pattern)).map_err(|error| error.to_string()));
        let captures = match captures {
            Ok(captures) => captures,
            Err(why) => {
                let text = format!("{rule}invalid regex matching pattern: {pattern}");
                self.error(span, &text, &format!("a regular expression (RE2): {why}"));
                return None;
            }
        };
        let is_used = |group: &usize| replacement.contains(&format!("{{{group}}}"));
        if (0..=GROUPS_LOOKED_FOR).filter(is_used).count() > captures.group_count() {
            let text = format!(
                "{rule}the rewrite regex pattern ({replacement}) uses more subexpressions than its corresponding matching \
                 regex pattern ({pattern})"
            );
            self.error(span, &text, &format!("more groups than {}", captures.group_count()));
            return None;
        }
        Some(captures)
    }

    /// `[answer] auto`, `[answer] name FROM TO`, `[answer] value FROM TO`, any number of them.
    fn answers(&mut self, kind: &str, words: &[&Word]) -> Option<(bool, Vec<AnswerRule>)> {
        let mut is_auto = None;
        let mut answers: Vec<AnswerRule> = Vec::new();
        let mut rest = words;
        if let Some(first) = rest.first().filter(|word| !is(word, "answer")) {
            let text = format!("exceeded the number of arguments for a non-answer rule argument for {kind} rule");
            self.error(first.span, &text, "`answer`, or nothing");
            return None;
        }
        while let Some((word, behind)) = rest.split_first() {
            let (what, behind) = match (is(word, "answer"), behind.split_first()) {
                (false, _) => (*word, behind),
                (true, Some((what, behind))) => (*what, behind),
                (true, None) => {
                    let text = format!("type missing for answer rule for {kind} rule");
                    self.error(word.span, &text, "`auto`, `name` or `value`");
                    return None;
                }
            };
            let what_word = what.text.to_ascii_lowercase();
            let field = match &*what_word {
                "auto" => {
                    is_auto = Some(what.span);
                    rest = behind;
                    continue;
                }
                "name" => AnswerField::Owner,
                "value" => AnswerField::Value,
                other => {
                    let text = format!("plugin/rewrite: invalid type {other:?} for answer rule for {kind} rule");
                    self.scope.unknown(what.span, text, other, &["auto", "name", "value"]);
                    return None;
                }
            };
            let rule = format!("{what_word} answer rule for {kind} rule: ");
            let [from, to, behind @ ..] = behind else {
                let text = format!("{rule}2 arguments required");
                self.error(what.span, &text, "a regular expression, and what comes in its place");
                return None;
            };
            let edit = self.by_pattern(from, to, &absolute(&to.text), &rule)?;
            answers.push(AnswerRule { field, edit });
            rest = behind;
        }
        let has_owner = answers.iter().any(|answer| answer.field == AnswerField::Owner);
        if let Some(span) = is_auto.filter(|_| has_owner) {
            let text = "auto name answer rule cannot be combined with explicit name answer rules";
            self.error(span, text, "one of the two");
            return None;
        }
        Some((is_auto.is_some(), answers))
    }
}

fn is(word: &Word, keyword: &str) -> bool {
    word.text.eq_ignore_ascii_case(keyword)
}

/// A name as rules compare it: in lower case, with a final dot.
fn absolute(text: &str) -> String {
    let mut name = text.to_ascii_lowercase();
    let backslashes = |text: &str| text.bytes().rev().take_while(|byte| *byte == b'\\').count();
    let ends = name.strip_suffix('.').is_some_and(|front| backslashes(front) % 2 == 0);
    if !ends {
        name.push('.');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_a_final_dot() {
        for (text, expected) in [
            ("A.b", "a.b."),
            ("a.", "a."),
            (".a", ".a."),
            ("", "."),
            (".", "."),
            (r"a\.", r"a\.."),
            (r"a\\.", r"a\\."),
        ] {
            assert_eq!(absolute(text), expected, "{text}");
        }
    }
}
