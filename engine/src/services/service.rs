//! One SkyDNS service: what stands at one key of etcd, ready to be answered.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::Instant;
use crate::zone::trie::Keyed;

/// What the `host` field points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// No host, or one that no DNS name can hold.
    None,
    /// An IPv4 address, mapped ones included.
    V4(Ipv4Addr),
    /// An IPv6 address.
    V6(Ipv6Addr),
    /// A name: absolute, in wire form, its letter case as written.
    Name(Box<[u8]>),
}

/// The remaining time of an etcd lease, shared by the services that hang on it. It changes without a new snapshot:
/// a keep-alive must not rebuild a zone.
#[derive(Debug)]
pub struct Lease {
    /// When it runs out, on the monotonic clock in nanoseconds; or one of the two constants below.
    until: AtomicU64,
    /// The bounds between which the remaining time is announced, in seconds.
    bounds: (u32, u32),
}

const UNKNOWN: u64 = 0;
const NONE: u64 = u64::MAX;

impl Lease {
    /// A lease of which nothing is known yet.
    #[must_use]
    pub fn new(min_secs: u32, max_secs: u32) -> Self {
        Self {
            until: AtomicU64::new(UNKNOWN),
            bounds: (min_secs, max_secs),
        }
    }

    /// The lease runs out then.
    pub fn set_until(&self, until: Instant) {
        self.until.store(until.0.clamp(1, NONE - 1), Ordering::Relaxed);
    }

    /// Nothing is known, or it is granted for no more than the minimum: it counts as that.
    pub fn set_minimum(&self) {
        self.until.store(UNKNOWN, Ordering::Relaxed);
    }

    /// etcd did not say, or says that there is none: it has no part in the TTL until the next word.
    pub fn set_none(&self) {
        self.until.store(NONE, Ordering::Relaxed);
    }

    /// The lease's part of the TTL, in seconds, within its bounds.
    fn part(&self, now: Instant) -> Option<u32> {
        let (min, max) = self.bounds;
        match self.until.load(Ordering::Relaxed) {
            NONE => None,
            UNKNOWN => Some(min),
            until => {
                // Rounded up, as etcd counts: a lease of 15 s is one of 15 s when it has just been granted.
                let secs = until.saturating_sub(now.0).div_ceil(1_000_000_000);
                Some(u32::try_from(secs).unwrap_or(u32::MAX).clamp(min, max.max(min)))
            }
        }
    }
}

impl PartialEq for Lease {
    /// The same lease, whatever is left of it.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// The fields that most services do not have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra {
    /// The `host` field as written, where an address was not written in its usual form. Two addresses written
    /// differently are two records, as in CoreDNS.
    pub host_text: Option<Box<str>>,
    /// TXT data; empty for none.
    pub text: Box<[u8]>,
    /// Only services of one group are answered together; empty for none.
    pub group: Box<str>,
    /// May be used as MX.
    pub mail: bool,
    /// Labels to drop from names made from the key.
    pub targetstrip: u16,
    /// Share of the SRV weight; 0 counts as 100.
    pub weight: i64,
    /// The lease the key hangs on.
    pub lease: Option<Arc<Lease>>,
}

/// TTL where neither the value nor a lease gives one, in seconds.
pub const TTL_DEFAULT_SECS: u32 = 300;
/// SRV priority and MX preference where the value gives none.
pub const PRIORITY_DEFAULT: u16 = 10;

/// What stands at one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// The key below the zone's, components joined by `/`: `web/x1`. Empty for the zone's own key.
    pub key: Box<[u8]>,
    /// Where it points.
    pub host: Host,
    /// SRV port; `None` (written -1) keeps it out of SRV answers.
    pub port: Option<u16>,
    /// SRV priority, MX preference; 10 where the value has none.
    pub priority: u16,
    /// The `ttl` field; 0 for none.
    pub ttl_secs: u32,
    /// The value did not parse: it is in no answer, but its name exists.
    pub bad: bool,
    /// What most do not have.
    pub extra: Option<Box<Extra>>,
}

impl Keyed for Service {
    fn key(&self) -> &[u8] {
        &self.key
    }
}

impl Service {
    /// A key whose value does not parse.
    #[must_use]
    pub fn unparsable(key: &[u8]) -> Self {
        Self {
            key: key.into(),
            host: Host::None,
            port: None,
            priority: 0,
            ttl_secs: 0,
            bad: true,
            extra: None,
        }
    }

    /// The TTL to announce, in seconds: the smaller of the value's and of what is left of the lease.
    #[must_use]
    pub fn ttl(&self, now: Instant) -> u32 {
        let lease = self
            .extra
            .as_ref()
            .and_then(|extra| extra.lease.as_ref())
            .and_then(|lease| lease.part(now));
        match (lease, self.ttl_secs) {
            (None, 0) => TTL_DEFAULT_SECS,
            (None, ttl) => ttl,
            (Some(part), 0) => part,
            (Some(part), ttl) => part.min(ttl),
        }
    }

    /// Whether the TTL stays the same as long as the key does.
    #[must_use]
    pub fn is_leased(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.lease.is_some())
    }

    /// TXT data; empty for none.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        self.extra.as_ref().map_or(&[], |extra| &extra.text)
    }

    /// The group; empty for none.
    #[must_use]
    pub fn group(&self) -> &str {
        self.extra.as_ref().map_or("", |extra| &extra.group)
    }

    /// May be used as MX.
    #[must_use]
    pub fn is_mail(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.mail)
    }

    /// Share of the SRV weight; unset counts as 100.
    #[must_use]
    pub fn weight(&self) -> i64 {
        match self.extra.as_ref().map_or(0, |extra| extra.weight) {
            0 => 100,
            weight => weight,
        }
    }

    /// Labels to drop from names made from the key.
    #[must_use]
    pub fn targetstrip(&self) -> u16 {
        self.extra.as_ref().map_or(0, |extra| extra.targetstrip)
    }

    /// The host field as written, where it is an address in an unusual form.
    #[must_use]
    pub fn host_text(&self) -> Option<&str> {
        self.extra.as_ref().and_then(|extra| extra.host_text.as_deref())
    }

    /// Its components, nearest to the zone first.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        let own = self.key.is_empty();
        self.key.split(|&byte| byte == b'/').filter(move |_| !own)
    }

    /// Components of the key: the depth that grouping compares.
    #[must_use]
    pub fn depth(&self) -> usize {
        if self.key.is_empty() {
            0
        } else {
            1 + self.key.iter().filter(|&&byte| byte == b'/').count()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(ttl_secs: u32, lease: Option<Lease>) -> Service {
        let extra = Extra {
            lease: lease.map(Arc::new),
            ..Extra::default()
        };
        Service {
            ttl_secs,
            bad: false,
            extra: Some(Box::new(extra)),
            ..Service::unparsable(b"web/x1")
        }
    }

    #[test]
    fn ttl_is_the_smaller_of_field_and_bounded_lease() {
        let secs = |n: u64| Instant(n * 1_000_000_000);
        let check = |until: Option<u64>, ttl, expected| {
            let lease = until.map(|until| {
                let lease = Lease::new(30, 86_400);
                lease.set_until(secs(until));
                lease
            });
            assert_eq!(service(ttl, lease).ttl(secs(100)), expected, "{until:?} {ttl}");
        };
        check(None, 0, 300);
        check(None, 7, 7);
        check(Some(115), 0, 30);
        check(Some(115), 7, 7);
        check(Some(200), 0, 100);
        check(Some(200), 40, 40);
        check(Some(50), 0, 30);
        check(Some(1_000_000), 0, 86_400);
    }

    #[test]
    fn a_lease_not_known_counts_as_the_minimum_and_a_failed_one_not_at_all() {
        let lease = Lease::new(30, 60);
        assert_eq!(lease.part(Instant(5)), Some(30));
        lease.set_none();
        assert_eq!(lease.part(Instant(5)), None);
    }

    #[test]
    fn components_and_depth() {
        assert_eq!(service(0, None).components().collect::<Vec<_>>(), [&b"web"[..], b"x1"]);
        assert_eq!(service(0, None).depth(), 2);
        assert_eq!(Service::unparsable(b"").components().count(), 0);
        assert_eq!(Service::unparsable(b"a//b").depth(), 3);
    }
}
