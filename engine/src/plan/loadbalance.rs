//! The `loadbalance` step: on the way up addresses and MX records are shuffled.

use nodens_wire::{Rcode, Rtype};
use rand::RngExt as _;
use rand::rngs::ChaCha8Rng;

use super::Cidr;
use crate::answer::{Answer, Bytes, Pick};

/// `loadbalance round_robin`, with the ranges of `prefer`.
#[derive(Clone, Debug, Default)]
pub struct LoadBalance {
    /// Addresses of the first range come first, then those of the second...
    pub prefer: Box<[Cidr]>,
}

/// In each section: aliases, other types, addresses, MX; or with `prefer` aliases, addresses, MX, others.
fn rank(rtype: Rtype) -> u8 {
    match rtype {
        Rtype::CNAME => 0,
        Rtype::A | Rtype::AAAA => 2,
        Rtype::MX => 3,
        _ => 1,
    }
}

pub(super) fn leave(balance: &LoadBalance, random: &mut ChaCha8Rng, from: [usize; 3], answer: &mut Answer<'_>) {
    if answer.rcode != Rcode::NOERROR || answer.rendered.is_some() {
        return;
    }
    let Answer { sections, made, .. } = answer;
    for (picks, from) in sections.iter_mut().zip(from) {
        let picks = &mut picks[from..];
        if picks.len() < 2 {
            continue;
        }
        arrange(picks, |pick| rank(pick.rtype));
        for wanted in [2, 3] {
            let start = picks.partition_point(|pick| rank(pick.rtype) < wanted);
            let end = picks.partition_point(|pick| rank(pick.rtype) <= wanted);
            shuffle(&mut picks[start..end], random);
        }
        if !balance.prefer.is_empty() {
            arrange(picks, |pick| match rank(pick.rtype) {
                0 => 0,
                2 => 1 + preference(balance, pick, made),
                3 => 254,
                _ => 255,
            });
        }
    }
}

/// Which range of `prefer` an address lies in.
fn preference(balance: &LoadBalance, pick: &Pick<'_>, made: &[u8]) -> u8 {
    let rdata = match pick.rdata {
        Bytes::Zone(bytes) => bytes,
        Bytes::Made { at, len } => &made[at as usize..at as usize + usize::from(len)],
    };
    let found = balance.prefer.iter().position(|range| range.holds(rdata));
    found.unwrap_or(balance.prefer.len()).min(252) as u8
}

/// A stable sort that does not allocate: the keys are few, and mostly in order already.
fn arrange(picks: &mut [Pick<'_>], key: impl Fn(&Pick<'_>) -> u8) {
    if picks.is_sorted_by_key(&key) {
        return;
    }
    if picks.len() <= 64 {
        for i in 1..picks.len() {
            let at = picks[..i].partition_point(|pick| key(pick) <= key(&picks[i]));
            picks[at..=i].rotate_right(1);
        }
    } else {
        picks.sort_by_key(key);
    }
}

pub(super) fn shuffle(picks: &mut [Pick<'_>], random: &mut ChaCha8Rng) {
    for i in (1..picks.len()).rev() {
        picks.swap(i, random.random_range(0..=i));
    }
}
