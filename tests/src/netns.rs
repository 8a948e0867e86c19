//! A network of a test's own: a namespace where interfaces and sysctls concern nobody else.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs a test on a thread in a new namespace in which only loopback is up; what it starts is there too. Tells and does
/// nothing where namespaces are not allowed.
///
/// # Panics
/// The test does.
pub fn inside(test: impl FnOnce() + Send) {
    let ended = std::thread::scope(|scope| {
        let thread = scope.spawn(|| match enter() {
            Ok(()) => test(),
            Err(why) => println!("skipped: no network namespace: {why}"),
        });
        thread.join()
    });
    if let Err(panic) = ended {
        std::panic::resume_unwind(panic);
    }
}

fn enter() -> Result<(), String> {
    // It holds the namespace until this thread is in it.
    let mut holder = Command::new("unshare")
        .args(["--net", "sleep", "10"])
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("unshare: {error}"))?;
    let entered = enter_that_of(holder.id());
    // Errors mean that it has ended.
    let _ = holder.kill();
    let _ = holder.wait();
    entered?;
    run("ip link set lo up");
    Ok(())
}

fn enter_that_of(process: u32) -> Result<(), String> {
    let (own, other) = ("/proc/thread-self/ns/net", format!("/proc/{process}/ns/net"));
    let end = Instant::now() + Duration::from_secs(5);
    while fs::read_link(own).map_err(|error| error.to_string())?
        == fs::read_link(&other).map_err(|_| "`unshare --net` is not allowed".to_owned())?
    {
        if Instant::now() > end {
            return Err("`unshare --net` makes none".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let namespace = File::open(other).map_err(|error| error.to_string())?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|error| error.to_string())
}

/// Runs a command made of words without blanks.
///
/// # Panics
/// It fails.
pub fn run(command: &str) {
    let mut words = command.split_whitespace();
    let program = words.next().expect("a program");
    let status = Command::new(program).args(words).status();
    assert!(
        status.as_ref().is_ok_and(|status| status.success()),
        "{command}: {status:?}"
    );
}
