//! From text to settings, directive by directive.

use std::time::Duration;

use super::Memory;
use crate::corefile::Corefile;
use crate::corefile::log_format::LogFormat;
use crate::corefile::settings::{
    BindPlace, Etcd, File, HeaderBits, Hosts, LoadBalance, LogClasses, Monitor, ServerBlock,
};

fn load(corefile: &str) -> Corefile {
    match Memory::new(corefile).file("zones/a", "").load() {
        Ok(corefile) => corefile,
        Err(refused) => panic!("{}", refused.render(crate::corefile::Colour::Off)),
    }
}

/// The one block of `zones` with these directives.
pub(super) fn block(zones: &str, directives: &str) -> ServerBlock {
    let mut corefile = load(&format!("{zones} {{\n{directives}\n}}\n"));
    assert_eq!(corefile.blocks.len(), 1);
    corefile.blocks.remove(0)
}

pub(super) fn text<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items
        .into_iter()
        .map(|item| item.to_string())
        .collect::<Vec<_>>()
        .join(" ")
}

/// `-` without `fallthrough`.
fn fallthrough(zones: &Option<Vec<nodens_wire::NameBuf>>) -> String {
    zones.as_ref().map_or_else(|| "-".to_owned(), text)
}

#[test]
fn an_empty_block() {
    let block = block("b.example A.example:54 10.0.0.0/15", "");
    let keys = block.keys.iter().map(|key| format!("{}:{}", key.zone, key.port));
    assert_eq!(
        text(keys),
        "b.example.:53 a.example.:54 0.10.in-addr.arpa.:53 1.10.in-addr.arpa.:53"
    );
    assert!(block.bind.is_empty() && block.log.is_empty() && block.file.is_empty() && block.etcd.is_empty());
    assert!(block.root.is_none() && block.errors.is_none() && block.loadbalance.is_none() && block.hosts.is_none());
    assert!(!block.whoami && block.health.is_none() && block.ready.is_none() && block.prometheus.is_none());
}

#[test]
fn bind() {
    let block = block(
        ".",
        "bind 127.0.0.1 lo { except ::1 }\nbind fe80::1%eth0\nbind ::0 {\nexcept a\nexcept b c\n}",
    );
    let place = |place: &BindPlace| match place {
        BindPlace::Address(address, None) => address.to_string(),
        BindPlace::Address(address, Some(scope)) => format!("{address}%{scope}"),
        BindPlace::Interface(name) => format!("'{name}'"),
    };
    let stanzas = block.bind.iter().map(|bind| {
        let include = text(bind.include.iter().map(|target| place(&target.place)));
        format!(
            "{include} - {};",
            text(bind.except.iter().map(|target| place(&target.place)))
        )
    });
    assert_eq!(
        text(stanzas),
        "127.0.0.1 'lo' - ::1; fe80::1%eth0 - ; :: - 'a' 'b' 'c';"
    );
}

#[test]
fn errors_whoami_and_root() {
    let block = block(".", "errors stdout {\nstacktrace\n}\nwhoami\nroot nowhere\nroot zones");
    assert!(block.errors.as_ref().is_some_and(|errors| errors.stacktrace) && block.whoami);
    assert_eq!(block.root.as_deref(), Some("zones".as_ref()));
    assert!(!self::block(".", "errors").errors.unwrap().stacktrace);
}

#[test]
fn log() {
    let check = |line: &str, expected: &str| {
        let rules = block("cedar.example", line).log.into_iter().map(|rule| {
            let format = if rule.format == LogFormat::default() {
                "common".to_owned()
            } else {
                format!("{:?}", rule.format.pieces)
            };
            let LogClasses { success, denial, error } = rule.classes;
            let classes: String = [(success, 's'), (denial, 'd'), (error, 'e')]
                .iter()
                .filter(|(on, _)| *on)
                .map(|(_, c)| *c)
                .collect();
            format!("{} {format} {classes};", text(rule.names))
        });
        assert_eq!(text(rules), expected, "{line}");
    };
    check("log", ". common sde;");
    check("log .", ". common sde;");
    check(
        "log a.EXAMPLE 10.0.0.0/15",
        "a.example. 0.10.in-addr.arpa. 1.10.in-addr.arpa. common sde;",
    );
    check("log {name}", "{name}. common sde;");
    check("log . {name}", ". [Name] sde;");
    check("log a b {name}", "a. b. [Name] sde;");
    check("log . {common}", ". common sde;");
    check("log stdout", ". common sde;");
    check("log stderr {\nclass error\n}", ". common e;");
    check("log a stdout", "a. stdout. common sde;");
    check("log {\nclass denial error\n}", ". common de;");
    check("log {\nclass success\nclass denial\n}", ". common sd;");
    check("log {\nclass all\nclass error\n}", ". common sde;");
    check("log a\nlog . {\nclass error\n}", "a. common sde; . common e;");
    check("log 1..2", "");
}

#[test]
fn loadbalance() {
    let check = |line: &str, expected: &str| {
        let shown = match block(".", line).loadbalance.unwrap() {
            LoadBalance::RoundRobin { prefer } => text(prefer),
            LoadBalance::Weighted(weighted) => format!("{} {:?}", weighted.file.display(), weighted.reload),
        };
        assert_eq!(shown, expected, "{line}");
    };
    check("loadbalance weighted w", "w 30s");
    check("root zones\nloadbalance weighted w {\nreload 0s\n}", "zones/w 0ns");
    check("loadbalance weighted /w { reload 1m }", "/w 60s");
    check("loadbalance", "");
    check("loadbalance round_robin", "");
    check(
        "loadbalance {\nprefer 192.0.2.7/24 2001:db8::/32\nprefer 10.0.0.0/8\n}",
        "192.0.2.0/24 2001:db8::/32 10.0.0.0/8",
    );
    check(
        "loadbalance round_robin { prefer 10.0.0.0/8 }\nloadbalance",
        "10.0.0.0/8",
    );
}

fn hosts(zones: &str, directives: &str) -> Hosts {
    block(zones, directives).hosts.unwrap()
}

#[test]
fn hosts_defaults() {
    let hosts = hosts("a.example 10.0.0.0/8", "hosts");
    assert_eq!(hosts.file.to_str(), Some("/etc/hosts"));
    assert_eq!(text(&hosts.zones), "a.example. 10.in-addr.arpa.");
    assert_eq!(
        (hosts.ttl_secs, hosts.reload, hosts.no_reverse),
        (3600, Duration::from_secs(5), false)
    );
    assert!(hosts.inline.is_empty() && hosts.fallthrough.is_none() && !hosts.fallthrough_unsupported);
}

#[test]
fn hosts_options() {
    let options = "192.0.2.1 a b\nttl 60\n2001:db8::1 \"c\"\nno_reverse\nreload 0\nnonsense\nfallthrough A.example";
    let hosts = hosts(
        ".",
        &format!("root zones\nhosts names B.example {{\n{options}\nfallthrough_unsupported\nttl 70\n}}"),
    );
    assert_eq!(hosts.file.to_str(), Some("zones/names"));
    assert_eq!(text(&hosts.zones), "b.example.");
    let lines: Vec<&str> = hosts.inline.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(lines, ["192.0.2.1 a b", "2001:db8::1 c", "nonsense"]);
    assert_eq!(
        (hosts.ttl_secs, hosts.reload, hosts.no_reverse),
        (70, Duration::ZERO, true)
    );
    assert_eq!(fallthrough(&hosts.fallthrough), "a.example.");
    assert!(hosts.fallthrough_unsupported);
    assert_eq!(
        fallthrough(&self::hosts("a", "hosts {\nfallthrough\n}").fallthrough),
        "."
    );
    assert_eq!(
        self::hosts("a", "hosts { 192.0.2.1 a.example }").inline[0].text,
        "192.0.2.1 a.example"
    );
    assert_eq!(self::hosts("a", "hosts 1..2").file.to_str(), Some("1..2"));
    assert!(self::hosts("a", "hosts f 1..2").zones.is_empty());
}

fn files(directives: &str) -> Vec<File> {
    block("a.example b.example", directives).file
}

#[test]
fn files_of_a_block() {
    let [file] = files("file a.db").try_into().unwrap();
    assert_eq!(
        (file.db_file.to_str(), file.db_file_word.as_str()),
        (Some("a.db"), "a.db")
    );
    assert_eq!(text(&file.zones), "a.example. b.example.");
    assert_eq!((file.reload, file.reload_by_mtime), (Duration::from_secs(60), false));
    assert_eq!(fallthrough(&file.fallthrough), "-");

    let [file] = files(
        "root /zones\nfile a.db B.example 10.0.0.0/8 {\nreload 10s\nreload_by_mtime\nfallthrough c d\nupstream\n}",
    )
    .try_into()
    .unwrap();
    assert_eq!(
        (file.db_file.to_str(), file.db_file_word.as_str()),
        (Some("/zones/a.db"), "a.db")
    );
    assert_eq!(text(&file.zones), "b.example. 10.in-addr.arpa.");
    assert_eq!((file.reload, file.reload_by_mtime), (Duration::from_secs(10), true));
    assert_eq!(fallthrough(&file.fallthrough), "c. d.");
    assert_eq!(files("root /zones\nfile /x/a.db")[0].db_file.to_str(), Some("/x/a.db"));
}

#[test]
fn reload_goes_on_to_later_files_and_fallthrough_to_all() {
    let stanzas = "file a\nfile b { reload 0 }\nfile c {\nreload_by_mtime\nfallthrough x\n}\nfile d {\nreload 5s\nfallthrough y\n}\nfile e";
    let shown = files(stanzas).into_iter().map(|file| {
        format!(
            "{}:{}:{}:{}",
            file.db_file_word,
            file.reload.as_secs(),
            file.reload_by_mtime,
            fallthrough(&file.fallthrough)
        )
    });
    assert_eq!(
        text(shown),
        "a:60:false:y. b:0:false:y. c:0:true:y. d:5:true:y. e:5:true:y."
    );
}

fn etcd(directives: &str) -> Etcd {
    block("a.example", directives).etcd.remove(0)
}

#[test]
fn etcd_defaults() {
    let etcd = etcd("etcd");
    assert_eq!(text(&etcd.zones), "a.example.");
    assert_eq!(etcd.path, "skydns");
    assert_eq!(
        text(etcd.endpoints.iter().map(|endpoint| &endpoint.url)),
        "http://localhost:2379"
    );
    assert!(etcd.credentials.is_none() && etcd.tls.is_none() && etcd.fallthrough.is_none());
    assert_eq!((etcd.min_lease_ttl_secs, etcd.max_lease_ttl_secs), (30, 86_400));
}

#[test]
fn etcd_options() {
    let options = "path //naming/x/\nendpoint a\nendpoint https://b:1 http://c d:2\ncredentials u \"p w\"\nfallthrough";
    let etcd = etcd(&format!(
        "etcd B.example 10.0.0.0/8 {{\n{options}\nmin-lease-ttl 1m30s\nmax-lease-ttl 600\n}}"
    ));
    assert_eq!(text(&etcd.zones), "b.example. 10.in-addr.arpa.");
    assert_eq!(etcd.path, "naming/x");
    assert_eq!(
        text(etcd.endpoints.iter().map(|endpoint| &endpoint.url)),
        "https://b:1 http://c d:2"
    );
    let credentials = etcd.credentials.unwrap();
    assert_eq!((credentials.user.as_str(), credentials.password.as_str()), ("u", "p w"));
    assert!(!format!("{credentials:?}").contains("p w"));
    assert_eq!(fallthrough(&etcd.fallthrough), ".");
    assert_eq!((etcd.min_lease_ttl_secs, etcd.max_lease_ttl_secs), (90, 600));

    assert_eq!(self::etcd("etcd {\npath /\n}").path, "");
    assert!(self::etcd("etcd {\ncredentials u \"\"\n}").credentials.is_none());
    let zero = self::etcd("etcd {\nmin-lease-ttl 0\nmax-lease-ttl 0s\n}");
    assert_eq!((zero.min_lease_ttl_secs, zero.max_lease_ttl_secs), (30, 86_400));
    let one_line = self::etcd("etcd { endpoint X }");
    assert_eq!(text(one_line.endpoints.iter().map(|endpoint| &endpoint.url)), "X");
}

#[test]
fn etcd_tls() {
    let check = |line: &str, expected: &str| {
        let tls = etcd(&format!("root /pki\netcd {{\n{line}\n}}")).tls.unwrap();
        let identity = tls
            .identity
            .map(|(certificate, key)| format!("{} {}", certificate.path.display(), key.path.display()));
        let authority = tls.authority.map(|authority| authority.path.display().to_string());
        assert_eq!(
            format!("{} + {}", identity.unwrap_or_default(), authority.unwrap_or_default()),
            expected,
            "{line}"
        );
    };
    check("tls", " + ");
    check("tls ca", " + /pki/ca");
    check("tls cert /x/key", "/pki/cert /x/key + ");
    check("tls cert key ca", "/pki/cert /pki/key + /pki/ca");
}

#[test]
fn every_etcd_stanza_counts() {
    let stanzas = block(".", "etcd a { path x }\netcd b").etcd;
    assert_eq!(
        text(stanzas.iter().map(|etcd| format!("{}:{}", etcd.zones[0], etcd.path))),
        "a.:x b.:skydns"
    );
}

#[test]
fn http_endpoints() {
    let shown = |directives: &str| {
        let block = block(".", directives);
        let mut shown = Vec::new();
        if let Some(health) = block.health {
            shown.push(format!(
                "health {}:{} {:?}",
                health.address.host, health.address.port, health.lameduck
            ));
        }
        if let Some(ready) = block.ready {
            shown.push(format!(
                "ready {}:{} {}",
                ready.address.host,
                ready.address.port,
                ready.monitor == Monitor::Continuously
            ));
        }
        if let Some(prometheus) = block.prometheus {
            shown.push(format!(
                "prometheus {}:{}",
                prometheus.address.host, prometheus.address.port
            ));
        }
        shown.join(" ")
    };
    assert_eq!(
        shown("health\nready\nprometheus"),
        "health :8080 0ns ready :8181 false prometheus localhost:9153"
    );
    assert_eq!(shown("health [::1]:1 { lameduck 5s }"), "health ::1:1 5s");
    assert_eq!(shown("health\nhealth :2"), "health :2 0ns");
    assert_eq!(shown("ready :1 {\nmonitor continuously\n}"), "ready :1 true");
    assert_eq!(
        shown("ready {\nmonitor continuously\nmonitor until-ready\n}"),
        "ready :8181 false"
    );
    assert_eq!(shown("prometheus :9153 {\nruntime_metrics\n}"), "prometheus :9153");
}

#[test]
fn acl() {
    let stanzas = block(
        "cedar.example",
        "acl {\nallow\nBLOCK net 192.0.2.7/24 ::1 type A TXT\nfilter type A * type MX net *\n}\nacl a 10.0.0.0/15 {\ndrop Net 192.0.2.1\n}\nacl",
    )
    .acl;
    let stanzas = stanzas.into_iter().map(|stanza| {
        let lines = stanza.lines.into_iter().map(|line| {
            let types = line.types.map_or_else(|| "*".to_owned(), text);
            let nets = line.nets.map_or_else(|| "*".to_owned(), text);
            format!("{:?}({types})({nets})", line.action)
        });
        format!("{}: {};", text(stanza.zones), text(lines))
    });
    assert_eq!(
        text(stanzas),
        "cedar.example.: Allow(*)(*) Block(A TXT)(192.0.2.7/24 ::1/128) Filter(*)(*); \
         a. 0.10.in-addr.arpa. 1.10.in-addr.arpa.: Drop(*)(192.0.2.1/32); cedar.example.: ;"
    );
}

#[test]
fn header() {
    let check = |rules: &str, expected: [Option<bool>; 6]| {
        let header = block(".", &format!("header {{\n{rules}\n}}")).header.unwrap();
        let HeaderBits { aa, ra, rd } = header.response;
        let query = header.query;
        assert_eq!([aa, ra, rd, query.aa, query.ra, query.rd], expected, "{rules}");
    };
    let (on, off) = (Some(true), Some(false));
    check("response set ra", [None, on, None, None, None, None]);
    check(
        "Response CLEAR AA rd\nresponse set aa",
        [on, None, off, None, None, None],
    );
    check("query clear rd\nset ra", [None, on, None, None, None, off]);
    let first = block(".", "header { clear aa }\nheader { set aa }");
    assert_eq!(first.header.unwrap().response.aa, off);
}

#[test]
fn directives_of_one_value() {
    let size = |line: &str| block(".", line).bufsize;
    assert_eq!(size("bufsize"), Some(1232));
    assert_eq!(size("bufsize 512\nbufsize 600"), Some(512));
    assert_eq!(size("any"), None);
    let nsid = |line: &str| block(".", line).nsid.unwrap().data;
    assert_eq!(nsid("nsid"), None);
    assert_eq!(nsid("nsid node  \"a b\"").as_deref(), Some(&b"node a b"[..]));
    let prefix = |line: &str| block(".", line).local.unwrap().localhost_prefix;
    assert!(prefix("local") && prefix("local {\nlocalhost_prefix on\n}"));
    assert!(!prefix("local {\nlocalhost_prefix off\n}"));
    let chaos = |line: &str| {
        let chaos = block(".", line).chaos.unwrap();
        format!("{}: {}", chaos.version, chaos.authors.join(", "))
    };
    let own = concat!("nodens-", env!("CARGO_PKG_VERSION"));
    assert_eq!(chaos("chaos"), format!("{own}: the authors of nodens"));
    assert_eq!(chaos("chaos v1\nchaos v2"), "v1: the authors of nodens");
    assert_eq!(chaos("chaos v1 b a b"), "v1: a, b");
    let cancel = |line: &str| block(".", line).cancel.unwrap();
    assert_eq!(cancel("cancel"), Duration::from_millis(5001));
    assert_eq!(cancel("cancel 1s\ncancel 2s"), Duration::from_secs(2));
    let sockets = |line: &str| block(".", line).multisocket.unwrap().count;
    assert_eq!(sockets("multisocket"), None);
    assert_eq!(sockets("multisocket 1024"), Some(1024));
    let metadata = |line: &str| text(block("cedar.example", line).metadata.unwrap());
    assert_eq!(metadata("metadata"), "cedar.example.");
    assert_eq!(metadata("metadata a b"), "a. b.");
    let bare = block(".", "any\nany\nminimal\ndebug\ndebug");
    assert!(bare.any && bare.minimal && bare.debug && !bare.whoami);
}

#[test]
fn what_has_no_effect_yet_says_so() {
    let directives = "pprof :1 {\nblock 5\n}\n\
         trace\ntrace Datadog localhost:8126 {\nevery 5\nservice a\nclient_server\nclient_server true\n\
         datadog_analytics_rate 0.5\nzipkin_max_backlog_size 5\nzipkin_max_batch_size\nzipkin_max_batch_interval 1s\nnew 1 2\n}\n\
         dnstap listen tls://:6000 full {\ntls cert key\n}\ndnstap /a full 5 10 {\nidentity a\nskipverify\n}";
    let corefile = load(&format!(". {{\n{directives}\n}}\n"));
    let shown: Vec<String> = corefile
        .warnings
        .iter()
        .map(|warning| warning.headline(&corefile.sources))
        .collect();
    assert_eq!(
        shown,
        [
            "plugin/pprof: `pprof` has no effect yet (Corefile:2)",
            "plugin/trace: `trace` has no effect yet (Corefile:5)",
            "plugin/trace: `trace` has no effect yet (Corefile:6)",
            "unknown property 'new' (left out) (Corefile:15)",
            "plugin/dnstap: `dnstap` has no effect yet (Corefile:17)",
            "plugin/dnstap: `dnstap` has no effect yet (Corefile:20)",
        ]
    );
}

#[test]
fn which_zones_may_stand_beside_each_other() {
    let check = |corefile: &str, served: bool| {
        assert_eq!(Memory::new(corefile).load().is_ok(), served, "{corefile}");
    };
    check("a {\n}\nb {\n}", true);
    check("a {\n}\nA. {\n}", false);
    check("a:1 {\n}\na:2 {\n}", true);
    check("a:53 {\n}\na {\n}", false);
    check("a b a {\n}", false);
    check("10.0.0.0/15 {\n}\n1.10.in-addr.arpa {\n}", false);
    check("a {\nbind 127.0.0.1\n}\na {\nbind 127.0.0.2\n}", true);
    check("a {\nbind 127.0.0.1\n}\na {\nbind 127.0.0.2 127.0.0.1\n}", false);
    check("a {\nbind 127.0.0.1 127.0.0.1\nbind 127.0.0.1\n}", true);
    check("a {\nbind 127.0.0.1\n}\na {\n}", false);
    check("a {\n}\na {\nbind 127.0.0.1\n}", false);
    check("a {\n}\nb {\nbind 127.0.0.1\n}", true);
    check("a {\nbind ::1\n}\na {\nbind 0:0:0:0:0:0:0:1\n}", false);
    check("a {\nbind 127.0.0.1 ::1 {\nexcept ::1\n}\n}\na {\nbind ::1\n}", true);
}

#[test]
fn warnings_come_in_file_order() {
    let corefile = load(". {\nlog stdout\nhosts { x }\nroot /none\nimport none*\n}\n");
    let shown: Vec<String> = corefile
        .warnings
        .iter()
        .map(|warning| warning.headline(&corefile.sources))
        .collect();
    assert_eq!(
        shown,
        [
            "plugin/log: `log stdout` is an old form and taken as `log` (Corefile:2)",
            "plugin/hosts: 'x' is neither an option nor an address: the line is skipped (Corefile:3)",
            "plugin/root: Root path does not exist: /none (Corefile:4)",
            "No files matching import glob pattern: none* (Corefile:5)",
        ]
    );
}
