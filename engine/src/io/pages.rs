//! Huge pages under large data.
//!
//! Names are asked at random, so every step of a look-up in a large trie is on another page, and the processor finds few of their
//! addresses in its table (TLB). On pages of 2 MB it finds nearly all. The kernel could be asked to use them from the
//! beginning (`MADV_HUGEPAGE`), but then a thread that touches new memory waits for one to be found; so memory that has been
//! filled is moved to them now and then, by whoever has filled it.

use std::fs;
use std::io;
use std::ops::Range;

/// Bytes of a huge page of every architecture that nodens is built for, with its small pages of 4 KB.
const HUGE: usize = 2 << 20;
/// Regions with less in memory stay as they are.
const RESIDENT_MIN: usize = 16 << 20;
const MODES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Moves those of the process's own large regions that are nearly full to huge pages; returns how many bytes of them are on such
/// now. A part that the kernel finds no page for, by its limits or those of the cgroup, stays where it is. Each 2 MB are out of
/// reach for a fraction of a millisecond meanwhile.
///
/// # Errors
/// The kernel does not tell of regions, or its owner has switched huge pages off.
pub fn use_huge_pages() -> io::Result<usize> {
    if fs::read_to_string(MODES)?.contains("[never]") {
        return Err(io::Error::other(format!("{MODES} says never")));
    }
    let regions = dense(&fs::read_to_string("/proc/self/smaps")?);
    let parts = regions.into_iter().flat_map(|region| region.step_by(HUGE));
    Ok(parts.filter(|&part| collapse(part)).count() * HUGE)
}

/// One huge page's worth of memory that begins at `at`; whether it is on one now.
fn collapse(at: usize) -> bool {
    let at = std::ptr::without_provenance_mut(at);
    // SAFETY: what the memory holds stays as it is, and so do its owners; where there is none any more nothing happens.
    unsafe { libc::madvise(at, HUGE, libc::MADV_COLLAPSE) == 0 }
}

/// The whole huge pages in regions that are private memory without a file, and for the most part in use.
fn dense(smaps: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut region: Option<Range<usize>> = None;
    for line in smaps.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match (words.as_slice(), &region) {
            (["Rss:", kb, "kB"], Some(range)) => {
                let Range { start, end } = *range;
                let resident = kb.parse().unwrap_or(0_usize) << 10;
                if resident >= RESIDENT_MIN && resident / 9 >= (end - start) / 10 {
                    found.push(start.next_multiple_of(HUGE)..end / HUGE * HUGE);
                }
            }
            ([range, "rw-p", _, _, "0", name @ ..], _) => {
                let is_own =
                    matches!(name, [] | ["[heap]"]) || name.first().is_some_and(|name| name.starts_with("[anon"));
                region = addresses(range).filter(|_| is_own);
            }
            // Another region begins.
            ([range, _, _, _, _, ..], _) if addresses(range).is_some() => region = None,
            _ => {}
        }
    }
    found
}

/// `START-END`, in hexadecimal digits.
fn addresses(text: &str) -> Option<Range<usize>> {
    let (start, end) = text.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_regions_without_a_file_that_are_full() {
        let smaps = "\
7f0000001000-7f0004000000 rw-p 00000000 00:00 0
Size:              65532 kB
Rss:               65000 kB
VmFlags: rd wr mr
7f1000000000-7f1004000000 rw-p 00000000 00:00 0                          [heap]
Rss:               20000 kB
7f2000000000-7f2001000000 rw-p 00000000 00:00 0                          [anon: cache]
Rss:               16384 kB
7f3000000000-7f3004000000 rw-p 00000000 fe:00 77                         /bin/nodens
Rss:               65536 kB
7f4000000000-7f4004000000 r--p 00000000 00:00 0
Rss:               65536 kB
7f5000000000-7f5004000000 rw-p 00000000 00:00 0                          [stack]
Rss:               65536 kB
7f6000000000-7f6000800000 rw-p 00000000 00:00 0
Rss:                8192 kB
";
        assert_eq!(
            dense(smaps),
            [0x7f00_0020_0000..0x7f00_0400_0000, 0x7f20_0000_0000..0x7f20_0100_0000]
        );
    }

    #[test]
    fn what_is_moved_stays_as_it_is() {
        let words: Vec<u64> = (0..8 << 20).collect();
        let moved = use_huge_pages();
        assert!(words.iter().zip(0..).all(|(word, at)| *word == at));
        // Machines without huge pages, or without one to spare, have nothing to move it to.
        if let Ok(bytes) = moved {
            assert!(
                bytes <= fs::read_to_string("/proc/self/smaps").map_or(0, |smaps| huge(&smaps)),
                "{bytes}"
            );
        }
    }

    /// Bytes on huge pages.
    fn huge(smaps: &str) -> usize {
        let lines = smaps.lines().filter_map(|line| line.strip_prefix("AnonHugePages:"));
        let kb = lines.filter_map(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        kb.sum::<usize>() << 10
    }
}
