//! `view`: a server block that is only for some of the questions for its zones.
//!
//! The conditions come as trees whose types were checked when the configuration was read; here they are only evaluated,
//! without taking memory. What has no value (the net of a text that is no address, a division by zero, a text that is
//! too long) makes the whole condition unknown, and what is unknown does not hold.

mod evaluate;

use std::net::IpAddr;

use nodens_wire::{Name, Rtype};

use super::{Client, Plan};
use crate::pattern::Pattern;
use crate::snapshot::Data;
use evaluate::Evaluation;

/// The `view` of a server block.
#[derive(Clone, Debug)]
pub struct View {
    /// Its name, for metrics and metadata.
    pub name: Box<str>,
    /// The block is for a question for which all of them hold.
    pub conditions: Box<[Condition]>,
}

impl View {
    /// Whether the block is for this question.
    pub(crate) fn holds(&self, facts: &Facts<'_>) -> bool {
        holds_all(&self.conditions, facts)
    }
}

/// The label by which metadata know the name of a view.
pub(crate) const NAME_LABEL: &str = "view/name";

/// Whether all of them hold for a question.
pub(crate) fn holds_all(conditions: &[Condition], facts: &Facts<'_>) -> bool {
    conditions
        .iter()
        .all(|condition| Evaluation::new(facts).condition(condition) == Some(true))
}

/// What conditions are about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    /// The name asked for, in lower case.
    pub(crate) name: Name<'a>,
    /// The type asked for.
    pub(crate) rtype: Rtype,
    /// The query that this is the question of, or that led to it.
    pub(crate) client: &'a Client<'a>,
    /// The port of the listener.
    pub(crate) port: u16,
    /// The block, which knows metadata,
    pub(crate) plan: Option<&'a Plan>,
    /// and what they are about.
    pub(crate) data: &'a Data,
}

impl Facts<'_> {
    /// The address asked, or that of all addresses where it is not known.
    fn local(&self) -> IpAddr {
        let unspecified = IpAddr::from([0_u8; 16]);
        self.client.origin.local.unwrap_or(unspecified)
    }
}

/// Something that has a value.
#[derive(Clone, Debug)]
pub enum Expression {
    /// Whether something holds.
    Condition(Condition),
    /// A number.
    Number(Number),
    /// A text.
    Text(Text),
}

/// The value of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// Whether it holds.
    Bool(bool),
    /// A number.
    Number(Value),
    /// A text.
    Text(String),
}

impl Expression {
    /// Its value for a question, if it has one.
    pub(crate) fn value(&self, facts: &Facts<'_>) -> Option<Known> {
        let mut evaluation = Evaluation::new(facts);
        match self {
            Self::Condition(condition) => evaluation.condition(condition).map(Known::Bool),
            Self::Number(number) => evaluation.number(number).map(Known::Number),
            Self::Text(text) => evaluation.written(text).map(Known::Text),
        }
    }
}

/// Something that holds or does not.
#[derive(Clone, Debug)]
pub enum Condition {
    /// Always the same.
    Literal(bool),
    /// Never known.
    Unknown,
    /// `do()`
    DnssecOk,
    /// `incidr(IP, CIDR)`
    InNet(Box<[Text; 2]>),
    /// `!`
    Not(Box<Self>),
    /// `&&`: they are looked at up to the first that does not hold.
    All(Box<[Self]>),
    /// `||`: they are looked at up to the first that holds.
    Any(Box<[Self]>),
    /// `==` between conditions.
    Same(Box<[Self; 2]>),
    /// `A ? B : C`
    If(Box<[Self; 3]>),
    /// Two numbers.
    Numbers(Comparison, Box<[Number; 2]>),
    /// Two texts, byte by byte.
    Texts(Comparison, Box<[Text; 2]>),
    /// A number that is one of some.
    OneNumber(Number, Box<[Number]>),
    /// A text that is one of some.
    OneText(Text, Box<[Text]>),
    /// `matches`
    Matches(Text, Box<Pattern>),
}

/// How two values stand to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// The first text holds the second: `contains`. Not for numbers.
    Contains,
    /// `startsWith`. Not for numbers.
    StartsWith,
    /// `endsWith`. Not for numbers.
    EndsWith,
}

/// A number.
#[derive(Clone, Debug)]
pub enum Number {
    /// Always the same.
    Literal(Value),
    /// `size()`
    Size,
    /// `bufsize()`
    Bufsize,
    /// `id()`
    Id,
    /// `opcode()`
    Opcode,
    /// `len`: how many characters a text has.
    Len(Box<Text>),
    /// `-A`
    Negative(Box<Self>),
    /// `A + B` and its like.
    Arithmetic(Arithmetic, Box<[Self; 2]>),
    /// `A ? B : C`
    If(Box<(Condition, Self, Self)>),
}

/// What is done with two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`, which is never whole.
    Divide,
    /// `%`, of whole numbers.
    Remainder,
}

/// The value of a number. Whole ones wrap around, as Go's do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// Any other.
    Float(f64),
}

/// A text.
#[derive(Clone, Debug)]
pub enum Text {
    /// Always the same.
    Literal(Box<str>),
    /// `type()`
    Type,
    /// `class()`
    Class,
    /// `proto()`
    Proto,
    /// `name()`
    Name,
    /// `client_ip()`
    ClientIp,
    /// `port()`
    ClientPort,
    /// `server_ip()`
    ServerIp,
    /// `server_port()`
    ServerPort,
    /// `metadata(LABEL)`
    Metadata(Box<Self>),
    /// `lower`, of ASCII letters.
    Lower(Box<Self>),
    /// `upper`, of ASCII letters.
    Upper(Box<Self>),
    /// `A + B`
    Joined(Box<[Self; 2]>),
    /// `A ? B : C`
    If(Box<(Condition, Self, Self)>),
}
