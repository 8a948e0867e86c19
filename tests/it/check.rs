//! `nodens check` and a start that fails: all that is wrong, in the Corefile and in what it names, in one run.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use nodens_tests::process::nodens;

const COREFILE: &str = "import parts/*
cedar.example:1 {
    file cedar.zone
    loadbalance weighted weights
    bind nowhere0
}
";

const FILES: [(&str, &str); 5] = [
    (
        "cedar.zone",
        "@ 60 IN SOA ns1 admin 7 7200 1800 86400 45\nwww 60 IN A not-an-address\n",
    ),
    ("weights", "www\n192.0.2.1 0\n"),
    ("late", "oak.example:2 {\n    file later.zone\n}\n"),
    ("parts/tls", "tls://cedar.example:3 {\n    tls none.pem none.key\n}\n"),
    ("parts/words", "elm.example:4 {\n    whoami\n}\n"),
];

fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(nodens().unwrap());
    command.args(args).current_dir(folder).output().unwrap()
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("parts")).unwrap();
    for (name, text) in FILES.into_iter().chain([("Corefile", COREFILE)]) {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let places = [
        "Corefile:3 - plugin/file: failed to parse file \"cedar.zone\" for origin cedar.example. with error cedar.zone:2:",
        "2 | www 60 IN A not-an-address",
        "Corefile:4 - plugin/loadbalance: wrong weight value:\"0\"",
        "2 | 192.0.2.1 0",
        "Corefile:5 - Error during parsing: plugin/bind: not a valid IP address or interface name: \"nowhere0\"",
        "parts/tls:2 - plugin/tls: could not load TLS cert: none.pem",
        "parts/tls:2 - plugin/tls: could not load TLS cert: none.key",
    ];
    let refused = |args: &[&str], helps: usize| {
        let output = run(folder.path(), args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        for place in places {
            assert!(text.contains(place), "{place}\n{text}");
        }
        assert_eq!(text.matches("= help: ").count(), helps, "{text}");
        text
    };
    // Words that are right, and words that are wrong beside them.
    for args in [["check", "Corefile"], ["-conf", "Corefile"]] {
        refused(&args, 5);
    }
    fs::write(folder.path().join("parts/words"), "elm.example:4 {\n    whoam\n}\n").unwrap();
    for args in [["check", "Corefile"], ["-conf", "Corefile"]] {
        assert!(refused(&args, 6).contains("parts/words:2 - Error during parsing: Unknown directive 'whoam'"));
    }
}

#[test]
fn a_kubeconfig_is_looked_at_beside_words_that_are_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "Corefile",
        "a.example:1 {\n    kubernetes {\n        kubeconfig config\n        pods maybe\n    }\n}\n\
         b.example:2 {\n    kubernetes 10.96.0.0/16 {\n        kubeconfig none one two\n    }\n}\n",
    );
    let names = "contexts: [{name: a, context: {cluster: c, user: u}}]\ncurrent-context: a\n";
    let cluster = "clusters: [{name: c, cluster: {server: 'https://192.0.2.1', certificate-authority: lost.pem}}]\n";
    let user = "users: [{name: u, user: {tokenFile: lost.token}}]\n";
    write("config", &format!("kind: Config\n{cluster}{user}{names}"));
    for args in [["check", "Corefile"], ["-conf", "Corefile"]] {
        let output = run(folder.path(), &args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        for place in [
            "Corefile:3 - Error during parsing: plugin/kubernetes: error reading lost.pem: ",
            "Corefile:3 - Error during parsing: plugin/kubernetes: error reading lost.token: ",
            "Corefile:4 - Error during parsing: wrong value for pods: maybe,",
            "Corefile:8 - Error during parsing: non-reverse zone name must be used",
            "Corefile:9 - Error during parsing: Wrong argument count or unexpected line ending after 'two'",
            "Corefile:9 - Error during parsing: plugin/kubernetes: error reading none: ",
        ] {
            assert!(text.contains(place), "{place}\n{text}");
        }
    }
}

#[test]
fn every_wrong_line_of_a_file_is_drawn_and_warnings_stand_behind() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "Corefile",
        "cedar.example:1 {\n    pprof\n    file cedar.zone\n    loadbalance weighted weights\n    auto {\n        directory zones\n    }\n}\n\
         oak.example:2 {\n    file later.zone\n}\n",
    );
    write(
        "cedar.zone",
        &format!(
            "@ NS ns1\na A x\nb A 192.0.2.1\nc B\n$INCLUDE more\n{}",
            "d A\n".repeat(22)
        ),
    );
    write("more", "e..f A 192.0.2.1\n  A 192.0.2.2\n");
    write("weights", "www\n192.0.2.1 0\n192.0.2.2 1\n192.0.2.3 256\n");
    fs::create_dir(folder.path().join("zones")).unwrap();
    write(
        "zones/db.elm.example",
        "@ 60 IN SOA ns1 admin 7 7200 1800 86400 45\na A x\nb A y\n",
    );
    for args in [["check", "Corefile"], ["-conf", "Corefile"]] {
        let output = run(folder.path(), &args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        let failed = |at: &str| {
            format!(
                "Corefile:3 - plugin/file: failed to parse file \"cedar.zone\" for origin cedar.example. with error {at}: "
            )
        };
        let mut behind = 0;
        for begin in [
            failed("cedar.zone:2"),
            failed("cedar.zone:4"),
            failed("more:1"),
            failed("cedar.zone:6"),
            failed("cedar.zone:22"),
            "Corefile:3 - and 5 more lines of this file are wrong\n".to_owned(),
            "Corefile:3 - plugin/file: file \"cedar.zone\" has no SOA record for origin cedar.example.\n".to_owned(),
            "Corefile:4 - plugin/loadbalance: wrong weight value:\"0\" in weight file weights\n".to_owned(),
            "Corefile:4 - plugin/loadbalance: wrong weight value:\"256\" in weight file weights\n".to_owned(),
            "warning: ".to_owned(),
        ] {
            let at = text[behind..].find(&begin).unwrap_or_else(|| panic!("{begin}\n{text}"));
            behind += at + begin.len();
        }
        assert!(
            !text[..behind - 9].contains("warning: ") && text.contains("(Corefile:2)"),
            "{text}"
        );
        // Above the first line, and again for the SOA.
        assert_eq!(text.matches("3 |     file cedar.zone").count(), 2, "{text}");
    }
    let output = run(folder.path(), &["check", "Corefile"]);
    let text = String::from_utf8_lossy(&output.stderr);
    for warning in [
        "Parse zone `elm.example.': failed to parse file \"zones/db.elm.example\" for origin elm.example. with error zones/db.elm.example:2: ",
        "with error zones/db.elm.example:3: ",
        "Failed to open zone oak.example.",
    ] {
        assert!(text.contains(warning), "{warning}\n{text}");
    }
}

#[test]
fn what_may_come_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in FILES.into_iter().filter(|(name, _)| !name.contains('/')) {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let output = run(folder.path(), &["check", "late"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("plugin/file: Failed to open zone oak.example.: open later.zone") && text.contains("(late:2)"),
        "{text}"
    );
}
