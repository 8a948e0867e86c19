//! Where kube-apiserver and kubectl lie.

use std::env;
use std::path::{Path, PathBuf};

const GO_MOD: &str = include_str!("../../cluster/go.mod");

/// The programs of a cluster.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// The API server.
    pub apiserver: PathBuf,
    /// The client.
    pub kubectl: PathBuf,
}

impl Binaries {
    /// Those in the folder that `KUBEBUILDER_ASSETS` names, else those that `make cluster` has built.
    ///
    /// # Errors
    /// There are none; says what to do.
    pub fn find() -> Result<Self, String> {
        let folders = [env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from), Some(built())];
        let both = |folder: PathBuf| Self {
            apiserver: folder.join("kube-apiserver"),
            kubectl: folder.join("kubectl"),
        };
        let mut found = folders.into_iter().flatten().map(both);
        found
            .find(|binaries| binaries.apiserver.is_file() && binaries.kubectl.is_file())
            .ok_or_else(|| {
                format!(
                    "no kube-apiserver and kubectl in {} nor where KUBEBUILDER_ASSETS says: run `make cluster`",
                    built().display()
                )
            })
    }
}

/// Where `tests/cluster/build` puts them.
fn built() -> PathBuf {
    let cache = match env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()) {
        Some(path) => path.into(),
        None => Path::new(&env::var_os("HOME").unwrap_or_default()).join(".cache"),
    };
    cache.join("nodens").join(format!("kubernetes-{}", version()))
}

/// The version of Kubernetes.
pub fn version() -> &'static str {
    let line = GO_MOD
        .lines()
        .find_map(|line| line.strip_prefix("require k8s.io/kubernetes "));
    line.and_then(|rest| rest.split(' ').next())
        .expect("go.mod requires Kubernetes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_module() {
        assert!(version().starts_with("v1."));
        assert!(built().ends_with(format!("nodens/kubernetes-{}", version())));
    }
}
