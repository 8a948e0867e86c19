//! The folder `deploy`: what is printed, built and taken over.

mod chart; // the chart, rendered by helm
mod corefiles; // the Corefiles that installers write
mod image; // the image, and the calls that its container may make
mod printed; // what `install.sh` prints, and how it refuses
mod takeover; // `install.sh` against an API server

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What a command did.
#[derive(Debug)]
struct Done {
    status: Option<i32>,
    out: String,
    err: String,
}

fn run(command: &mut Command) -> Done {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", command.get_program().to_string_lossy()));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Done {
        status: output.status.code(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

/// `install.sh` of this tree.
fn install() -> Command {
    Command::new(root().join("deploy/install.sh"))
}
