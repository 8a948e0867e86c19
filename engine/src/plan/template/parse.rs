//! From the text of a template to its parts.

use super::{FUNCTIONS, Fault, Node, Operand, Pipeline};

/// Bytes of a template, at most.
pub const TEXT_BYTES_MAX: usize = 10_000;
/// Blocks and brackets within one another, at most.
const DEPTH_MAX: usize = 32;

/// What `.` has at the outset.
const ROOT_FIELDS: [&str; 11] = [
    "Zone", "Name", "Class", "Type", "Match", "Group", "Message", "Question", "Remote", "Meta", "Var",
];
const LEFT: &str = "{{";
const RIGHT: &str = "}}";

/// The parts of a text, and how many variables it needs.
pub(super) fn parse(text: &str) -> Result<(Box<[Node]>, usize), Fault> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Fault::new(format!(
            "the template has {} bytes, at most {TEXT_BYTES_MAX} are allowed",
            text.len()
        )));
    }
    let mut parser = Parser {
        text,
        rest: text,
        variables: vec!["$"],
        variables_most: 1,
        depth: 0,
        loops: 0,
        dot_is_root: true,
        trims: false,
    };
    let (nodes, end) = parser.nodes()?;
    match end {
        Stop::Text => Ok((nodes, parser.variables_most)),
        Stop::End => Err(Fault::new("unexpected {{end}}")),
        Stop::Else(_) => Err(Fault::new("unexpected {{else}}")),
    }
}

/// What ends a list of parts.
enum Stop<'t> {
    Text,
    End,
    /// With what stands behind the word.
    Else(ElseKind<'t>),
}

enum ElseKind<'t> {
    Plain,
    /// `else if`, `else with`: the word.
    Chained(&'t str),
}

struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
    /// Names of the variables that can be seen, each at the number that it has.
    variables: Vec<&'t str>,
    variables_most: usize,
    depth: usize,
    /// Loops around this place.
    loops: usize,
    /// `.` is what it was at the outset.
    dot_is_root: bool,
    /// The last action takes away the blanks behind it.
    trims: bool,
}

impl<'t> Parser<'t> {
    fn nodes(&mut self) -> Result<(Box<[Node]>, Stop<'t>), Fault> {
        let mut nodes = Vec::new();
        loop {
            let (text, is_end) = match self.rest.find(LEFT) {
                Some(at) => (&self.rest[..at], false),
                None => (self.rest, true),
            };
            self.rest = &self.rest[text.len()..];
            let mut shown = text;
            if self.trims {
                shown = shown.trim_start_matches(BLANKS);
                self.trims = false;
            }
            if !is_end {
                self.rest = &self.rest[LEFT.len()..];
                let behind = self.rest.strip_prefix('-');
                if let Some(behind) = behind.filter(|behind| behind.starts_with(BLANKS)) {
                    shown = shown.trim_end_matches(BLANKS);
                    self.rest = behind;
                }
            }
            if !shown.is_empty() {
                nodes.push(Node::Text(shown.into()));
            }
            if is_end {
                return Ok((nodes.into(), Stop::Text));
            }
            if self.comment()? {
                continue;
            }
            self.blanks();
            let word = self.peek_word();
            match word {
                "end" => {
                    self.take(word);
                    self.close()?;
                    return Ok((nodes.into(), Stop::End));
                }
                "else" => {
                    self.take(word);
                    self.blanks();
                    let chained = self.peek_word();
                    if matches!(chained, "if" | "with") {
                        self.take(chained);
                        return Ok((nodes.into(), Stop::Else(ElseKind::Chained(chained))));
                    }
                    self.close()?;
                    return Ok((nodes.into(), Stop::Else(ElseKind::Plain)));
                }
                "if" | "with" | "range" => {
                    self.take(word);
                    nodes.push(self.block(word)?);
                }
                "break" | "continue" => {
                    self.take(word);
                    self.close()?;
                    if self.loops == 0 {
                        return Err(Fault::new(format!("{{{{{word}}}}} outside {{{{range}}}}")));
                    }
                    nodes.push(if word == "break" { Node::Break } else { Node::Continue });
                }
                "define" | "template" | "block" => {
                    return Err(Fault::new(format!("{{{{{word}}}}} is not supported here")));
                }
                _ => {
                    let pipeline = self.pipeline()?;
                    self.close()?;
                    nodes.push(Node::Action(pipeline));
                }
            }
        }
    }

    /// `if`, `with` or `range`, from behind that word to behind its `end`.
    fn block(&mut self, word: &str) -> Result<Node, Fault> {
        self.deeper()?;
        let (variables, dot_is_root) = (self.variables.len(), self.dot_is_root);
        let (mut index, mut item) = (None, None);
        if word == "range" {
            (index, item) = self.range_variables();
        }
        let value = self.pipeline()?;
        self.close()?;
        if word == "range" {
            self.loops += 1;
        }
        self.dot_is_root &= word == "if";
        let (then, mut end) = self.nodes()?;
        self.dot_is_root = dot_is_root;
        if word == "range" {
            self.loops -= 1;
        }
        let mut other: Box<[Node]> = Box::new([]);
        match end {
            Stop::Else(ElseKind::Chained(chained)) if word != "range" => {
                // Its `end` is ours.
                other = Box::new([self.block(chained)?]);
                end = Stop::End;
            }
            Stop::Else(ElseKind::Plain) => (other, end) = self.nodes()?,
            _ => {}
        }
        match end {
            Stop::End => {}
            Stop::Text => return Err(Fault::new("unexpected EOF")),
            Stop::Else(_) => return Err(Fault::new("unexpected {{else}}")),
        }
        self.variables.truncate(variables);
        self.depth -= 1;
        Ok(match word {
            "if" => Node::If {
                condition: value,
                then,
                other,
            },
            "with" => Node::With { value, then, other },
            _ => Node::Range {
                index,
                item,
                items: value,
                body: then,
                other,
            },
        })
    }

    /// `$item :=` or `$index, $item :=`
    fn range_variables(&mut self) -> (Option<usize>, Option<usize>) {
        let before = self.rest;
        self.blanks();
        let Some(first) = self.variable_name() else {
            self.rest = before;
            return (None, None);
        };
        self.blanks();
        let mut second = None;
        if let Some(behind) = self.rest.strip_prefix(',') {
            self.rest = behind;
            self.blanks();
            second = self.variable_name();
            self.blanks();
        }
        match self.rest.strip_prefix(":=") {
            Some(behind) => self.rest = behind,
            None => {
                self.rest = before;
                return (None, None);
            }
        }
        let first = self.declare(first);
        match second {
            Some(second) => (Some(first), Some(self.declare(second))),
            None => (None, Some(first)),
        }
    }

    fn declare(&mut self, name: &'t str) -> usize {
        self.variables.push(name);
        self.variables_most = self.variables_most.max(self.variables.len());
        self.variables.len() - 1
    }

    fn pipeline(&mut self) -> Result<Pipeline, Fault> {
        let mut declared = None;
        let mut variable = None;
        let before = self.rest;
        self.blanks();
        if let Some(name) = self.variable_name() {
            self.blanks();
            if let Some(behind) = self.rest.strip_prefix(":=") {
                self.rest = behind;
                declared = Some(name);
            } else if let Some(behind) = self.rest.strip_prefix('=') {
                self.rest = behind;
                variable = Some(self.number_of(name)?);
            } else {
                self.rest = before;
            }
        }
        let mut commands = Vec::new();
        loop {
            let command = self.command()?;
            match command.first() {
                Some(Operand::Nil) => return Err(Fault::new("nil is not a command")),
                Some(_) => {}
                None => return Err(Fault::new("missing value for command")),
            }
            let takes = |operand: &Operand| matches!(operand, Operand::Function(_) | Operand::Fields(..));
            if !commands.is_empty() && !takes(&command[0]) {
                return Err(Fault::new("non executable command in pipeline"));
            }
            commands.push(command);
            match self.rest.strip_prefix('|') {
                Some(behind) => self.rest = behind,
                None => break,
            }
        }
        // It cannot be seen in its own value.
        if let Some(name) = declared {
            variable = Some(self.declare(name));
        }
        Ok(Pipeline {
            variable,
            commands: commands.into(),
        })
    }

    /// Operands up to a bar, a bracket or the end of the action.
    fn command(&mut self) -> Result<Box<[Operand]>, Fault> {
        let mut operands = Vec::new();
        loop {
            let before = self.rest.len();
            self.blanks();
            let is_apart = operands.is_empty() || self.rest.len() < before;
            if self.rest.is_empty() || self.rest.starts_with(['|', ')']) || self.at_close() {
                return Ok(operands.into());
            }
            if !is_apart {
                return Err(self.unexpected("in operand"));
            }
            operands.push(self.operand()?);
        }
    }

    fn operand(&mut self) -> Result<Operand, Fault> {
        let base = self.base()?;
        let mut fields: Vec<Box<str>> = Vec::new();
        let is_dot = matches!(base, Operand::Dot);
        // The dot itself begins the first field: `.Name`.
        if is_dot {
            let field = self.peek_word();
            if !field.is_empty() {
                self.take(field);
                fields.push(field.into());
            }
        }
        while let Some(behind) = self.rest.strip_prefix('.') {
            if is_dot && fields.is_empty() {
                return Err(self.unexpected("in operand"));
            }
            self.rest = behind;
            let field = self.peek_word();
            if field.is_empty() {
                return Err(self.unexpected("behind a dot"));
            }
            self.take(field);
            fields.push(field.into());
        }
        let Some(first) = fields.first() else { return Ok(base) };
        let is_root = is_dot && self.dot_is_root || matches!(base, Operand::Variable(0));
        if is_root && !ROOT_FIELDS.contains(&&**first) {
            return Err(Fault::new(format!("there is no .{first}")));
        }
        if matches!(
            base,
            Operand::Function(_) | Operand::Integer(_) | Operand::Bool(_) | Operand::Text(_) | Operand::Nil
        ) {
            return Err(Fault::new(format!(
                "unexpected .{first} behind a value that has no fields"
            )));
        }
        Ok(Operand::Fields(Box::new(base), fields.into()))
    }

    fn base(&mut self) -> Result<Operand, Fault> {
        if let Some(behind) = self.rest.strip_prefix('.') {
            self.rest = behind;
            return Ok(Operand::Dot);
        }
        if let Some(behind) = self.rest.strip_prefix('(') {
            self.deeper()?;
            self.rest = behind;
            let inner = self.pipeline()?;
            self.rest = self
                .rest
                .strip_prefix(')')
                .ok_or_else(|| self.unexpected("in brackets"))?;
            self.depth -= 1;
            return Ok(Operand::Inner(Box::new(inner)));
        }
        if self.rest.starts_with(['"', '`', '\'']) {
            return self.literal();
        }
        if self
            .rest
            .starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '+'))
        {
            return self.integer();
        }
        if let Some(name) = self.variable_name() {
            return Ok(Operand::Variable(self.number_of(name)?));
        }
        let word = self.peek_word();
        self.take(word);
        Ok(match word {
            "" => return Err(self.unexpected("in operand")),
            "true" => Operand::Bool(true),
            "false" => Operand::Bool(false),
            "nil" => Operand::Nil,
            _ => match FUNCTIONS.iter().find(|(name, _)| *name == word) {
                Some((_, function)) => Operand::Function(*function),
                None => return Err(Fault::new(format!("function {word:?} not defined"))),
            },
        })
    }

    /// A text in quotes, or the number of a character.
    fn literal(&mut self) -> Result<Operand, Fault> {
        let mut chars = self.rest.char_indices();
        let quote = chars.next().map_or('"', |(_, quote)| quote);
        let mut text = String::new();
        while let Some((at, next)) = chars.next() {
            match next {
                _ if next == quote => {
                    self.rest = &self.rest[at + quote.len_utf8()..];
                    if quote != '\'' {
                        return Ok(Operand::Text(text.into()));
                    }
                    let mut one = text.chars();
                    return match (one.next(), one.next()) {
                        (Some(only), None) => Ok(Operand::Integer(i64::from(u32::from(only)))),
                        _ => Err(Fault::new("malformed character constant")),
                    };
                }
                '\\' if quote != '`' => {
                    let escaped = match chars.next().map(|(_, escaped)| escaped) {
                        Some('n') => '\n',
                        Some('t') => '\t',
                        Some('r') => '\r',
                        Some(same @ ('\\' | '"' | '\'')) => same,
                        Some('x') => {
                            let mut digit = || chars.next().and_then(|(_, digit)| digit.to_digit(16));
                            let code = digit().zip(digit()).map(|(high, low)| high * 16 + low);
                            let ascii = code.filter(|code| *code < 0x80).and_then(char::from_u32);
                            ascii.ok_or_else(|| Fault::new("invalid escape in a text"))?
                        }
                        _ => return Err(Fault::new("invalid escape in a text")),
                    };
                    text.push(escaped);
                }
                '\n' if quote != '`' => break,
                _ => text.push(next),
            }
        }
        Err(Fault::new("unterminated quoted string"))
    }

    fn integer(&mut self) -> Result<Operand, Fault> {
        let sign = usize::from(self.rest.starts_with(['-', '+']));
        let is_part = |part: char| part.is_ascii_alphanumeric() || matches!(part, '_' | '.');
        let len = sign
            + self.rest[sign..]
                .find(|part| !is_part(part))
                .unwrap_or(self.rest.len() - sign);
        let word = &self.rest[..len];
        let digits = word[sign..].replace('_', "").to_ascii_lowercase();
        let radixes = [("0x", 16), ("0o", 8), ("0b", 2)];
        let radix = radixes
            .iter()
            .find_map(|(prefix, radix)| Some((digits.strip_prefix(prefix)?, *radix)));
        let octal = digits
            .strip_prefix('0')
            .filter(|rest| !rest.is_empty())
            .map(|rest| (rest, 8));
        let (digits, radix) = radix.or(octal).unwrap_or((&digits, 10));
        let number = i64::from_str_radix(digits, radix).ok().filter(|number| *number >= 0);
        let Some(number) = number else {
            return Err(Fault::new(format!(
                "bad number syntax: {word:?}; whole numbers are supported"
            )));
        };
        self.rest = &self.rest[len..];
        Ok(Operand::Integer(if word.starts_with('-') { -number } else { number }))
    }

    /// Takes `$` and the word behind it.
    fn variable_name(&mut self) -> Option<&'t str> {
        let behind = self.rest.strip_prefix('$')?;
        let len = 1 + behind.find(|part: char| !is_of_word(part)).unwrap_or(behind.len());
        let (name, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(name)
    }

    fn number_of(&self, name: &str) -> Result<usize, Fault> {
        let found = self.variables.iter().rposition(|known| *known == name);
        found.ok_or_else(|| Fault::new(format!("undefined variable {name:?}")))
    }

    /// Takes a comment with its braces, if there is one here.
    fn comment(&mut self) -> Result<bool, Fault> {
        let Some(inside) = self.rest.trim_start_matches(BLANKS).strip_prefix("/*") else {
            return Ok(false);
        };
        let (_, behind) = inside.split_once("*/").ok_or_else(|| Fault::new("unclosed comment"))?;
        self.rest = behind;
        self.close()?;
        Ok(true)
    }

    /// Whether the action ends here.
    fn at_close(&self) -> bool {
        self.rest.starts_with(RIGHT) || self.trimming_close().is_some()
    }

    /// What stands behind an end that takes away blanks: a blank stands in front of it.
    fn trimming_close(&self) -> Option<&'t str> {
        let before = &self.text[..self.text.len() - self.rest.len()];
        self.rest.strip_prefix("-}}").filter(|_| before.ends_with(BLANKS))
    }

    /// Takes the end of an action.
    fn close(&mut self) -> Result<(), Fault> {
        self.blanks();
        if let Some(behind) = self.trimming_close() {
            self.rest = behind;
            self.trims = true;
            return Ok(());
        }
        match self.rest.strip_prefix(RIGHT) {
            Some(behind) => self.rest = behind,
            None if self.rest.is_empty() => return Err(Fault::new("unclosed action")),
            None => return Err(self.unexpected("in command")),
        }
        Ok(())
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(BLANKS);
    }

    /// The word that begins here; empty where none does.
    fn peek_word(&self) -> &'t str {
        let rest = self.rest;
        let len = rest.find(|part: char| !is_of_word(part)).unwrap_or(rest.len());
        let word = &rest[..len];
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            return "";
        }
        word
    }

    fn take(&mut self, word: &str) {
        self.rest = &self.rest[word.len()..];
    }

    fn deeper(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Fault::new(format!(
                "blocks and brackets are more than {DEPTH_MAX} deep"
            )));
        }
        Ok(())
    }

    fn unexpected(&self, place: &str) -> Fault {
        match self.rest.chars().next() {
            Some(found) => Fault::new(format!("unexpected {:?} {place}", found.to_string())),
            None => Fault::new("unclosed action"),
        }
    }
}

const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

fn is_of_word(part: char) -> bool {
    part.is_alphanumeric() || part == '_'
}
