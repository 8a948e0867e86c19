//! Notes for `-version` which compiler made the program, and from which commit; takes the forms of directives from the
//! manual, for the help of errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    forms();
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

/// Writes a table of directives with the first block of text of their pages, which shows how they are written.
fn forms() {
    let folder = Path::new("../docs/directives");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut pages: Vec<_> = fs::read_dir(folder)
        .expect("the manual lies beside the sources")
        .filter_map(|page| Some(page.ok()?.path()))
        .collect();
    pages.sort();
    let form = |page: &PathBuf| {
        let text = fs::read_to_string(page).expect("a page of the manual is a text");
        let (_, behind) = text.split_once("```text\n")?;
        let (form, _) = behind.split_once("```")?;
        Some(format!("({:?}, {form:?})", page.file_stem()?.to_str()?))
    };
    let table: Vec<_> = pages.iter().filter_map(form).collect();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("forms.rs");
    fs::write(out, format!("&[{}]", table.join(","))).expect("the folder for what is generated can be written");
}

/// What a command prints, without the line end; none when it cannot be run or fails.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
