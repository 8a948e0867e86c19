//! What `install.sh` prints for an address that is given, without a cluster, and how it refuses what it cannot use.

use super::{Done, install, read, run};

fn print(args: &[&str]) -> Done {
    let done = run(install().env("KUBECTL", "/nonexistent/kubectl").args(args));
    assert_eq!(done.status, Some(0), "{done:?}");
    done
}

/// The lines of the Corefile, each without its indentation.
fn corefile(manifests: &str) -> Vec<&str> {
    let lines = manifests
        .lines()
        .skip_while(|line| !line.starts_with("  Corefile:"))
        .skip(1);
    lines
        .take_while(|line| line.starts_with("    "))
        .map(str::trim)
        .collect()
}

#[test]
fn the_manifests_are_what_is_printed_for_kubeadm() {
    let printed = print(&["-i", "10.96.0.10"]);
    assert!(
        printed.out == read("deploy/manifests/nodens.yaml"),
        "run `deploy/install.sh -i 10.96.0.10 > deploy/manifests/nodens.yaml`, without a cluster"
    );
    // The Corefile that kubeadm 1.34 installs, but for its indentation.
    let kubeadm = read("tests/corefiles/kubeadm");
    assert_eq!(
        corefile(&printed.out),
        kubeadm.lines().map(str::trim).collect::<Vec<_>>()
    );
    assert!(
        printed.err.starts_with("note: /nonexistent/kubectl is not there\n"),
        "{}",
        printed.err
    );
}

#[test]
fn one_version_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = read("deploy/chart/Chart.yaml");
    assert!(
        chart.contains(&format!("\nversion: {version}\nappVersion: {version}\n")),
        "{chart}"
    );
    assert!(read("deploy/install.sh").contains(&format!("\nversion={version}\n")));
    assert!(read("deploy/manifests/nodens.yaml").contains(&format!("image: localhost/nodens:{version}\n")));
}

#[test]
fn the_call_of_the_old_script() {
    let done = print(&["-i", "10.3.0.10", "10.3.0.0/24", "oak.example"]);
    let lines = corefile(&done.out);
    assert!(lines.contains(&"kubernetes oak.example 10.3.0.0/24 {"), "{lines:?}");
    assert!(lines.contains(&"disable success oak.example"), "{lines:?}");
    assert!(done.out.contains("\n  clusterIP: 10.3.0.10\n"), "{}", done.out);
    // The same with names.
    for args in [
        ["-i", "10.3.0.10", "-r", "10.3.0.0/24", "-d", "oak.example", "-s"].as_slice(),
        &[
            "--ip=10.3.0.10",
            "--reverse=10.3.0.0/24",
            "--domain",
            "oak.example",
            "--skip-configmap",
        ],
    ] {
        assert_eq!(print(args).out, done.out, "{args:?}");
    }
    let more = print(&["-i", "10.3.0.10", "-r", "10.3.0.0/24", "-r", "fd00:3::/108"]);
    assert!(corefile(&more.out).contains(&"kubernetes cluster.local 10.3.0.0/24 fd00:3::/108 {"));
}

#[test]
fn pods_image_and_service_are_those_that_are_named() {
    let done = print(&[
        "-i",
        "10.96.0.10",
        "--image",
        "registry.example/nodens:1",
        "--replicas=5",
        "--service",
        "dns",
    ]);
    for line in [
        "        image: registry.example/nodens:1",
        "  replicas: 5",
        "  name: dns",
        "  clusterIP: 10.96.0.10",
    ] {
        assert!(done.out.lines().any(|other| other == line), "{line}: {}", done.out);
    }
    assert!(!done.out.contains("name: kube-dns"), "{}", done.out);
}

#[test]
fn a_corefile_and_a_template_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let corefile_path = folder.path().join("Corefile");
    // Without a newline at its end, and with words of the template in it.
    let text = "  .:53 {\n    whoami # CLUSTER_DOMAIN & \\1 STUBDOMAINS\n}";
    std::fs::write(&corefile_path, text).unwrap();
    let done = print(&["-i", "10.96.0.10", "--corefile", corefile_path.to_str().unwrap()]);
    let indented: String = text.lines().map(|line| format!("    {line}\n")).collect();
    assert!(
        done.out.contains(&format!("data:\n  Corefile: |2\n{indented}---\n")),
        "{}",
        done.out
    );

    // Placeholders of the old script and of the one after it.
    let template = folder.path().join("coredns.yaml.sed");
    std::fs::write(
        &template,
        "# CLUSTER_DOMAIN\nkubernetes CLUSTER_DOMAIN SERVICE_CIDR / REVERSE_CIDRS {\nforward . UPSTREAMNAMESERVER\n}STUBDOMAINS\n\
         clusterIP: CLUSTER_DNS_IP CLUSTER_DNS_IP\n",
    )
    .unwrap();
    let done = print(&["-i", "10.3.0.10", "-t", template.to_str().unwrap(), "10.3.0.0/24"]);
    assert_eq!(
        done.out,
        "# CLUSTER_DOMAIN\nkubernetes cluster.local 10.3.0.0/24 / 10.3.0.0/24 {\nforward . /etc/resolv.conf\n}\nclusterIP: 10.3.0.10 10.3.0.10\n"
    );
}

#[test]
fn what_is_wrong_is_named_with_how_to_mend_it() {
    let help = run(install().arg("-h"));
    assert!(
        help.status == Some(0) && help.out.contains("install.sh [OPTIONS] [SERVICE-CIDR] [DOMAIN]"),
        "{help:?}"
    );
    for (args, what, mend) in [
        (&["--what"] as &[&str], "unknown option --what", "--help"),
        (&["-i"], "-i needs a value", "--help"),
        (
            &["10.3.0.0/24", "oak.example", "more"],
            "one word too many: more",
            "SERVICE-CIDR and DOMAIN",
        ),
        (&["oak.example"], "oak.example is no CIDR", "10.96.0.0/12"),
        (&["-r", "10.3.0.0/x"], "10.3.0.0/x is no CIDR", "10.96.0.0/12"),
        (&["-r", "10.3.0.0/33"], "10.3.0.0/33 is no CIDR", "10.96.0.0/12"),
        (&["-r", "10.300.0.0/16"], "10.300.0.0/16 is no CIDR", "10.96.0.0/12"),
        (&["-i", "10.3.0.256"], "10.3.0.256 is no IP address", "10.96.0.10"),
        (&["-d", "oak example"], "oak example is no domain", "cluster.local"),
        (
            &["-i", "dns.oak.example"],
            "dns.oak.example is no IP address",
            "10.96.0.10",
        ),
        (&["--replicas", "none"], "--replicas none", "1 or more"),
        (
            &["-t", "/nonexistent"],
            "/nonexistent cannot be read",
            "a file that is there",
        ),
        (
            &["--dry-run"],
            "--dry-run is for --apply and --rollback",
            "nothing changes",
        ),
        (&[], "/nonexistent/kubectl is not there", "install.sh -i 10.96.0.10"),
        (
            &["--apply", "-i", "10.96.0.10"],
            "/nonexistent/kubectl is not there",
            "KUBECONFIG",
        ),
    ] {
        let done = run(install().env("KUBECTL", "/nonexistent/kubectl").args(args));
        assert_eq!(done.status, Some(2), "{args:?}: {done:?}");
        assert!(done.out.is_empty(), "{args:?}: {done:?}");
        let (first, second) = done.err.split_once('\n').unwrap();
        assert!(first.contains(what) && second.contains(mend), "{args:?}: {}", done.err);
    }
}
