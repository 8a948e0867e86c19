//! `confined FILTER COMMAND...`: runs a command under a seccomp filter, written in the JSON of the crate seccompiler, whose
//! only thread is called `main`.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [filter, program, arguments @ ..] = &words[..] else {
        eprintln!("usage: confined FILTER COMMAND...");
        return ExitCode::from(2);
    };
    let arch = std::env::consts::ARCH
        .try_into()
        .expect("seccompiler knows this machine");
    let filters = match seccompiler::compile_from_json(filter.as_bytes(), arch) {
        Ok(filters) => filters,
        Err(error) => {
            eprintln!("the filter: {error}");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = seccompiler::apply_filter(&filters["main"]) {
        eprintln!("the kernel takes no filter: {error}");
        return ExitCode::from(2);
    }
    let error = Command::new(program).args(arguments).exec();
    eprintln!("{program}: {error}");
    ExitCode::from(2)
}
