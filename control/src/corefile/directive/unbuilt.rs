//! Directives whose form is checked and which have no effect yet: `dnstap`, `pprof` and `trace`.

use super::http;
use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::duration::go_duration;
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::HttpAddress;

fn warn(line: &Line, scope: &mut Scope<'_>) {
    let text = format!("plugin/{0}: `{0}` has no effect yet", line.name.text);
    scope.findings.warn(Diagnostic::warning(line.name.span, text));
}

/// `pprof [ADDRESS] { block [RATE] }`
pub(super) fn pprof(line: &Line, scope: &mut Scope<'_>) -> Option<HttpAddress> {
    warn(line, scope);
    for option in scope.options(line) {
        if &*option.name.text != "block" {
            scope.unknown_option(option, &["block"]);
            continue;
        }
        match option.args.as_slice() {
            [] => {}
            [rate] => {
                let text = format!("plugin/pprof: property 'block' invalid integer value '{}'", rate.text);
                number(rate, 0..=i64::MAX, text, scope);
            }
            _ => scope.argument_count(option, "one rate at most"),
        }
    }
    http::address(line, "localhost", 6053, scope)
}

/// `trace [zipkin|datadog] [ENDPOINT] { ... }`
pub(super) fn trace(line: &Line, scope: &mut Scope<'_>) {
    warn(line, scope);
    match line.args.as_slice() {
        [] | [_] => {}
        [kind, _] => {
            let word = kind.text.to_ascii_lowercase();
            if !matches!(&*word, "zipkin" | "datadog") {
                let text = format!("plugin/trace: tracing endpoint type '{word}' is not supported");
                scope.unknown(kind.span, text, &word, &["zipkin", "datadog"]);
            }
        }
        _ => scope.argument_count(line, "`zipkin` or `datadog`, and an endpoint"),
    }
    for option in scope.options(line) {
        let name = &*option.name.text;
        let may_be_bare = match name {
            "every" | "service" => false,
            "client_server" | "datadog_analytics_rate" => true,
            "zipkin_max_backlog_size" | "zipkin_max_batch_size" | "zipkin_max_batch_interval" => true,
            _ => {
                skipped(option, scope);
                continue;
            }
        };
        match option.args.as_slice() {
            [word] => value(name, word, scope),
            [] if may_be_bare => {}
            _ => scope.argument_count(option, "one argument"),
        }
    }
}

/// Checks the value of an option of `trace`.
fn value(name: &str, word: &Word, scope: &mut Scope<'_>) {
    let text = format!("plugin/trace: invalid value of '{name}': {}", word.text);
    let expected = match name {
        "every" => return number(word, 0..=u64::MAX, text, scope),
        "zipkin_max_backlog_size" | "zipkin_max_batch_size" => {
            return number(word, 0..=i64::MAX, text, scope);
        }
        "datadog_analytics_rate" => {
            let text = "plugin/trace: datadog analytics rate must be between 0 and 1";
            let text = format!("{text}, '{}' is not supported", word.text);
            return number(word, 0.0..=1.0, text, scope);
        }
        "zipkin_max_batch_interval" if go_duration(&word.text).is_err() => "a duration such as `1s`",
        "client_server" if !BOOLS.contains(&&*word.text) => "`true` or `false`",
        _ => return,
    };
    let error = Diagnostic::error(word.span, text);
    scope.findings.error(error.label(format!("expected {expected}")));
}

/// What Go takes for a boolean.
const BOOLS: [&str; 12] = [
    "1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False",
];

/// `dnstap SOCKET [full] [WRITEBUFFER] [QUEUE] { ... }`, `dnstap listen SOCKET [full] { ... }`
pub(super) fn dnstap(line: &Line, scope: &mut Scope<'_>) {
    warn(line, scope);
    let mut words = line.args.as_slice();
    if words.first().is_some_and(|word| &*word.text == "listen") {
        words = &words[1..];
    }
    if words.is_empty() {
        scope.argument_count(
            line,
            "a socket: a path, `unix://PATH`, `tcp://HOST:PORT` or `tls://HOST:PORT`",
        );
    }
    if words.len() > 4 {
        scope.argument_count(line, "a socket, `full`, and two numbers at most");
    }
    for (word, most, what) in words
        .get(2)
        .map(|word| (word, 1024, "write buffer, in MiB"))
        .into_iter()
        .chain(words.get(3).map(|word| (word, 4096, "queue, in tens of thousands")))
    {
        let text = format!("plugin/dnstap: invalid {what}: {}", word.text);
        number(word, 1..=most, text, scope);
    }
    for option in scope.options(line) {
        match &*option.name.text {
            "skipverify" => scope.no_args(option),
            "identity" | "version" | "extra" => _ = scope.one_arg(option),
            "message_types" | "tls" if option.args.is_empty() => scope.argument_count(option, "at least one argument"),
            "message_types" | "tls" => {}
            _ => skipped(option, scope),
        }
    }
}

/// CoreDNS takes any word there.
fn skipped(option: &Line, scope: &mut Scope<'_>) {
    let text = format!("unknown property '{}' (left out)", option.name.text);
    scope.findings.warn(Diagnostic::warning(option.name.span, text));
}

/// Reports a word that is no number, or one outside the range.
fn number<N: std::str::FromStr + PartialOrd + std::fmt::Display>(
    word: &Word,
    range: std::ops::RangeInclusive<N>,
    text: String,
    scope: &mut Scope<'_>,
) {
    if !word.text.parse::<N>().is_ok_and(|number| range.contains(&number)) {
        let error = Diagnostic::error(word.span, text);
        let (least, most) = range.into_inner();
        scope
            .findings
            .error(error.label(format!("expected a number from {least} to {most}")));
    }
}
