//! The man page, from the definition of the command line.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

const SIGNALS: [(&str, &str); 4] = [
    (
        "SIGTERM, SIGINT",
        "Ends the server: after lameduck of health, if there is one, what has come is answered first.",
    ),
    ("SIGQUIT", "The same without lameduck."),
    (
        "SIGUSR1",
        "Reads the Corefile again. One that is wrong changes nothing.",
    ),
    ("SIGHUP, SIGUSR2", "Ignored."),
];

const STATUS: [(&str, &str); 3] = [
    ("0", "Ended by a signal, or what was asked for has been printed."),
    ("1", "The Corefile is wrong, or the server could not start or go on."),
    (
        "2",
        "An unknown flag or a wrong value; or a second SIGINT during lameduck.",
    ),
];

/// The page in the language of `man`.
pub fn page(command: Command) -> String {
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let verbs: Vec<_> = command
        .get_subcommands()
        .map(|verb| {
            let words = verb.get_positionals().map(|word| format!(" {}", word.get_id()));
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            (format!("{}{}", verb.get_name(), words.collect::<String>()), about)
        })
        .collect();
    let verbs: Vec<_> = verbs.iter().map(|(verb, about)| (&**verb, &**about)).collect();
    let files = [
        ("./Corefile", "Read when there is no -conf."),
        ("/etc/nodens/Corefile", "Read by the service of systemd."),
    ];
    let man = Man::new(command).section("8").manual("nodens");
    let mut page = Vec::new();
    let written = [
        Man::render_title,
        name,
        Man::render_synopsis_section,
        Man::render_description_section,
        Man::render_options_section,
    ]
    .iter()
    .try_for_each(|section| section(&man, &mut page))
    .and_then(|()| {
        let mut rest = Roff::new();
        list(&mut rest, "COMMANDS", &verbs);
        list(&mut rest, "SIGNALS", &SIGNALS);
        list(&mut rest, "EXIT STATUS", &STATUS);
        list(&mut rest, "FILES", &files);
        rest.control("SH", ["NOTES"]).control("nf", []);
        rest.text([roman(notes)]).control("fi", []);
        rest.control("SH", ["SEE ALSO"])
            .text([italic("https://github.com/nodens-dns/nodens/tree/main/docs")]);
        rest.to_writer(&mut page)
    });
    written.expect("writing to memory does not fail");
    let page = String::from_utf8(page).expect("made of text");
    // As in manuals of CoreDNS; both forms are read.
    page.replace(r"\fB\-\-", r"\fB\-")
}

/// What `apropos` shows: shorter than the description.
fn name(_: &Man, page: &mut dyn Write) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", ["NAME"])
        .text([roman("nodens - a DNS server for clusters")]);
    roff.to_writer(page)
}

fn list(roff: &mut Roff, title: &str, items: &[(&str, &str)]) {
    roff.control("SH", [title]);
    for (term, text) in items {
        roff.control("TP", []).text([bold(*term)]).text([roman(*text)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::definition;

    #[test]
    fn every_flag_and_verb_is_there_as_people_write_it() {
        let page = page(definition());
        for flag in definition().get_arguments().filter_map(clap::Arg::get_long) {
            let written = flag.replace('-', r"\-");
            assert!(page.contains(&format!(r"\fB\-{written}\fR")), "{flag}: {page}");
        }
        for verb in ["check FILE", "completions SHELL", "man"] {
            assert!(page.contains(&format!("\n\\fB{verb}\\fR\n")), "{verb}: {page}");
        }
        assert!(page.contains("\n.SH NAME\nnodens \\- a DNS server"), "{page}");
        assert!(page.contains(".TH nodens 8 ") && !page.contains(r"\fB\-\-"), "{page}");
    }
}
