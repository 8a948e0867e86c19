//! `tls CERT KEY [CA] { client_auth MODE; keylog FILE }`, and the option `tls [CA | CERT KEY [CA]]` of those who ask others.

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::lexer::Word;
use crate::corefile::parser::Line;
use crate::corefile::settings::{ClientAuth, ClientTls, PathSetting, Tls};

const OPTIONS: [&str; 2] = ["client_auth", "keylog"];
const MODES: [(&str, ClientAuth); 5] = [
    ("nocert", ClientAuth::NoCert),
    ("request", ClientAuth::Request),
    ("require", ClientAuth::Require),
    ("verify_if_given", ClientAuth::VerifyIfGiven),
    ("require_and_verify", ClientAuth::RequireAndVerify),
];

/// Reads the directive.
pub(super) fn tls(line: &Line, scope: &mut Scope<'_>) -> Option<Tls> {
    let mut client_auth = ClientAuth::NoCert;
    let mut keylog = None;
    for option in scope.options(line) {
        let name = &*option.name.text;
        if !OPTIONS.contains(&name) {
            scope.unknown(option.name.span, format!("unknown option '{name}'"), name, &OPTIONS);
            continue;
        }
        let Some(word) = scope.one_arg(option) else { continue };
        if name == "keylog" {
            keylog = Some(file(word, scope));
        } else if let Some((_, mode)) = MODES.into_iter().find(|(mode, _)| *mode == &*word.text) {
            client_auth = mode;
        } else {
            let text = format!("unknown authentication type '{}'", word.text);
            scope.unknown(word.span, text, &word.text, &MODES.map(|(mode, _)| mode));
        }
    }
    let (certificate, key, authority) = match line.args.as_slice() {
        [certificate, key] => (certificate, key, None),
        [certificate, key, authority] => (certificate, key, Some(authority)),
        _ => {
            scope.argument_count(
                line,
                "a certificate and its key, and an authority behind them if clients are verified",
            );
            return None;
        }
    };
    Some(Tls {
        certificate: file(certificate, scope),
        key: file(key, scope),
        authority: authority.map(|authority| file(authority, scope)),
        client_auth,
        keylog,
        span: line.name.span,
    })
}

/// Reads the option of a directive that is a client of others.
pub(super) fn client(option: &Line, scope: &mut Scope<'_>) -> Option<ClientTls> {
    let (identity, authority) = match option.args.as_slice() {
        [] => (None, None),
        [authority] => (None, Some(authority)),
        [certificate, key] => (Some((certificate, key)), None),
        [certificate, key, authority] => (Some((certificate, key)), Some(authority)),
        many => {
            let text = format!(
                "maximum of three arguments allowed for TLS config, found {}",
                many.len()
            );
            let error = Diagnostic::error(option.span(), text);
            scope
                .findings
                .error(error.label("expected nothing, CA, CERT KEY or CERT KEY CA"));
            return None;
        }
    };
    Some(ClientTls {
        identity: identity.map(|(certificate, key)| (file(certificate, scope), file(key, scope))),
        authority: authority.map(|authority| file(authority, scope)),
        span: option.name.span,
    })
}

fn file(word: &Word, scope: &Scope<'_>) -> PathSetting {
    PathSetting {
        path: scope.path(word),
        span: word.span,
    }
}
