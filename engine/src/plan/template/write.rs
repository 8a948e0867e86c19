//! What a template writes for one question.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::super::view::{Known, Value as Number};
use super::{Facts, Fault, Function, Node, Operand, Pipeline, Template, Value, format};

/// Parts that are evaluated for one record, at most.
pub const STEPS_MAX: usize = 10_000;
/// Bytes that one record takes, and any text on the way to it, at most.
pub const WRITTEN_MAX: usize = 16_384;

pub(super) fn write(template: &Template, facts: &Facts<'_>, out: &mut String) -> Result<(), Fault> {
    let mut variables = vec![Value::Missing; template.variables];
    variables[0] = Value::Root;
    let mut writer = Writer {
        facts,
        variables,
        steps_left: STEPS_MAX,
        start: out.len(),
        out,
    };
    writer.nodes(&template.nodes, &Value::Root)?;
    Ok(())
}

/// How a list of parts ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

struct Writer<'a, 'o> {
    facts: &'a Facts<'a>,
    variables: Vec<Value<'a>>,
    steps_left: usize,
    out: &'o mut String,
    /// Where this record begins.
    start: usize,
}

impl<'a> Writer<'a, '_> {
    fn nodes(&mut self, nodes: &'a [Node], dot: &Value<'a>) -> Result<Flow, Fault> {
        for node in nodes {
            self.step()?;
            let flow = match node {
                Node::Text(text) => {
                    self.put(text)?;
                    Flow::On
                }
                Node::Action(pipeline) => {
                    let value = self.pipeline(pipeline, dot)?;
                    if pipeline.variable.is_none() {
                        let text = format::shown(&value, self.facts);
                        self.put(&text)?;
                    }
                    Flow::On
                }
                Node::If { condition, then, other } => {
                    let holds = is_true(&self.pipeline(condition, dot)?, self.facts);
                    self.nodes(if holds { then } else { other }, dot)?
                }
                Node::With { value, then, other } => {
                    let value = self.pipeline(value, dot)?;
                    if is_true(&value, self.facts) {
                        self.nodes(then, &value)?
                    } else {
                        self.nodes(other, dot)?
                    }
                }
                Node::Range {
                    index,
                    item,
                    items,
                    body,
                    other,
                } => {
                    let items = items_of(&self.pipeline(items, dot)?, self.facts)?;
                    self.steps(items.len())?;
                    if items.is_empty() {
                        self.nodes(other, dot)?
                    } else {
                        for (key, value) in items {
                            if let Some(index) = index {
                                self.variables[*index] = key;
                            }
                            if let Some(item) = item {
                                self.variables[*item] = value.clone();
                            }
                            if self.nodes(body, &value)? == Flow::Break {
                                break;
                            }
                        }
                        Flow::On
                    }
                }
                Node::Break => Flow::Break,
                Node::Continue => Flow::Continue,
            };
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn step(&mut self) -> Result<(), Fault> {
        self.steps(1)
    }

    fn steps(&mut self, count: usize) -> Result<(), Fault> {
        self.steps_left = self
            .steps_left
            .checked_sub(count)
            .ok_or_else(|| Fault::new("the template takes too many steps"))?;
        Ok(())
    }

    fn put(&mut self, text: &str) -> Result<(), Fault> {
        if self.out.len() - self.start + text.len() > WRITTEN_MAX {
            return Err(too_long());
        }
        self.out.push_str(text);
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &'a Pipeline, dot: &Value<'a>) -> Result<Value<'a>, Fault> {
        let mut value = None;
        for command in &pipeline.commands {
            value = Some(self.command(command, value, dot)?);
        }
        let value = value.unwrap_or(Value::Missing);
        if let Some(variable) = pipeline.variable {
            self.variables[variable] = value.clone();
        }
        Ok(value)
    }

    /// A command with the value of the one in front of it.
    fn command(
        &mut self,
        command: &'a [Operand],
        last: Option<Value<'a>>,
        dot: &Value<'a>,
    ) -> Result<Value<'a>, Fault> {
        let Some((first, args)) = command.split_first() else {
            return Ok(Value::Missing);
        };
        match first {
            Operand::Function(function @ (Function::And | Function::Or)) => self.until(*function, args, last, dot),
            Operand::Function(function) => {
                let args = self.args(args, last, dot)?;
                self.call(*function, &args)
            }
            Operand::Fields(base, fields) => {
                let base = self.operand(base, dot)?;
                let args = self.args(args, last, dot)?;
                self.fields(base, fields, &args)
            }
            _ if args.is_empty() && last.is_none() => self.operand(first, dot),
            _ => Err(Fault::new("can't give argument to non-function")),
        }
    }

    fn args(&mut self, args: &'a [Operand], last: Option<Value<'a>>, dot: &Value<'a>) -> Result<Vec<Value<'a>>, Fault> {
        let mut values = Vec::with_capacity(args.len() + 1);
        for arg in args {
            values.push(self.operand(arg, dot)?);
        }
        values.extend(last);
        Ok(values)
    }

    /// `and` and `or`: the first argument that decides, and none behind it is evaluated.
    fn until(
        &mut self,
        function: Function,
        args: &'a [Operand],
        last: Option<Value<'a>>,
        dot: &Value<'a>,
    ) -> Result<Value<'a>, Fault> {
        let decides = function == Function::Or;
        let mut value = None;
        for arg in args {
            let found = self.operand(arg, dot)?;
            if is_true(&found, self.facts) == decides {
                return Ok(found);
            }
            value = Some(found);
        }
        last.or(value)
            .ok_or_else(|| Fault::new("wrong number of args for and, or: want at least 1 got 0"))
    }

    fn operand(&mut self, operand: &'a Operand, dot: &Value<'a>) -> Result<Value<'a>, Fault> {
        self.step()?;
        Ok(match operand {
            Operand::Dot => dot.clone(),
            Operand::Nil => Value::Nil,
            Operand::Bool(value) => Value::Bool(*value),
            Operand::Integer(value) => Value::Integer(*value),
            Operand::Text(text) => Value::Text(Cow::Borrowed(text)),
            Operand::Variable(number) => self.variables[*number].clone(),
            Operand::Function(function) => self.call(*function, &[])?,
            Operand::Inner(pipeline) => self.pipeline(pipeline, dot)?,
            Operand::Fields(base, fields) => {
                let base = self.operand(base, dot)?;
                self.fields(base, fields, &[])?
            }
        })
    }

    /// A chain of fields; arguments are for the last one, if that is a method.
    fn fields(&self, base: Value<'a>, fields: &[Box<str>], args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
        let mut value = base;
        for (at, field) in fields.iter().enumerate() {
            let is_last = at + 1 == fields.len();
            if matches!(value, Value::Root) && &**field == "Meta" {
                let for_it: &[Value<'a>] = if is_last { args } else { &[] };
                let [Value::Text(label)] = for_it else {
                    return Err(Fault::new("wrong number of args for Meta: want 1, a text"));
                };
                value = Value::Text((self.facts.metadata)(label).into());
                if is_last {
                    return Ok(value);
                }
                continue;
            }
            value = self.field(&value, field)?;
        }
        if args.is_empty() {
            Ok(value)
        } else {
            Err(Fault::new("can't give argument to non-function"))
        }
    }

    fn field(&self, value: &Value<'a>, field: &str) -> Result<Value<'a>, Fault> {
        let facts = self.facts;
        let text = |text: &'a str| Value::Text(Cow::Borrowed(text));
        Ok(match (value, field) {
            (Value::Root, "Zone") => text(facts.zone),
            (Value::Root, "Name") => text(facts.name),
            (Value::Root, "Class") => text(facts.class),
            (Value::Root, "Type") => text(facts.rtype),
            (Value::Root, "Remote") => text(facts.remote),
            (Value::Root, "Match") => Value::Match,
            (Value::Root, "Group") => Value::Group,
            (Value::Root, "Var") => Value::Variables,
            (Value::Root, "Message") => Value::Message,
            (Value::Root, "Question") => Value::Question,
            (Value::Group, name) => group(facts, name).map_or(Value::Missing, text),
            (Value::Variables, name) => variable(facts, name)?.unwrap_or(Value::Missing),
            (Value::Question, "Name") => text(facts.asked_name),
            (Value::Question, "Qtype") => Value::Integer(facts.asked_type.0.into()),
            (Value::Question, "Qclass") => Value::Integer(facts.asked_class.0.into()),
            (Value::Message, "Question") => Value::Questions,
            (Value::Message, "Id") => Value::Integer(facts.id.into()),
            (Value::Message, "Opcode") => Value::Integer(facts.flags.opcode().0.into()),
            (Value::Message, "Rcode") => Value::Integer(facts.flags.rcode().0.into()),
            (Value::Message, "Response") => Value::Bool(facts.flags.qr()),
            (Value::Message, "Authoritative") => Value::Bool(facts.flags.aa()),
            (Value::Message, "Truncated") => Value::Bool(facts.flags.tc()),
            (Value::Message, "RecursionDesired") => Value::Bool(facts.flags.rd()),
            (Value::Message, "RecursionAvailable") => Value::Bool(facts.flags.ra()),
            (Value::Message, "Zero") => Value::Bool(facts.flags.z()),
            (Value::Message, "AuthenticatedData") => Value::Bool(facts.flags.ad()),
            (Value::Message, "CheckingDisabled") => Value::Bool(facts.flags.cd()),
            _ => return Err(Fault::new(format!("can't evaluate field {field}"))),
        })
    }

    fn call(&self, function: Function, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
        let wrong = || {
            Fault::new(format!(
                "wrong number or type of args for {}",
                format::name_of(function)
            ))
        };
        Ok(match (function, args) {
            (Function::Not, [value]) => Value::Bool(!is_true(value, self.facts)),
            (Function::Eq, [first, others @ ..]) if !others.is_empty() => {
                let mut is_one = false;
                for other in others {
                    is_one |= compare(first, other)? == Ordering::Equal;
                }
                Value::Bool(is_one)
            }
            (Function::Ne, [one, other]) => Value::Bool(compare(one, other)? != Ordering::Equal),
            (Function::Lt, [one, other]) => Value::Bool(ordered(one, other)?.is_lt()),
            (Function::Le, [one, other]) => Value::Bool(ordered(one, other)?.is_le()),
            (Function::Gt, [one, other]) => Value::Bool(ordered(one, other)?.is_gt()),
            (Function::Ge, [one, other]) => Value::Bool(ordered(one, other)?.is_ge()),
            (Function::Index, [value, keys @ ..]) => {
                let mut value = value.clone();
                for key in keys {
                    value = index(&value, key, self.facts)?;
                }
                value
            }
            (Function::Slice, [Value::Text(text), bounds @ ..]) => slice(text, bounds)?,
            (Function::Len, [value]) => match value {
                Value::Text(text) => length(text.len()),
                _ => length(items_of(value, self.facts).map_err(|_| wrong())?.len()),
            },
            (Function::Print, values) => made(format::print(values, self.facts))?,
            (Function::Println, values) => made(format::println(values, self.facts))?,
            (Function::Printf, [Value::Text(form), values @ ..]) => {
                made(format::printf(form, values, self.facts, WRITTEN_MAX))?
            }
            (Function::ParseInt, [Value::Text(text), Value::Integer(base), Value::Integer(bits)]) => {
                Value::Integer(parse_int(text, *base, *bits)?)
            }
            _ => return Err(wrong()),
        })
    }
}

fn too_long() -> Fault {
    Fault::new(format!("the template writes more than {WRITTEN_MAX} bytes"))
}

fn made<'a>(text: String) -> Result<Value<'a>, Fault> {
    if text.len() > WRITTEN_MAX {
        return Err(too_long());
    }
    Ok(Value::Text(text.into()))
}

fn length<'a>(len: usize) -> Value<'a> {
    Value::Integer(i64::try_from(len).unwrap_or(i64::MAX))
}

/// What a group matched, by its name or its number.
fn group<'a>(facts: &Facts<'a>, name: &str) -> Option<&'a str> {
    let named = facts.group_names.iter().position(|known| *known == Some(name));
    let number = || name.parse::<usize>().ok().filter(|number| number.to_string() == name);
    facts.groups.get(named.or_else(number)?).copied()
}

/// What an expression came to, by its name.
fn variable<'a>(facts: &Facts<'a>, name: &str) -> Result<Option<Value<'a>>, Fault> {
    let Some((_, known)) = facts.variables.iter().rfind(|(own, _)| *own == name) else {
        return Ok(None);
    };
    match known {
        Some(known) => Ok(Some(value_of(known))),
        None => Err(Fault::new(format!("the variable {name} has no value"))),
    }
}

fn value_of(known: &Known) -> Value<'_> {
    match known {
        Known::Bool(value) => Value::Bool(*value),
        Known::Number(Number::Int(value)) => Value::Integer(*value),
        // Templates have no numbers with a fraction, but what is to be written of one is known.
        Known::Number(Number::Float(value)) => Value::Text(value.to_string().into()),
        Known::Text(text) => Value::Text(text.as_str().into()),
    }
}

pub(super) fn is_true(value: &Value<'_>, facts: &Facts<'_>) -> bool {
    match value {
        Value::Missing | Value::Nil => false,
        Value::Bool(value) => *value,
        Value::Integer(value) => *value != 0,
        Value::Text(text) => !text.is_empty(),
        Value::Match | Value::Group => !facts.groups.is_empty(),
        Value::Variables => !facts.variables.is_empty(),
        Value::Root | Value::Message | Value::Questions | Value::Question => true,
    }
}

/// Keys and values, those of a map by their keys.
pub(super) fn items_of<'a>(value: &Value<'a>, facts: &Facts<'a>) -> Result<Vec<(Value<'a>, Value<'a>)>, Fault> {
    let text = |text: &'a str| Value::Text(Cow::Borrowed(text));
    Ok(match value {
        Value::Match => facts
            .groups
            .iter()
            .enumerate()
            .map(|(at, group)| (length(at), text(group)))
            .collect(),
        Value::Group => {
            let numbered = facts
                .groups
                .iter()
                .enumerate()
                .map(|(at, group)| (at.to_string(), *group));
            let named = facts.group_names.iter().zip(facts.groups);
            let named = named.filter_map(|(name, group)| Some((name.as_ref()?.to_string(), *group)));
            let mut all: Vec<_> = numbered.chain(named).collect();
            all.sort();
            all.into_iter()
                .map(|(key, group)| (Value::Text(key.into()), text(group)))
                .collect()
        }
        Value::Variables => {
            let known = facts
                .variables
                .iter()
                .filter_map(|(name, known)| Some((*name, known.as_ref()?)));
            let by_name: BTreeMap<&str, &Known> = known.collect();
            by_name
                .into_iter()
                .map(|(name, known)| (text(name), value_of(known)))
                .collect()
        }
        Value::Questions => vec![(Value::Integer(0), Value::Question)],
        Value::Integer(count) => {
            let count = usize::try_from(*count).unwrap_or(0).min(STEPS_MAX + 1);
            (0..count).map(|at| (length(at), length(at))).collect()
        }
        Value::Missing | Value::Nil => Vec::new(),
        _ => return Err(Fault::new("range can't iterate over this value")),
    })
}

fn index<'a>(value: &Value<'a>, key: &Value<'a>, facts: &Facts<'a>) -> Result<Value<'a>, Fault> {
    let outside = || {
        Fault::new(format!(
            "error calling index: index out of range: {}",
            format::shown(key, facts)
        ))
    };
    Ok(match (value, key) {
        (Value::Match, Value::Integer(at)) => {
            let group = usize::try_from(*at).ok().and_then(|at| facts.groups.get(at));
            Value::Text(Cow::Borrowed(group.ok_or_else(outside)?))
        }
        // As in Go, an empty text where there is no such key.
        (Value::Group, Value::Text(name)) => Value::Text(Cow::Borrowed(group(facts, name).unwrap_or_default())),
        (Value::Variables, Value::Text(name)) => variable(facts, name)?.unwrap_or(Value::Missing),
        (Value::Questions, Value::Integer(0)) => Value::Question,
        (Value::Questions, Value::Integer(_)) => return Err(outside()),
        (Value::Text(text), Value::Integer(at)) => {
            let byte = usize::try_from(*at).ok().and_then(|at| text.as_bytes().get(at));
            Value::Integer(i64::from(*byte.ok_or_else(outside)?))
        }
        _ => return Err(Fault::new("error calling index: can't index this value by that key")),
    })
}

fn slice<'a>(text: &str, bounds: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let mut ends = [0, text.len()];
    if bounds.len() > 2 {
        return Err(Fault::new("error calling slice: cannot 3-index slice a string"));
    }
    for (end, bound) in ends.iter_mut().zip(bounds) {
        let Value::Integer(at) = bound else {
            return Err(Fault::new(
                "error calling slice: cannot index slice/array with this type",
            ));
        };
        *end = usize::try_from(*at).unwrap_or(usize::MAX);
    }
    let part = text.get(ends[0]..ends[1].max(ends[0])).filter(|_| ends[0] <= ends[1]);
    let part = part.ok_or_else(|| Fault::new("error calling slice: index out of range"))?;
    Ok(Value::Text(part.to_owned().into()))
}

fn compare(one: &Value<'_>, other: &Value<'_>) -> Result<Ordering, Fault> {
    match (one, other) {
        (Value::Bool(one), Value::Bool(other)) => Ok(one.cmp(other)),
        (Value::Nil | Value::Missing, Value::Nil | Value::Missing) => Ok(Ordering::Equal),
        (Value::Nil | Value::Missing, _) | (_, Value::Nil | Value::Missing) => Ok(Ordering::Less),
        _ => ordered(one, other),
    }
}

fn ordered(one: &Value<'_>, other: &Value<'_>) -> Result<Ordering, Fault> {
    match (one, other) {
        (Value::Integer(one), Value::Integer(other)) => Ok(one.cmp(other)),
        (Value::Text(one), Value::Text(other)) => Ok(one.cmp(other)),
        _ => Err(Fault::new("incompatible types for comparison")),
    }
}

/// What CoreDNS has as `parseInt`: Go's `strconv.ParseUint`, which takes no sign.
fn parse_int(text: &str, base: i64, bits: i64) -> Result<i64, Fault> {
    let wrong = |why: &str| {
        Fault::new(format!(
            "error calling parseInt: strconv.ParseUint: parsing {text:?}: {why}"
        ))
    };
    let lower = text.to_ascii_lowercase();
    let (digits, base) = match base {
        0 => {
            let prefixed = [("0x", 16), ("0o", 8), ("0b", 2), ("0", 8)];
            let found = prefixed
                .iter()
                .find_map(|(prefix, base)| Some((lower.strip_prefix(prefix)?, *base)));
            found.filter(|(rest, _)| !rest.is_empty()).unwrap_or((&lower, 10))
        }
        2..=36 => (lower.as_str(), u32::try_from(base).unwrap_or(10)),
        _ => return Err(wrong(&format!("invalid base {base}"))),
    };
    let bits = match bits {
        0 => 64,
        1..=64 => u32::try_from(bits).unwrap_or(64),
        _ => return Err(wrong(&format!("invalid bit size {bits}"))),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return Err(wrong("invalid syntax"));
    }
    let number = u64::from_str_radix(digits, base).ok();
    let number = number.filter(|number| number.checked_shr(bits).unwrap_or(0) == 0);
    // Numbers of templates have a sign: the upper half of 64 bits does not fit.
    let number = number.and_then(|number| i64::try_from(number).ok());
    number.ok_or_else(|| wrong("value out of range"))
}
