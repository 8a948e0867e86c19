//! The Corefiles that installers write, as they are.

use std::process::Command;

use nodens_tests::process::nodens;

use super::{root, run};

#[test]
fn the_default_corefiles_of_installers_are_taken() {
    let mut names: Vec<_> = std::fs::read_dir(root().join("tests/corefiles"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "addon-manager",
            "deploy-script",
            "deploy-script-2017",
            "helm",
            "k3s",
            "kops",
            "kubeadm"
        ]
    );
    for name in names {
        let checked = run(Command::new(nodens().unwrap())
            .arg("check")
            .arg(root().join("tests/corefiles").join(&name))
            // As in a pod.
            .envs([
                ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
                ("KUBERNETES_SERVICE_PORT", "443"),
            ]));
        assert_eq!(checked.status, Some(0), "{name}: {}{}", checked.out, checked.err);
    }
}
