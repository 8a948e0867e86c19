//! Completions of shells, from the definition of the command line. Flags have one dash, as in the manuals of CoreDNS, and
//! two for who begins so; the crate clap_complete knows only the second form.

use std::fmt::Write as _;

use clap::{Arg, Command, ValueEnum, ValueHint};

/// A shell whose completions are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU's.
    Bash,
    /// With its own language for descriptions.
    Fish,
    /// With its own language for descriptions.
    Zsh,
}

impl Shell {
    /// For messages.
    pub const NAMES: &str = "bash, fish and zsh are known";
}

/// What the shell reads.
pub fn script(shell: Shell, command: &Command) -> String {
    let mut out = String::new();
    let written = match shell {
        Shell::Bash => bash(command, &mut out),
        Shell::Fish => fish(command, &mut out),
        Shell::Zsh => zsh(command, &mut out),
    };
    written.expect("writing to a String does not fail");
    out
}

/// What may stand behind a flag or a verb.
enum Value {
    /// There is none.
    None,
    File,
    OneOf(Vec<String>),
    /// The shell cannot know.
    Free,
}

impl Value {
    fn of(argument: &Arg) -> Self {
        if !argument.is_positional() && !argument.get_action().takes_values() {
            return Self::None;
        }
        let known = argument.get_possible_values();
        match argument.get_value_hint() {
            ValueHint::FilePath => Self::File,
            _ if known.is_empty() => Self::Free,
            _ => Self::OneOf(known.iter().map(|value| value.get_name().to_owned()).collect()),
        }
    }

    fn of_verb(verb: &Command) -> Self {
        verb.get_positionals().next().map_or(Self::None, Self::of)
    }
}

/// The names of a flag, without dashes.
fn names(argument: &Arg) -> impl Iterator<Item = &str> {
    let aliases = argument.get_visible_aliases().unwrap_or_default();
    argument.get_long().into_iter().chain(aliases)
}

fn help(argument: &Arg) -> String {
    argument.get_help().map(ToString::to_string).unwrap_or_default()
}

fn about(verb: &Command) -> String {
    verb.get_about().map(ToString::to_string).unwrap_or_default()
}

fn bash(command: &Command, out: &mut String) -> std::fmt::Result {
    let all = |dashes| -> String {
        let names: Vec<_> = command.get_arguments().flat_map(names).collect();
        names.iter().map(|name| format!("{dashes}{name} ")).collect()
    };
    let verbs: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
    writeln!(out, "_nodens() {{")?;
    writeln!(
        out,
        "    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}"
    )?;
    writeln!(out, "    COMPREPLY=()")?;
    writeln!(out, "    # \"-io=mmsg\" comes as three words.")?;
    writeln!(out, "    if [[ $cur == = ]]; then cur=")?;
    writeln!(
        out,
        "    elif [[ $prev == = ]]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi"
    )?;
    writeln!(out, "    case $prev in")?;
    for flag in command.get_arguments() {
        let both = names(flag).flat_map(|name| [format!("-{name}"), format!("--{name}")]);
        bash_value(&both.collect::<Vec<_>>().join("|"), &Value::of(flag), out)?;
    }
    for verb in command.get_subcommands() {
        bash_value(verb.get_name(), &Value::of_verb(verb), out)?;
    }
    writeln!(out, "    esac")?;
    writeln!(out, "    case $cur in")?;
    for dashes in ["--", "-"] {
        let flags = all(dashes);
        writeln!(
            out,
            "        {dashes}*) COMPREPLY=($(compgen -W \"{flags}\" -- \"$cur\")) ;;"
        )?;
    }
    writeln!(
        out,
        "        *) COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")) ;;",
        verbs.join(" ")
    )?;
    writeln!(out, "    esac")?;
    writeln!(out, "}}")?;
    writeln!(out, "complete -F _nodens nodens")
}

/// The branch for a word behind which a value stands.
fn bash_value(words: &str, value: &Value, out: &mut String) -> std::fmt::Result {
    match value {
        Value::None => Ok(()),
        Value::Free => writeln!(out, "        {words}) return ;;"),
        Value::File => writeln!(
            out,
            "        {words}) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\")); return ;;"
        ),
        Value::OneOf(known) => writeln!(
            out,
            "        {words}) COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")); return ;;",
            known.join(" ")
        ),
    }
}

fn fish(command: &Command, out: &mut String) -> std::fmt::Result {
    for flag in command.get_arguments() {
        for name in names(flag) {
            let help = quoted(&help(flag));
            writeln!(
                out,
                "complete -c nodens -o {name}{} -d {help}",
                fish_value(&Value::of(flag))
            )?;
        }
    }
    for verb in command.get_subcommands() {
        let (name, about) = (verb.get_name(), quoted(&about(verb)));
        writeln!(
            out,
            "complete -c nodens -n __fish_use_subcommand -f -a {name} -d {about}"
        )?;
        let seen = format!("-n '__fish_seen_subcommand_from {name}'");
        writeln!(out, "complete -c nodens {seen}{}", fish_value(&Value::of_verb(verb)))?;
    }
    Ok(())
}

fn fish_value(value: &Value) -> String {
    match value {
        Value::None => " -f".to_owned(),
        Value::Free => " -x".to_owned(),
        Value::File => " -r -F".to_owned(),
        Value::OneOf(known) => format!(" -x -a '{}'", known.join(" ")),
    }
}

fn zsh(command: &Command, out: &mut String) -> std::fmt::Result {
    writeln!(out, "#compdef nodens\n")?;
    writeln!(out, "local -a verbs=(")?;
    for verb in command.get_subcommands() {
        writeln!(out, "    {}", quoted(&format!("{}:{}", verb.get_name(), about(verb))))?;
    }
    writeln!(out, ")")?;
    writeln!(out, "_arguments \\")?;
    for flag in command.get_arguments() {
        // In a description brackets and colons mean something.
        let help = help(flag).replace('[', "(").replace(']', ")").replace(':', "\\:");
        for name in names(flag) {
            let spec = match zsh_value(&Value::of(flag)) {
                None => format!("*-{name}[{help}]"),
                Some(action) => format!("*-{name}=[{help}]:value:{action}"),
            };
            writeln!(out, "    {} \\", quoted(&spec))?;
        }
    }
    writeln!(out, "    '1:verb:{{_describe verb verbs}}' \\")?;
    writeln!(out, "    '2:word:->word'")?;
    writeln!(out, "[[ $state == word ]] && case $line[1] in")?;
    for verb in command.get_subcommands() {
        match Value::of_verb(verb) {
            Value::File => writeln!(out, "    {}) _files ;;", verb.get_name())?,
            Value::OneOf(known) => writeln!(out, "    {}) compadd {} ;;", verb.get_name(), known.join(" "))?,
            Value::None | Value::Free => {}
        }
    }
    writeln!(out, "esac")
}

fn zsh_value(value: &Value) -> Option<String> {
    match value {
        Value::None => None,
        Value::Free => Some(" ".to_owned()),
        Value::File => Some("_files".to_owned()),
        Value::OneOf(known) => Some(format!("({})", known.join(" "))),
    }
}

/// A word of the shell, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::definition;

    /// What bash offers for the last of these words.
    fn offered(words: &[&str]) -> Vec<String> {
        let script = format!(
            "{}\nCOMP_WORDS=({}); COMP_CWORD={}; compopt() {{ :; }}; _nodens; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script(Shell::Bash, &definition()),
            words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
            words.len() - 1
        );
        let output = std::process::Command::new("bash")
            .args(["-c", &script])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn bash_completes_flags_with_one_dash_or_two_values_and_verbs() {
        let all = definition();
        let flags: Vec<_> = all
            .get_arguments()
            .flat_map(names)
            .map(|name| format!("-{name}"))
            .collect();
        assert_eq!(offered(&["nodens", "-"]), flags);
        assert_eq!(offered(&["nodens", "--conf", "x", "--w"]), ["--workers"]);
        assert_eq!(offered(&["nodens", "-quiet", "-c"]), ["-conf"]);
        for io in [&["-io", ""][..], &["--io", ""], &["-io", "="], &["-io", "=", "m"]] {
            let words: Vec<_> = ["nodens"].iter().chain(io).copied().collect();
            let all = offered(&words);
            assert!(all.last().is_some_and(|last| last == "mmsg"), "{io:?}: {all:?}");
        }
        assert_eq!(offered(&["nodens", ""]), ["check", "completions", "man"]);
        assert_eq!(offered(&["nodens", "completions", ""]), ["bash", "fish", "zsh"]);
        assert!(offered(&["nodens", "check", "Carg"]).contains(&"Cargo.toml".to_owned()));
        assert_eq!(offered(&["nodens", "-workers", ""]), [""; 0]);
    }

    #[test]
    fn fish_and_zsh_have_every_flag_as_people_write_it() {
        let (fish, zsh) = (script(Shell::Fish, &definition()), script(Shell::Zsh, &definition()));
        let all = definition();
        for name in all.get_arguments().flat_map(names) {
            assert!(
                fish.contains(&format!("complete -c nodens -o {name} ")),
                "{name}: {fish}"
            );
            assert!(zsh.contains(&format!("    '*-{name}")), "{name}: {zsh}");
        }
        for verb in all.get_subcommands().map(Command::get_name) {
            assert!(
                fish.contains(&format!(" -a {verb} ")) && zsh.contains(&format!("    '{verb}:")),
                "{verb}"
            );
        }
    }
}
