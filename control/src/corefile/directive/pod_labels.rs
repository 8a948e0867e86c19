//! Labels of pods that a block uses: `kubernetes/client-label/KEY` wherever it is written, in a format of `log`, an
//! expression of `view`, a record of `template`, an option of `rewrite`.
//!
//! They alone are kept of the pods, so a key has to be written out.

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::lexer::Word;
use crate::corefile::parser::{Line, ParsedBlock};
use crate::corefile::settings::ServerBlock;

/// Keys of a block, at most.
pub const POD_LABELS_MAX: usize = 32;
/// In front of a key.
const LABEL: &str = "kubernetes/client-label/";

/// Has those kept that the lines of a block name, if it can know them.
pub(super) fn keep(parsed: &ParsedBlock, block: &mut ServerBlock, scope: &mut Scope<'_>) {
    let Some(source) = block.kubernetes.as_mut().map(|stanza| &mut stanza.source) else {
        return;
    };
    if !source.pods || block.metadata.is_none() {
        return;
    }
    let mut words = Vec::new();
    collect(&parsed.directives, &mut words);
    let mut keys: Vec<Box<str>> = Vec::new();
    for (key, word) in words.iter().flat_map(|word| named(word).map(move |key| (key, word))) {
        if keys.iter().any(|own| **own == *key) {
            continue;
        }
        if keys.len() == POD_LABELS_MAX {
            let text = format!("a block can use {POD_LABELS_MAX} labels of pods, and {LABEL}{key} is one more");
            let error = Diagnostic::error(word.span, text);
            scope.findings.error(error.help("use fewer of them"));
            break;
        }
        keys.push(key.into());
    }
    // A source that tells the same lives on, wherever they are written.
    keys.sort_unstable();
    source.pod_labels = keys;
}

fn collect<'l>(lines: &'l [Line], words: &mut Vec<&'l Word>) {
    for line in lines {
        words.extend(&line.args);
        collect(line.options(), words);
    }
}

/// The keys in a word. What they may be made of ends them: a quote, a brace, a space.
fn named(word: &Word) -> impl Iterator<Item = &str> {
    let is_part = |byte: char| byte.is_ascii_alphanumeric() || matches!(byte, '-' | '_' | '.' | '/');
    let behind = word.text.split(LABEL).skip(1);
    let keys = behind.map(move |text| text.split(|byte| !is_part(byte)).next().unwrap_or_default());
    keys.filter(|key| !key.is_empty())
}
