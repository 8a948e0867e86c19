//! Tokens to a tree, by the ranks of expr-lang's operators.

use std::ops::Range;

use super::Fault;
use super::token::{Placed, Token};

/// How deep a tree may be: what reads it and what evaluates it calls itself.
const DEPTH_MAX: usize = 32;
/// Nodes of a tree, at most.
const NODES_MAX: usize = 500;

/// A part of an expression and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) at: Range<usize>,
    depth: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    /// A name without brackets behind it.
    Name(String),
    List(Vec<Node>),
    Call(String, Vec<Node>),
    Not(Box<Node>),
    Negative(Box<Node>),
    /// `A && B && C`
    All(Vec<Node>),
    /// `A || B || C`
    Any(Vec<Node>),
    /// Any other operator, where it stands, and what stands beside it.
    Binary(Operator, Range<usize>, Box<[Node; 2]>),
    If(Box<[Node; 3]>),
}

/// What stands between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Matches,
    Contains,
    StartsWith,
    EndsWith,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    /// As they are written, and how strongly they bind.
    const ALL: [(&str, Self, u8); 20] = [
        ("||", Self::Or, 10),
        ("or", Self::Or, 10),
        ("&&", Self::And, 15),
        ("and", Self::And, 15),
        ("==", Self::Equal, 20),
        ("!=", Self::NotEqual, 20),
        ("<", Self::Less, 20),
        ("<=", Self::LessOrEqual, 20),
        (">", Self::Greater, 20),
        (">=", Self::GreaterOrEqual, 20),
        ("in", Self::In, 20),
        ("matches", Self::Matches, 20),
        ("contains", Self::Contains, 20),
        ("startsWith", Self::StartsWith, 20),
        ("endsWith", Self::EndsWith, 20),
        ("+", Self::Add, 30),
        ("-", Self::Subtract, 30),
        ("*", Self::Multiply, 60),
        ("/", Self::Divide, 60),
        ("%", Self::Remainder, 60),
    ];

    fn of(token: &Token) -> Option<(Self, u8)> {
        let written = match token {
            Token::Word(word) => word,
            Token::Sign(sign) => *sign,
            _ => return None,
        };
        let (_, operator, rank) = Self::ALL.into_iter().find(|(text, _, _)| *text == written)?;
        Some((operator, rank))
    }

    /// `not` may stand in front of it.
    fn can_be_negated(self) -> bool {
        matches!(
            self,
            Self::In | Self::Matches | Self::Contains | Self::StartsWith | Self::EndsWith
        )
    }

    /// As it is written.
    pub(super) fn as_str(self) -> &'static str {
        let known = Self::ALL.into_iter().find(|(_, operator, _)| *operator == self);
        known.map_or("", |(text, _, _)| text)
    }
}

/// How strongly `not` and `!` bind, and a sign in front of a number.
const NOT_RANK: u8 = 50;
const SIGN_RANK: u8 = 90;

/// Parses a whole expression of so many bytes.
pub(super) fn parse(tokens: &[Placed], len: usize) -> Result<Node, Fault> {
    let mut parser = Parser {
        tokens,
        at: 0,
        len,
        depth: 0,
        nodes: 0,
    };
    let tree = parser.whole()?;
    match parser.peek() {
        None => Ok(tree),
        Some(_) => Err(parser.unexpected("an operator or the end")),
    }
}

struct Parser<'t> {
    tokens: &'t [Placed],
    at: usize,
    len: usize,
    depth: usize,
    nodes: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    /// Where the next token stands; behind the last one for none.
    fn place(&self) -> Range<usize> {
        let end = self.tokens.last().map_or(0..self.len, |(_, place)| place.clone());
        self.tokens.get(self.at).map_or(end, |(_, place)| place.clone())
    }

    fn take_sign(&mut self, wanted: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(sign)) if *sign == wanted);
        self.at += usize::from(found);
        found
    }

    fn take_word(&mut self, wanted: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(word)) if word == wanted);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, wanted: &str) -> Result<usize, Fault> {
        let end = self.place().end;
        if self.take_sign(wanted) {
            Ok(end)
        } else {
            Err(self.unexpected(&format!("`{wanted}`")))
        }
    }

    fn unexpected(&self, expected: &str) -> Fault {
        let found = match self.peek() {
            None => "end of the expression".to_owned(),
            Some(Token::Int(value)) => format!("number {value}"),
            Some(Token::Float(value)) => format!("number {value}"),
            Some(Token::Text(text)) => format!("text '{text}'"),
            Some(Token::Word(word)) => format!("word `{word}`"),
            Some(Token::Sign(sign)) => format!("sign `{sign}`"),
        };
        Fault::new(self.place(), format!("unexpected {found}")).label(format!("expected {expected}"))
    }

    fn node(&mut self, kind: Kind, at: Range<usize>) -> Result<Node, Fault> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            let text = format!("an expression of more than {NODES_MAX} parts");
            return Err(Fault::new(at, text).help("write several `expr` lines: all of them must hold"));
        }
        let parts: &[Node] = match &kind {
            Kind::List(parts) | Kind::Call(_, parts) | Kind::All(parts) | Kind::Any(parts) => parts,
            Kind::Not(part) | Kind::Negative(part) => std::slice::from_ref(part),
            Kind::Binary(_, _, parts) => &**parts,
            Kind::If(parts) => &**parts,
            Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Text(_) | Kind::Name(_) => &[],
        };
        let depth = 1 + parts.iter().map(|part| part.depth).max().unwrap_or_default();
        if depth > DEPTH_MAX {
            return Err(too_deep(at));
        }
        Ok(Node { kind, at, depth })
    }

    /// One level further down.
    fn descend(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep(self.place()));
        }
        Ok(())
    }

    fn whole(&mut self) -> Result<Node, Fault> {
        self.descend()?;
        let condition = self.binary(0)?;
        let tree = if self.take_sign("?") {
            let then = self.whole()?;
            self.expect(":")?;
            let otherwise = self.whole()?;
            let at = condition.at.start..otherwise.at.end;
            self.node(Kind::If(Box::new([condition, then, otherwise])), at)?
        } else {
            condition
        };
        self.depth -= 1;
        Ok(tree)
    }

    fn binary(&mut self, least: u8) -> Result<Node, Fault> {
        let mut left = self.unary()?;
        loop {
            let start = self.at;
            let mut place = self.place();
            let is_negated = self.take_word("not");
            let found = self.peek().and_then(Operator::of);
            let Some((operator, rank)) =
                found.filter(|(operator, rank)| *rank >= least && (!is_negated || operator.can_be_negated()))
            else {
                self.at = start;
                return Ok(left);
            };
            place.end = self.place().end;
            self.at += 1;
            let right = self.binary(rank + 1)?;
            let at = left.at.start..right.at.end;
            // A chain of conditions is one node, however long it is.
            let kind = match (operator, left.kind) {
                (Operator::And, Kind::All(mut parts)) => {
                    parts.push(right);
                    Kind::All(parts)
                }
                (Operator::Or, Kind::Any(mut parts)) => {
                    parts.push(right);
                    Kind::Any(parts)
                }
                (operator, kind) => {
                    let left = Node { kind, ..left };
                    match operator {
                        Operator::And => Kind::All(vec![left, right]),
                        Operator::Or => Kind::Any(vec![left, right]),
                        other => Kind::Binary(other, place, Box::new([left, right])),
                    }
                }
            };
            left = self.node(kind, at.clone())?;
            if is_negated {
                left = self.node(Kind::Not(Box::new(left)), at)?;
            }
        }
    }

    fn unary(&mut self) -> Result<Node, Fault> {
        let start = self.place().start;
        let rank = match self.peek() {
            Some(Token::Sign("!")) => NOT_RANK,
            Some(Token::Word(word)) if word == "not" => NOT_RANK,
            Some(Token::Sign("-" | "+")) => SIGN_RANK,
            _ => return self.primary(),
        };
        let is_plus = matches!(self.peek(), Some(Token::Sign("+")));
        self.at += 1;
        self.descend()?;
        let operand = Box::new(self.binary(rank)?);
        self.depth -= 1;
        let at = start..operand.at.end;
        match rank {
            NOT_RANK => self.node(Kind::Not(operand), at),
            _ if is_plus => Ok(*operand),
            _ => self.node(Kind::Negative(operand), at),
        }
    }

    fn primary(&mut self) -> Result<Node, Fault> {
        let at = self.place();
        let Some(token) = self.peek().cloned() else {
            return Err(self.unexpected("a value"));
        };
        let kind = match token {
            Token::Int(value) => Kind::Int(value),
            Token::Float(value) => Kind::Float(value),
            Token::Text(text) => Kind::Text(text),
            Token::Word(word) if word == "true" || word == "false" => Kind::Bool(word == "true"),
            Token::Word(word) => {
                if Operator::of(&Token::Word(word.clone())).is_some() {
                    return Err(self.unexpected("a value"));
                }
                self.at += 1;
                if !self.take_sign("(") {
                    return self.node(Kind::Name(word), at);
                }
                let (args, end) = self.items(")")?;
                return self.node(Kind::Call(word, args), at.start..end);
            }
            Token::Sign("(") => {
                self.at += 1;
                let mut inside = self.whole()?;
                inside.at = at.start..self.expect(")")?;
                return Ok(inside);
            }
            Token::Sign("[") => {
                self.at += 1;
                let (items, end) = self.items("]")?;
                return self.node(Kind::List(items), at.start..end);
            }
            Token::Sign(_) => return Err(self.unexpected("a value")),
        };
        self.at += 1;
        self.node(kind, at)
    }

    /// What stands between commas up to `close`, and where that ends.
    fn items(&mut self, close: &str) -> Result<(Vec<Node>, usize), Fault> {
        let mut items = Vec::new();
        loop {
            let end = self.place().end;
            // A comma may stand behind the last one.
            if self.take_sign(close) {
                return Ok((items, end));
            }
            items.push(self.whole()?);
            let is_closed = matches!(self.peek(), Some(Token::Sign(sign)) if *sign == close);
            if !is_closed && !self.take_sign(",") {
                return Err(self.unexpected(&format!("`,` or `{close}`")));
            }
        }
    }
}

fn too_deep(at: Range<usize>) -> Fault {
    Fault::new(at, format!("an expression is nested more than {DEPTH_MAX} deep"))
        .help("write several `expr` lines: all of them must hold")
}
