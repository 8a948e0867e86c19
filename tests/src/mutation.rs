//! Messages that are nearly queries: valid ones with bits flipped, cut, made longer, or lying about lengths and counts.

use hickory_proto::op::Edns;
use hickory_proto::rr::rdata::opt::EdnsOption;

use crate::ask::question;
use crate::seed::Seeded;

/// Most bytes that a mutation adds.
const ADDED_MAX: usize = 64;
/// Of a message.
const HEADER_LEN: usize = 12;

/// Valid queries of every kind, and as many mutations of them as one asks for.
#[derive(Debug)]
pub struct Mutator {
    corpus: Vec<Vec<u8>>,
    seeded: Seeded,
}

impl Mutator {
    /// With questions as `NAME TYPE`; the same seed gives the same messages.
    ///
    /// # Panics
    /// A text is no question.
    pub fn new(questions: &[&str], seed: u64) -> Self {
        let corpus = questions.iter().flat_map(|text| {
            let plain = question(text).unwrap_or_else(|why| panic!("{why}"));
            let (mut with_opt, mut with_options) = (plain.clone(), plain.clone());
            with_opt.set_edns(edns(&[]));
            with_options.set_edns(edns(&[
                (3, b""),
                (8, &[0, 1, 24, 0, 192, 0, 2]),
                (10, b"8 bytes!"),
                (12, &[0; 16]),
            ]));
            [plain, with_opt, with_options].map(|message| message.to_vec().expect("a message"))
        });
        Self {
            corpus: corpus.collect(),
            seeded: Seeded::new(seed),
        }
    }

    /// The next message; of any length, nothing at all among them.
    pub fn message(&mut self) -> Vec<u8> {
        let Self { corpus, seeded } = self;
        let mut message = seeded.pick(corpus).clone();
        for _ in 0..1 + seeded.below(3) {
            mutate(&mut message, corpus, seeded);
        }
        message
    }

    /// The next message behind its length, which is a lie once in a while.
    pub fn frame(&mut self) -> Vec<u8> {
        let message = self.message();
        let len = if self.seeded.once_in(8) {
            self.seeded.next() as u16
        } else {
            message.len() as u16
        };
        [&len.to_be_bytes()[..], &message].concat()
    }
}

fn mutate(message: &mut Vec<u8>, corpus: &[Vec<u8>], seeded: &mut Seeded) {
    if message.is_empty() {
        return;
    }
    let len = message.len();
    let at = seeded.below(len);
    match seeded.below(8) {
        0 | 1 => message[at] ^= 1 << seeded.below(8),
        2 => message[at] = seeded.next() as u8,
        3 => message.truncate(at),
        // A number of two bytes anywhere: counts, types, lengths, sizes.
        4 => {
            let lie = *seeded.pick(&[0, 1, 2, 0xff, 0xc00c, 0x7fff, 0xffff]);
            for (byte, lie) in message[at..].iter_mut().zip(u16::to_be_bytes(lie)) {
                *byte = lie;
            }
        }
        // A count of the header, a flag, or the id.
        5 => message[at % HEADER_LEN.min(len)] = seeded.next() as u8,
        6 => message.extend((0..1 + seeded.below(ADDED_MAX)).map(|_| seeded.next() as u8)),
        _ => {
            let other = seeded.pick(corpus);
            message.truncate(at);
            message.extend_from_slice(&other[seeded.below(other.len())..]);
        }
    }
}

fn edns(options: &[(u16, &[u8])]) -> Edns {
    let mut opt = Edns::new();
    opt.set_max_payload(1232).set_dnssec_ok(true);
    for &(code, data) in options {
        opt.options_mut().insert(EdnsOption::Unknown(code, data.to_vec()));
    }
    opt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_messages_and_few_that_are_valid() {
        let questions = ["www.cedar.example A", "cedar.example SOA"];
        let messages = |seed| {
            let mut mutator = Mutator::new(&questions, seed);
            // Ids are random.
            (0..1000).map(|_| mutator.message().len()).collect::<Vec<_>>()
        };
        assert_eq!(messages(1), messages(1));
        assert_ne!(messages(1), messages(2));
        let valid = Mutator::new(&questions, 1).corpus;
        let mut mutator = Mutator::new(&questions, 3);
        let same = (0..1000).filter(|_| valid.contains(&mutator.message())).count();
        assert!(same < 100, "{same}");
    }
}
