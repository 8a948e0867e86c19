//! The image as `deploy/image/build` makes it, and the seccomp profile that lets its container use io_uring.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use nodens_tests::nodens::Nodens;
use nodens_tests::process::nodens;
use serde_json::Value;

use super::{read, root, run};

fn has(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok()
}

#[test]
fn the_image_holds_what_coredns_s_does() {
    if !has("buildah", "--version") {
        println!("skipped: there is no buildah");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("image.tar");
    let build = |arch: &str| {
        let built = run(Command::new(root().join("deploy/image/build"))
            .arg(nodens().unwrap())
            .args([arch, "registry.example/nodens:1"])
            .arg(&archive));
        assert_eq!(built.status, Some(0), "{built:?}");
        std::fs::read(&archive).unwrap()
    };
    let arch = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    };
    let first = build(arch);
    assert!(first == build(arch), "the same image for the same commit");

    let unpacked = run(Command::new("tar")
        .arg("-C")
        .arg(folder.path())
        .arg("-xf")
        .arg(&archive));
    assert_eq!(unpacked.status, Some(0), "{unpacked:?}");
    let json =
        |name: &str| -> Value { serde_json::from_slice(&std::fs::read(folder.path().join(name)).unwrap()).unwrap() };
    let manifest = json("manifest.json");
    let [image] = &manifest.as_array().unwrap()[..] else {
        panic!("{manifest}")
    };
    assert_eq!(image["RepoTags"], serde_json::json!(["registry.example/nodens:1"]));
    let config = json(image["Config"].as_str().unwrap());
    assert_eq!(
        (&config["architecture"], &config["os"]),
        (&arch.into(), &"linux".into())
    );
    let config = &config["config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["Entrypoint"], serde_json::json!(["/nodens"]));
    let ports: Vec<_> = config["ExposedPorts"].as_object().unwrap().keys().collect();
    assert_eq!(ports, ["53/tcp", "53/udp", "8080/tcp", "8181/tcp", "9153/tcp"]);

    // One layer, from nothing.
    let [layer] = &image["Layers"].as_array().unwrap()[..] else {
        panic!("{image}")
    };
    let layer = folder.path().join(layer.as_str().unwrap());
    let listed = run(Command::new("tar")
        .args(["--xattrs", "--xattrs-include=*", "-tvvf"])
        .arg(&layer));
    let files: BTreeMap<&str, &str> = listed
        .out
        .lines()
        // An attribute stands on a line of its own.
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| {
            line.split_once(':')
                .and_then(|(head, rest)| Some((rest.get(3..)?, head)))
        })
        .collect();
    let mut names: Vec<_> = files.keys().copied().filter(|name| !name.ends_with('/')).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "coredns -> nodens",
            "etc/group",
            "etc/nsswitch.conf",
            "etc/passwd",
            "etc/ssl/certs/ca-certificates.crt",
            "nodens"
        ],
        "{}",
        listed.out
    );
    assert!(files["nodens"].starts_with("-rwxr-xr-x* 0/0 "), "{}", listed.out);
    assert!(listed.out.contains("x: 20 security.capability"), "{}", listed.out);
}

/// The profile's rules in the form of `confined`, where this machine's calls are all that is known.
fn rules() -> Vec<String> {
    let profile: Value = serde_json::from_str(&read("deploy/seccomp/nodens.json")).unwrap();
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    let mut rules = Vec::new();
    for rule in profile["syscalls"].as_array().unwrap() {
        // `clone3` alone: its error says that the kernel has no such call, so that `clone` is tried.
        if rule["action"] != "SCMP_ACT_ALLOW" {
            assert_eq!(
                (&rule["names"], &rule["errnoRet"]),
                (&serde_json::json!(["clone3"]), &38.into())
            );
            continue;
        }
        for name in rule["names"].as_array().unwrap() {
            let conditions: Vec<String> = rule["args"].as_array().into_iter().flatten().map(condition).collect();
            let args = if conditions.is_empty() {
                String::new()
            } else {
                format!(", \"args\": [{}]", conditions.join(", "))
            };
            rules.push(format!("{{\"syscall\": {name}{args}}}"));
        }
    }
    rules
}

fn condition(arg: &Value) -> String {
    let (op, value) = match arg["op"].as_str().unwrap() {
        "SCMP_CMP_EQ" => ("\"eq\"".to_owned(), &arg["value"]),
        "SCMP_CMP_LT" => ("\"lt\"".to_owned(), &arg["value"]),
        "SCMP_CMP_MASKED_EQ" => (format!("{{\"masked_eq\": {}}}", arg["value"]), &arg["valueTwo"]),
        other => panic!("{other}"),
    };
    format!(
        "{{\"index\": {}, \"type\": \"qword\", \"op\": {op}, \"val\": {value}}}",
        arg["index"]
    )
}

#[test]
fn the_profile_lets_io_uring_through() {
    let confined = env!("CARGO_BIN_EXE_confined");
    let filter = |rules: &[String]| {
        format!(
            "{{\"main\": {{\"mismatch_action\": {{\"errno\": 38}}, \"match_action\": \"allow\", \"filter\": [{}]}}}}",
            rules.join(", ")
        )
    };
    // Newer calls than the filter's library has heard of are in the profile, too.
    let arch: seccompiler::TargetArch = std::env::consts::ARCH.try_into().unwrap();
    let is_known =
        |rule: &String| seccompiler::compile_from_json(filter(std::slice::from_ref(rule)).as_bytes(), arch).is_ok();
    let rules: Vec<String> = rules().into_iter().filter(is_known).collect();
    assert!(rules.len() > 250, "{}", rules.len());
    let words = [confined, &filter(&rules)];
    let corefile = "cedar.example:{PORT} {\n    bind 127.0.0.1\n    prometheus 127.0.0.1:{METRICS}\n    whoami\n}\n";
    for (io, other) in [("uring", "mmsg"), ("mmsg", "uring")] {
        let server = Nodens::start_behind(&words, corefile, &["-workers", "2", "-io", io]);
        server.wait_for("www.cedar.example A", Duration::from_secs(5), |reply| {
            reply.rcode == "NOERROR"
        });
        assert_eq!(server.metric_with("nodens_workers", "io", io), 2.0);
        assert_eq!(server.metric_with("nodens_workers", "io", other), 0.0);
    }
}
