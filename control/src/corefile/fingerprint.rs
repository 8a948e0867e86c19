//! SHA-512 over what a configuration says: its words and how they stand in one another, with imports, snippets and
//! environment filled in. Comments, blanks and empty lines make no difference.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha512};

use super::lexer::Word;
use super::parser::{Line, ParsedBlock};
use super::source::Sources;

/// What comes before a word, so that words of different places cannot be taken for each other.
#[derive(Clone, Copy)]
enum Mark {
    Key,
    Name,
    Arg,
    Open,
    Close,
}

/// Of the blocks of a configuration, as 128 hexadecimal digits.
pub(super) fn of_blocks(blocks: &[ParsedBlock]) -> String {
    let mut hash = Sha512::new();
    for block in blocks {
        block.keys.iter().for_each(|key| word(&mut hash, Mark::Key, key));
        lines(&mut hash, &block.directives);
    }
    shown(hash)
}

/// Of the texts of one that could not be read to its end: enough to see that it is another one.
pub(super) fn of_texts(sources: &Sources) -> String {
    let mut hash = Sha512::new();
    for text in sources.texts() {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    shown(hash)
}

fn lines(hash: &mut Sha512, all: &[Line]) {
    mark(hash, Mark::Open);
    for line in all {
        word(hash, Mark::Name, &line.name);
        line.args.iter().for_each(|arg| word(hash, Mark::Arg, arg));
        if let Some(block) = &line.block {
            lines(hash, block);
        }
    }
    mark(hash, Mark::Close);
}

fn mark(hash: &mut Sha512, mark: Mark) {
    hash.update([mark as u8]);
}

fn word(hash: &mut Sha512, before: Mark, word: &Word) {
    mark(hash, before);
    hash.update((word.text.len() as u64).to_be_bytes());
    hash.update(word.text.as_bytes());
}

fn shown(hash: Sha512) -> String {
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
