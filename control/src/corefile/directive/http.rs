//! The directives with an HTTP endpoint: `health`, `ready` and `prometheus`.

use std::time::Duration;

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::duration::go_duration;
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::{Health, HttpAddress, Monitor, Prometheus, Ready};

/// `health [ADDRESS] { lameduck DURATION }`
pub(super) fn health(line: &Line, scope: &mut Scope<'_>) -> Option<Health> {
    let address = address(line, "", 8080, scope);
    let mut lameduck = Duration::ZERO;
    for option in scope.options(line) {
        if &*option.name.text != "lameduck" {
            scope.unknown_option(option, &["lameduck"]);
            continue;
        }
        let Some(word) = scope.one_arg(option) else { continue };
        match go_duration(&word.text) {
            Ok(time) => lameduck = time,
            Err(error) => {
                let text = format!("unable to parse lameduck duration value: '{}' : {error}", word.text);
                scope
                    .findings
                    .error(Diagnostic::error(word.span, text).label("expected a duration such as `5s`"));
            }
        }
    }
    Some(Health {
        address: address?,
        lameduck,
    })
}

/// `ready [ADDRESS] { monitor until-ready|continuously }`
pub(super) fn ready(line: &Line, scope: &mut Scope<'_>) -> Option<Ready> {
    let address = address(line, "", 8181, scope);
    let mut monitor = Monitor::UntilReady;
    for option in scope.options(line) {
        if &*option.name.text != "monitor" {
            scope.unknown_option(option, &["monitor"]);
            continue;
        }
        let Some(word) = scope.one_arg(option) else { continue };
        match &*word.text {
            "until-ready" => monitor = Monitor::UntilReady,
            "continuously" => monitor = Monitor::Continuously,
            kind => {
                let text = format!("monitor type '{kind}' not supported");
                scope.unknown(word.span, text, kind, &["until-ready", "continuously"]);
            }
        }
    }
    Some(Ready {
        address: address?,
        monitor,
    })
}

/// `prometheus [ADDRESS] { runtime_metrics }`
pub(super) fn prometheus(line: &Line, scope: &mut Scope<'_>) -> Option<Prometheus> {
    let address = address(line, "localhost", 9153, scope);
    for option in scope.options(line) {
        match &*option.name.text {
            // The metrics of Go's runtime: there is none here.
            "runtime_metrics" => scope.no_args(option),
            "tls" => scope.error(
                option.name.span,
                "nodens does not have the option 'tls' of 'prometheus' yet",
            ),
            _ => scope.unknown_option(option, &["runtime_metrics", "tls"]),
        }
    }
    Some(Prometheus { address: address? })
}

/// The one argument, or the default.
pub(super) fn address(line: &Line, host: &str, port: u16, scope: &mut Scope<'_>) -> Option<HttpAddress> {
    match line.args.as_slice() {
        [] => Some(HttpAddress {
            host: host.to_owned(),
            port,
            span: line.name.span,
        }),
        [word] => match parse(&word.text) {
            Ok((host, port)) => Some(HttpAddress {
                host,
                port,
                span: word.span,
            }),
            Err(why) => {
                scope.findings.error(wrong_address(word, &line.name, why));
                None
            }
        },
        _ => {
            scope.argument_count(line, "an address at most");
            None
        }
    }
}

fn wrong_address(word: &Word, directive: &Word, why: &str) -> Diagnostic {
    let text = format!("plugin/{}: address {}: {why}", directive.text, word.text);
    let error = Diagnostic::error(word.span, text);
    if word.text.bytes().all(|byte| byte.is_ascii_digit()) {
        error.help(format!("did you mean `:{}`?", word.text))
    } else {
        error.label("expected HOST:PORT, or :PORT for all addresses, with a number as port")
    }
}

/// Splits HOST:PORT as Go does; an IPv6 address stands in brackets.
fn parse(text: &str) -> Result<(String, u16), &'static str> {
    let (host, port) = text.rsplit_once(':').ok_or("missing port in address")?;
    let host = match host.strip_prefix('[') {
        Some(inside) => inside.strip_suffix(']').ok_or("missing ']' in address")?,
        None if host.contains(':') => return Err("too many colons in address"),
        None => host,
    };
    if host.contains(['[', ']']) {
        return Err("unexpected bracket in address");
    }
    if port.is_empty() {
        return Err("missing port in address");
    }
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("invalid port");
    }
    Ok((host.to_owned(), port.parse().map_err(|_| "invalid port")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            (":8080", Ok((String::new(), 8080))),
            ("localhost:9153", Ok(("localhost".to_owned(), 9153))),
            ("127.0.0.1:0", Ok(("127.0.0.1".to_owned(), 0))),
            ("[::1]:80", Ok(("::1".to_owned(), 80))),
            ("[::]:80", Ok(("::".to_owned(), 80))),
            ("8080", Err("missing port in address")),
            ("localhost:", Err("missing port in address")),
            ("localhost:http", Err("invalid port")),
            (":65536", Err("invalid port")),
            ("::1:80", Err("too many colons in address")),
            ("[::1:80", Err("missing ']' in address")),
            ("[::1]", Err("missing ']' in address")),
            ("a]:80", Err("unexpected bracket in address")),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
