//! The `loadbalance` step: on the way up addresses and MX records change places.

use nodens_wire::{Rcode, Rtype, label};
use rand::RngExt as _;
use rand::rngs::ChaCha8Rng;

use super::{Asked, Cidr};
use crate::answer::{Answer, Bytes, Owner, Pick};
use crate::snapshot::{Data, ZoneId};
use crate::zone::{Weights, Zone};

/// The `loadbalance` step.
#[derive(Clone, Debug)]
pub enum LoadBalance {
    /// `round_robin`: addresses are shuffled. Those of the first range come first, then those of the second...
    RoundRobin {
        /// The ranges of `prefer`.
        prefer: Box<[Cidr]>,
    },
    /// `weighted`: one address is drawn by its weight and changes places with the first.
    Weighted(ZoneId),
}

impl Default for LoadBalance {
    fn default() -> Self {
        Self::RoundRobin { prefer: Box::default() }
    }
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

/// There may be an order to change; in what was prepared there is none.
#[inline]
pub(super) fn may_change(answer: &Answer<'_>) -> bool {
    answer.rcode == Rcode::NOERROR && answer.rendered.is_none() && answer.sections.iter().any(|picks| picks.len() > 1)
}

pub(super) fn leave(
    balance: &LoadBalance,
    asked: &Asked<'_>,
    data: &Data,
    random: &mut ChaCha8Rng,
    answer: &mut Answer<'_>,
) {
    if !may_change(answer) {
        return;
    }
    match balance {
        LoadBalance::RoundRobin { prefer } => shuffle_all(prefer, random, answer),
        LoadBalance::Weighted(id) if matches!(asked.rtype, Rtype::A | Rtype::AAAA | Rtype::SRV) => {
            let weights = match data.zone(*id) {
                Some(Zone::Weights(weights)) => Some(weights),
                _ => None,
            };
            draw_all(weights, asked, random, answer);
        }
        LoadBalance::Weighted(_) => {}
    }
}

fn shuffle_all(prefer: &[Cidr], random: &mut ChaCha8Rng, answer: &mut Answer<'_>) {
    let from = answer.begins();
    let Answer { sections, made, .. } = answer;
    for (picks, from) in sections.iter_mut().zip(from) {
        let picks = &mut picks[from..];
        let (Some(first), true) = (picks.first().map(|pick| pick.rtype), picks.len() > 1) else {
            continue;
        };
        if picks.iter().all(|pick| pick.rtype == first) {
            // Nearly always.
            if matches!(rank(first), 2 | 3) {
                shuffle(picks, random);
            }
        } else {
            arrange(picks, |pick| rank(pick.rtype));
            for wanted in [2, 3] {
                let start = picks.partition_point(|pick| rank(pick.rtype) < wanted);
                let end = picks.partition_point(|pick| rank(pick.rtype) <= wanted);
                shuffle(&mut picks[start..end], random);
            }
        }
        if !prefer.is_empty() {
            arrange(picks, |pick| match rank(pick.rtype) {
                0 => 0,
                2 => 1 + preference(prefer, pick, made),
                3 => 254,
                _ => 255,
            });
        }
    }
}

/// ANSWER and ADDITIONAL: in each the drawn address leads. As long as there are no weights all are equal.
fn draw_all(weights: Option<&Weights>, asked: &Asked<'_>, random: &mut ChaCha8Rng, answer: &mut Answer<'_>) {
    let [answers, _, additional] = answer.begins();
    let Answer { sections, made, .. } = answer;
    let [own, _, more] = sections;
    for picks in [&mut own[answers..], &mut more[additional..]] {
        let is_address = |pick: &Pick<'_>| rank(pick.rtype) == 2;
        if picks.len() < 2 || !picks.iter().any(is_address) {
            continue;
        }
        arrange(picks, |pick| rank(pick.rtype));
        let start = picks.partition_point(|pick| rank(pick.rtype) < 2);
        let end = picks.partition_point(|pick| rank(pick.rtype) <= 2);
        let addresses = &mut picks[start..end];
        let weight = |pick: &Pick<'_>| weights.map_or(1, |weights| weigh(weights, asked, pick, made));
        let total: u32 = addresses.iter().map(weight).sum();
        let mut left = random.random_range(0..total);
        let drawn = addresses.iter().position(|pick| match left.checked_sub(weight(pick)) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        addresses.swap(0, drawn.unwrap_or_default());
    }
}

fn weigh(weights: &Weights, asked: &Asked<'_>, pick: &Pick<'_>, made: &[u8]) -> u32 {
    let rdata = bytes(pick.rdata, made);
    match pick.owner {
        Owner::Question => weights.of(asked.folded, rdata),
        Owner::Name(name) => {
            let name = bytes(name, made);
            let mut folded = [0; 256];
            let folded = &mut folded[..name.len()];
            label::fold_into(name, folded);
            weights.of(folded, rdata)
        }
    }
}

fn bytes<'a>(bytes: Bytes<'a>, made: &'a [u8]) -> &'a [u8] {
    match bytes {
        Bytes::Zone(bytes) => bytes,
        Bytes::Made { at, len } => &made[at as usize..at as usize + usize::from(len)],
    }
}

/// Which range of `prefer` an address lies in.
fn preference(prefer: &[Cidr], pick: &Pick<'_>, made: &[u8]) -> u8 {
    let rdata = bytes(pick.rdata, made);
    let found = prefer.iter().position(|range| range.holds(rdata));
    found.unwrap_or(prefer.len()).min(252) as u8
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

/// Places that are drawn with one random number: the orders of so many records are far fewer than its values.
const DRAWN_TOGETHER: usize = 12;

pub(super) fn shuffle(picks: &mut [Pick<'_>], random: &mut ChaCha8Rng) {
    let mut drawn: u64 = 0;
    for (count, i) in (1..picks.len()).rev().enumerate() {
        if count % DRAWN_TOGETHER == 0 {
            drawn = random.random();
        }
        // A fraction times the number of places is a place, and what is left is a fraction again.
        let product = u128::from(drawn) * (i as u128 + 1);
        drawn = product as u64;
        picks.swap(i, (product >> 64) as usize);
    }
}
