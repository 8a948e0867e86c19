//! A ceiling for the instructions of one answer, counted by callgrind over the release build of the benchmarks'
//! `handler`: an answer must not get dearer unseen, on a machine whose clock cannot be trusted.
//!
//! `cargo build --release -p nodens-benches --bins` makes the program; `NODENS_HANDLER` names another.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Instructions for one query, from its bytes to those of its reply, for each of the handler's kinds of question.
const CEILINGS: [(&str, u64); 8] = [
    ("a", 1500),
    ("srv", 1500),
    ("nxdomain", 1500),
    ("cluster-a", 2300),
    ("cluster-nxdomain", 2000),
    ("cluster-srv", 3400),
    ("cluster-headless", 4100),
    ("cluster-headless-srv", 13_400),
];
const SERVICES: &str = "1000";
const BATCH: u64 = 32;
/// What the first batches cost, memory that is touched for the first time, is taken off.
const BATCHES: [u64; 2] = [64, 320];

fn handler() -> Option<PathBuf> {
    let named = env::var_os("NODENS_HANDLER").map(PathBuf::from);
    let built = || Some(env::current_exe().ok()?.ancestors().nth(3)?.join("release/handler"));
    named.or_else(built).filter(|path| path.exists())
}

/// Instructions below `Responder::datagrams`.
fn counted(handler: &Path, kind: &str, batches: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*Responder*datagrams*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(handler)
        .args([kind, SERVICES, &batches.to_string()])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = fs::read_to_string(out).unwrap();
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    totals
        .and_then(|number| number.trim().parse().ok())
        .expect("callgrind says how many")
}

#[test]
fn an_answer_keeps_below_its_ceiling() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: there is no valgrind");
        return;
    }
    let Some(handler) = handler() else {
        println!("skipped: the release build of nodens-benches is not there");
        return;
    };
    for (kind, ceiling) in CEILINGS {
        let [few, many] = BATCHES.map(|batches| counted(&handler, kind, batches));
        assert!(many > few, "{kind}: nothing was collected");
        let each = (many - few) / (BATCH * (BATCHES[1] - BATCHES[0]));
        println!("{kind}: {each} instructions a query");
        assert!(
            each <= ceiling,
            "{kind}: {each} instructions a query, {ceiling} are the ceiling"
        );
    }
}
