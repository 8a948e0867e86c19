//! The plan of an `upstream` of `etcd`: its servers, behind the `cache` of the block.

use std::sync::Arc;

use nodens_engine::forward::Stanza;
use nodens_engine::plan::{Cache, Forward, Plan, Step};
use nodens_engine::zone::trie::NameHash;
use nodens_wire::NameBuf;

use crate::caches;
use crate::corefile::settings::{self, ServerBlock};
use crate::numbers::Numbers;

/// The plan of these servers. What they are asked for is a part of answers for names of the stanza, so it is kept wherever it lies, if
/// the cache is for any of those names.
pub fn plan(
    block: &ServerBlock,
    stanza: &settings::Etcd,
    servers: Arc<Stanza>,
    numbers: &mut Numbers,
    hash: &NameHash,
) -> Plan {
    let is_for = |cache: &&settings::Cache| {
        let mut zones = cache.zones.iter();
        zones.any(|cached| stanza.zones.iter().any(|zone| meets(cached, zone)))
    };
    let cache = block.cache.as_ref().filter(is_for).and_then(|cache| {
        let addresses = servers.settings().upstreams.iter();
        let text: String = addresses.map(|one| format!("{} ", one.address())).collect();
        let every_name = settings::Cache {
            zones: vec![NameBuf::root()],
            ..cache.clone()
        };
        Some(Step::Cache(Box::new(Cache {
            settings: caches::settings(&every_name, hash),
            block: numbers.caches.block(block, cache)?,
            servers: hash.of(text.as_bytes()),
        })))
    });
    let forward = Step::Forward(Forward {
        stanzas: [servers].into(),
        is_proxy: false,
    });
    Plan {
        steps: cache.into_iter().chain([forward]).collect(),
        udp_size: block.bufsize,
        ..Plan::default()
    }
}

/// Whether one zone holds the other.
fn meets(one: &NameBuf, other: &NameBuf) -> bool {
    let (one, other) = (one.as_name(), other.as_name());
    one.is_within(other) || other.is_within(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_meet_where_one_holds_the_other() {
        let meets = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|zone| NameBuf::from_text(zone).unwrap());
            meets(&one, &other)
        };
        assert!(meets("cedar.example", "cedar.example") && meets(".", "cedar.example"));
        assert!(meets("cedar.example", "a.cedar.example"));
        assert!(!meets("cedar.example", "oak.example"));
    }
}
