//! Every file of `cases/` against the binary, once on each back end.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nodens_tests::case::{Case, files_below};
use nodens_tests::expect::is_pattern;
use nodens_tests::process::{Process, nodens};
use nodens_tests::records::{split_words, type_of};
use nodens_tests::runner::{Setup, Shared, Verdict, needs_cluster, run};
use nodens_tests::world::World;

/// Scenarios at a time. They mostly wait, so more than there are cores. Those with an API server are one more, since they share it.
const PARALLEL: usize = 4;
/// One back end at a time, or the machine is too busy for the times that some cases measure.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// All cases, or those whose path holds the text of `CASE`.
fn cases() -> Vec<(String, Case)> {
    let wanted = std::env::var("CASE").unwrap_or_default();
    let mut all = Vec::new();
    for path in files_below(&folder()).expect("the folder of cases") {
        let name = path.strip_prefix(folder()).expect("below it").display().to_string();
        if name.contains(&wanted) {
            all.push((name, Case::load(&path).unwrap_or_else(|error| panic!("{error}"))));
        }
    }
    assert!(!all.is_empty(), "no case has {wanted:?} in its path");
    all
}

/// Whether the back end may be used here; why not, if not.
fn denied(io: &str) -> Option<String> {
    let world = World::new().expect("a folder");
    world
        .write("Corefile", Some(".:{PORT} {\n    whoami\n}\n"))
        .expect("a file");
    let mut command = Command::new(nodens().unwrap_or_else(|error| panic!("{error}")));
    command.current_dir(world.folder()).args([io, "-conf", "Corefile"]);
    let mut server = Process::start(&mut command, world.folder().join("log")).expect("the server starts");
    server
        .wait(Duration::from_millis(500))
        .map(|_| server.log_end())
        .filter(|log| log.contains("io_uring"))
}

fn all_pass(io: &str) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = denied(io) {
        eprintln!("skipped: {io} is denied here: {why}");
        return;
    }
    let setup = Setup {
        server: nodens().unwrap_or_else(|error| panic!("{error}")),
        extra: vec![io.to_owned()],
        keep: std::env::var_os("KEEP").is_some(),
    };
    let (in_turn, beside): (VecDeque<_>, VecDeque<_>) = cases().into_iter().partition(|(_, case)| needs_cluster(case));
    let (in_turn, beside) = (Mutex::new(in_turn), Mutex::new(beside));
    let bad: Mutex<Vec<String>> = Mutex::default();
    let all_of = |queue: &Mutex<VecDeque<(String, Case)>>| {
        let mut shared = Shared::default();
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some((name, case)) = next() {
            let begun = Instant::now();
            let verdict = run(&case, &setup, &mut shared);
            let line = format!("{io} {name} ({:.1} s): {verdict}", begun.elapsed().as_secs_f64());
            println!("{line}");
            if matches!(verdict, Verdict::Failed(_)) {
                bad.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| all_of(&in_turn));
        for _ in 0..PARALLEL {
            scope.spawn(|| all_of(&beside));
        }
    });
    let bad = bad.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(bad.is_empty(), "{} cases failed:\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn pass_on_uring() {
    all_pass("--io=uring");
}

#[test]
fn pass_on_mmsg() {
    all_pass("--io=mmsg");
}

/// A file that is not a case, and a line that could never match, would be a check that nobody makes.
#[test]
fn are_all_used_and_mean_something() {
    let mut open = vec![folder()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of cases") {
            let path = entry.expect("an entry").path();
            match path.extension().and_then(|ext| ext.to_str()) {
                None if path.is_dir() => open.push(path),
                Some("yaml") => {}
                _ if path.ends_with("FORMAT.md") => {}
                _ => panic!("{} is no case", path.display()),
            }
        }
    }
    for (name, case) in cases() {
        for ask in case.all_queries() {
            let sections = [&ask.answer, &ask.authority, &ask.additional, &ask.answer_has];
            for line in sections.into_iter().flatten().flatten() {
                let words = split_words(line);
                assert!(words.len() > 4, "{name}: `{line}` is no record");
                assert!(
                    words[3] == "*" || type_of(&words[3]).is_ok(),
                    "{name}: type of `{line}`"
                );
                assert!(
                    words[1] == "*" || words[1].parse::<u32>().is_ok(),
                    "{name}: TTL of `{line}`"
                );
            }
            assert!(
                ask.reply.as_deref().is_none_or(is_pattern),
                "{name}: reply {:?}",
                ask.reply
            );
        }
    }
}
