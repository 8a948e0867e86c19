//! Which server block a question belongs to: the longest zone of the listener, and there the first block whose view holds.

use nodens_wire::{Name, Rtype};

use super::Client;
use super::view::Facts;
use crate::snapshot::{Choice, Config, Data, Listener, Route};

/// The server block that serves a folded name, and how many of the name's bytes stand in front of its zone. A question
/// for DS belongs to the zone above the cut, where that is served too (RFC 4035 §3.1.4.1).
#[inline(always)]
pub(crate) fn route(
    config: &Config,
    listener: &Listener,
    name: &[u8],
    rtype: Rtype,
    client: &Client<'_>,
    data: &Data,
) -> Option<(usize, Route)> {
    let choose = |from| choose(config, listener, name, from, rtype, client, data);
    let (at, choice) = listener.routes.find(name)?;
    let found = match choice {
        Choice::Block(route) => (at, *route),
        Choice::Views { .. } => choose(at)?,
    };
    let at = found.0;
    if rtype == Rtype::DS && name[at] != 0 {
        let parent = at + 1 + usize::from(name[at]);
        return Some(choose(parent).unwrap_or(found));
    }
    Some(found)
}

/// The same from the name without its first `from` bytes on. A zone none of whose views holds is passed over.
#[cold]
fn choose(
    config: &Config,
    listener: &Listener,
    name: &[u8],
    mut from: usize,
    rtype: Rtype,
    client: &Client<'_>,
    data: &Data,
) -> Option<(usize, Route)> {
    loop {
        let (at, choice) = listener.routes.find_from(name, from)?;
        let (port, blocks) = match choice {
            Choice::Block(route) => return Some((at, *route)),
            Choice::Views { port, blocks } => (*port, blocks),
        };
        let holds = |route: &&Route| {
            let plan = &config.plans[route.plan as usize];
            let Some(view) = &plan.view else { return true };
            Name::from_wire(name).is_ok_and(|name| {
                view.holds(&Facts {
                    name,
                    rtype,
                    client,
                    port,
                    plan: Some(plan),
                    data,
                })
            })
        };
        if let Some(route) = blocks.iter().find(holds) {
            return Some((at, *route));
        }
        match name[at] {
            0 => return None,
            label => from = at + 1 + usize::from(label),
        }
    }
}
