//! The `upstream` of `etcd`: other servers are asked for what lies outside its zones.
//!
//! They are a plan of their own, with the `cache` of the block in front of them: what etcd says is never kept, what they say is.

use super::{Plan, Source, Step};

/// Who answers for a target that an answer of this step leads to; nobody where the target is the server's own matter.
pub(super) fn plan<'z>(by: Option<&'z Step>, folded: &[u8]) -> Option<&'z Plan> {
    let Some(Step::Etcd(Source { zones, outside, .. })) = by else {
        return None;
    };
    outside.as_deref().filter(|_| !zones.contains(folded))
}
