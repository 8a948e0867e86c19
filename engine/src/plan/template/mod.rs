//! `template`: records written by templates in the language of Go's `text/template`, as far as records need it.
//!
//! ```text
//!   text ──> parse ──> Template, when the configuration is read
//!                          │
//!   question, groups ──────┴──> write ──> the text of a record, as in a zone file
//! ```
//!
//! There are texts, numbers and booleans, the groups of a match and what the question says; `if`, `range`, `with`,
//! variables, pipelines, and the functions that are built into Go, but those for web pages. A template ends: each has
//! a bound of steps, and of what it writes.

mod format;
mod parse;
mod write;

use std::borrow::Cow;
use std::fmt;

use nodens_wire::{Flags, NameBuf, Rclass, Rcode, Rtype};

use super::view::{Condition, Expression, Known};
use crate::captures::Captures;

pub use parse::TEXT_BYTES_MAX;
pub use write::{STEPS_MAX, WRITTEN_MAX};

/// One stanza of `template`.
#[derive(Clone, Debug)]
pub struct Stanza {
    /// The class asked for; ANY for all.
    pub rclass: Rclass,
    /// The type asked for; ANY for all.
    pub rtype: Rtype,
    /// Names outside are for the next stanza.
    pub zones: Vec<NameBuf>,
    /// The first that matches the name, in lower case and with its final dot, gives the groups. Never empty.
    pub patterns: Vec<Captures>,
    /// All must hold, too.
    pub conditions: Vec<Condition>,
    /// What records may ask for by a name: `.Var`. The last of a name counts.
    pub variables: Vec<(Box<str>, Expression)>,
    /// Records of ANSWER.
    pub answer: Vec<Template>,
    /// Records of ADDITIONAL.
    pub additional: Vec<Template>,
    /// Records of AUTHORITY.
    pub authority: Vec<Template>,
    /// Of the reply; with SERVFAIL there are no records.
    pub rcode: Rcode,
    /// An extended error, and its text.
    pub error: Option<(u16, Box<str>)>,
    /// Names in these that match nothing are for the next stanza, others are SERVFAIL.
    pub fallthrough: Option<Vec<NameBuf>>,
}

/// A parsed template.
#[derive(Clone, Debug)]
pub struct Template {
    source: Box<str>,
    nodes: Box<[Node]>,
    /// Variables that are there at one time, at most.
    variables: usize,
}

/// What a template may ask for.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The zone of the stanza that holds the name.
    pub zone: &'a str,
    /// The name asked for, in lower case.
    pub name: &'a str,
    /// The class asked for; that of the stanza where ANY was.
    pub class: &'a str,
    /// The type, likewise.
    pub rtype: &'a str,
    /// The client's address.
    pub remote: &'a str,
    /// What the groups of the pattern matched, the whole match first.
    pub groups: &'a [&'a str],
    /// Their names.
    pub group_names: &'a [Option<&'a str>],
    /// What the stanza's expressions came to, by their names; some have no value for this question.
    pub variables: &'a [(&'a str, Option<Known>)],
    /// The id of the query.
    pub id: u16,
    /// Its flags.
    pub flags: Flags,
    /// The question as it came: the name as the client wrote it,
    pub asked_name: &'a str,
    /// the type
    pub asked_type: Rtype,
    /// and the class.
    pub asked_class: Rclass,
    /// What directives know of the query by a label; empty where nothing is known.
    pub metadata: &'a dyn Fn(&str) -> String,
}

/// Why a text is no template, or writes nothing for this question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(Cow<'static, str>);

impl Fault {
    fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

impl Template {
    /// Parses a text.
    ///
    /// # Errors
    /// It is no template, or uses what there is not.
    pub fn new(text: &str) -> Result<Self, Fault> {
        let (nodes, variables) = parse::parse(text)?;
        Ok(Self {
            source: text.into(),
            nodes,
            variables,
        })
    }

    /// The text, as metrics show it.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Puts what it writes for a question behind `out`.
    ///
    /// # Errors
    /// A function or a field does not fit the values, or a bound is passed.
    pub fn write(&self, facts: &Facts<'_>, out: &mut String) -> Result<(), Fault> {
        write::write(self, facts, out)
    }
}

/// A part of a template.
#[derive(Clone, Debug)]
enum Node {
    Text(Box<str>),
    Action(Pipeline),
    If {
        condition: Pipeline,
        then: Box<[Self]>,
        other: Box<[Self]>,
    },
    With {
        value: Pipeline,
        then: Box<[Self]>,
        other: Box<[Self]>,
    },
    Range {
        /// Variables for the index and for the item.
        index: Option<usize>,
        item: Option<usize>,
        items: Pipeline,
        body: Box<[Self]>,
        other: Box<[Self]>,
    },
    Break,
    Continue,
}

/// Commands, each with the value of the one in front of it as its last argument.
#[derive(Clone, Debug)]
struct Pipeline {
    /// The variable that gets the value, which is not written then.
    variable: Option<usize>,
    commands: Box<[Box<[Operand]>]>,
}

/// A part of a command.
#[derive(Clone, Debug)]
enum Operand {
    Dot,
    Nil,
    Bool(bool),
    Integer(i64),
    Text(Box<str>),
    /// `$` is the first one.
    Variable(usize),
    Function(Function),
    Inner(Box<Pipeline>),
    Fields(Box<Self>, Box<[Box<str>]>),
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    And,
    Or,
    Not,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Index,
    Slice,
    Len,
    Print,
    Println,
    Printf,
    ParseInt,
}

const FUNCTIONS: [(&str, Function); 16] = [
    ("and", Function::And),
    ("or", Function::Or),
    ("not", Function::Not),
    ("eq", Function::Eq),
    ("ne", Function::Ne),
    ("lt", Function::Lt),
    ("le", Function::Le),
    ("gt", Function::Gt),
    ("ge", Function::Ge),
    ("index", Function::Index),
    ("slice", Function::Slice),
    ("len", Function::Len),
    ("print", Function::Print),
    ("println", Function::Println),
    ("printf", Function::Printf),
    ("parseInt", Function::ParseInt),
];

/// A value. Those without data stand for what [`Facts`] hold.
#[derive(Clone, Debug)]
enum Value<'a> {
    /// What is not there: shown as Go does.
    Missing,
    Nil,
    Bool(bool),
    Integer(i64),
    Text(Cow<'a, str>),
    /// `.` at the outset, and `$`.
    Root,
    /// `.Match`
    Match,
    /// `.Group`
    Group,
    /// `.Var`
    Variables,
    /// `.Message`
    Message,
    /// `.Message.Question`
    Questions,
    /// `.Question`
    Question,
}

#[cfg(test)]
mod tests;
