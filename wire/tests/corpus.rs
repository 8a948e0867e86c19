//! Replays the corpus of the fuzz targets, so that an input found once stays a test.

#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use nodens_wire::fuzzing;

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    let mut inputs: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "no inputs in {}", folder.display());
    for input in inputs {
        let bytes = fs::read(&input).unwrap();
        println!("{}", input.display());
        run(&bytes);
        // Nor may any beginning of it break what holds.
        (0..bytes.len()).for_each(|len| run(&bytes[..len]));
    }
}

#[test]
fn messages() {
    replay("message", fuzzing::message);
}

#[test]
fn names() {
    replay("name", fuzzing::name);
}
