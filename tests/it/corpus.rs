//! Replays the corpora of the fuzz targets, so that an input found once stays a test.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

use nodens_engine::fuzzing::World;

fn replay(target: &str, mut run: impl FnMut(&[u8])) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    let mut inputs = fs::read_dir(&folder)?.collect::<io::Result<Vec<_>>>()?;
    inputs.sort_by_key(DirEntry::file_name);
    assert!(!inputs.is_empty(), "no inputs in {}", folder.display());
    for input in inputs {
        println!("{}", input.path().display());
        run(&fs::read(input.path())?);
    }
    Ok(())
}

/// What holds for a message holds for any beginning of it.
fn with_beginnings(mut run: impl FnMut(&[u8])) -> impl FnMut(&[u8]) {
    move |bytes| {
        run(bytes);
        (0..bytes.len()).for_each(|len| run(&bytes[..len]));
    }
}

#[test]
fn messages() -> io::Result<()> {
    replay("message", with_beginnings(nodens_wire::fuzzing::message))
}

#[test]
fn names() -> io::Result<()> {
    replay("name", with_beginnings(nodens_wire::fuzzing::name))
}

#[test]
fn packets() -> io::Result<()> {
    let mut world = World::default();
    replay("respond", with_beginnings(|packet| world.respond(packet)))
}

#[test]
fn replies() -> io::Result<()> {
    replay("reply", with_beginnings(nodens_engine::fuzzing::reply))
}

#[test]
fn zone_files() -> io::Result<()> {
    replay("zonefile", nodens_sources::fuzzing::zonefile)
}

#[test]
fn corefiles() -> io::Result<()> {
    replay("corefile", nodens::fuzzing::corefile)
}

#[test]
fn expressions() -> io::Result<()> {
    replay("expression", nodens::fuzzing::expression)
}
