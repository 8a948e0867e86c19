//! What `make install` puts where, and the unit of systemd.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nodens_tests::process::nodens;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What a command prints on both streams, and whether it ended well.
fn run(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// The settings of the unit, each with all of its values.
fn settings(unit: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut settings = BTreeMap::<_, Vec<_>>::new();
    for line in unit.lines().filter(|line| !line.starts_with(['#', '['])) {
        if let Some((name, value)) = line.split_once('=') {
            settings.entry(name).or_default().extend(value.split(' '));
        }
    }
    settings
}

#[test]
fn install_puts_everything_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "install".to_owned(),
        format!("PREFIX={}", folder.path().display()),
        format!("BIN={}", nodens().unwrap_or_else(|error| panic!("{error}")).display()),
    ];
    let (done, text) = run(Command::new("make").arg("-C").arg(root()).args(&arguments));
    assert!(done, "{text}");

    let placed = |file: &str| folder.path().join(file);
    let (runs, version) = run(Command::new(placed("bin/nodens")).arg("-version"));
    assert!(runs && version.starts_with("nodens-"), "{version}");
    for (file, begin) in [
        ("share/man/man8/nodens.8", ".ie "),
        ("share/bash-completion/completions/nodens", "_nodens()"),
        ("share/zsh/site-functions/_nodens", "#compdef nodens"),
        ("share/fish/vendor_completions.d/nodens.fish", "complete -c nodens"),
        ("lib/systemd/system/nodens.service", "# nodens under systemd"),
    ] {
        let text = fs::read_to_string(placed(file)).unwrap();
        assert!(text.starts_with(begin), "{file}: {text}");
    }

    let unit = placed("lib/systemd/system/nodens.service");
    let text = fs::read_to_string(&unit).unwrap();
    assert_eq!(Path::new(settings(&text)["ExecStart"][0]), placed("bin/nodens"));
    // Its status is of all units of the machine.
    match Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(unit)
        .output()
    {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let own: Vec<_> = said.lines().filter(|line| line.contains("nodens.service")).collect();
            assert!(own.is_empty(), "{own:?}");
        }
        Err(error) => println!("not verified: systemd-analyze: {error}"),
    }
}

#[test]
fn the_unit_gives_one_right_and_room() {
    let unit = fs::read_to_string(root().join("packaging/nodens.service")).unwrap();
    let settings = settings(&unit);
    for (name, value) in [
        ("DynamicUser", "yes"),
        ("AmbientCapabilities", "CAP_NET_BIND_SERVICE"),
        ("CapabilityBoundingSet", "CAP_NET_BIND_SERVICE"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("LimitMEMLOCK", "64M"),
        ("LimitNOFILE", "524288"),
    ] {
        assert_eq!(settings[name], [value], "{name}");
    }
    assert_eq!(settings["ExecReload"], ["/bin/kill", "-USR1", "$MAINPID"]);
    for call in ["io_uring_setup", "io_uring_enter", "io_uring_register"] {
        assert!(settings["SystemCallFilter"].contains(&call), "{call}");
    }
}
