//! The expressions of `view` and `template`: text in, a condition or a value whose types are right, or what is wrong with
//! it, out.
//!
//! ```text
//!   token ──> parse ──> check ──> Condition, Expression
//!    words     tree      types     of the engine
//! ```
//!
//! The language is that part of expr-lang which CoreDNS's users need.

mod check;
mod parse;
mod token;

#[cfg(test)]
mod tests;

use std::ops::Range;

use nodens_engine::plan::view::{Condition, Expression};
use parse::Node;

/// Bytes of an expression, at most.
pub const TEXT_BYTES_MAX: usize = 10_000;

/// What an expression says.
#[derive(Clone, Debug)]
pub struct Compiled<T> {
    /// What is to be evaluated.
    pub expression: T,
    /// What is odd about it, though it can be evaluated.
    pub remarks: Vec<Fault>,
}

/// Something wrong in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which bytes of the text.
    pub at: Range<usize>,
    /// What was found.
    pub text: String,
    /// What was expected there.
    pub label: Option<String>,
    /// The likely fix.
    pub help: Option<String>,
}

impl Fault {
    fn new(at: Range<usize>, text: impl Into<String>) -> Self {
        Self {
            at,
            text: text.into(),
            label: None,
            help: None,
        }
    }

    fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Compiles an expression that has to hold.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn condition(text: &str) -> Result<Compiled<Condition>, Fault> {
    check::condition(tree(text)?)
}

/// Compiles an expression that has a value.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn value(text: &str) -> Result<Compiled<Expression>, Fault> {
    check::value(tree(text)?)
}

fn tree(text: &str) -> Result<Node, Fault> {
    if text.len() > TEXT_BYTES_MAX {
        let text_len = text.len();
        let fault = format!("an expression of {text_len} bytes, at most {TEXT_BYTES_MAX} are allowed");
        return Err(Fault::new(0..text_len, fault));
    }
    let tokens = token::tokens(text)?;
    parse::parse(&tokens, text.len())
}
