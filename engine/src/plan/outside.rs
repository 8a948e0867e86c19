//! The `upstream` of `etcd`: other servers are asked for what lies outside its zones.

use std::sync::Arc;

use nodens_wire::{NameBuf, Rclass, Rtype};

use super::{Source, Step, Walk};
use crate::answer::Answer;
use crate::forward::Stanza;
use crate::reply::Reply;
use crate::waiting::Said;

/// Who is asked for a target that an answer of this step leads to; nobody where the target is the server's own matter.
pub(super) fn stanza<'z>(by: Option<&'z Step>, folded: &[u8]) -> Option<&'z Arc<Stanza>> {
    let Some(Step::Etcd(Source { zones, upstream, .. })) = by else {
        return None;
    };
    upstream.as_ref().filter(|_| !zones.contains(folded))
}

impl Walk<'_, '_> {
    /// Answers with what the servers of this stanza say; where none does, the alias that leads there has to do.
    pub(super) fn outside(&mut self, stanza: &Arc<Stanza>, name: NameBuf, rtype: Rtype, answer: &mut Answer<'_>) {
        // What etcd says is not kept, and this is a part of it.
        let ask = self.setting.client.asks(stanza, name, rtype, Rclass::IN);
        match self.setting.told.of(&ask) {
            Some(Said::Reply { bytes, .. }) => Reply::new(bytes).answer(|ttl| ttl, answer),
            Some(Said::Failed(failed)) => answer.rcode = failed.rcode(),
            None => self.wants = Some(Box::new(ask)),
        }
    }
}
