//! What is wrong with the files, certificates and interfaces that a configuration names. They are looked at and read, and
//! nothing is done with them, so that `nodens check` and a start that fails for another reason say all of it at once.

use std::sync::Arc;

use nodens_engine::zone::trie::NameHash;

use crate::auto::AutoZones;
use crate::compile::{Compiled, compile};
use crate::corefile::settings::ServerBlock;
use crate::corefile::{Diagnostic, Findings, Span};
use crate::files::{FileZone, HostsFile};
use crate::numbers::Numbers;
use crate::random::random;
use crate::weights::WeightFile;

/// Looks for them. Errors are what a start with these blocks would end with; a file that may come is a warning.
pub fn find(blocks: &[ServerBlock]) -> Findings {
    let (compiled, errors) = compile(blocks, &NameHash::new(random()), &mut Numbers::default());
    beside(errors, compiled)
}

/// Those beside the errors that compiling has found.
pub fn beside(errors: Vec<Diagnostic>, compiled: Compiled) -> Findings {
    let hash = NameHash::new(random());
    let mut found = Findings::default();
    errors.into_iter().for_each(|error| found.note(error));
    let mut last = None;
    for source in compiled.files {
        let span = source.settings.db_file_span;
        // The zones of one stanza have one file.
        if last == Some(span) {
            continue;
        }
        let zone = FileZone::new(source, hash.clone());
        match zone.first() {
            Ok(file) => {
                let odd = zone.oddities(&file).into_iter();
                odd.for_each(|text| found.note(Diagnostic::warning(span, text)));
            }
            Err(wrong) => {
                found.add(wrong);
                last = Some(span);
            }
        }
    }
    for source in compiled.weights {
        if let Err(wrong) = WeightFile::new(source, hash.clone()).first() {
            found.add(wrong);
        }
    }
    for source in compiled.clusters {
        source.check_here().into_iter().for_each(|finding| found.note(finding));
    }
    let mut odd = |span: Span, text: &str| found.note(Diagnostic::warning(span, text));
    for source in compiled.hosts {
        let span = source.settings.file_span;
        HostsFile::new(source, hash.clone(), Arc::new(|_, _, _| {})).first(&mut |text| odd(span, text));
    }
    for source in compiled.auto {
        let span = source.settings.directory_span;
        AutoZones::new(source, hash.clone()).warn(&mut |text| odd(span, text));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::certificates::FILE_BYTES_MAX;
    use crate::corefile::{self, Colour, Input, Machine};

    /// Errors and warnings of a Corefile in a folder, as they are drawn.
    fn drawn(folder: &Path, text: &str) -> (Vec<String>, Vec<String>) {
        let path = folder.join("Corefile");
        fs::write(&path, text).unwrap();
        let corefile = corefile::load(&Input::File(path), 53, &Machine).unwrap();
        let found = find(&corefile.blocks);
        let draw = |findings: &[Diagnostic]| {
            let all = findings.iter();
            all.map(|one| one.render(&corefile.sources, Colour::Off)).collect()
        };
        (draw(&found.errors), draw(&found.warnings))
    }

    fn has(drawn: &[String], at: usize, texts: &[&str]) {
        for text in texts {
            assert!(drawn[at].contains(text), "{text}\n{}", drawn.join("\n"));
        }
    }

    #[test]
    fn all_files_are_looked_at_and_wrong_lines_are_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("cedar", "$TTL 60\n@ SOA ns1 admin 1 2 3 4 5\n$INCLUDE more\n");
        write("more", "\n  A 192.0.2.300\n");
        write("oak", "www A 192.0.2.1\n");
        write(
            "pine",
            "@ SOA ns1 admin 1 2 3 4 5\n@ SOA ns1 admin 2 2 3 4 5\nwww.oak.example. A 192.0.2.1\nwww CNAME ns1\nwww TXT t\n",
        );
        write("heavy", "www\n192.0.2.1 0\n");
        write("some-hosts", "192.0.2.1 a.cedar.example\nwrong\n");
        let root = folder.path().display();
        let (errors, warnings) = drawn(
            folder.path(),
            &format!(
                "cedar.example {{
                root {root}
                bind nowhere0
                file cedar
                file oak oak.example elm.example
                file late fir.example
                file pine pine.example
                file late beech.example {{
                    reload 0
                }}
                loadbalance weighted heavy
                hosts some-hosts
                auto {{
                    directory none
                }}
                tls cert key {{
                    keylog {root}/keys
                }}
                }}"
            ),
        );
        assert_eq!(errors.len(), 7, "{}", errors.join("\n"));
        assert!(errors.iter().all(|error| error.contains("= help: ")));
        has(&errors, 0, &["Corefile:3", "nowhere0"]);
        has(&errors, 1, &["Corefile:16", "cert"]);
        has(&errors, 2, &["Corefile:16", "key"]);
        has(&errors, 3, &["Corefile:4", "more:2", "A 192.0.2.300"]);
        has(&errors, 4, &["Corefile:5", "no SOA record for origin oak.example."]);
        has(&errors, 5, &["Corefile:8", "late"]);
        has(&errors, 6, &["Corefile:11", "heavy:2", "192.0.2.1 0"]);
        assert_eq!(warnings.len(), 6, "{}", warnings.join("\n"));
        has(&warnings, 0, &["Corefile:6", "Failed to open zone fir.example."]);
        has(
            &warnings,
            1,
            &["Corefile:7", "1 records of pine lie outside zone pine.example."],
        );
        has(
            &warnings,
            2,
            &["Corefile:7", "more than one SOA", "the last one counts"],
        );
        has(&warnings, 3, &["Corefile:7", "beside the CNAME of www.pine.example."]);
        has(&warnings, 4, &["Corefile:12", "some-hosts:2"]);
        has(&warnings, 5, &["Corefile:14", "Directory does not exist: none"]);
        assert!(!folder.path().join("keys").exists(), "nothing is made");
    }

    #[test]
    fn an_api_server_needs_its_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("config"),
            "kind: Config\ncontexts: []\ncurrent-context: a\n",
        )
        .unwrap();
        fs::write(
            folder.path().join("whole"),
            "kind: Config
clusters: [{name: c, cluster: {server: 'https://192.0.2.1', certificate-authority: lost.pem}}]
users: [{name: u, user: {tokenFile: lost.token}}]
contexts: [{name: a, context: {cluster: c, user: u}}]
current-context: a
",
        )
        .unwrap();
        let root = folder.path().display();
        let (errors, warnings) = drawn(
            folder.path(),
            &format!(
                "a.example {{\nroot {root}\nkubernetes {{\nkubeconfig none\n}}\n}}
                b.example {{\nroot {root}\nkubernetes {{\nkubeconfig config other\n}}\n}}
                c.example {{\nroot {root}\nkubernetes {{\nendpoint https://192.0.2.1\ntls cert key ca\n}}\n}}
                d.example {{\nkubernetes\n}}
                e.example {{\nroot {root}\nkubernetes {{\nkubeconfig whole\n}}\n}}"
            ),
        );
        assert_eq!(errors.len(), 7, "{}", errors.join("\n"));
        assert!(errors.iter().all(|error| error.contains("= help: ")));
        has(&errors, 0, &["Corefile:4", "error reading", "none"]);
        has(&errors, 1, &["Corefile:10", "failed to load current context: other"]);
        for (at, file) in (2..).zip(["cert", "key", "ca"]) {
            has(&errors, at, &["Corefile:17", &format!("{root}/{file}: ")]);
        }
        for (at, file) in (5..).zip(["lost.pem", "lost.token"]) {
            has(&errors, at, &["Corefile:26", &format!("error reading {root}/{file}: ")]);
        }
        has(
            &warnings,
            0,
            &["unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST"],
        );
    }

    #[test]
    fn what_is_no_file_or_too_large_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        let large = |name: &str, len| File::create(path(name)).unwrap().set_len(len).unwrap();
        large("large", FILE_BYTES_MAX + 1);
        large("at-most", FILE_BYTES_MAX);
        let [pipe, large, at_most] = ["pipe", "large", "at-most"].map(|name| path(name).display().to_string());
        let text = format!(
            "a.example {{\ntls {pipe} {large}\n}}\nb.example {{\ntls {at_most} {at_most} {pipe}\n}}\nc.example {{\netcd {{\ntls {pipe} {large} {pipe}\n}}\n}}\n\
             d.example {{\ntls {at_most} {at_most} {{\nkeylog {pipe}\n}}\n}}\n"
        );
        let own = folder.path().to_owned();
        // A pipe that is opened would hold this up for ever.
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(drawn(&own, &text).0));
        let errors = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        let all = errors.join("\n");
        assert_eq!(all.matches("it is no regular file").count(), 5, "{all}");
        assert_eq!(
            all.matches(&format!("larger than {FILE_BYTES_MAX} bytes")).count(),
            2,
            "{all}"
        );
        assert_eq!(all.matches("at-most: no certificate in it").count(), 2, "{all}");
        assert_eq!(errors.len(), 9, "{all}");
    }
}
