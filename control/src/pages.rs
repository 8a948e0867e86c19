//! Large data is moved to huge pages once it stands: [`use_huge_pages`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nodens_engine::io::use_huge_pages;

use crate::admin::process::resident;

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Growth that is worth it: this, and a quarter of what there was.
const GROWTH_MIN: u64 = 16 << 20;
/// Growth between two looks that says that there is more to come.
const GROWTH_FEW: u64 = 1 << 20;

/// What was on huge pages when memory was last moved to them, in bytes.
static ON_HUGE_PAGES: AtomicUsize = AtomicUsize::new(0);

/// See [`ON_HUGE_PAGES`].
pub(crate) fn on_huge_pages() -> usize {
    ON_HUGE_PAGES.load(Ordering::Relaxed)
}

/// Moves what has grown, until the runtime ends or the kernel has no huge pages to give.
pub async fn follow() {
    let mut growth = Growth::default();
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        look.tick().await;
        let Some(resident) = resident() else { return };
        if !growth.is_over(resident) {
            continue;
        }
        match tokio::task::spawn_blocking(use_huge_pages).await {
            Ok(Ok(bytes)) => ON_HUGE_PAGES.store(bytes, Ordering::Relaxed),
            // Everything works without them.
            _ => return,
        }
    }
}

/// When memory has grown and does not go on growing.
#[derive(Debug, Default)]
struct Growth {
    /// Resident bytes when it was moved last, or less since.
    moved: u64,
    /// Resident bytes at the last look.
    last: u64,
}

impl Growth {
    fn is_over(&mut self, resident: u64) -> bool {
        let goes_on = resident > self.last + GROWTH_FEW;
        self.last = resident;
        self.moved = self.moved.min(resident);
        let is_over = !goes_on && resident >= self.moved + (self.moved / 4).max(GROWTH_MIN);
        if is_over {
            self.moved = resident;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_when_it_has_grown_and_stands() {
        let mut growth = Growth::default();
        let mut looks = |megabytes: &[u64]| -> Vec<bool> {
            megabytes
                .iter()
                .map(|megabytes| growth.is_over(megabytes << 20))
                .collect()
        };
        assert_eq!(looks(&[12, 12, 15, 15]), [false; 4], "small");
        assert_eq!(
            looks(&[40, 80, 80, 80]),
            [false, false, true, false],
            "a list, and its end"
        );
        assert_eq!(
            looks(&[99, 99, 100, 100]),
            [false, false, true, false],
            "a quarter more"
        );
        assert_eq!(looks(&[30, 50, 50]), [false, false, true], "less, and more again");
    }

    #[test]
    fn the_kernel_tells_of_this_process() {
        assert!(resident().unwrap() > 1 << 20);
    }
}
