//! The `nodens` binary: arguments, configuration, run, exit status.

use std::io::Write as _;
use std::process::ExitCode;

use nodens::args::{self, Command, Options, Stream};
use nodens::corefile::settings::Corefile;
use nodens::corefile::{self, Colour, Findings, Input, Machine, Refused};
use nodens::{faults, output, run, workers};
use nodens_engine::io;

fn main() -> ExitCode {
    io::look_up_without_modules();
    match args::parse(std::env::args_os().skip(1)) {
        Command::Print(text) => {
            match text.stream {
                Stream::Out => say(&text.text),
                Stream::Err => complain(&text.text),
            }
            ExitCode::from(text.status)
        }
        Command::Check(options) => match load(&options) {
            Ok((corefile, _)) => check(corefile),
            Err(status) => status,
        },
        Command::Serve(options) => serve(&options),
    }
}

/// Looks at what a configuration names, and says what is odd about it or why it cannot be used.
fn check(corefile: Corefile) -> ExitCode {
    let found = faults::find(&corefile.blocks);
    if !found.errors.is_empty() {
        return refuse(&corefile.refused(found));
    }
    let mut all = Findings::from_iter(corefile.warnings);
    all.add(found);
    all.sort();
    if !all.warnings.is_empty() {
        let drawn = all.render(&corefile.sources, colour(&std::io::stdout()));
        say(&format!("{drawn}\n"));
    }
    ExitCode::SUCCESS
}

fn refuse(refused: &Refused) -> ExitCode {
    complain(&format!("{}\n", refused.render(colour(&std::io::stderr()))));
    ExitCode::FAILURE
}

fn serve(options: &Options) -> ExitCode {
    workers::raise_open_files();
    workers::take_up_low_ports();
    let (corefile, input) = match load(options) {
        Ok(loaded) => loaded,
        Err(status) => return status,
    };
    let ended = run::run(corefile, input, options);
    output::flush();
    match ended {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            complain(&format!("{error:#}\n"));
            ExitCode::FAILURE
        }
    }
}

/// The configuration, and where it came from.
fn load(options: &Options) -> Result<(Corefile, Input), ExitCode> {
    let input = options.input().map_err(|error| {
        complain(&format!("loading the configuration from standard input: {error}\n"));
        ExitCode::FAILURE
    })?;
    match corefile::load(&input, options.port, &Machine) {
        Ok(corefile) => Ok((corefile, input)),
        Err(mut refused) => {
            refused.add(faults::find(&refused.blocks));
            Err(refuse(&refused))
        }
    }
}

fn colour(to: &impl std::io::IsTerminal) -> Colour {
    if to.is_terminal() { Colour::On } else { Colour::Off }
}

fn say(text: &str) {
    // Nobody may be reading.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

fn complain(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
