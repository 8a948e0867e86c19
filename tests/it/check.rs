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
