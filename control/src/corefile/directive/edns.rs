//! The directives about EDNS: `bufsize` and `nsid`.

use super::scope::Scope;
use crate::corefile::diagnostic::Diagnostic;
use crate::corefile::parser::Line;
use crate::corefile::settings::Nsid;

const UDP_SIZE_DEFAULT: u16 = 1232;
/// Longest answer to NSID. With it the longest question and our OPT still fit into 512 bytes.
pub const NSID_LEN_MAX: usize = 128;

/// `bufsize [SIZE]`
pub(super) fn bufsize(line: &Line, scope: &mut Scope<'_>) -> Option<u16> {
    scope.no_block(line);
    match line.args.as_slice() {
        [] => return Some(UDP_SIZE_DEFAULT),
        [word] => {
            let size = word.text.parse().ok().filter(|size| (512..=4096).contains(size));
            if size.is_some() {
                return size;
            }
        }
        _ => {}
    }
    let last = line.args.last().unwrap_or(&line.name);
    let text = format!(
        "plugin/bufsize: Wrong argument count or unexpected line ending after '{}'",
        last.text
    );
    scope
        .findings
        .error(Diagnostic::error(last.span, text).label("expected one size, from 512 to 4096"));
    None
}

/// `nsid [DATA...]`
pub(super) fn nsid(line: &Line, scope: &mut Scope<'_>) -> Option<Nsid> {
    scope.no_block(line);
    let (Some(first), Some(last)) = (line.args.first(), line.args.last()) else {
        return Some(Nsid { data: None });
    };
    let words: Vec<&str> = line.args.iter().map(|word| &*word.text).collect();
    let data = words.join(" ").into_bytes();
    if data.len() > NSID_LEN_MAX {
        let text = format!("plugin/nsid: {} bytes are too many for a reply", data.len());
        scope
            .findings
            .error(Diagnostic::error(first.span.to(last.span), text).label(format!("expected {NSID_LEN_MAX} at most")));
        return None;
    }
    Some(Nsid { data: Some(data) })
}
