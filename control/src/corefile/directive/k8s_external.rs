//! `k8s_external [ZONES...] { ... }`

use nodens_wire::NameBuf;

use super::kubernetes;
use super::scope::Scope;
use crate::corefile::diagnostic::{Diagnostic, Findings};
use crate::corefile::parser::Line;
use crate::corefile::settings::{K8sExternal, ServerBlock};

const OPTIONS: [&str; 4] = ["apex", "ttl", "headless", "fallthrough"];
const TTL_DEFAULT: u32 = 5;

/// Reads the directive.
pub(super) fn k8s_external(line: &Line, scope: &mut Scope<'_>) -> Option<K8sExternal> {
    let mut external = K8sExternal {
        zones: scope.zones(&line.args),
        apex: NameBuf::from_text("dns").expect("it is a name"),
        ttl_secs: TTL_DEFAULT,
        headless: false,
        fallthrough: None,
        span: line.name.span,
    };
    for option in scope.options(line) {
        match &*option.name.text {
            "apex" => apex(option, &mut external, scope),
            "ttl" => {
                if let Some(secs) = kubernetes::ttl(option, scope) {
                    external.ttl_secs = secs;
                }
            }
            "headless" => {
                scope.no_args(option);
                external.headless = true;
            }
            "fallthrough" => external.fallthrough = Some(scope.fallthrough(option)),
            _ => scope.unknown_option(option, &OPTIONS),
        }
    }
    Some(external)
}

fn apex(option: &Line, external: &mut K8sExternal, scope: &mut Scope<'_>) {
    let Some(word) = scope.one_arg(option) else { return };
    match NameBuf::from_text(&word.text) {
        Ok(name) if !name.as_name().is_root() => external.apex = name.folded(),
        Ok(_) | Err(_) => {
            let error = Diagnostic::error(word.span, format!("apex is no name: {}", word.text));
            scope.findings.error(error.label("expected a label such as `dns`"));
        }
    }
}

/// It answers from what `kubernetes` reads.
pub(super) fn check(block: &ServerBlock, findings: &mut Findings) {
    if let Some(external) = &block.k8s_external
        && block.kubernetes.is_none()
    {
        let text = "plugin/k8s_external: kubernetes plugin not loaded";
        let error = Diagnostic::error(external.span, text);
        findings.error(error.help("add `kubernetes` to the block"));
    }
}
