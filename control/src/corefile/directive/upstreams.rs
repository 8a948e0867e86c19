//! The servers that a directive names: addresses, files in the form of resolv.conf, and names of hosts.

use std::net::{IpAddr, SocketAddr};

use nodens_wire::NameBuf;

use super::scope::Scope;
use crate::corefile::diagnostic::{Diagnostic, nearest};
use crate::corefile::lexer::Word;
use crate::corefile::resolv_conf;
use crate::corefile::settings::{Upstream, UpstreamPlace, UpstreamTransport};
use crate::corefile::source::read_named;

/// Servers that one directive may name, those in files counted.
pub(super) const UPSTREAMS_MAX: usize = 256;

const DNS_PORT: u16 = 53;
const TLS_PORT: u16 = 853;

/// What may stand in front of `://`.
const SCHEMES: [&str; 7] = ["dns", "tls", "https", "grpc", "quic", "https3", "unix"];

/// The servers of some words, each address once; what is wrong is reported, and if all words are files without any.
pub(super) fn all(words: &[Word], directive: &str, scope: &mut Scope<'_>) -> Vec<Upstream> {
    let errors = scope.findings.errors.len();
    let mut upstreams: Vec<Upstream> = Vec::new();
    for word in words {
        for upstream in one(word, directive, scope) {
            if upstreams.iter().any(|known| known.place == upstream.place) {
                continue;
            }
            if upstreams.len() == UPSTREAMS_MAX {
                let text = format!("plugin/{directive}: more than {UPSTREAMS_MAX} servers");
                let error = Diagnostic::error(word.span, text);
                scope.findings.error(error.help("name fewer; a few are enough"));
                return upstreams;
            }
            upstreams.push(upstream);
        }
    }
    if let ([first, .., last] | [first @ last], []) = (words, upstreams.as_slice())
        && scope.findings.errors.len() == errors
    {
        let text = format!("plugin/{directive}: no valid upstream addresses found");
        let error = Diagnostic::error(first.span.to(last.span), text);
        scope
            .findings
            .error(error.help("the file needs a line such as `nameserver 192.0.2.1`"));
    }
    upstreams
}

/// The servers that one word stands for. None also where a file names none.
fn one(word: &Word, directive: &str, scope: &mut Scope<'_>) -> Vec<Upstream> {
    let (scheme, text) = match word.text.split_once("://") {
        Some((scheme, text)) if SCHEMES.contains(&scheme) => (scheme, text),
        _ => ("dns", &*word.text),
    };
    if text.is_empty() {
        let error = Diagnostic::error(
            word.span,
            format!("plugin/{directive}: invalid address: {:?}", word.text),
        );
        scope
            .findings
            .error(error.label("expected an address, a file or a host's name"));
        return Vec::new();
    }
    let (transport, port) = match scheme {
        "dns" => (UpstreamTransport::Dns, DNS_PORT),
        "tls" => (UpstreamTransport::Tls, TLS_PORT),
        "https" => return https(word, text, directive, scope),
        _ => {
            let text = format!(
                "plugin/{directive}: '{scheme}' is not supported as a destination protocol in {directive}: {}",
                word.text
            );
            let error = Diagnostic::error(word.span, text);
            scope
                .findings
                .error(error.help("use `dns://`, which may be left out, or `tls://`"));
            return Vec::new();
        }
    };
    let written = Written::of(text);
    let port = match written.port {
        None => Some(port),
        Some(written) => port_number(written),
    };
    let place = match (written.host.parse::<IpAddr>(), port) {
        (Ok(address), Some(port)) => UpstreamPlace::Address(SocketAddr::new(address, port)),
        (Ok(_), None) => return bad_port(word, directive, scope),
        (Err(_), port) => {
            let why = match read_named(scope.world, &scope.path_of(text)) {
                Ok(text) => return of_file(&text, word, directive, scope),
                Err(why) => why,
            };
            match (host(written.host), port) {
                (Some(name), Some(port)) => UpstreamPlace::Host { name, port },
                // What stands behind the colon of a wrong scheme is no port.
                (Some(_), None) if !word.text.contains("//") => return bad_port(word, directive, scope),
                _ => return neither(word, &why, directive, scope),
            }
        }
    };
    if let (UpstreamTransport::Dns, Some(behind)) = (transport, written.server_name) {
        let text = format!("plugin/{directive}: `%{behind}` has no effect");
        scope.findings.warn(Diagnostic::warning(word.span, text));
    }
    let server_name = written.server_name.filter(|_| transport == UpstreamTransport::Tls);
    vec![Upstream {
        place,
        transport,
        server_name: server_name.map(str::to_owned),
        span: word.span,
    }]
}

fn https(word: &Word, text: &str, directive: &str, scope: &mut Scope<'_>) -> Vec<Upstream> {
    let error = if text.contains('/') {
        let text = format!(
            "plugin/{directive}: paths are not allowed in HTTPS upstream addresses: {:?}",
            word.text
        );
        Diagnostic::error(word.span, text).label("expected an address alone")
    } else {
        let text = format!(
            "plugin/{directive}: nodens does not ask over https:// yet: {}",
            word.text
        );
        Diagnostic::error(word.span, text)
    };
    scope.findings.error(error.help("use `tls://`: DNS over TLS"));
    Vec::new()
}

fn of_file(text: &str, word: &Word, directive: &str, scope: &mut Scope<'_>) -> Vec<Upstream> {
    let conf = resolv_conf::parse(text);
    for left_out in &conf.left_out {
        let text = format!("plugin/{directive}: {}: {left_out} is no address (left out)", word.text);
        scope.findings.warn(Diagnostic::warning(word.span, text));
    }
    let upstream = |address| Upstream {
        place: UpstreamPlace::Address(SocketAddr::new(address, DNS_PORT)),
        transport: UpstreamTransport::Dns,
        server_name: None,
        span: word.span,
    };
    conf.nameservers.into_iter().map(upstream).collect()
}

fn bad_port(word: &Word, directive: &str, scope: &mut Scope<'_>) -> Vec<Upstream> {
    let error = Diagnostic::error(
        word.span,
        format!("plugin/{directive}: invalid port in {:?}", word.text),
    );
    scope
        .findings
        .error(error.help("a port from 1 to 65535 stands behind the colon"));
    Vec::new()
}

fn neither(word: &Word, not_read: &str, directive: &str, scope: &mut Scope<'_>) -> Vec<Upstream> {
    let text = format!(
        "plugin/{directive}: not an IP address, file, or valid domain: {:?}",
        word.text
    );
    let error = Diagnostic::error(word.span, text).label(format!("as a file: {not_read}"));
    let help = match word.text.split_once("://") {
        Some(("tls", behind)) => port_before_name(behind),
        Some((scheme, _)) => {
            let near = nearest(scheme, ["dns", "tls"]).filter(|near| *near != scheme);
            near.map(|near| format!("did you mean `{near}://`?"))
        }
        None => None,
    };
    scope.findings.error(error.help(help.unwrap_or_else(|| {
        "write an address such as `192.0.2.1`, `192.0.2.1:5300` or `[2001:db8::1]:53`, the path of a file like /etc/resolv.conf, \
         or the name of a host"
            .to_owned()
    })));
    Vec::new()
}

/// What to write for `HOST:PORT%NAME`.
fn port_before_name(behind: &str) -> Option<String> {
    let (address, name) = behind.rsplit_once('%')?;
    let (host, port) = address.rsplit_once(':')?;
    port_number(port)?;
    Some(format!("the port stands behind the name: `tls://{host}%{name}:{port}`"))
}

/// The name of a host, in lower case. Neither a path nor a mistyped address is one: no name of a host ends in a number.
fn host(text: &str) -> Option<String> {
    let name = NameBuf::from_text(text).ok().filter(|name| !name.as_name().is_root())?;
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let labels = || name.as_name().labels();
    let is_number = labels().last()?.iter().all(u8::is_ascii_digit);
    let is_host = !is_number && labels().all(|label| label.iter().copied().all(is_usual));
    is_host.then(|| text.trim_end_matches('.').to_ascii_lowercase())
}

/// A port that can be sent to.
pub(super) fn port_number(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port > 0)
}

/// `HOST[%NAME][:PORT]` taken apart; brackets stand around IPv6 addresses, with or without the name.
#[derive(Debug, PartialEq, Eq)]
struct Written<'t> {
    host: &'t str,
    server_name: Option<&'t str>,
    port: Option<&'t str>,
}

impl<'t> Written<'t> {
    fn of(text: &'t str) -> Self {
        if let Some((inside, behind)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
            let (host, server_name) = named(inside);
            let (behind, name_behind) = match behind.strip_prefix('%') {
                Some(behind) => {
                    let (name, port) = with_port(behind);
                    (port, Some(name))
                }
                None => (behind.strip_prefix(':'), None),
            };
            return Self {
                host,
                server_name: server_name.or(name_behind),
                port: behind,
            };
        }
        let (host, behind) = named(text);
        match behind {
            Some(behind) => {
                let (server_name, port) = with_port(behind);
                Self {
                    host,
                    server_name: Some(server_name),
                    port,
                }
            }
            // All colons of an address without brackets are its own.
            None if host.parse::<IpAddr>().is_ok() => Self {
                host,
                server_name: None,
                port: None,
            },
            None => {
                let (host, port) = with_port(host);
                Self {
                    host,
                    server_name: None,
                    port,
                }
            }
        }
    }
}

fn named(text: &str) -> (&str, Option<&str>) {
    text.rsplit_once('%')
        .map_or((text, None), |(host, name)| (host, Some(name)))
}

fn with_port(text: &str) -> (&str, Option<&str>) {
    text.rsplit_once(':')
        .map_or((text, None), |(host, port)| (host, Some(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: (&str, Option<&str>, Option<&str>)) {
        let Written {
            host,
            server_name,
            port,
        } = Written::of(text);
        assert_eq!((host, server_name, port), expected, "{text}");
    }

    #[test]
    fn hosts_names_and_ports() {
        check("192.0.2.1", ("192.0.2.1", None, None));
        check("192.0.2.1:5300", ("192.0.2.1", None, Some("5300")));
        check("192.0.2.1:", ("192.0.2.1", None, Some("")));
        check("192.0.2.1%dns.example", ("192.0.2.1", Some("dns.example"), None));
        check(
            "192.0.2.1%dns.example:854",
            ("192.0.2.1", Some("dns.example"), Some("854")),
        );
        check("2001:db8::1", ("2001:db8::1", None, None));
        check("[2001:db8::1]", ("2001:db8::1", None, None));
        check("[2001:db8::1]:54", ("2001:db8::1", None, Some("54")));
        check(
            "2001:db8::1%dns.example:854",
            ("2001:db8::1", Some("dns.example"), Some("854")),
        );
        check(
            "[2001:db8::1%dns.example]:854",
            ("2001:db8::1", Some("dns.example"), Some("854")),
        );
        check(
            "[2001:db8::1]%dns.example:854",
            ("2001:db8::1", Some("dns.example"), Some("854")),
        );
        check("dns.example:54", ("dns.example", None, Some("54")));
        check("/etc/resolv.conf", ("/etc/resolv.conf", None, None));
    }

    #[test]
    fn which_texts_are_names_of_hosts() {
        assert_eq!(host("DNS.example."), Some("dns.example".to_owned()));
        assert_eq!(host("dns_1"), Some("dns_1".to_owned()));
        for text in ["", ".", "192.0.2", "a..b", "a/b", "/etc/x", "a b", "a\\.b", "dns:53"] {
            assert_eq!(host(text), None, "{text}");
        }
    }

    #[test]
    fn ports() {
        assert_eq!(port_number("53"), Some(53));
        for text in ["", "0", "65536", "99999", "+5", "x"] {
            assert_eq!(port_number(text), None, "{text}");
        }
    }
}
