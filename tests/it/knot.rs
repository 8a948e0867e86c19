//! Another server as primary and as secondary: zones go both ways, and NOTIFY with them; a catalog brings others.

use std::process::Command;
use std::time::Duration;

use nodens_tests::ask::Way;
use nodens_tests::cluster::turn;
use nodens_tests::nodens::Nodens;
use nodens_tests::process::{Process, signal_named};
use nodens_tests::world::World;

const LIMIT: Duration = Duration::from_secs(20);
const OBJECTS: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: orchard}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: orchard}
spec: {clusterIP: 10.96.0.20, ports: [{name: http, port: 80}]}
";
const ZONE: &str = "$TTL 60
@ SOA ns1 admin SERIAL 3600 5 86400 45
@ NS ns1
ns1 A 127.0.0.1
www A ADDRESS
srv SRV 1 2 80 www
text TXT \"a b\" \"c\"
web HTTPS 1 . alpn=h2
deep.w.x A 192.0.2.7
";

fn zone(serial: u32) -> String {
    ZONE.replace("SERIAL", &serial.to_string())
        .replace("ADDRESS", &format!("192.0.2.{serial}"))
}

/// What all its configurations begin with: `{KNOT}` is its port, `{DNS}` ours, which it notifies.
const COMMON: &str = "server:
    listen: 127.0.0.1@{KNOT}
    rundir: {DIR}
database:
    storage: {DIR}
acl:
  - id: all
    action: [transfer, notify]
remote:
  - id: nodens
    address: 127.0.0.1@{DNS}
zone:
";

/// It serves `knot.example` from a file, `back.example` and `pond.local` from us.
const BOTH_WAYS: &str = "  - domain: knot.example
    file: {DIR}/knot.zone
    zonefile-sync: -1
    acl: all
    notify: nodens
  - domain: back.example
    storage: {DIR}
    master: nodens
    acl: all
  - domain: pond.local
    storage: {DIR}
    master: nodens
    acl: all
";

/// It serves a catalog.
const CATALOG: &str = "  - domain: catz.example
    catalog-role: generate
    acl: all
    notify: nodens
";

/// A zone of that catalog.
const MEMBER: &str = "  - domain: ZONE
    catalog-role: member
    catalog-zone: catz.example
    file: {DIR}/knot.zone
    zonefile-sync: -1
    acl: all
    notify: nodens
";

fn configure(world: &World, zones: &str) {
    let config = format!("{COMMON}{zones}");
    world.write("knot.conf", Some(&config)).expect("a file");
}

fn knot(world: &World) -> Option<Process> {
    world.write("knot.zone", Some(&zone(1))).expect("a file");
    let mut command = Command::new("knotd");
    command.arg("-c").arg(world.folder().join("knot.conf"));
    let started = Process::start(&mut command, world.folder().join("knot.log")).ok();
    if started.is_none() {
        println!("skipped: knotd is not installed (apt-get install knot)");
    }
    started
}

fn reload(knot: &mut Process) {
    knot.signal(signal_named("HUP").expect("a signal")).expect("it runs");
}

#[test]
fn zones_go_both_ways() {
    let mut world = World::new().expect("a folder");
    world.set("DIR", world.folder().display().to_string());
    world.write("back.zone", Some(&zone(1))).expect("a file");
    let corefile = "knot.example:{PORT} {
    secondary {
        transfer from 127.0.0.1:{KNOT}
    }
}
back.example:{PORT} {
    file {BACK} {
        reload 1s
    }
    transfer {
        to 127.0.0.1:{KNOT}
    }
}
knot.example:{ITS} {
    secondary {
        transfer from 127.0.0.1:{NOBODY} 127.0.0.1:{KNOT}
    }
}
";
    let back = world.folder().join("back.zone");
    let corefile = corefile
        .replace("{KNOT}", &world.port("KNOT").to_string())
        .replace("{BACK}", &back.display().to_string());
    let nodens = Nodens::start(&corefile);
    world.set("DNS", nodens.address("PORT").port().to_string());
    configure(&world, BOTH_WAYS);
    let Some(mut knot) = knot(&world) else { return };

    let shows = |name: &str, address: &str| {
        nodens.wait_for(name, LIMIT, |reply| reply.values() == [address]);
    };
    shows("www.knot.example. A", "192.0.2.1");
    shows("deep.w.x.knot.example. A", "192.0.2.7");
    assert_eq!(
        nodens.ask("x.knot.example. A").rcode,
        "NOERROR",
        "an empty non-terminal"
    );
    assert_eq!(nodens.ask("srv.knot.example. SRV").values(), ["www.knot.example."]);
    // REFRESH is an hour: what shows now was notified.
    world.write("knot.zone", Some(&zone(2))).expect("a file");
    reload(&mut knot);
    shows("www.knot.example. A", "192.0.2.2");

    let served = |address: &str| {
        let at = (std::net::Ipv4Addr::LOCALHOST, world.port("KNOT")).into();
        nodens.wait_for_at(at, "www.back.example. A", LIMIT, |reply| reply.values() == [address]);
    };
    served("192.0.2.1");
    std::fs::write(&back, zone(2)).expect("a file");
    served("192.0.2.2");
    knot.stop();
}

#[test]
fn a_cluster_is_copied_and_followed_by_differences() {
    let mut cluster = turn::take().unwrap();
    cluster.apply(OBJECTS).unwrap();
    let mut world = World::new().expect("a folder");
    world.set("DIR", world.folder().display().to_string());
    let corefile = ".:{PORT} {
    prometheus 127.0.0.1:{METRICS}
    kubernetes pond.local {
        kubeconfig {CONFIG}
    }
    transfer {
        to 127.0.0.1:{KNOT}
    }
}
";
    let corefile = corefile
        .replace("{KNOT}", &world.port("KNOT").to_string())
        .replace("{CONFIG}", &cluster.kubeconfig().display().to_string());
    let nodens = Nodens::start(&corefile);
    world.set("DNS", nodens.address("PORT").port().to_string());
    configure(&world, BOTH_WAYS);
    let Some(mut knot) = knot(&world) else { return };
    let at = (std::net::Ipv4Addr::LOCALHOST, world.port("KNOT")).into();
    let serves = |name: &str, values: &[&str]| {
        let took = nodens.wait_for_at(at, name, LIMIT, |reply| reply.values() == values);
        println!("{name} after {took:?}");
    };
    serves("web.orchard.svc.pond.local. A", &["10.96.0.20"]);
    serves(
        "_http._tcp.web.orchard.svc.pond.local. SRV",
        &["web.orchard.svc.pond.local."],
    );
    for i in 1..=5 {
        let document = OBJECTS
            .replace("web", &format!("web{i}"))
            .replace("0.20", &format!("0.3{i}"));
        cluster.apply(&document).unwrap();
        serves(
            &format!("web{i}.orchard.svc.pond.local. A"),
            &[&format!("10.96.0.3{i}")],
        );
    }
    cluster.delete("service/orchard/web").unwrap();
    nodens.wait_for_at(at, "web.orchard.svc.pond.local. A", LIMIT, |reply| {
        reply.rcode == "NXDOMAIN"
    });
    let (all, incremental) = (
        nodens.metric("nodens_transfers_total"),
        nodens.metric("nodens_transfers_incremental_total"),
    );
    println!("{all} transfers, {incremental} of them differences");
    assert!(
        incremental >= 3.0,
        "{all} transfers, {incremental} of them differences\n{}",
        knot.log()
    );
    knot.stop();
}

#[test]
fn the_zones_of_a_catalog_come_and_go() {
    let mut world = World::new().expect("a folder");
    world.set("DIR", world.folder().display().to_string());
    let corefile = ".:{PORT} {
    secondary catz.example {
        transfer from 127.0.0.1:{KNOT}
        catalog example
    }
    transfer {
        to *
    }
}
";
    let nodens = Nodens::start(&corefile.replace("{KNOT}", &world.port("KNOT").to_string()));
    world.set("DNS", nodens.address("PORT").port().to_string());
    let catalog_of = |zones: &[&str]| {
        let members: String = zones.iter().map(|zone| MEMBER.replace("ZONE", zone)).collect();
        configure(&world, &format!("{CATALOG}{members}"));
    };
    catalog_of(&["one.example", "two.example", "one.elsewhere"]);
    let Some(mut knot) = knot(&world) else { return };

    let shows = |name: &str, address: &str| {
        nodens.wait_for(name, LIMIT, |reply| reply.values() == [address]);
    };
    let refused = |name: &str| {
        nodens.wait_for(name, LIMIT, |reply| reply.rcode == "REFUSED");
    };
    shows("www.one.example. A", "192.0.2.1");
    shows("www.two.example. A", "192.0.2.1");
    refused("www.one.elsewhere. A");
    // A member is notified of, and handed on, as any zone.
    world.write("knot.zone", Some(&zone(2))).expect("a file");
    reload(&mut knot);
    shows("www.one.example. A", "192.0.2.2");
    shows("www.two.example. A", "192.0.2.2");
    let axfr = nodens.ask_over("one.example. AXFR", Way::Tcp);
    assert!(axfr.values().contains(&"192.0.2.2"), "{axfr:?}");
    assert_eq!(nodens.ask_over("one.elsewhere. AXFR", Way::Tcp).rcode, "REFUSED");

    catalog_of(&["two.example", "new.example"]);
    reload(&mut knot);
    shows("www.new.example. A", "192.0.2.2");
    refused("www.one.example. A");
    shows("www.two.example. A", "192.0.2.2");
    // The catalog cannot be had any more: what it named last stays.
    knot.stop();
    shows("www.two.example. A", "192.0.2.2");
}
