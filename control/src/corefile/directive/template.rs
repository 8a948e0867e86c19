//! `template CLASS TYPE [ZONES...] { ... }`

use nodens_engine::captures::Captures;
use nodens_engine::plan::template::{Stanza, Template};
use nodens_wire::{Rclass, Rcode, Rtype};

use super::scope::Scope;
use super::view;
use crate::corefile::diagnostic::{Diagnostic, nearest};
use crate::corefile::expression;
use crate::corefile::parser::Line;
use crate::corefile::re2;

const OPTIONS: [&str; 10] = [
    "match",
    "answer",
    "additional",
    "authority",
    "rcode",
    "ederror",
    "fallthrough",
    "var",
    "expr",
    "upstream",
];

/// Reads a stanza.
pub(super) fn template(line: &Line, scope: &mut Scope<'_>) -> Option<Stanza> {
    let [class, rtype, zones @ ..] = line.args.as_slice() else {
        scope.argument_count(line, "a class and a type, such as `IN A`");
        return None;
    };
    let known_class = class.text.parse::<Rclass>().ok();
    let known_class = known_class.filter(|code| code.mnemonic() == Some(&class.text));
    if known_class.is_none() {
        let error = Diagnostic::error(class.span, format!("invalid query class {}", class.text));
        scope
            .findings
            .error(error.label("expected `IN`, `CH`, `HS`, `NONE` or `ANY`"));
    }
    let known_type = rtype.text.parse::<Rtype>().ok();
    let known_type = known_type.filter(|code| code.mnemonic() == Some(&rtype.text));
    if known_type.is_none() {
        let error = Diagnostic::error(rtype.span, format!("invalid RR class {}", rtype.text));
        scope
            .findings
            .error(error.label("expected the name of a type in capitals, such as `A`, or `ANY`"));
    }
    let mut stanza = Stanza {
        rclass: known_class.unwrap_or(Rclass::ANY),
        rtype: known_type.unwrap_or(Rtype::ANY),
        zones: scope.zones(zones),
        patterns: Vec::new(),
        conditions: Vec::new(),
        variables: Vec::new(),
        answer: Vec::new(),
        additional: Vec::new(),
        authority: Vec::new(),
        rcode: Rcode::NOERROR,
        error: None,
        fallthrough: None,
    };
    for option in scope.options(line) {
        read(option, &mut stanza, scope);
    }
    if stanza.patterns.is_empty() {
        stanza.patterns.push(Captures::new(".*").expect("it is a pattern"));
    }
    Some(stanza)
}

fn read(option: &Line, stanza: &mut Stanza, scope: &mut Scope<'_>) {
    match &*option.name.text {
        "match" => patterns(option, &mut stanza.patterns, scope),
        "answer" => records(option, &mut stanza.answer, scope),
        "additional" => records(option, &mut stanza.additional, scope),
        "authority" => records(option, &mut stanza.authority, scope),
        "rcode" => rcode(option, stanza, scope),
        "ederror" => error(option, stanza, scope),
        "fallthrough" => stanza.fallthrough = Some(scope.fallthrough(option)),
        "expr" => {
            let condition = view::expression(option, &option.args, "template", expression::condition, scope);
            stanza.conditions.extend(condition);
        }
        "var" => variable(option, stanza, scope),
        "upstream" => {
            let text = "plugin/template: `upstream` has no effect: the server resolves such names itself";
            scope
                .findings
                .warn(Diagnostic::warning(option.name.span, text).help("leave the line out"));
        }
        name => {
            let text = format!("Wrong argument count or unexpected line ending after '{name}'");
            let error = Diagnostic::error(option.name.span, text);
            scope.findings.error(match nearest(name, OPTIONS) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.label("`template` has no such option"),
            });
        }
    }
}

fn variable(option: &Line, stanza: &mut Stanza, scope: &mut Scope<'_>) {
    let Some((name, words)) = option.args.split_first() else {
        return scope.argument_count(option, "a name, and an expression");
    };
    let value = view::expression(option, words, "template", expression::value, scope);
    stanza
        .variables
        .extend(value.map(|value| (name.text.as_ref().into(), value)));
}

fn patterns(option: &Line, patterns: &mut Vec<Captures>, scope: &mut Scope<'_>) {
    if option.args.is_empty() {
        scope.argument_count(option, "at least one regular expression");
    }
    for word in &option.args {
        let compiled = re2::check_len(&word.text)
            .and_then(|()| Captures::new(&re2::translated(&word.text)).map_err(|error| error.to_string()));
        match compiled {
            Ok(captures) => patterns.push(captures),
            Err(why) => {
                let text = format!("could not parse regex: {}, {}", word.text, re2::wrong(&why, &word.text));
                let error = Diagnostic::error(word.span, text);
                scope.findings.error(error.label(why));
            }
        }
    }
}

fn records(option: &Line, records: &mut Vec<Template>, scope: &mut Scope<'_>) {
    if option.args.is_empty() {
        scope.argument_count(option, "at least one record, each in quotes");
    }
    for word in &option.args {
        match Template::new(&word.text) {
            Ok(record) => records.push(record),
            Err(why) => {
                let text = format!("could not compile template: {}, {why}", word.text);
                let error = Diagnostic::error(word.span, text);
                let help = "a record is written as \"{{ .Name }} 60 IN A 192.0.2.1\"; there are .Zone, .Name, .Class, \
                            .Type, .Match, .Group, .Var, .Message, .Question, .Remote and .Meta";
                scope.findings.error(error.help(help));
            }
        }
    }
}

fn rcode(option: &Line, stanza: &mut Stanza, scope: &mut Scope<'_>) {
    let Some(word) = scope.one_arg(option) else { return };
    match Rcode::from_mnemonic(&word.text) {
        Some(rcode) => stanza.rcode = rcode,
        None => {
            let error = Diagnostic::error(word.span, format!("unknown rcode {}", word.text));
            scope
                .findings
                .error(error.label("expected the name of an rcode, such as `NXDOMAIN`"));
        }
    }
}

fn error(option: &Line, stanza: &mut Stanza, scope: &mut Scope<'_>) {
    let (code, text) = match option.args.as_slice() {
        [code] => (code, ""),
        [code, text] => (code, &*text.text),
        _ => return scope.argument_count(option, "a code, and a text in quotes"),
    };
    match code.text.parse::<u16>() {
        Ok(number) => stanza.error = Some((number, text.into())),
        Err(_) => {
            let text = format!("error parsing extended DNS error code {}", code.text);
            let error = Diagnostic::error(code.span, text);
            scope.findings.error(error.label("expected a number from 0 to 65535"));
        }
    }
}
