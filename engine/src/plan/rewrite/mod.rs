//! `rewrite`: another question in the place of the client's, and its answer as if it were for the first one.
//!
//! ```text
//!   question ──> rules, from the first to the last ──> another question ──> the steps behind
//!                         │ those that applied                                     │
//!                         v                                                        v
//!   reply    <── undone: names, TTLs, rcode, from the last rule to the first <── answer
//! ```
//!
//! Rules see names as texts in lower case, with the final dot: a suffix may begin in the middle of a label.

mod options;
mod text;

use nodens_wire::{Name, NameBuf, Opt, Rclass, Rcode, Rtype};

use crate::captures::Scratch;
use text::{Edited, NameText, name_of, remap, text_of};

pub use options::{Asker, OptionAction, OptionData, OptionRule, Options, Variable};
pub use text::{NameEdit, NameMatch, Replacement};

/// The rules of a server block, in file order.
#[derive(Clone, Debug, Default)]
pub struct Rewrite {
    /// A rule sees what those in front of it have made.
    pub rules: Box<[Rule]>,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// No rule behind it is looked at once it has applied.
    pub is_last: bool,
    /// What it changes.
    pub change: Change,
}

/// What a rule changes.
#[derive(Clone, Debug)]
pub enum Change {
    /// The name.
    Name(NameRule),
    /// The type, from the first to the second.
    Type(Rtype, Rtype),
    /// The class.
    Class(Rclass, Rclass),
    /// Options of the OPT.
    Option(OptionRule),
    /// The TTLs of the answer to such a name.
    Ttl {
        /// Which names.
        name: NameMatch,
        /// The least.
        min: u32,
        /// The greatest; not below `min`.
        max: u32,
    },
    /// The rcode of the answer to such a name.
    Rcode {
        /// Which names.
        name: NameMatch,
        /// If it is this one,
        from: Rcode,
        /// it becomes that one.
        to: Rcode,
    },
    /// The target of an alias in the answer, which is looked up then.
    Alias(NameEdit),
}

/// A change of the name, and of the answer.
#[derive(Clone, Debug)]
pub struct NameRule {
    /// Of the question.
    pub edit: NameEdit,
    /// Names in the answer become what they were.
    pub back: Back,
    /// Further changes of the answer, in the order they were written.
    pub answers: Box<[AnswerRule]>,
}

/// How names of the answer become what they were.
#[derive(Clone, Debug)]
pub enum Back {
    /// They do not.
    Stay,
    /// The new name becomes the old one, also where it stands behind other labels.
    Remap,
    /// By this change.
    Edit(NameEdit),
}

/// A change of names in the answer.
#[derive(Clone, Debug)]
pub struct AnswerRule {
    /// Of which names.
    pub field: AnswerField,
    /// The change.
    pub edit: NameEdit,
}

/// Names in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerField {
    /// Whose record it is.
    Owner,
    /// The name in its data: see [`value_at`].
    Value,
}

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The name, as the client wrote it.
    pub name: Name<'a>,
    /// The type.
    pub rtype: Rtype,
    /// The class.
    pub rclass: Rclass,
}

/// A question after all rules, and what is to be undone in its answer. Memory is kept from query to query.
#[derive(Debug)]
pub struct Rewritten {
    /// The name, in lower case if a rule changed it.
    pub name: NameBuf,
    /// The type.
    pub rtype: Rtype,
    /// The class.
    pub rclass: Rclass,
    /// The options.
    pub options: Options,
    applied: Vec<Applied>,
    /// Names that rules made, each with the one in front of it.
    names: Vec<(NameText, NameText)>,
}

/// A rule that applied to the question.
#[derive(Clone, Copy, Debug)]
struct Applied {
    rule: usize,
    /// Its place in the names, where they are mapped back.
    names: Option<usize>,
}

/// A rule made a text that is no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidName(pub Box<str>);

/// How many bytes stand in front of the name that a rule for values changes; none where records of the type have none.
#[must_use]
pub fn value_at(rtype: Rtype, rdata: &[u8]) -> Option<usize> {
    Some(match rtype {
        Rtype::CNAME | Rtype::DNAME | Rtype::NS | Rtype::PTR | Rtype::SOA => 0,
        Rtype::MX => 2,
        Rtype::SRV => 6,
        Rtype::NAPTR => {
            let mut at = 4;
            for _ in 0..3 {
                at += 1 + usize::from(*rdata.get(at)?);
            }
            at
        }
        _ => return None,
    })
}

impl Default for Rewritten {
    fn default() -> Self {
        Self {
            name: NameBuf::root(),
            rtype: Rtype::A,
            rclass: Rclass::IN,
            options: Options::default(),
            applied: Vec::new(),
            names: Vec::new(),
        }
    }
}

impl Rewrite {
    /// Applies the rules to a question. Tells whether any did.
    ///
    /// # Errors
    /// What came out is no name.
    pub fn question(
        &self,
        asked: &Question<'_>,
        opt: Option<&Opt<'_>>,
        asker: &Asker<'_>,
        scratch: &mut Scratch,
        out: &mut Rewritten,
    ) -> Result<bool, InvalidName> {
        out.applied.clear();
        out.names.clear();
        out.options.begin(opt);
        (out.rtype, out.rclass) = (asked.rtype, asked.rclass);
        let mut name = text_of(asked.name);
        let mut is_renamed = false;
        for (at, rule) in self.rules.iter().enumerate() {
            let mut names = None;
            let has_applied = match &rule.change {
                Change::Name(rule) => {
                    let before = name;
                    match rule.edit.apply(&mut name, scratch) {
                        Edited::No => false,
                        Edited::Long => return Err(InvalidName(name.as_str().into())),
                        Edited::Yes => {
                            if name_of(&name).is_none() {
                                return Err(InvalidName(name.as_str().into()));
                            }
                            is_renamed = true;
                            if matches!(rule.back, Back::Remap) {
                                names = Some(out.names.len());
                                out.names.push((name, before));
                            }
                            true
                        }
                    }
                }
                Change::Type(from, to) => set(&mut out.rtype, *from, *to),
                Change::Class(from, to) => set(&mut out.rclass, *from, *to),
                Change::Option(rule) => out.options.apply(rule, &name, out.rtype, asker),
                Change::Ttl { name: of, .. } | Change::Rcode { name: of, .. } => of.holds(&name, scratch),
                // Which alias there is, only the answer tells.
                Change::Alias(_) => true,
            };
            if has_applied {
                out.applied.push(Applied { rule: at, names });
                if rule.is_last {
                    break;
                }
            }
        }
        out.name = match name_of(&name).filter(|_| is_renamed) {
            Some(name) => name,
            None => asked.name.to_buf(),
        };
        Ok(!out.applied.is_empty())
    }

    /// What the owner of a record becomes; none where it stays.
    pub fn owner(&self, done: &Rewritten, name: Name<'_>, scratch: &mut Scratch) -> Option<NameBuf> {
        self.undone(done, AnswerField::Owner, name, scratch)
    }

    /// What a name in the data of a record becomes; none where it stays.
    pub fn value(&self, done: &Rewritten, name: Name<'_>, scratch: &mut Scratch) -> Option<NameBuf> {
        self.undone(done, AnswerField::Value, name, scratch)
    }

    /// Whether names of the answer may change at all.
    #[must_use]
    pub fn changes_names(&self, done: &Rewritten) -> bool {
        self.last_first(done).any(|(_, change)| match change {
            Change::Name(rule) => !rule.answers.is_empty() || !matches!(rule.back, Back::Stay),
            _ => false,
        })
    }

    /// What a TTL becomes.
    #[must_use]
    pub fn ttl(&self, done: &Rewritten, ttl: u32) -> u32 {
        self.last_first(done).fold(ttl, |ttl, (_, change)| match change {
            Change::Ttl { min, max, .. } => ttl.clamp(*min, *max),
            _ => ttl,
        })
    }

    /// What the rcode becomes.
    #[must_use]
    pub fn rcode(&self, done: &Rewritten, rcode: Rcode) -> Rcode {
        self.last_first(done).fold(rcode, |rcode, (_, change)| match change {
            Change::Rcode { from, to, .. } if *from == rcode => *to,
            _ => rcode,
        })
    }

    /// What the target of an alias in the answer becomes, to be looked up then; none where it stays.
    pub fn alias(&self, done: &Rewritten, target: Name<'_>, scratch: &mut Scratch) -> Option<NameBuf> {
        self.last_first(done).find_map(|(_, change)| {
            let Change::Alias(edit) = change else { return None };
            let mut text = text_of(target);
            match edit.apply(&mut text, scratch) {
                Edited::Yes => name_of(&text),
                Edited::No | Edited::Long => None,
            }
        })
    }

    /// The options that the reply shows; `opt` is the client's.
    #[must_use]
    pub fn shown(&self, done: &Rewritten, opt: Option<&Opt<'_>>) -> Vec<(u16, Box<[u8]>)> {
        let is_reverted = |code| {
            self.last_first(done).any(|(_, change)| match change {
                Change::Option(rule) => rule.code == code && rule.is_reverted,
                _ => false,
            })
        };
        let rules = self.rules.iter().filter_map(|rule| match &rule.change {
            Change::Option(rule) => Some(rule),
            _ => None,
        });
        options::shown(rules, is_reverted, &done.options, opt)
    }

    fn last_first<'a>(&'a self, done: &'a Rewritten) -> impl Iterator<Item = (&'a Applied, &'a Change)> {
        let applied = done.applied.iter().rev();
        applied.filter_map(|applied| Some((applied, &self.rules.get(applied.rule)?.change)))
    }

    fn undone(&self, done: &Rewritten, field: AnswerField, name: Name<'_>, scratch: &mut Scratch) -> Option<NameBuf> {
        if !self.changes_names(done) {
            return None;
        }
        let mut text = text_of(name);
        let mut is_changed = false;
        for (applied, change) in self.last_first(done) {
            let Change::Name(rule) = change else { continue };
            for answer in rule.answers.iter().rev().filter(|answer| answer.field == field) {
                is_changed |= answer.edit.apply(&mut text, scratch) == Edited::Yes;
            }
            is_changed |= Edited::Yes
                == match (&rule.back, applied.names.and_then(|at| done.names.get(at))) {
                    (Back::Edit(edit), _) => edit.apply(&mut text, scratch),
                    (Back::Remap, Some((new, old))) => remap(&mut text, new, old),
                    _ => Edited::No,
                };
        }
        // What is no name cannot be sent.
        name_of(&text).filter(|_| is_changed)
    }
}

fn set<T: PartialEq>(value: &mut T, from: T, to: T) -> bool {
    let is_it = *value == from;
    if is_it {
        *value = to;
    }
    is_it
}

#[cfg(test)]
mod tests;
