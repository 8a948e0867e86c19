//! `forward`, `proxy` and `cache`, from text to settings.

use std::time::Duration;

use super::Memory;
use super::settings::{block, text};
use crate::corefile::settings::{
    Attempts, Cache, CacheKind, Forward, Proxy, ServeStale, StaleRefresh, Upstream, UpstreamPlace, UpstreamTransport,
};

fn shown(upstreams: &[Upstream]) -> String {
    text(upstreams.iter().map(|upstream| {
        let scheme = match upstream.transport {
            UpstreamTransport::Dns => "",
            UpstreamTransport::Tls => "tls://",
        };
        let name = upstream
            .server_name
            .as_ref()
            .map_or_else(String::new, |name| format!("%{name}"));
        match &upstream.place {
            UpstreamPlace::Address(address) => format!("{scheme}{address}{name}"),
            UpstreamPlace::Host { name: host, port } => format!("{scheme}'{host}':{port}{name}"),
        }
    }))
}

/// The first error of a block, without its place.
pub(super) fn error(directives: &str) -> String {
    let refused = Memory::new(&format!(". {{\n{directives}\n}}\n")).load().unwrap_err();
    refused.found.errors[0].text.clone()
}

fn warnings(directives: &str) -> String {
    let corefile = Memory::new(&format!(". {{\n{directives}\n}}\n"))
        .file("r", RESOLV)
        .load()
        .unwrap();
    text(corefile.warnings.iter().map(|warning| &warning.text))
}

const RESOLV: &str = "search a.example\nnameserver 192.0.2.7\nnameserver fe80::1%eth0\nnameserver dns\n";

fn forward(directives: &str) -> Forward {
    block(".", directives).forward.remove(0)
}

#[test]
fn forward_defaults() {
    let forward = forward("forward . 192.0.2.1");
    assert_eq!(
        (forward.from.to_string().as_str(), shown(&forward.to).as_str()),
        (".", "192.0.2.1:53")
    );
    assert!(forward.except.is_empty() && !forward.force_tcp && !forward.prefer_udp && forward.max_age.is_none());
    assert_eq!(
        (
            forward.expire,
            forward.read_timeout,
            forward.max_fails,
            forward.attempts
        ),
        (Duration::from_secs(10), Duration::from_secs(2), 2, Attempts::TwiceEach)
    );
    let probe = forward.probe;
    assert_eq!((probe.every, probe.recursion), (Duration::from_millis(500), true));
    assert!(probe.name.as_name().is_root());
    assert!(forward.concurrent_max.is_none() && forward.idle_max.is_none() && forward.tls.is_none());
}

#[test]
fn which_names_are_forwarded() {
    let from = |from: &str| forward(&format!("forward {from} 192.0.2.1")).from.to_string();
    assert_eq!(from("CEDAR.example"), "cedar.example.");
    assert_eq!(from("dns://cedar.example:54"), "cedar.example.");
    assert_eq!(from("192.0.2.0/24"), "2.0.192.in-addr.arpa.");
    assert_eq!(from("10.0.0.0/15"), "0.10.in-addr.arpa.");
    assert_eq!(
        warnings("forward 10.0.0.0/15 192.0.2.1"),
        "plugin/forward: Unsupported CIDR notation: '10.0.0.0/15' expands to multiple zones. Using only \
         '0.10.in-addr.arpa.'."
    );
    assert_eq!(
        error("forward a..b 192.0.2.1"),
        "plugin/forward: unable to normalize 'a..b'"
    );
    let except = forward("forward . 192.0.2.1 {\nexcept A b\nexcept 10.0.0.0/15\n}").except;
    assert_eq!(text(except), "a. b. 0.10.in-addr.arpa. 1.10.in-addr.arpa.");
}

#[test]
fn who_is_asked() {
    let check = |words: &str, expected: &str| {
        let corefile = Memory::new(&format!(". {{\nforward . {words}\n}}\n"))
            .file("r", RESOLV)
            .load();
        let corefile = corefile.unwrap_or_else(|refused| panic!("{}", refused.headlines()));
        assert_eq!(shown(&corefile.blocks[0].forward[0].to), expected, "{words}");
    };
    check("192.0.2.1:54 dns://192.0.2.2", "192.0.2.1:54 192.0.2.2:53");
    check(
        "2001:db8::1 [2001:db8::2] [2001:db8::3]:54",
        "[2001:db8::1]:53 [2001:db8::2]:53 [2001:db8::3]:54",
    );
    check(
        "tls://192.0.2.1 tls://192.0.2.2:54",
        "tls://192.0.2.1:853 tls://192.0.2.2:54",
    );
    check(
        "tls://192.0.2.1%a.example tls://[2001:db8::1%b.example]:54 tls://192.0.2.2%c:55",
        "tls://192.0.2.1:853%a.example tls://[2001:db8::1]:54%b.example tls://192.0.2.2:55%c",
    );
    check(
        "192.0.2.1 dns://192.0.2.1:53 tls://192.0.2.1:53 192.0.2.1:54",
        "192.0.2.1:53 192.0.2.1:54",
    );
    check("r 192.0.2.7", "192.0.2.7:53 [fe80::1]:53");
    check("/etc/r", "192.0.2.7:53 [fe80::1]:53");
    check(
        "dns.Example dns.example:54 tls://dns.example.",
        "'dns.example':53 'dns.example':54 tls://'dns.example':853",
    );
    check("fe80::1%eth0", "[fe80::1]:53");
    assert_eq!(
        warnings("forward . r"),
        "plugin/forward: r: dns is no address (left out)"
    );
    assert_eq!(
        warnings("forward . fe80::1%eth0"),
        "plugin/forward: `%eth0` has no effect"
    );
    let below_root = Memory::new(". {\nroot sub\nforward . r\n}\n")
        .file("sub/r", RESOLV)
        .load()
        .unwrap();
    assert_eq!(below_root.blocks[0].forward[0].to.len(), 2);
}

#[test]
fn who_cannot_be_asked() {
    for (words, expected) in [
        (
            "bad..name",
            "plugin/forward: not an IP address, file, or valid domain: \"bad..name\"",
        ),
        (
            "/etc/none",
            "plugin/forward: not an IP address, file, or valid domain: \"/etc/none\"",
        ),
        (
            "192.0.2",
            "plugin/forward: not an IP address, file, or valid domain: \"192.0.2\"",
        ),
        (
            "tcp://192.0.2.1",
            "plugin/forward: not an IP address, file, or valid domain: \"tcp://192.0.2.1\"",
        ),
        ("tls://", "plugin/forward: invalid address: \"tls://\""),
        ("192.0.2.1:0", "plugin/forward: invalid port in \"192.0.2.1:0\""),
        ("192.0.2.1:99999", "plugin/forward: invalid port in \"192.0.2.1:99999\""),
        (
            "quic://192.0.2.1",
            "plugin/forward: 'quic' is not supported as a destination protocol in forward: quic://192.0.2.1",
        ),
        (
            "https://192.0.2.1",
            "plugin/forward: nodens does not ask over https:// yet: https://192.0.2.1",
        ),
        (
            "https://192.0.2.1/dns-query",
            "plugin/forward: paths are not allowed in HTTPS upstream addresses: \"https://192.0.2.1/dns-query\"",
        ),
        (
            "a b c d e f g h i j k l m n o p",
            "plugin/forward: more than 15 TOs configured: 16",
        ),
        ("", "Wrong argument count or unexpected line ending after '.'"),
    ] {
        assert_eq!(error(&format!("forward . {words}")), expected);
    }
    // A folder of that name is none of the files.
    let folder = Memory::new(". {\nforward . sub /etc/sub\n}\n")
        .file("sub/r", RESOLV)
        .load()
        .unwrap_err();
    assert_eq!(
        folder.found.errors[0].label.as_deref(),
        Some("as a file: it is no regular file")
    );
    assert_eq!(
        folder.found.errors[0].text,
        "plugin/forward: not an IP address, file, or valid domain: \"/etc/sub\""
    );
    let servers = |many: usize| {
        let lines: String = (0..many)
            .map(|n| format!("nameserver 192.0.{}.{}\n", n / 256, n % 256))
            .collect();
        Memory::new(". {\nforward . r\n}\n").file("r", &lines).load()
    };
    assert_eq!(
        servers(0).unwrap_err().found.errors[0].text,
        "plugin/forward: no valid upstream addresses found"
    );
    assert_eq!(servers(256).unwrap().blocks[0].forward[0].to.len(), 256);
    assert_eq!(
        servers(257).unwrap_err().found.errors[0].text,
        "plugin/forward: more than 256 servers"
    );
}

#[test]
fn forward_options() {
    let options = "force_tcp\nprefer_udp\nexpire 5s\nmax_age 1m\nmax_idle_conns 7\nread_timeout 1s\nmax_fails 0\n\
                   max_connect_attempts 0\nhealth_check 1s no_rec domain A.example\npolicy round_robin\n\
                   max_concurrent 9\ntls cert key ca\ntls_servername n\ndoh_method get\nnext servfail\nnext NXDOMAIN\n\
                   next_on_nodata\nfailover REFUSED SERVFAIL\nfailfast_all_unhealthy_upstreams\n\
                   source_address 127.0.0.1\nresolver 192.0.2.1 [2001:db8::1]:54 2001:db8::2";
    let forward = forward(&format!("root /pki\nforward . tls://192.0.2.1 {{\n{options}\n}}"));
    assert!(forward.force_tcp && forward.prefer_udp && forward.next_on_nodata && forward.failfast);
    assert_eq!(
        (
            forward.expire.as_secs(),
            forward.max_age.unwrap().as_secs(),
            forward.read_timeout.as_secs()
        ),
        (5, 60, 1)
    );
    assert_eq!(
        (
            forward.idle_max,
            forward.max_fails,
            forward.attempts,
            forward.concurrent_max
        ),
        (Some(7), 0, Attempts::Unlimited, Some(9))
    );
    assert_eq!(forward.probe.name.to_string(), "a.example.");
    assert_eq!((forward.probe.every.as_secs(), forward.probe.recursion), (1, false));
    assert_eq!(format!("{:?}", forward.policy), "RoundRobin");
    assert_eq!(forward.tls.unwrap().authority.unwrap().path.to_str(), Some("/pki/ca"));
    assert_eq!(forward.tls_server_name.as_deref(), Some("n"));
    assert_eq!(
        (text(forward.next), text(forward.failover)),
        ("SERVFAIL NXDOMAIN".into(), "REFUSED SERVFAIL".into())
    );
    assert_eq!(forward.source.unwrap().to_string(), "127.0.0.1");
    assert_eq!(text(forward.resolver), "192.0.2.1:53 [2001:db8::1]:54 [2001:db8::2]:53");
    let last = self::forward(
        "forward . 192.0.2.1 {\nmax_age 0s\nmax_connect_attempts 5\nmax_concurrent 0\npolicy random\npolicy sequential\n}",
    );
    assert_eq!(
        (last.max_age, last.attempts, last.concurrent_max),
        (None, Attempts::Of(5), None)
    );
    assert_eq!(format!("{:?}", last.policy), "Sequential");
    assert_eq!(block(".", "forward a 192.0.2.1\nforward b 192.0.2.1").forward.len(), 2);
}

#[test]
fn what_is_wrong_with_options_of_forward() {
    for (option, expected) in [
        (
            "except",
            "Wrong argument count or unexpected line ending after 'except'",
        ),
        (
            "force_tcp x",
            "Wrong argument count or unexpected line ending after 'x'",
        ),
        (
            "expire",
            "Wrong argument count or unexpected line ending after 'expire'",
        ),
        ("expire 5", "plugin/forward: time: missing unit in duration \"5\""),
        ("expire -90s", "plugin/forward: expire can't be negative: -1m30s"),
        ("max_age -1s", "plugin/forward: max_age can't be negative: -1s"),
        (
            "max_age 5s",
            "plugin/forward: max_age (5s) must not be less than expire (10s)",
        ),
        (
            "max_idle_conns -1",
            "plugin/forward: max_idle_conns can't be negative: -1",
        ),
        ("read_timeout 0s", "plugin/forward: read_timeout must be positive: 0s"),
        ("read_timeout -1s", "plugin/forward: read_timeout must be positive: -1s"),
        (
            "max_fails x",
            "plugin/forward: strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        (
            "max_fails -1",
            "plugin/forward: strconv.ParseUint: parsing \"-1\": invalid syntax",
        ),
        (
            "max_fails 4294967296",
            "plugin/forward: strconv.ParseUint: parsing \"4294967296\": value out of range",
        ),
        (
            "health_check -1s",
            "plugin/forward: health_check can't be negative: -1000000000",
        ),
        (
            "health_check 1s norec",
            "plugin/forward: health_check: unknown option norec",
        ),
        (
            "health_check 1s domain a..b",
            "plugin/forward: health_check: invalid domain name a..b",
        ),
        (
            "health_check 1s domain",
            "Wrong argument count or unexpected line ending after 'domain'",
        ),
        ("policy fastest", "unknown policy 'fastest'"),
        (
            "max_concurrent -2",
            "plugin/forward: max_concurrent can't be negative: -2",
        ),
        (
            "max_concurrent x",
            "plugin/forward: strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            "doh_method PUT",
            "plugin/forward: doh_method must be either POST or GET",
        ),
        ("next NOPE", "plugin/forward: NOPE is not a valid rcode"),
        (
            "failover SERVFAIL NOERROR",
            "plugin/forward: NoError cannot be used in failover",
        ),
        ("source_address eth0", "plugin/forward: invalid IP address: eth0"),
        (
            "resolver dns",
            "plugin/forward: resolver must be an IP address or IP:port: \"dns\"",
        ),
        (
            "resolver 192.0.2.1:0",
            "plugin/forward: resolver must be an IP address or IP:port: \"192.0.2.1:0\"",
        ),
        ("polici random", "unknown property 'polici'"),
    ] {
        assert_eq!(
            error(&format!("forward . 192.0.2.1 {{\n{option}\n}}")),
            expected,
            "{option}"
        );
    }
    assert_eq!(
        error("forward . tls://192.0.2.1%one {\ntls_servername two\n}"),
        "plugin/forward: both forward ('two') and proxy level ('one') TLS servernames are set for upstream proxy \
         'tls://192.0.2.1%one'"
    );
}

fn proxy(options: &str) -> Proxy {
    block(".", &format!("proxy . 192.0.2.1 {{\n{options}\n}}"))
        .proxy
        .remove(0)
}

#[test]
fn proxy_is_forward_in_old_words() {
    let plain = proxy("");
    assert_eq!((plain.forward.max_fails, plain.fail_timeout.as_secs()), (3, 5));
    assert!(plain.forward.failfast && !plain.forward.force_tcp && plain.http_probe.is_none());
    let all = proxy(
        "policy first\nfail_timeout 1m\nmax_fails 0\nhealth_check health:8080 2s\nexcept a\nspray\nprotocol dns force_tcp",
    );
    let policy = |word: &str| format!("{:?}", proxy(&format!("policy {word}")).forward.policy);
    assert_eq!(text(["first", "least_conn"].map(policy)), "Sequential LeastConnections");
    assert_eq!((all.forward.max_fails, all.fail_timeout.as_secs()), (0, 60));
    assert!(!all.forward.failfast && all.forward.force_tcp);
    let probe = all.http_probe.unwrap();
    assert_eq!(
        (probe.path.as_str(), probe.port, probe.every.as_secs()),
        ("/health", 8080, 2)
    );
    assert_eq!(text(all.forward.except), "a.");
    let once = warnings("proxy a 192.0.2.1\nproxy b 192.0.2.1\nproxy c 192.0.2.1");
    assert_eq!(once, "plugin/proxy: `proxy` is deprecated");
}

#[test]
fn what_is_wrong_with_proxy() {
    for (option, expected) in [
        ("policy fastest", "unknown policy 'fastest'"),
        ("max_fails -1", "plugin/proxy: invalid max_fails: -1"),
        ("fail_timeout 5", "plugin/proxy: time: missing unit in duration \"5\""),
        ("health_check /x", "plugin/proxy: invalid health_check: /x"),
        ("health_check /x:0", "plugin/proxy: invalid health_check: /x:0"),
        (
            "protocol dns udp",
            "plugin/proxy: only force_tcp allowed as parameter to dns",
        ),
        (
            "protocol grpc insecure",
            "plugin/proxy: nodens does not have the protocol 'grpc'",
        ),
        (
            "protocol https_google",
            "plugin/proxy: nodens does not have the protocol 'https_google'",
        ),
        (
            "protocol",
            "Wrong argument count or unexpected line ending after 'protocol'",
        ),
        ("upstream 192.0.2.1", "unknown property 'upstream'"),
        ("sprai", "unknown property 'sprai'"),
    ] {
        assert_eq!(
            error(&format!("proxy . 192.0.2.1 {{\n{option}\n}}")),
            expected,
            "{option}"
        );
    }
    assert_eq!(
        error("proxy . grpc://192.0.2.1"),
        "plugin/proxy: 'grpc' is not supported as a destination protocol in proxy: grpc://192.0.2.1"
    );
}

fn cache(line: &str) -> Cache {
    block("cedar.example", line).cache.unwrap()
}

#[test]
fn cache_defaults_and_ttl() {
    let bounds = |kind: CacheKind| (kind.entries_max, kind.ttl_max_secs, kind.ttl_min_secs);
    let plain = cache("cache");
    assert_eq!(
        (bounds(plain.success), bounds(plain.denial)),
        ((9984, 3600, 5), (9984, 1800, 5))
    );
    assert_eq!(
        (text(&plain.zones), plain.servfail),
        ("cedar.example.".into(), Duration::from_secs(5))
    );
    assert!(plain.prefetch.is_none() && plain.stale.is_none() && plain.size.is_none() && !plain.keep_ttl);
    let old = cache("cache 160 A.example 10.0.0.0/15");
    assert_eq!((old.success.ttl_max_secs, old.denial.ttl_max_secs), (160, 160));
    assert_eq!(text(old.zones), "a.example. 0.10.in-addr.arpa. 1.10.in-addr.arpa.");
    assert_eq!(text(cache("cache a b").zones), "a. b.");
    let set = cache("cache 30 {\nsuccess 9984 60 0\ndenial 5\n}");
    assert_eq!(
        (bounds(set.success), bounds(set.denial)),
        ((9984, 60, 0), (1024, 30, 5))
    );
    assert_eq!(cache("cache {\nsuccess -5\n}").success.entries_max, 1024);
}

#[test]
fn cache_options() {
    let prefetch = |option: &str| {
        let prefetch = cache(&format!("cache {{\nprefetch {option}\n}}")).prefetch?;
        Some((prefetch.amount, prefetch.within.as_secs(), prefetch.percentage))
    };
    assert_eq!(prefetch("5"), Some((5, 60, 10)));
    assert_eq!(prefetch("5 10s 90%"), Some((5, 10, 90)));
    assert_eq!(prefetch("0"), None);
    let stale = |option: &str| cache(&format!("cache {{\nserve_stale {option}\n}}")).stale;
    let plain = ServeStale {
        up_to: Duration::from_secs(3600),
        refresh: StaleRefresh::Immediate,
        response_ttl_secs: None,
        recheck: Duration::ZERO,
        prefer_positive: false,
    };
    assert_eq!(stale(""), Some(plain));
    assert_eq!(stale("0s"), None);
    assert_eq!(
        stale("2h Immediate 30s 1m"),
        Some(ServeStale {
            up_to: Duration::from_secs(7200),
            response_ttl_secs: Some(30),
            recheck: Duration::from_secs(60),
            ..plain
        })
    );
    let verify = |time| ServeStale {
        refresh: StaleRefresh::Verify(time),
        ..plain
    };
    assert_eq!(stale("1h verify"), Some(verify(None)));
    assert_eq!(stale("1h verify 0s"), Some(verify(None)));
    assert_eq!(
        stale("1h VERIFY 150ms 0s 5m"),
        Some(ServeStale {
            response_ttl_secs: Some(0),
            recheck: Duration::from_secs(300),
            ..verify(Some(Duration::from_millis(150)))
        })
    );
    let all = cache(
        "cache {\nserve_stale_policy prefer_positive\nserve_stale\nservfail 0\ndisable success\ndisable denial a\n\
         disable denial b c\nkeepttl\nsize 64MB\n}",
    );
    assert!(all.stale.unwrap().prefer_positive && all.servfail.is_zero() && all.keep_ttl);
    assert_eq!(
        (text(all.disable_success), text(all.disable_denial)),
        (".".into(), "b. c.".into())
    );
    let size = |text: &str| cache(&format!("cache {{\nsize {text}\n}}")).size.unwrap();
    assert_eq!(size("67108864"), 64 << 20);
    assert_eq!(
        (size("64MB"), size("64m"), size("64MiB"), size("1GB")),
        (64_000_000, 64_000_000, 64 << 20, 1_000_000_000)
    );
}

#[test]
fn what_is_wrong_with_cache() {
    for (option, expected) in [
        (
            "success",
            "Wrong argument count or unexpected line ending after 'success'",
        ),
        (
            "success many",
            "plugin/cache: strconv.Atoi: parsing \"many\": invalid syntax",
        ),
        (
            "success 100 0",
            "plugin/cache: cache TTL can not be zero or negative: 0",
        ),
        ("denial 100 5 -1", "plugin/cache: cache min TTL can not be negative: -1"),
        ("prefetch -1", "plugin/cache: prefetch amount should be positive: -1"),
        ("prefetch 1 5", "plugin/cache: time: missing unit in duration \"5\""),
        (
            "prefetch 1 5s 20",
            "plugin/cache: last character of percentage should be `%`, but is: '0'",
        ),
        (
            "prefetch 1 5s 9%",
            "plugin/cache: percentage should fall in range [10, 90]: 9",
        ),
        (
            "prefetch 1 5s 91%",
            "plugin/cache: percentage should fall in range [10, 90]: 91",
        ),
        (
            "prefetch 1 5s x%",
            "plugin/cache: strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            "prefetch",
            "Wrong argument count or unexpected line ending after 'prefetch'",
        ),
        (
            "serve_stale -1s",
            "plugin/cache: invalid negative duration for serve_stale",
        ),
        (
            "serve_stale 1h sometimes",
            "plugin/cache: invalid value for serve_stale refresh mode: sometimes",
        ),
        (
            "serve_stale 1h immediate 1500ms",
            "plugin/cache: invalid value for serve_stale response TTL: 1500ms",
        ),
        (
            "serve_stale 1h immediate 1s 6m",
            "plugin/cache: serve_stale recheck over 5 minutes is not permitted",
        ),
        (
            "serve_stale_policy prefer_positive",
            "plugin/cache: serve_stale_policy requires serve_stale",
        ),
        (
            "servfail 6m",
            "plugin/cache: caching SERVFAIL responses over 5 minutes is not permitted",
        ),
        ("servfail -1s", "plugin/cache: invalid negative ttl for servfail"),
        ("servfail 5", "plugin/cache: time: missing unit in duration \"5\""),
        (
            "disable all",
            "plugin/cache: cache type for disable must be \"success\" or \"denial\"",
        ),
        (
            "keepttl yes",
            "Wrong argument count or unexpected line ending after 'yes'",
        ),
        ("size 5", "plugin/cache: invalid size: 5"),
        ("size 64TB", "plugin/cache: invalid size: 64TB"),
        ("bogus", "Wrong argument count or unexpected line ending after 'bogus'"),
    ] {
        assert_eq!(error(&format!("cache {{\n{option}\n}}")), expected, "{option}");
    }
    assert_eq!(
        error("cache 0"),
        "plugin/cache: cache TTL can not be zero or negative: 0"
    );
    assert_eq!(
        error("cache\ncache"),
        "plugin/cache: this plugin can only be used once per Server Block"
    );
}
