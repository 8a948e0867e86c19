//! Settings of the directives without data of their own become steps of a plan.

use std::sync::Arc;

use ipnet::IpNet;
use nodens_engine::plan::autopath::{Autopath, Search};
use nodens_engine::plan::{Acl, AclAction, AclLine, AclStanza, Chaos, Cidr, Header, Nets, Written, ZoneMap};
use nodens_engine::snapshot::ZoneId;
use nodens_engine::stream::StreamLimits;
use nodens_engine::zone::trie::NameHash;
use nodens_sources::zonefile::OneRecord;
use nodens_wire::NameBuf;

use crate::corefile::settings::{self, QueriesMax, ServerBlock};

/// `acl`, without the numbers of its counters.
pub fn acl(block: &ServerBlock, hash: &NameHash) -> Acl {
    let counted = acl_zones(block);
    let stanza = |stanza: &settings::Acl| {
        let mut zones = ZoneMap::new(hash.clone());
        for zone in &stanza.zones {
            let at = counted.iter().position(|other| *other == zone).unwrap_or_default();
            zones.entry(zone, || at as u32);
        }
        AclStanza {
            zones,
            lines: stanza.lines.iter().map(acl_line).collect(),
        }
    };
    Acl {
        stanzas: block.acl.iter().map(stanza).collect(),
        counters: Box::default(),
    }
}

/// The zones of a block's `acl` stanzas, each once.
pub fn acl_zones(block: &ServerBlock) -> Vec<&NameBuf> {
    let mut zones: Vec<_> = block.acl.iter().flat_map(|stanza| &stanza.zones).collect();
    zones.sort_unstable();
    zones.dedup();
    zones
}

fn acl_line(line: &settings::AclLine) -> AclLine {
    let types = line.types.clone().map(|mut types| {
        types.sort_unstable();
        types.into()
    });
    AclLine {
        action: match line.action {
            settings::AclAction::Allow => AclAction::Allow,
            settings::AclAction::Block => AclAction::Block,
            settings::AclAction::Filter => AclAction::Filter,
            settings::AclAction::Drop => AclAction::Drop,
        },
        types,
        nets: line.nets.as_ref().map(|nets| Nets::new(nets.iter().map(cidr))),
    }
}

/// An address range.
pub fn cidr(net: &IpNet) -> Cidr {
    Cidr {
        address: net.addr(),
        prefix: net.prefix_len(),
    }
}

/// `chaos`
pub fn chaos(chaos: &settings::Chaos) -> Chaos {
    Chaos {
        version: txt(&chaos.version),
        host: txt(&host_name()),
        authors: chaos.authors.iter().map(|author| txt(author)).collect(),
    }
}

/// `header`
pub fn header(header: settings::Header) -> Header {
    let settings::HeaderBits { aa, ra, rd } = header.response;
    Header {
        query_rd: header.query.rd,
        aa,
        ra,
        rd,
    }
}

/// `nsid`
pub fn nsid(nsid: &settings::Nsid) -> Arc<[u8]> {
    match &nsid.data {
        Some(data) => data.as_slice().into(),
        None => host_name().into_bytes().into(),
    }
}

/// Reads what a template wrote.
pub fn template_record(line: &str) -> Result<Written, String> {
    let OneRecord {
        owner,
        rtype,
        ttl,
        rdata,
    } = OneRecord::read(line)?;
    Ok(Written {
        owner,
        rtype,
        ttl,
        rdata,
    })
}

/// The rdata of a TXT record of one string, which has at most 255 bytes.
fn txt(text: &str) -> Box<[u8]> {
    let text = &text.as_bytes()[..text.len().min(255)];
    [&[text.len() as u8], text].concat().into()
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What a block says of connections counts for its listeners, the last block's word most.
pub fn grant(streams: &mut StreamLimits, timeouts: &settings::Timeouts) {
    let settings::Timeouts {
        read,
        write,
        idle,
        queries_max,
    } = *timeouts;
    streams.first_query = read.unwrap_or(streams.first_query);
    streams.write = write.unwrap_or(streams.write);
    streams.idle = idle.unwrap_or(streams.idle);
    match queries_max {
        None => {}
        Some(QueriesMax::Unlimited) => streams.queries_max = u64::MAX,
        Some(QueriesMax::Of(queries)) => streams.queries_max = queries,
    }
}

/// `autopath` of a block, whose cluster is published as `cluster`.
pub fn autopath(block: &ServerBlock, cluster: Option<ZoneId>, hash: &NameHash) -> Option<Autopath> {
    if let Some(settings::Autopath { zones, search }) = &block.autopath {
        return Some(Autopath {
            zones: zones.clone(),
            search: Search::Fixed(search.clone()),
        });
    }
    let (own, stanza) = block.pod_autopath.as_ref().zip(block.kubernetes.as_ref())?;
    Some(Autopath {
        zones: own.zones.clone(),
        search: Search::OfPod {
            data: cluster?,
            zones: ZoneMap::set(&stanza.zones, hash),
            behind: own.search.clone(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_to_a_string() {
        assert_eq!(*txt("ab"), *b"\x02ab");
        let long = txt(&"x".repeat(300));
        assert_eq!((long.len(), long[0]), (256, 255));
        assert_eq!(*txt(""), [0]);
    }
}
