//! Replays the corpus of the fuzz targets, so that an input found once stays a test.

#![forbid(unsafe_code)]

use std::path::Path;
use std::{fs, io};

use nodens::fuzzing;

fn replay(target: &str, run: fn(&[u8])) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    let mut inputs = fs::read_dir(&folder)?.collect::<io::Result<Vec<_>>>()?;
    inputs.sort_by_key(fs::DirEntry::file_name);
    assert!(!inputs.is_empty(), "no inputs in {}", folder.display());
    for input in inputs {
        println!("{}", input.path().display());
        run(&fs::read(input.path())?);
    }
    Ok(())
}

#[test]
fn corefiles() -> io::Result<()> {
    replay("corefile", fuzzing::corefile)
}

#[test]
fn expressions() -> io::Result<()> {
    replay("expression", fuzzing::expression)
}
