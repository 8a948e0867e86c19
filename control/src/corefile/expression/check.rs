//! The tree with types: what is left cannot go wrong for its types any more.

use std::net::IpAddr;
use std::ops::Range;

use nodens_engine::pattern::Pattern;
use nodens_engine::plan::Cidr;
use nodens_engine::plan::view::{Arithmetic, Comparison, Condition, Expression, Number, Text, Value};

use super::parse::{Kind, Node, Operator};
use super::{Compiled, Fault};
use crate::corefile::diagnostic::nearest;
use crate::corefile::re2;

/// The functions, and how many values each takes.
const FUNCTIONS: [(&str, usize); 18] = [
    ("bufsize", 0),
    ("class", 0),
    ("client_ip", 0),
    ("do", 0),
    ("id", 0),
    ("incidr", 2),
    ("len", 1),
    ("lower", 1),
    ("metadata", 1),
    ("name", 0),
    ("opcode", 0),
    ("port", 0),
    ("proto", 0),
    ("server_ip", 0),
    ("server_port", 0),
    ("size", 0),
    ("type", 0),
    ("upper", 1),
];

/// A part of an expression with its type.
enum Typed {
    Condition(Condition),
    Number(Number),
    Text(Text),
    List(Vec<Self>),
}

impl Typed {
    /// The type, for a person.
    fn shown(&self) -> &'static str {
        match self {
            Self::Condition(_) => "a condition",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
        }
    }
}

/// Checks an expression that has a value.
pub(super) fn value(tree: Node) -> Result<Compiled<Expression>, Fault> {
    let mut checker = Checker { remarks: Vec::new() };
    let at = tree.at.clone();
    let expression = match checker.typed(tree)? {
        Typed::Condition(condition) => Expression::Condition(condition),
        Typed::Number(number) => Expression::Number(number),
        Typed::Text(text) => Expression::Text(text),
        list @ Typed::List(_) => return Err(wrong_type(at, &list, "a text, a number or a condition")),
    };
    Ok(Compiled {
        expression,
        remarks: checker.remarks,
    })
}

/// Checks an expression that has to hold.
pub(super) fn condition(tree: Node) -> Result<Compiled<Condition>, Fault> {
    let mut checker = Checker { remarks: Vec::new() };
    let at = tree.at.clone();
    let condition = match checker.typed(tree)? {
        Typed::Condition(condition) => condition,
        other => {
            let text = format!("the expression is {}, so the block answers no question", other.shown());
            checker
                .remarks
                .push(Fault::new(at, text).help("compare it with something, for example by `==`"));
            Condition::Unknown
        }
    };
    Ok(Compiled {
        expression: condition,
        remarks: checker.remarks,
    })
}

struct Checker {
    remarks: Vec<Fault>,
}

impl Checker {
    fn typed(&mut self, node: Node) -> Result<Typed, Fault> {
        Ok(match node.kind {
            Kind::Bool(value) => Typed::Condition(Condition::Literal(value)),
            Kind::Int(value) => Typed::Number(Number::Literal(Value::Int(value))),
            Kind::Float(value) => Typed::Number(Number::Literal(Value::Float(value))),
            Kind::Text(text) => Typed::Text(Text::Literal(text.into())),
            Kind::Name(name) => return Err(unknown_name(&name, node.at)),
            Kind::List(items) => {
                let items: Result<_, _> = items.into_iter().map(|item| self.typed(item)).collect();
                Typed::List(items?)
            }
            Kind::Call(name, args) => return self.call(&name, args, node.at),
            Kind::Not(operand) => Typed::Condition(Condition::Not(Box::new(self.condition(*operand)?))),
            Kind::Negative(operand) => Typed::Number(Number::Negative(Box::new(self.number(*operand)?))),
            Kind::All(parts) => Typed::Condition(Condition::All(self.conditions(parts)?)),
            Kind::Any(parts) => Typed::Condition(Condition::Any(self.conditions(parts)?)),
            Kind::Binary(operator, at, pair) => {
                let [left, right] = *pair;
                return self.binary(operator, at, left, right);
            }
            Kind::If(parts) => {
                let [condition, then, otherwise] = *parts;
                return self.choice(condition, then, otherwise, node.at);
            }
        })
    }

    fn condition(&mut self, node: Node) -> Result<Condition, Fault> {
        let at = node.at.clone();
        match self.typed(node)? {
            Typed::Condition(condition) => Ok(condition),
            other => Err(wrong_type(at, &other, "a condition")),
        }
    }

    fn conditions(&mut self, nodes: Vec<Node>) -> Result<Box<[Condition]>, Fault> {
        nodes.into_iter().map(|node| self.condition(node)).collect()
    }

    fn number(&mut self, node: Node) -> Result<Number, Fault> {
        let at = node.at.clone();
        match self.typed(node)? {
            Typed::Number(number) => Ok(number),
            other => Err(wrong_type(at, &other, "a number")),
        }
    }

    fn text(&mut self, node: Node) -> Result<Text, Fault> {
        let at = node.at.clone();
        match self.typed(node)? {
            Typed::Text(text) => Ok(text),
            other => Err(wrong_type(at, &other, "a text")),
        }
    }

    fn call(&mut self, name: &str, args: Vec<Node>, at: Range<usize>) -> Result<Typed, Fault> {
        let wanted = FUNCTIONS.iter().find(|(known, _)| *known == name);
        let Some((_, wanted)) = wanted else {
            return Err(unknown_name(name, at));
        };
        if args.len() != *wanted {
            let few = if args.len() < *wanted { "not enough" } else { "too many" };
            let fault = Fault::new(at, format!("{few} arguments to call {name}"));
            return Err(fault.label(format!("expected {wanted}")));
        }
        let mut args = args.into_iter();
        let mut next = || args.next().expect("as many as the function takes");
        Ok(match name {
            "do" => Typed::Condition(Condition::DnssecOk),
            "incidr" => {
                let (address, net) = (next(), next());
                Typed::Condition(self.in_net(address, net)?)
            }
            "size" => Typed::Number(Number::Size),
            "bufsize" => Typed::Number(Number::Bufsize),
            "id" => Typed::Number(Number::Id),
            "opcode" => Typed::Number(Number::Opcode),
            "len" => {
                let operand = next();
                let at = operand.at.clone();
                match self.typed(operand)? {
                    Typed::Text(text) => Typed::Number(Number::Len(Box::new(text))),
                    Typed::List(items) => Typed::Number(Number::Literal(Value::Int(items.len() as i64))),
                    other => return Err(wrong_type(at, &other, "a text")),
                }
            }
            "type" => Typed::Text(Text::Type),
            "class" => Typed::Text(Text::Class),
            "proto" => Typed::Text(Text::Proto),
            "name" => Typed::Text(Text::Name),
            "client_ip" => Typed::Text(Text::ClientIp),
            "port" => Typed::Text(Text::ClientPort),
            "server_ip" => Typed::Text(Text::ServerIp),
            "server_port" => Typed::Text(Text::ServerPort),
            "metadata" => Typed::Text(Text::Metadata(Box::new(self.text(next())?))),
            "lower" => Typed::Text(match self.text(next())? {
                Text::Literal(text) => Text::Literal(text.to_lowercase().into()),
                text => Text::Lower(Box::new(text)),
            }),
            _ => Typed::Text(match self.text(next())? {
                Text::Literal(text) => Text::Literal(text.to_uppercase().into()),
                text => Text::Upper(Box::new(text)),
            }),
        })
    }

    fn in_net(&mut self, address: Node, net: Node) -> Result<Condition, Fault> {
        let (address_at, net_at) = (address.at.clone(), net.at.clone());
        let (address, net) = (self.text(address)?, self.text(net)?);
        // At run time this is no error: the condition is unknown, and the block is passed over.
        if let Text::Literal(text) = &address
            && text.parse::<IpAddr>().is_err()
        {
            let remark = Fault::new(
                address_at,
                format!("'{text}' is no address, so this holds for no question"),
            );
            self.remarks
                .push(remark.label("expected an address, such as `client_ip()`"));
        }
        if let Text::Literal(text) = &net
            && Cidr::parse(text).is_none()
        {
            let remark = Fault::new(net_at, format!("'{text}' is no net, so this holds for no question"));
            self.remarks.push(remark.label("expected a net such as '192.0.2.0/24'"));
        }
        Ok(Condition::InNet(Box::new([address, net])))
    }

    fn binary(&mut self, operator: Operator, at: Range<usize>, left: Node, right: Node) -> Result<Typed, Fault> {
        Ok(Typed::Condition(match operator {
            Operator::In => self.is_one(at, left, right)?,
            Operator::Matches => self.matches(left, right)?,
            Operator::Contains | Operator::StartsWith | Operator::EndsWith => {
                let comparison = match operator {
                    Operator::Contains => Comparison::Contains,
                    Operator::StartsWith => Comparison::StartsWith,
                    _ => Comparison::EndsWith,
                };
                Condition::Texts(comparison, Box::new([self.text(left)?, self.text(right)?]))
            }
            Operator::Add => match (self.typed(left)?, self.typed(right)?) {
                (Typed::Text(left), Typed::Text(right)) => return Ok(Typed::Text(joined(left, right))),
                (left, right) => return calculated(operator, at, left, right),
            },
            Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Remainder => {
                let (left, right) = (self.typed(left)?, self.typed(right)?);
                return calculated(operator, at, left, right);
            }
            comparison => {
                let (left, right) = (self.typed(left)?, self.typed(right)?);
                compared(comparison, at, left, right)?
            }
        }))
    }

    /// `in`: the list may be mixed, and then what is of another type is no such value.
    fn is_one(&mut self, at: Range<usize>, value: Node, list: Node) -> Result<Condition, Fault> {
        let list_at = list.at.clone();
        let (value, list) = (self.typed(value)?, self.typed(list)?);
        let Typed::List(items) = list else {
            return Err(wrong_type(list_at, &list, "a list such as ['A', 'AAAA']"));
        };
        let is_empty = items.is_empty();
        let found = mismatched(Operator::In, at, &value, items.first().unwrap_or(&value));
        let (condition, is_any) = match value {
            Typed::Text(text) => {
                let own = |item| if let Typed::Text(text) = item { Some(text) } else { None };
                let texts: Box<[Text]> = items.into_iter().filter_map(own).collect();
                let is_any = !texts.is_empty();
                (Condition::OneText(text, texts), is_any)
            }
            Typed::Number(number) => {
                let own = |item| {
                    if let Typed::Number(number) = item {
                        Some(number)
                    } else {
                        None
                    }
                };
                let numbers: Box<[Number]> = items.into_iter().filter_map(own).collect();
                let is_any = !numbers.is_empty();
                (Condition::OneNumber(number, numbers), is_any)
            }
            Typed::Condition(_) | Typed::List(_) => return Err(found),
        };
        if is_any || is_empty { Ok(condition) } else { Err(found) }
    }

    fn matches(&mut self, text: Node, pattern: Node) -> Result<Condition, Fault> {
        let at = pattern.at.clone();
        let (text, pattern) = (self.text(text)?, self.text(pattern)?);
        let Text::Literal(pattern) = pattern else {
            let fault = Fault::new(at, "the pattern of `matches` is not known before a question comes");
            return Err(fault.help("write the pattern as a text, or use `contains`, `startsWith` or `endsWith`"));
        };
        re2::check_len(&pattern).map_err(|why| Fault::new(at.clone(), why))?;
        match Pattern::new(&re2::translated(&pattern)) {
            Ok(pattern) => Ok(Condition::Matches(text, Box::new(pattern))),
            Err(error) => {
                let fault = Fault::new(at, re2::wrong(&error.to_string(), &pattern));
                Err(fault.help("patterns are those of RE2; one that is too large can mostly be begun with `^`"))
            }
        }
    }

    /// `A ? B : C`. What is no condition beside one has no value, as it would have none in CoreDNS.
    fn choice(&mut self, condition: Node, then: Node, otherwise: Node, at: Range<usize>) -> Result<Typed, Fault> {
        let condition = self.condition(condition)?;
        Ok(match (self.typed(then)?, self.typed(otherwise)?) {
            (Typed::Number(then), Typed::Number(otherwise)) => {
                Typed::Number(Number::If(Box::new((condition, then, otherwise))))
            }
            (Typed::Text(then), Typed::Text(otherwise)) => {
                Typed::Text(Text::If(Box::new((condition, then, otherwise))))
            }
            (then @ Typed::Condition(_), otherwise) | (then, otherwise @ Typed::Condition(_)) => {
                let condition_of = |typed| match typed {
                    Typed::Condition(condition) => condition,
                    _ => Condition::Unknown,
                };
                let parts = [condition, condition_of(then), condition_of(otherwise)];
                Typed::Condition(Condition::If(Box::new(parts)))
            }
            (then, otherwise) => {
                let text = format!("`? :` between {} and {}", then.shown(), otherwise.shown());
                return Err(Fault::new(at, text).label("expected two values of one type"));
            }
        })
    }
}

/// `+ - * / %` between numbers.
fn calculated(operator: Operator, at: Range<usize>, left: Typed, right: Typed) -> Result<Typed, Fault> {
    let (Typed::Number(left), Typed::Number(right)) = (&left, &right) else {
        return Err(mismatched(operator, at, &left, &right));
    };
    if operator == Operator::Remainder && !(is_whole(left) && is_whole(right)) {
        return Err(Fault::new(at, "invalid operation: % of numbers that are not whole"));
    }
    let arithmetic = match operator {
        Operator::Add => Arithmetic::Add,
        Operator::Subtract => Arithmetic::Subtract,
        Operator::Multiply => Arithmetic::Multiply,
        Operator::Divide => Arithmetic::Divide,
        _ => Arithmetic::Remainder,
    };
    let pair = Box::new([left.clone(), right.clone()]);
    Ok(Typed::Number(Number::Arithmetic(arithmetic, pair)))
}

/// `== != < <= > >=` between two of a kind.
fn compared(operator: Operator, at: Range<usize>, left: Typed, right: Typed) -> Result<Condition, Fault> {
    let (comparison, is_turned, is_negated) = match operator {
        Operator::NotEqual => (Comparison::Equal, false, true),
        Operator::Less => (Comparison::Less, false, false),
        Operator::LessOrEqual => (Comparison::LessOrEqual, false, false),
        Operator::Greater => (Comparison::Less, true, false),
        Operator::GreaterOrEqual => (Comparison::LessOrEqual, true, false),
        _ => (Comparison::Equal, false, false),
    };
    let condition = match (left, right) {
        (Typed::Text(left), Typed::Text(right)) if is_turned => Condition::Texts(comparison, Box::new([right, left])),
        (Typed::Text(left), Typed::Text(right)) => Condition::Texts(comparison, Box::new([left, right])),
        (Typed::Number(left), Typed::Number(right)) if is_turned => {
            Condition::Numbers(comparison, Box::new([right, left]))
        }
        (Typed::Number(left), Typed::Number(right)) => Condition::Numbers(comparison, Box::new([left, right])),
        (Typed::Condition(left), Typed::Condition(right)) if comparison == Comparison::Equal => {
            Condition::Same(Box::new([left, right]))
        }
        (left, right) => return Err(mismatched(operator, at, &left, &right)),
    };
    Ok(if is_negated {
        Condition::Not(Box::new(condition))
    } else {
        condition
    })
}

fn joined(left: Text, right: Text) -> Text {
    match (left, right) {
        (Text::Literal(left), Text::Literal(right)) => Text::Literal(format!("{left}{right}").into()),
        (left, right) => Text::Joined(Box::new([left, right])),
    }
}

/// Whether a number is known to be whole.
fn is_whole(number: &Number) -> bool {
    match number {
        Number::Literal(Value::Float(_)) | Number::Arithmetic(Arithmetic::Divide, _) => false,
        Number::Arithmetic(_, pair) => pair.iter().all(is_whole),
        Number::Negative(number) => is_whole(number),
        Number::If(parts) => is_whole(&parts.1) && is_whole(&parts.2),
        Number::Literal(Value::Int(_))
        | Number::Size
        | Number::Bufsize
        | Number::Id
        | Number::Opcode
        | Number::Len(_) => true,
    }
}

fn wrong_type(at: Range<usize>, found: &Typed, wanted: &str) -> Fault {
    Fault::new(at, format!("{} where {wanted} is needed", found.shown())).label(format!("expected {wanted}"))
}

fn mismatched(operator: Operator, at: Range<usize>, left: &Typed, right: &Typed) -> Fault {
    let (left, right) = (left.shown(), right.shown());
    let text = format!(
        "invalid operation: {} (mismatched types: {left} and {right})",
        operator.as_str()
    );
    let fault = Fault::new(at, text);
    match (left, right) {
        ("a text", "a number") | ("a number", "a text") => fault.help(
            "`port()` and `server_port()` are texts: '53'; `size()`, `bufsize()`, `id()`, `opcode()` are numbers",
        ),
        _ => fault.label("these two do not go together"),
    }
}

fn unknown_name(name: &str, at: Range<usize>) -> Fault {
    let known = FUNCTIONS.map(|(known, _)| known);
    let fault = Fault::new(at, format!("unknown name {name}"));
    if known.contains(&name) {
        return fault
            .label("it is a function")
            .help(format!("did you mean `{name}()`?"));
    }
    match nearest(name, known) {
        Some(near) => fault.help(format!("did you mean `{near}`?")),
        None => fault
            .label("expected a function or a text in quotes")
            .help(format!("the functions are {}", known.join(", "))),
    }
}
