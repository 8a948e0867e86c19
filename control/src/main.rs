//! The `nodens` binary: arguments, configuration, run, exit status.

use std::io::Write as _;
use std::process::ExitCode;

use nodens::args::{self, Command, Options, Stream};
use nodens::corefile::settings::Corefile;
use nodens::corefile::{self, Colour, Machine};
use nodens::run;
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
            Ok(corefile) => {
                for warning in &corefile.warnings {
                    say(&format!(
                        "{}\n",
                        warning.render(&corefile.sources, colour(&std::io::stdout()))
                    ));
                }
                ExitCode::SUCCESS
            }
            Err(status) => status,
        },
        Command::Serve(options) => serve(&options),
    }
}

fn serve(options: &Options) -> ExitCode {
    let corefile = match load(options) {
        Ok(corefile) => corefile,
        Err(status) => return status,
    };
    match run::run(corefile, options) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            complain(&format!("{error:#}\n"));
            ExitCode::FAILURE
        }
    }
}

fn load(options: &Options) -> Result<Corefile, ExitCode> {
    let input = options.input().map_err(|error| {
        complain(&format!("loading the configuration from standard input: {error}\n"));
        ExitCode::FAILURE
    })?;
    corefile::load(&input, options.port, &Machine).map_err(|refused| {
        complain(&format!("{}\n", refused.render(colour(&std::io::stderr()))));
        ExitCode::FAILURE
    })
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
