//! Notes for `-version` which compiler made the program, and from which commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let compiler = output(Command::new(rustc).arg("--version"));
    // `rustc 1.95.0 (hash date)`: the first two words say enough.
    let compiler = compiler
        .as_deref()
        .unwrap_or("rustc")
        .split(' ')
        .take(2)
        .collect::<Vec<_>>()
        .join(" ");
    println!("cargo::rustc-env=NODENS_COMPILER={compiler}");

    // Sources from an archive have no history, and may lie inside somebody else's.
    let history = Path::new("../.git");
    let commit = match history.exists() {
        true => output(Command::new("git").args(["rev-parse", "--short=12", "HEAD"])),
        false => None,
    };
    for changes in [history.join("HEAD"), history.join("logs/HEAD")] {
        if changes.exists() {
            println!("cargo::rerun-if-changed={}", changes.display());
        }
    }
    println!(
        "cargo::rustc-env=NODENS_COMMIT={}",
        commit.as_deref().unwrap_or("unknown")
    );
}

/// What a command prints, without the line end; none when it cannot be run or fails.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
