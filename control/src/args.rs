//! The command line: Go's flags, so that manifests and scripts written for CoreDNS keep working.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, ValueEnum, ValueHint};

use crate::completions::{self, Shell};
use crate::corefile::diagnostic::nearest;
use crate::corefile::source::FILE_BYTES_MAX;
use crate::corefile::{Input, directive};
use crate::manpage;

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Answer questions.
    Serve(Options),
    /// Read the configuration, say what is wrong with it, and end.
    Check(Options),
    /// Print a text and end.
    Print(Text),
}

impl Command {
    /// A text that was asked for.
    fn printed(text: String) -> Self {
        Self::Print(Text {
            text,
            stream: Stream::Out,
            status: 0,
        })
    }
}

/// A text, where it goes, and what the process ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// With a line end.
    pub text: String,
    /// Standard output, or standard error.
    pub stream: Stream,
    /// The exit status.
    pub status: u8,
}

/// One of the two streams that a process prints to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// For what was asked for.
    Out,
    /// For everything else.
    Err,
}

const HELP_BEFORE: &str = "nodens answers DNS questions for clusters, as its Corefile says.";

const HELP_AFTER: &str = "\
Flags may be written with one dash or two, and with `=` or a blank before the value:
-conf FILE, -conf=FILE, --conf FILE and --conf=FILE are the same.

Examples:
  nodens                                 serve ./Corefile; without one answer whoami on port 53
  nodens -conf /etc/nodens/Corefile      serve that file
  nodens -conf Corefile -p 1053          zones without a port listen on 1053
  generate | nodens -conf stdin          read the configuration from standard input
  nodens check Corefile                  say what is wrong with a file, serve nothing
  nodens -io mmsg -workers 2             two threads, without io_uring

The smallest useful Corefile:
  cedar.example:1053 {
      file db.cedar.example
      log
  }";

/// The flags of a server.
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(
    name = "nodens",
    about = HELP_BEFORE,
    after_help = HELP_AFTER,
    override_usage = "nodens [FLAGS]\n       nodens check [FLAGS] [FILE]\n       nodens completions SHELL\n       nodens man",
    disable_help_flag = true,
    disable_help_subcommand = true,
    disable_version_flag = true,
    args_override_self = true
)]
pub struct Options {
    /// Corefile to load; `stdin` reads standard input [default: ./Corefile, and if there is none, a built-in one]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub conf: Option<PathBuf>,
    /// Port of zones that name none; -p is the same
    #[arg(long = "dns.port", visible_alias = "p", value_name = "PORT", default_value_t = 53)]
    pub port: u16,
    /// File that holds the process id while the server runs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub pidfile: Option<PathBuf>,
    /// Print no zones and no version at the start
    #[arg(long)]
    pub quiet: bool,
    /// Take the place of the nodens that listens on the same addresses, which then ends; nothing is lost
    #[arg(long = "take-over")]
    pub take_over: bool,
    /// How packets come and go: `auto` is io_uring where the kernel allows it, else recvmmsg
    #[arg(long, value_name = "BACKEND", value_enum, default_value_t = Io::Auto)]
    pub io: Io,
    /// Threads that answer [default: one for each core that the process may use]
    #[arg(long, value_name = "N")]
    pub workers: Option<NonZeroUsize>,
    /// Print the directives that a Corefile may use
    #[arg(long)]
    plugins: bool,
    /// Print version, platform, compiler and commit
    #[arg(long)]
    version: bool,
    /// Print this help
    #[arg(long, visible_alias = "h")]
    help: bool,
}

/// The way packets come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Io {
    /// The ring where the kernel allows it, else the calls; said once.
    Auto,
    /// io_uring; an error where the kernel denies it.
    Uring,
    /// recvmmsg and sendmmsg.
    Mmsg,
}

impl Options {
    /// Where the configuration comes from; reads standard input if that is the place.
    pub fn input(&self) -> io::Result<Input> {
        match &self.conf {
            None => Ok(Input::Default),
            Some(name) if name == "stdin" => {
                let mut bytes = Vec::new();
                io::stdin()
                    .lock()
                    .take(FILE_BYTES_MAX as u64 + 1)
                    .read_to_end(&mut bytes)?;
                Ok(Input::Stdin(bytes))
            }
            Some(path) => Ok(Input::File(path.clone())),
        }
    }
}

/// What there is to say on the command line: what help, man page and completions show.
pub fn definition() -> clap::Command {
    let check = clap::Command::new(CHECK)
        .about("Say all that is wrong with a Corefile, serve nothing")
        .arg(Arg::new("FILE").value_hint(ValueHint::FilePath));
    let completions = clap::Command::new(COMPLETIONS)
        .about("Print the completions of a shell")
        .arg(Arg::new("SHELL").value_parser(clap::value_parser!(Shell)));
    let man = clap::Command::new(MAN).about("Print the man page");
    Options::command().subcommands([check, completions, man])
}

const CHECK: &str = "check";
const COMPLETIONS: &str = "completions";
const MAN: &str = "man";

/// Reads the words behind the program's name.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Command {
    let Split { flags, verb, extra } = match split(words) {
        Ok(split) => split,
        Err(why) => return usage_error(&why),
    };
    let name = std::iter::once(OsString::from("nodens"));
    let options = Options::command()
        .try_get_matches_from(name.chain(flags))
        .and_then(|matches| Options::from_arg_matches(&matches));
    let mut options = match options {
        Ok(options) => options,
        Err(error) => return usage_error(error.to_string().trim_end()),
    };
    if options.help {
        let text = definition().render_help().to_string();
        return Command::Print(Text {
            text,
            stream: Stream::Err,
            status: 0,
        });
    }
    if !extra.is_empty() {
        let extra: Vec<_> = extra.iter().map(|word| word.to_string_lossy()).collect();
        let text = format!("extra command line arguments: [{}]\n", extra.join(" "));
        return Command::Print(Text {
            text,
            stream: Stream::Err,
            status: 1,
        });
    }
    if options.version {
        return Command::printed(format!("{}\n", version()));
    }
    if options.plugins {
        return Command::printed(directive::KNOWN.map(|name| format!("{name}\n")).concat());
    }
    match verb {
        None => Command::Serve(options),
        Some(Verb {
            name: COMPLETIONS,
            word,
        }) => {
            let word = word.unwrap_or_default();
            match Shell::from_str(&word.to_string_lossy(), false) {
                Ok(shell) => Command::printed(completions::script(shell, &definition())),
                Err(_) => usage_error(&format!("completions for which shell? {}", Shell::NAMES)),
            }
        }
        Some(Verb { name: MAN, .. }) => Command::printed(manpage::page(definition())),
        Some(Verb { word, .. }) => {
            options.conf = word.map(PathBuf::from).or(options.conf);
            Command::Check(options)
        }
    }
}

/// `nodens-VERSION`, and platform, compiler and commit in a second line.
pub fn version() -> String {
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    format!(
        "nodens-{}\n{platform}, {}, {}",
        env!("CARGO_PKG_VERSION"),
        env!("NODENS_COMPILER"),
        env!("NODENS_COMMIT")
    )
}

/// The command line, taken apart.
#[derive(Default)]
struct Split {
    /// In the form that clap reads.
    flags: Vec<OsString>,
    /// What to do instead of serving.
    verb: Option<Verb>,
    /// The words that are too many.
    extra: Vec<OsString>,
}

/// A word that says what to do, and the one behind it.
struct Verb {
    name: &'static str,
    word: Option<OsString>,
}

/// Takes Go's flags apart: one dash is as good as two, a value may look like a flag, and the first word that is neither
/// ends them.
fn split(words: impl IntoIterator<Item = OsString>) -> Result<Split, String> {
    let known = Options::command();
    let mut split = Split::default();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let Some(flag) = flag(&word) else {
            let verb = [CHECK, COMPLETIONS, MAN].into_iter().find(|&verb| word == verb);
            match (&mut split.verb, verb) {
                (none @ None, Some(name)) => *none = Some(Verb { name, word: None }),
                (
                    Some(Verb {
                        name,
                        word: behind @ None,
                    }),
                    _,
                ) if *name != MAN && word != "--" => *behind = Some(word),
                _ => {
                    let first = (word != "--").then_some(word);
                    split.extra = first.into_iter().chain(words).collect();
                    return Ok(split);
                }
            }
            continue;
        };
        let (name, value) = flag
            .split_once('=')
            .map_or((flag, None), |(name, value)| (name, Some(value)));
        if name.is_empty() || name.starts_with('-') {
            return Err(format!("bad flag syntax: {}", word.to_string_lossy()));
        }
        let argument = known.get_arguments().find(|argument| {
            argument.get_long() == Some(name) || argument.get_visible_aliases().unwrap_or_default().contains(&name)
        });
        let Some(argument) = argument else {
            let flags = known.get_arguments().filter_map(Arg::get_long);
            let meant = nearest(name, flags).map(|flag| format!("\ndid you mean -{flag}?"));
            return Err(format!(
                "flag provided but not defined: -{name}{}",
                meant.unwrap_or_default()
            ));
        };
        let long = format!("--{}", argument.get_long().unwrap_or_default());
        if argument.get_action().takes_values() {
            let value = match value {
                Some(value) => OsString::from(value),
                None => words.next().ok_or_else(|| format!("flag needs an argument: -{name}"))?,
            };
            let mut flag = OsString::from(long + "=");
            flag.push(value);
            split.flags.push(flag);
            continue;
        }
        // The last one counts, so `-quiet -quiet=false` is off.
        split.flags.retain(|flag| *flag != *long);
        match value {
            None | Some("1" | "t" | "T" | "true" | "TRUE" | "True") => split.flags.push(long.into()),
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => {}
            Some(value) => return Err(format!("invalid boolean value {value:?} for -{name}: parse error")),
        }
    }
    Ok(split)
}

/// The text behind one dash or two; none for a word that is no flag.
fn flag(word: &OsStr) -> Option<&str> {
    let behind = word.to_str()?.strip_prefix('-')?;
    let behind_two = behind.strip_prefix('-');
    // A lone dash is a word, and two end the flags.
    Some(behind_two.unwrap_or(behind)).filter(|flag| !flag.is_empty())
}

/// What is wrong, and where all flags are listed: forty lines of them would push it out of sight.
fn usage_error(why: &str) -> Command {
    let text = format!(
        "{why}\n\n{}\n\nFor more information, try '--help'.\n",
        definition().render_usage()
    );
    Command::Print(Text {
        text,
        stream: Stream::Err,
        status: 2,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Command {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[track_caller]
    fn served(line: &str) -> Options {
        match parsed(line) {
            Command::Serve(options) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[track_caller]
    fn check_printed(line: &str, stream: Stream, status: u8, begin: &str) {
        let Command::Print(text) = parsed(line) else {
            panic!("{line}")
        };
        assert!(text.text.starts_with(begin), "{line}: {}", text.text);
        assert_eq!((text.stream, text.status), (stream, status), "{line}");
        assert!(text.text.ends_with('\n'), "{line}");
    }

    #[test]
    fn defaults() {
        let options = served("");
        assert_eq!((options.conf, options.port, options.pidfile), (None, 53, None));
        assert_eq!((options.quiet, options.io, options.workers), (false, Io::Auto, None));
    }

    #[test]
    fn one_dash_or_two_blank_or_equals() {
        for line in ["-conf X", "--conf X", "-conf=X", "--conf=X", "-conf Y -conf X"] {
            assert_eq!(served(line).conf, Some("X".into()), "{line}");
        }
        for line in [
            "-p 54",
            "--p 54",
            "-p=54",
            "-dns.port 54",
            "--dns.port=54",
            "-p 1 -dns.port 54",
            "-dns.port 1 -p 54",
        ] {
            assert_eq!(served(line).port, 54, "{line}");
        }
        assert_eq!(served("-conf -p").conf, Some("-p".into()));
        assert_eq!(served("-conf=a=b").conf, Some("a=b".into()));
        assert_eq!(served("-pidfile /run/x").pidfile, Some("/run/x".into()));
        assert_eq!(served("--io uring").io, Io::Uring);
        assert_eq!(served("-io=mmsg --workers 3").workers, NonZeroUsize::new(3));
    }

    #[test]
    fn switches_take_gos_truths() {
        for (line, quiet) in [
            ("-quiet", true),
            ("--quiet", true),
            ("-quiet=true", true),
            ("-quiet=1", true),
            ("-quiet=false", false),
            ("-quiet -quiet=F", false),
            ("-quiet=0 -quiet", true),
            ("-quiet -quiet", true),
        ] {
            assert_eq!(served(line).quiet, quiet, "{line}");
        }
        check_printed(
            "-quiet=maybe",
            Stream::Err,
            2,
            "invalid boolean value \"maybe\" for -quiet: parse error\n",
        );
    }

    #[test]
    fn what_is_not_a_flag() {
        check_printed("-frob", Stream::Err, 2, "flag provided but not defined: -frob\n");
        check_printed("--frob=1 x", Stream::Err, 2, "flag provided but not defined: -frob\n");
        for (line, flag) in [
            ("-cnf x", "conf"),
            ("--pid 1", "pidfile"),
            ("-Quiet", "quiet"),
            ("-takeover", "take-over"),
        ] {
            let name = line.trim_start_matches('-').split(' ').next().unwrap_or_default();
            let begin = format!("flag provided but not defined: -{name}\ndid you mean -{flag}?\n");
            check_printed(line, Stream::Err, 2, &begin);
        }
        check_printed("-conf", Stream::Err, 2, "flag needs an argument: -conf\n");
        check_printed("---conf x", Stream::Err, 2, "bad flag syntax: ---conf\n");
        check_printed("-=x", Stream::Err, 2, "bad flag syntax: -=x\n");
        check_printed(
            "-p dns",
            Stream::Err,
            2,
            "error: invalid value 'dns' for '--dns.port <PORT>'",
        );
        check_printed("-p 65536", Stream::Err, 2, "error: invalid value '65536'");
        check_printed(
            "-io fast",
            Stream::Err,
            2,
            "error: invalid value 'fast' for '--io <BACKEND>'",
        );
        check_printed(
            "-workers 0",
            Stream::Err,
            2,
            "error: invalid value '0' for '--workers <N>'",
        );
    }

    #[test]
    fn extra_words_are_refused() {
        check_printed(
            "a -quiet b",
            Stream::Err,
            1,
            "extra command line arguments: [a -quiet b]\n",
        );
        check_printed("-quiet -", Stream::Err, 1, "extra command line arguments: [-]\n");
        check_printed("-- -quiet", Stream::Err, 1, "extra command line arguments: [-quiet]\n");
        check_printed("-version x", Stream::Err, 1, "extra command line arguments: [x]\n");
        assert!(!served("--").quiet);
    }

    #[test]
    fn what_is_printed() {
        check_printed(
            "-version",
            Stream::Out,
            0,
            &format!("nodens-{}\n", env!("CARGO_PKG_VERSION")),
        );
        check_printed("-plugins", Stream::Out, 0, "acl\nany\n");
        for line in ["-h", "-help", "--help", "-h -version x"] {
            check_printed(line, Stream::Err, 0, HELP_BEFORE);
        }
        let version = version();
        let [_, second] = version.lines().collect::<Vec<_>>().try_into().unwrap();
        let parts: Vec<&str> = second.split(", ").collect();
        assert!(
            parts[0].starts_with("linux/") && parts[1].starts_with("rustc") && !parts[2].is_empty(),
            "{version}"
        );
    }

    #[test]
    fn the_help_names_every_flag() {
        let Command::Print(help) = parsed("-help") else {
            panic!()
        };
        for flag in [
            "--conf",
            "--dns.port",
            "--p]",
            "--pidfile",
            "--quiet",
            "--io",
            "--take-over",
            "--workers",
            "--plugins",
            "--version",
        ] {
            assert!(help.text.contains(flag), "{flag}: {}", help.text);
        }
        for example in HELP_AFTER
            .lines()
            .filter_map(|line| line.trim().strip_prefix("nodens "))
        {
            let words = example.split("  ").next().unwrap_or_default();
            assert!(!matches!(parsed(words), Command::Print(_)), "{example}");
        }
    }

    #[test]
    fn check_takes_a_file() {
        let checked = |line: &str| match parsed(line) {
            Command::Check(options) => (options.conf, options.port),
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(checked("check"), (None, 53));
        assert_eq!(checked("check X"), (Some("X".into()), 53));
        assert_eq!(checked("-p 54 check X"), (Some("X".into()), 54));
        assert_eq!(checked("check -p 54 X"), (Some("X".into()), 54));
        assert_eq!(checked("check -conf Y"), (Some("Y".into()), 53));
        check_printed("check X Y", Stream::Err, 1, "extra command line arguments: [Y]\n");
    }

    #[test]
    fn man_page_and_completions_are_printed() {
        check_printed("man", Stream::Out, 0, ".ie ");
        check_printed("completions bash", Stream::Out, 0, "_nodens() {\n");
        check_printed("completions zsh", Stream::Out, 0, "#compdef nodens\n");
        for line in ["completions", "completions csh"] {
            check_printed(
                line,
                Stream::Err,
                2,
                "completions for which shell? bash, fish and zsh are known\n",
            );
        }
        check_printed("man x", Stream::Err, 1, "extra command line arguments: [x]\n");
        check_printed(
            "completions zsh x",
            Stream::Err,
            1,
            "extra command line arguments: [x]\n",
        );
    }

    #[test]
    fn where_the_configuration_comes_from() {
        assert_eq!(served("").input().unwrap(), Input::Default);
        assert_eq!(served("-conf a/b").input().unwrap(), Input::File("a/b".into()));
    }
}
