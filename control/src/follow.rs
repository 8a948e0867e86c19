//! Looking at files again and again, beside everything else.

use std::time::Duration;

use tokio::sync::Notify;

use crate::output;

/// Has `own` look every now and then (never by itself where that is zero), and when it is asked to, and hands what it
/// sees to `tell`, for ever. A look that panics is the last one: what stands then stays as it is, and `lost` says so.
pub(crate) async fn follow<T: Send + 'static, L: Send + 'static>(
    mut own: T,
    every: Duration,
    asked: &Notify,
    lost: &str,
    look: fn(&mut T) -> L,
    mut tell: impl FnMut(&mut T, L),
) {
    loop {
        pause(every, asked).await;
        // A large file takes a while, and a slow disk longer; other tasks go on meanwhile.
        let looked = tokio::task::spawn_blocking(move || {
            let seen = look(&mut own);
            (own, seen)
        });
        let Ok((back, seen)) = looked.await else {
            return output::error(lost);
        };
        own = back;
        tell(&mut own, seen);
    }
}

/// Waits for the time, unless it is zero, or until somebody asks.
async fn pause(every: Duration, asked: &Notify) {
    if every.is_zero() {
        return asked.notified().await;
    }
    tokio::select! {
        () = tokio::time::sleep(every) => {}
        () = asked.notified() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at a number that grows, three times.
    async fn seen(every: Duration, asked: &Notify, look: fn(&mut u32) -> u32) -> Vec<u32> {
        let mut seen = Vec::new();
        let tell = |own: &mut u32, looked| {
            seen.push(looked);
            *own += 1;
            asked.notify_one();
        };
        let followed = follow(1, every, asked, "no more", look, tell);
        let _ = tokio::time::timeout(Duration::from_millis(300), followed).await;
        seen
    }

    #[tokio::test]
    async fn it_is_looked_after_a_while_or_when_asked_and_never_after_a_panic() {
        let look = |own: &mut u32| match *own {
            4 => panic!("a test"),
            own => own,
        };
        let asked = Notify::new();
        assert_eq!(seen(Duration::ZERO, &asked, look).await, [0; 0]);
        assert_eq!(seen(Duration::from_millis(1), &Notify::new(), look).await, [1, 2, 3]);
        asked.notify_one();
        assert_eq!(seen(Duration::ZERO, &asked, look).await, [1, 2, 3]);
    }
}
