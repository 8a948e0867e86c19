use super::super::http::bind;
use super::super::http::tests::{address, get, runtime};
use super::*;
use nodens_engine::plan::{AclAction, StepName};
use nodens_engine::stats::{Histogram, TYPE_LABELS};
use nodens_wire::{Rclass, Rtype, Section};

fn labels(server: &str, zone: &str) -> SeriesLabels {
    SeriesLabels {
        server: server.to_owned(),
        zone: zone.to_owned(),
        view: String::new(),
    }
}

fn shown(shown: Shown) -> ArcSwap<Shown> {
    ArcSwap::from_pointee(shown)
}

fn page(metrics: &Metrics) -> Vec<String> {
    metrics.page().lines().map(str::to_owned).collect()
}

/// All of these lines are there.
fn check(metrics: &Metrics, expected: &[&str]) {
    let page = page(metrics);
    for line in expected {
        assert!(
            page.iter().any(|found| found == line),
            "no {line} in\n{}",
            page.join("\n")
        );
    }
}

fn observe<const N: usize>(histogram: &Histogram<N>, bucket: usize, value: u64) {
    histogram.buckets[bucket].add(1);
    histogram.sum.add(value);
}

#[test]
fn what_has_no_labels_is_there_from_the_start() {
    let metrics = Metrics::default();
    check(
        &metrics,
        &[
            "# TYPE coredns_build_info gauge",
            "coredns_build_info{goversion=\"\",revision=\"\",version=\"\"} 1",
            "# TYPE coredns_panics_total counter",
            "coredns_panics_total 0",
            "coredns_reload_failed_total 0",
            "coredns_hosts_reload_timestamp_seconds 0",
            "coredns_health_request_failures_total 0",
            "coredns_health_request_duration_seconds_count 0",
            "nodens_log_dropped_total 0",
            "nodens_streams_limited_total 0",
            "nodens_transfers_total 0",
            "nodens_transfers_incremental_total 0",
            "nodens_transfers_limited_total 0",
            "nodens_tls_handshakes_total 0",
            "nodens_tls_handshakes_failed_total 0",
            "nodens_effects_dropped_total 0",
            "nodens_udp_datagrams_total 0",
            "nodens_port_waits_total 0",
            "nodens_http_connections_limited_total 0",
            "nodens_http_connections_overrun_total 0",
        ],
    );
    let page = metrics.page();
    for name in [
        "coredns_dns_",
        "coredns_plugin_enabled",
        "coredns_hosts_entries",
        "nodens_etcd_",
        "nodens_kernel_",
    ] {
        assert!(!page.contains(name), "{name}");
    }
}

#[test]
fn queries_are_summed_over_workers() {
    let metrics = Metrics {
        workers: vec![Arc::new(WorkerStats::new(3)), Arc::new(WorkerStats::new(3))],
        shown: shown(Shown {
            series: vec![
                labels("dns://:53", "example."),
                labels("dns://:53", "dropped"),
                labels("dns://:53", "example."),
            ],
            ..Shown::default()
        }),
        ..Metrics::default()
    };
    for (at, worker) in metrics.workers.iter().enumerate() {
        let series = &worker.series[0];
        series.requests[0][0][0].add(3);
        series.requests[1][1][TYPE_LABELS - 2].add(1);
        observe(&series.duration, 0, 200_000);
        observe(&series.duration, 15, 5_000_000_000);
        observe(&series.request_size[0], 1, 40);
        observe(&series.response_size[0], 5, 511);
        observe(&series.response_size[0], 14, 65_000);
        series.dnssec_ok.add(2);
        series.responses[0][StepName::Hosts as usize].add(at as u64 + 1);
        series.acl[AclAction::Allow as usize].add(5);
        series.acl[AclAction::Drop as usize].add(1);
        worker.localhost.add(3);
        series.responses[3][StepName::ALL.len()].add(1);
        series.responses[24][StepName::ALL.len()].add(1);
    }
    metrics.workers[1].series[1].acl[AclAction::Allow as usize].add(1);
    metrics.workers[1].series[1].responses[5][StepName::ALL.len()].add(1);
    // Of the same labels as the first.
    metrics.workers[0].series[2].requests[0][0][0].add(4);
    check(
        &metrics,
        &[
            "# TYPE coredns_dns_requests_total counter",
            "coredns_dns_requests_total{family=\"1\",proto=\"udp\",server=\"dns://:53\",type=\"A\",view=\"\",zone=\"example.\"} 10",
            "coredns_dns_requests_total{family=\"2\",proto=\"tcp\",server=\"dns://:53\",type=\"ANY\",view=\"\",zone=\"example.\"} 2",
            "# TYPE coredns_dns_request_duration_seconds histogram",
            "coredns_dns_request_duration_seconds_bucket{server=\"dns://:53\",view=\"\",zone=\"example.\",le=\"0.00025\"} 2",
            "coredns_dns_request_duration_seconds_bucket{server=\"dns://:53\",view=\"\",zone=\"example.\",le=\"4.096\"} 2",
            "coredns_dns_request_duration_seconds_bucket{server=\"dns://:53\",view=\"\",zone=\"example.\",le=\"8.192\"} 4",
            "coredns_dns_request_duration_seconds_bucket{server=\"dns://:53\",view=\"\",zone=\"example.\",le=\"+Inf\"} 4",
            "coredns_dns_request_duration_seconds_sum{server=\"dns://:53\",view=\"\",zone=\"example.\"} 10.0004",
            "coredns_dns_request_duration_seconds_count{server=\"dns://:53\",view=\"\",zone=\"example.\"} 4",
            "coredns_dns_request_size_bytes_bucket{proto=\"udp\",server=\"dns://:53\",view=\"\",zone=\"example.\",le=\"0\"} 0",
            "coredns_dns_request_size_bytes_bucket{proto=\"udp\",server=\"dns://:53\",view=\"\",zone=\"example.\",le=\"100\"} 2",
            "coredns_dns_request_size_bytes_sum{proto=\"udp\",server=\"dns://:53\",view=\"\",zone=\"example.\"} 80",
            "coredns_dns_response_size_bytes_bucket{proto=\"udp\",server=\"dns://:53\",view=\"\",zone=\"example.\",le=\"64000\"} 2",
            "coredns_dns_response_size_bytes_bucket{proto=\"udp\",server=\"dns://:53\",view=\"\",zone=\"example.\",le=\"+Inf\"} 4",
            "coredns_dns_do_requests_total{server=\"dns://:53\",view=\"\",zone=\"example.\"} 4",
            "# TYPE coredns_dns_responses_total counter",
            "coredns_dns_responses_total{plugin=\"hosts\",rcode=\"NOERROR\",server=\"dns://:53\",view=\"\",zone=\"example.\"} 3",
            "coredns_dns_responses_total{plugin=\"\",rcode=\"NXDOMAIN\",server=\"dns://:53\",view=\"\",zone=\"example.\"} 2",
            "coredns_dns_responses_total{plugin=\"\",rcode=\"other\",server=\"dns://:53\",view=\"\",zone=\"example.\"} 2",
            "coredns_dns_responses_total{plugin=\"\",rcode=\"REFUSED\",server=\"dns://:53\",view=\"\",zone=\"dropped\"} 1",
            "# TYPE coredns_acl_dropped_requests_total counter",
            "coredns_acl_dropped_requests_total{server=\"dns://:53\",view=\"\",zone=\"example.\"} 2",
            "coredns_acl_allowed_requests_total{server=\"dns://:53\",view=\"\"} 11",
            "coredns_local_localhost_requests_total 6",
        ],
    );
    let page = metrics.page();
    assert_eq!(page.matches("\ncoredns_dns_requests_total{").count(), 2);
    assert!(!page.contains("coredns_dns_request_size_bytes_count{proto=\"tcp\""));
}

#[test]
fn what_templates_do_is_shown_by_class_and_type() {
    let record = || {
        RecordMetrics::new(&RecordLabels {
            series: labels("dns://:53", "example."),
            section: Section::Additional,
            template: "{{ .Name }} 60 IN TXT \"a\"".into(),
        })
    };
    let metrics = Metrics {
        workers: vec![Arc::new(WorkerStats::new(1)), Arc::new(WorkerStats::new(1))],
        shown: shown(Shown {
            series: vec![labels("dns://:53", "example.")],
            // The same record stands there twice.
            templates: vec![record(), record()],
            ..Shown::default()
        }),
        ..Metrics::default()
    };
    for worker in &metrics.workers {
        let matches = &worker.series[0].templates;
        matches.of(Rclass::IN, Rtype::TXT).add(1);
        matches.of(Rclass::CH, Rtype::ANY).add(2);
        matches.of(Rclass(7), Rtype::CAA).add(3);
    }
    for RecordMetrics { failures, .. } in &metrics.shown.load().templates {
        failures
            .template
            .of(Rclass::IN, Rtype::TXT)
            .fetch_add(4, Ordering::Relaxed);
    }
    check(
        &metrics,
        &[
            "coredns_template_matches_total{class=\"IN\",server=\"dns://:53\",type=\"TXT\",view=\"\",zone=\"example.\"} 2",
            "coredns_template_matches_total{class=\"CH\",server=\"dns://:53\",type=\"ANY\",view=\"\",zone=\"example.\"} 4",
            "coredns_template_matches_total{class=\"other\",server=\"dns://:53\",type=\"other\",view=\"\",zone=\"example.\"} 6",
            "coredns_template_template_failures_total{class=\"IN\",section=\"additional\",server=\"dns://:53\",\
             template=\"{{ .Name }} 60 IN TXT \\\"a\\\"\",type=\"TXT\",view=\"\",zone=\"example.\"} 8",
        ],
    );
    let page = metrics.page();
    assert_eq!(page.matches("\ncoredns_template_matches_total{").count(), 3);
    assert!(!page.contains("coredns_template_rr_failures_total"));
}

#[test]
fn buckets_are_those_of_coredns() {
    let metrics = Metrics {
        workers: vec![Arc::new(WorkerStats::new(1))],
        shown: shown(Shown {
            series: vec![labels("dns://:53", ".")],
            ..Shown::default()
        }),
        ..Metrics::default()
    };
    observe(&metrics.workers[0].series[0].duration, 0, 1);
    observe(&metrics.workers[0].series[0].request_size[1], 0, 0);
    let page = page(&metrics);
    let bounds = |name: &str| -> Vec<&str> {
        let buckets = page.iter().filter(|line| line.starts_with(name));
        buckets
            .map(|line| line.split("le=\"").nth(1).unwrap().split('"').next().unwrap())
            .collect()
    };
    assert_eq!(
        bounds("coredns_dns_request_duration_seconds_bucket").join(" "),
        "0.00025 0.0005 0.001 0.002 0.004 0.008 0.016 0.032 0.064 0.128 0.256 0.512 1.024 2.048 4.096 8.192 +Inf"
    );
    assert_eq!(
        bounds("coredns_dns_request_size_bytes_bucket").join(" "),
        "0 100 200 300 400 511 1023 2047 4095 8291 16000 32000 48000 64000 +Inf"
    );
    assert_eq!(
        bounds("coredns_health_request_duration_seconds_bucket").join(" "),
        "0.00025 0.0025 0.025 0.25 2.5 +Inf"
    );
}

#[test]
fn every_metric_has_one_head() {
    let metrics = Metrics {
        workers: vec![Arc::new(WorkerStats::new(1))],
        shown: shown(Shown {
            listeners: vec![(ListenerId(0), "dns://:53".to_owned())],
            series: vec![labels("dns://:53", ".")],
            etcd: vec![EtcdMetrics {
                path: "skydns".to_owned(),
                status: Arc::default(),
            }],
            ..Shown::default()
        }),
        ..Metrics::default()
    };
    let page = page(&metrics);
    let mut heads: Vec<&String> = page.iter().filter(|line| line.starts_with("# TYPE ")).collect();
    let len = heads.len();
    heads.sort_unstable();
    heads.dedup();
    assert_eq!(heads.len(), len);
    assert_eq!(page.iter().filter(|line| line.starts_with("# HELP ")).count(), len);
    for line in page.iter().filter(|line| line.starts_with("# TYPE ")) {
        let [.., name, kind] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
    }
}

#[test]
fn plugins_builds_and_hosts() {
    let enabled = |zone: &str, name| PluginEnabled {
        server: "dns://:53".to_owned(),
        zone: zone.to_owned(),
        view: String::new(),
        name,
    };
    let metrics = Metrics {
        build: Build {
            version: "0.1.0".to_owned(),
            revision: "abc".to_owned(),
            compiler: "rustc 1.95.0".to_owned(),
        },
        shown: shown(Shown {
            plugins: vec![enabled("b.", "hosts"), enabled("a.", "errors"), enabled("b.", "hosts")],
            ..Shown::default()
        }),
        ..Metrics::default()
    };
    let modified = UNIX_EPOCH + std::time::Duration::from_millis(1_700_000_000_500);
    metrics.hosts.loaded("/etc/hosts", 3, Some(modified));
    metrics.hosts.loaded("a \"b\"", 1, None);
    metrics.hosts.loaded("/etc/hosts", 2, Some(modified));
    check(
        &metrics,
        &[
            "coredns_build_info{goversion=\"rustc 1.95.0\",revision=\"abc\",version=\"0.1.0\"} 1",
            "coredns_plugin_enabled{name=\"errors\",server=\"dns://:53\",view=\"\",zone=\"a.\"} 1",
            "coredns_plugin_enabled{name=\"hosts\",server=\"dns://:53\",view=\"\",zone=\"b.\"} 1",
            "coredns_hosts_entries{hostsfile=\"/etc/hosts\"} 2",
            "coredns_hosts_entries{hostsfile=\"a \\\"b\\\"\"} 1",
            "coredns_hosts_reload_timestamp_seconds 1700000000.5",
        ],
    );
    assert_eq!(metrics.page().matches("\ncoredns_plugin_enabled{").count(), 2);
}

#[test]
fn stanzas_of_one_path_share_their_series() {
    let stanza = |path: &str, bad_keys| {
        let status = Arc::new(Status::default());
        status.set_bad_keys(bad_keys);
        EtcdMetrics {
            path: path.to_owned(),
            status,
        }
    };
    let metrics = Metrics {
        shown: shown(Shown {
            etcd: vec![stanza("skydns", 2), stanza("other", 0), stanza("skydns", 3)],
            ..Shown::default()
        }),
        ..Metrics::default()
    };
    check(
        &metrics,
        &[
            "# TYPE nodens_etcd_connected gauge",
            "nodens_etcd_connected{path=\"skydns\"} 0",
            "nodens_etcd_revision{path=\"skydns\"} 0",
            "nodens_etcd_keys{path=\"skydns\"} 0",
            "nodens_etcd_bad_keys{path=\"skydns\"} 5",
            "nodens_etcd_bad_keys{path=\"other\"} 0",
            "# TYPE nodens_etcd_resyncs_total counter",
            "nodens_etcd_resyncs_total{path=\"skydns\"} 0",
        ],
    );
    assert_eq!(metrics.page().matches("\nnodens_etcd_keys{").count(), 2);
}

#[test]
fn the_worst_standing_shows() {
    let mut all = Standing {
        connected: true,
        revision: 9,
        keys: 2,
        bad_keys: 1,
        resyncs: 1,
    };
    all.add(&Standing {
        connected: false,
        revision: 7,
        keys: 3,
        bad_keys: 0,
        resyncs: 4,
    });
    assert!(!all.connected);
    assert_eq!((all.revision, all.keys, all.bad_keys, all.resyncs), (7, 5, 1, 5));
}

#[test]
fn counters_of_workers_and_ports() {
    let server = |port: u16| format!("dns://:{port}");
    let dropped = |port| SeriesLabels {
        server: server(port),
        zone: "dropped".to_owned(),
        view: String::new(),
    };
    let metrics = Metrics {
        workers: vec![Arc::new(WorkerStats::new(2)), Arc::new(WorkerStats::new(2))],
        ports: vec![Arc::default(), Arc::default()],
        shown: shown(Shown {
            listeners: vec![(ListenerId(0), server(53)), (ListenerId(7), server(54))],
            series: vec![dropped(53), dropped(54)],
            ..Shown::default()
        }),
        ..Metrics::default()
    };
    for worker in &metrics.workers {
        worker.panics.add(1);
        worker.series[0].panics.add(1);
        worker.series[1].limited.add(2);
        worker.log_dropped.add(3);
        worker.streams_limited.add(4);
        worker.transfers_limited.add(6);
        worker.effects_dropped.add(5);
        worker.tls_handshakes.add(6);
        worker.tls_handshakes_failed.add(7);
    }
    check(
        &metrics,
        &[
            "coredns_panics_total 2",
            "nodens_panics_total{server=\"dns://:53\"} 2",
            "nodens_panics_total{server=\"dns://:54\"} 0",
            "nodens_gather_limited_total{server=\"dns://:53\"} 0",
            "nodens_gather_limited_total{server=\"dns://:54\"} 4",
            "nodens_log_dropped_total 6",
            "nodens_streams_limited_total 8",
            "nodens_transfers_limited_total 12",
            "nodens_effects_dropped_total 10",
            "nodens_tls_handshakes_total 12",
            "nodens_tls_handshakes_failed_total 14",
            "nodens_kernel_drops_total{server=\"dns://:53\"} 0",
            "nodens_kernel_drops_total{server=\"dns://:54\"} 0",
        ],
    );
}

#[test]
fn over_http() {
    let listener = bind(&address("localhost", 0)).unwrap();
    let local = listener.local_addr().unwrap();
    let runtime = runtime();
    runtime.spawn(serve_metrics(listener, Arc::default()));
    let reply = get(local, "/metrics");
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    assert!(
        reply.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{reply}"
    );
    assert!(reply.contains("\ncoredns_panics_total 0\n"));
    assert!(reply.contains("\ngo_goroutines "));
    assert!(get(local, "/").starts_with("HTTP/1.1 404 "));
    assert!(get(local, "/health").starts_with("HTTP/1.1 404 "));
}
