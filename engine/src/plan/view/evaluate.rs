//! The value of a condition, a number or a text for one question. `None` stands for what has no value.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::ops::Range;

use arrayvec::ArrayString;

use super::{Arithmetic, Comparison, Condition, Facts, Number, Text, Value};
use crate::plan::Cidr;

/// Bytes of all texts that one condition makes, at most. A name has a thousand when each byte of it is written as a
/// number.
pub(super) const TEXT_BYTES_MAX: usize = 4096;

/// Bytes of a label of metadata; nothing is known by a longer one. The key of a pod's label alone may have 317.
const LABEL_BYTES_MAX: usize = 384;

/// One condition and one question.
pub(super) struct Evaluation<'a> {
    facts: &'a Facts<'a>,
    /// The texts that were made, one behind the other.
    made: ArrayString<TEXT_BYTES_MAX>,
}

/// A text, or where it was made.
enum Piece<'c> {
    Known(&'c str),
    Made(Range<usize>),
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(facts: &'a Facts<'a>) -> Self {
        Self {
            facts,
            made: ArrayString::new(),
        }
    }

    pub(super) fn condition(&mut self, condition: &'a Condition) -> Option<bool> {
        // What a condition makes nobody needs behind it.
        let before = self.made.len();
        let value = self.condition_in(condition);
        self.made.truncate(before);
        value
    }

    /// A text as it is.
    pub(super) fn written(&mut self, text: &'a Text) -> Option<String> {
        let text = self.text(text)?;
        Some(self.shown(&text).to_owned())
    }

    fn condition_in(&mut self, condition: &'a Condition) -> Option<bool> {
        Some(match condition {
            Condition::Literal(value) => *value,
            Condition::Unknown => return None,
            Condition::DnssecOk => self.facts.client.dnssec_ok(),
            Condition::InNet(pair) => {
                let [address, net] = &**pair;
                let (address, net) = (self.address(address)?, self.net(net)?);
                net.holds_address(address)
            }
            Condition::Not(condition) => !self.condition(condition)?,
            Condition::All(conditions) => self.until(false, conditions)?,
            Condition::Any(conditions) => self.until(true, conditions)?,
            Condition::Same(pair) => self.condition(&pair[0])? == self.condition(&pair[1])?,
            Condition::If(parts) => {
                let at = if self.condition(&parts[0])? { 1 } else { 2 };
                self.condition(&parts[at])?
            }
            Condition::Numbers(comparison, pair) => {
                let order = compare(self.number(&pair[0])?, self.number(&pair[1])?);
                match comparison {
                    Comparison::Less => order == Some(Ordering::Less),
                    Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
                    _ => order == Some(Ordering::Equal),
                }
            }
            Condition::Texts(comparison, pair) => {
                let (one, other) = (self.text(&pair[0])?, self.text(&pair[1])?);
                let (one, other) = (self.shown(&one), self.shown(&other));
                match comparison {
                    Comparison::Equal => one == other,
                    Comparison::Less => one < other,
                    Comparison::LessOrEqual => one <= other,
                    Comparison::Contains => one.contains(other),
                    Comparison::StartsWith => one.starts_with(other),
                    Comparison::EndsWith => one.ends_with(other),
                }
            }
            Condition::OneNumber(number, numbers) => {
                let number = self.number(number)?;
                let mut is_one = false;
                // Each must have a value, also behind the one that is it.
                for other in numbers {
                    is_one |= compare(number, self.number(other)?) == Some(Ordering::Equal);
                }
                is_one
            }
            Condition::OneText(text, texts) => {
                let text = self.text(text)?;
                let mut is_one = false;
                for other in texts {
                    let before = self.made.len();
                    let other = self.text(other)?;
                    is_one |= self.shown(&text) == self.shown(&other);
                    self.made.truncate(before);
                }
                is_one
            }
            Condition::Matches(text, pattern) => {
                let text = self.text(text)?;
                pattern.is_match(self.shown(&text).as_bytes())
            }
        })
    }

    /// The value that ends a chain of conditions where one of them has it, else the other one.
    fn until(&mut self, end: bool, conditions: &'a [Condition]) -> Option<bool> {
        for condition in conditions {
            if self.condition(condition)? == end {
                return Some(end);
            }
        }
        Some(!end)
    }

    pub(super) fn number(&mut self, number: &'a Number) -> Option<Value> {
        let client = self.facts.client;
        Some(match number {
            Number::Literal(value) => *value,
            Number::Size => {
                // A question that an alias led to is the client's with another name.
                let others = client.query.len - client.query.qname.len();
                Value::Int((others + self.facts.name.len()) as i64)
            }
            Number::Bufsize => Value::Int(client.bufsize().into()),
            Number::Id => Value::Int(client.query.id.into()),
            Number::Opcode => Value::Int(client.opcode().0.into()),
            Number::Len(text) => {
                let text = self.text(text)?;
                Value::Int(self.shown(&text).chars().count() as i64)
            }
            Number::Negative(number) => match self.number(number)? {
                Value::Int(value) => Value::Int(value.wrapping_neg()),
                Value::Float(value) => Value::Float(-value),
            },
            Number::Arithmetic(arithmetic, pair) => {
                calculate(*arithmetic, self.number(&pair[0])?, self.number(&pair[1])?)?
            }
            Number::If(parts) => {
                let (condition, then, otherwise) = &**parts;
                let holds = self.condition(condition)?;
                self.number(if holds { then } else { otherwise })?
            }
        })
    }

    fn text(&mut self, text: &'a Text) -> Option<Piece<'a>> {
        let facts = self.facts;
        match text {
            Text::Literal(text) => Some(Piece::Known(text)),
            Text::Type => match facts.rtype.mnemonic() {
                Some(text) => Some(Piece::Known(text)),
                None => self.make(facts.rtype),
            },
            Text::Class => match facts.client.query.rclass.mnemonic() {
                Some(text) => Some(Piece::Known(text)),
                None => self.make(facts.client.query.rclass),
            },
            Text::Proto => Some(Piece::Known(if facts.client.origin.is_stream() {
                "tcp"
            } else {
                "udp"
            })),
            Text::Name => self.make(facts.name),
            Text::ClientIp => self.make(facts.client.address()),
            Text::ClientPort => self.make(facts.client.port()),
            Text::ServerIp => self.make(facts.local()),
            Text::ServerPort => self.make(facts.port),
            Text::Metadata(label) => {
                let label = self.text(label)?;
                let label = ArrayString::<LABEL_BYTES_MAX>::from(self.shown(&label)).unwrap_or_default();
                let start = self.made.len();
                if let Some(plan) = facts.plan {
                    plan.metadata(&label, facts.client, facts.data, &mut self.made).ok()?;
                }
                Some(Piece::Made(start..self.made.len()))
            }
            Text::Lower(text) => self.changed(text, str::make_ascii_lowercase),
            Text::Upper(text) => self.changed(text, str::make_ascii_uppercase),
            Text::Joined(pair) => {
                let (one, other) = (self.text(&pair[0])?, self.text(&pair[1])?);
                let start = self.made.len();
                self.copy(&one)?;
                self.copy(&other)?;
                Some(Piece::Made(start..self.made.len()))
            }
            Text::If(parts) => {
                let (condition, then, otherwise) = &**parts;
                let holds = self.condition(condition)?;
                self.text(if holds { then } else { otherwise })
            }
        }
    }

    fn shown<'s>(&'s self, piece: &Piece<'s>) -> &'s str {
        match piece {
            Piece::Known(text) => text,
            Piece::Made(range) => &self.made[range.clone()],
        }
    }

    fn make(&mut self, value: impl std::fmt::Display) -> Option<Piece<'a>> {
        let start = self.made.len();
        write!(self.made, "{value}").ok()?;
        Some(Piece::Made(start..self.made.len()))
    }

    /// Puts a text behind all that was made.
    fn copy(&mut self, piece: &Piece<'a>) -> Option<()> {
        match piece {
            Piece::Known(text) => self.made.try_push_str(text).ok(),
            Piece::Made(range) => {
                // Character by character: the buffer cannot be read as a whole while it grows.
                let mut at = range.start;
                while at < range.end {
                    let next = self.made[at..].chars().next()?;
                    self.made.try_push(next).ok()?;
                    at += next.len_utf8();
                }
                Some(())
            }
        }
    }

    fn changed(&mut self, text: &'a Text, change: fn(&mut str)) -> Option<Piece<'a>> {
        let text = self.text(text)?;
        let start = self.made.len();
        self.copy(&text)?;
        change(&mut self.made[start..]);
        Some(Piece::Made(start..self.made.len()))
    }

    fn address(&mut self, text: &'a Text) -> Option<IpAddr> {
        match text {
            Text::ClientIp => Some(self.facts.client.address()),
            Text::ServerIp => Some(self.facts.local()),
            text => {
                let text = self.text(text)?;
                self.shown(&text)
                    .parse()
                    .ok()
                    .map(|address: IpAddr| address.to_canonical())
            }
        }
    }

    fn net(&mut self, text: &'a Text) -> Option<Cidr> {
        let text = self.text(text)?;
        Cidr::parse(self.shown(&text))
    }
}

fn compare(one: Value, other: Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => Some(one.cmp(&other)),
        (one, other) => float(one).partial_cmp(&float(other)),
    }
}

fn float(value: Value) -> f64 {
    match value {
        Value::Int(value) => value as f64,
        Value::Float(value) => value,
    }
}

fn calculate(arithmetic: Arithmetic, one: Value, other: Value) -> Option<Value> {
    Some(match (arithmetic, one, other) {
        (Arithmetic::Divide, one, other) => Value::Float(float(one) / float(other)),
        (Arithmetic::Remainder, Value::Int(_), Value::Int(0)) | (Arithmetic::Remainder, _, Value::Float(_)) => {
            return None;
        }
        (Arithmetic::Add, Value::Int(one), Value::Int(other)) => Value::Int(one.wrapping_add(other)),
        (Arithmetic::Subtract, Value::Int(one), Value::Int(other)) => Value::Int(one.wrapping_sub(other)),
        (Arithmetic::Multiply, Value::Int(one), Value::Int(other)) => Value::Int(one.wrapping_mul(other)),
        (Arithmetic::Remainder, Value::Int(one), Value::Int(other)) => Value::Int(one.wrapping_rem(other)),
        (Arithmetic::Add, one, other) => Value::Float(float(one) + float(other)),
        (Arithmetic::Subtract, one, other) => Value::Float(float(one) - float(other)),
        (Arithmetic::Multiply, one, other) => Value::Float(float(one) * float(other)),
        (Arithmetic::Remainder, Value::Float(_), _) => return None,
    })
}
