//! Replays the corpus of the fuzz target, so that a packet found once stays a test.

#![forbid(unsafe_code)]

use std::path::Path;
use std::{fs, io};

use nodens_engine::fuzzing::World;

#[test]
fn packets() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/respond");
    let mut inputs = fs::read_dir(&folder)?.collect::<io::Result<Vec<_>>>()?;
    inputs.sort_by_key(fs::DirEntry::file_name);
    assert!(!inputs.is_empty(), "no inputs in {}", folder.display());
    let mut world = World::default();
    for input in inputs {
        println!("{}", input.path().display());
        let packet = fs::read(input.path())?;
        world.respond(&packet);
        // Nor may any beginning of it break what holds.
        (0..packet.len()).for_each(|len| world.respond(&packet[..len]));
    }
    Ok(())
}
