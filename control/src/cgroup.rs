//! The CPU quota that a container runtime sets on our cgroup, in either version of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// CPUs that the quotas of our cgroup and those above it allow, 0.1 for a limit of 100m; none if there is no quota.
/// `root` is `/`.
pub fn cpu_quota(root: &Path) -> Option<f64> {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let quotas = own.lines().filter_map(|line| {
        // `0::/pods/web` is of version 2, `4:cpu,cpuacct:/pods/web` of version 1.
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let hierarchies = root.join("sys/fs/cgroup");
        if controllers.is_empty() {
            least(&hierarchies, path, version_2)
        } else if controllers.split(',').any(|name| name == "cpu") {
            let mounted = [controllers, "cpu"].map(|name| hierarchies.join(name));
            let mounted = mounted.iter().find(|folder| folder.is_dir())?;
            least(mounted, path, version_1)
        } else {
            None
        }
    });
    quotas.reduce(f64::min)
}

/// The least quota from our own cgroup up to the top. In a container the path may be the host's: then only the top is
/// there to be seen, and it is ours.
fn least(top: &Path, path: &str, quota: fn(&Path) -> Option<f64>) -> Option<f64> {
    let own = Path::new(path.trim_start_matches('/'));
    let folders = own.ancestors().map(|folder| top.join(folder));
    folders.filter_map(|folder: PathBuf| quota(&folder)).reduce(f64::min)
}

/// `10000 100000`, or `max 100000` for none.
fn version_2(folder: &Path) -> Option<f64> {
    let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    ratio(quota.parse().ok()?, period.parse().ok()?)
}

/// -1 for none.
fn version_1(folder: &Path) -> Option<f64> {
    ratio(
        number(&folder.join("cpu.cfs_quota_us"))?,
        number(&folder.join("cpu.cfs_period_us"))?,
    )
}

fn number(file: &Path) -> Option<i64> {
    i64::from_str(fs::read_to_string(file).ok()?.trim()).ok()
}

fn ratio(quota: i64, period: i64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of a machine with these files.
    fn quota(files: &[(&str, &str)]) -> Option<f64> {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        cpu_quota(root.path())
    }

    #[test]
    fn version_2_counts_every_level() {
        let own = ("proc/self/cgroup", "0::/pods/web\n");
        let at = |quota_of_pods, quota_of_web| {
            quota(&[
                own,
                ("sys/fs/cgroup/pods/cpu.max", quota_of_pods),
                ("sys/fs/cgroup/pods/web/cpu.max", quota_of_web),
            ])
        };
        assert_eq!(at("max 100000\n", "10000 100000\n"), Some(0.1));
        assert_eq!(at("150000 100000\n", "max 100000\n"), Some(1.5));
        assert_eq!(at("50000 100000\n", "300000 100000\n"), Some(0.5));
        assert_eq!(at("max 100000\n", "max 100000\n"), None);
        assert_eq!(at("nonsense\n", "0 100000\n"), None);
    }

    #[test]
    fn a_container_sees_its_own_at_the_top() {
        let max = ("sys/fs/cgroup/cpu.max", "20000 100000\n");
        assert_eq!(quota(&[("proc/self/cgroup", "0::/\n"), max]), Some(0.2));
        assert_eq!(quota(&[("proc/self/cgroup", "0::/../host/path\n"), max]), Some(0.2));
    }

    #[test]
    fn version_1_has_the_controller_in_its_path() {
        let files = |folder: &str, controllers: &str, quota_us: &str| {
            quota(&[
                (
                    "proc/self/cgroup",
                    &format!("9:memory:/x\n4:{controllers}:/pods/web\n0::/\n"),
                ),
                (&format!("sys/fs/cgroup/{folder}/cpu.cfs_quota_us"), quota_us),
                (&format!("sys/fs/cgroup/{folder}/cpu.cfs_period_us"), "100000\n"),
            ])
        };
        assert_eq!(files("cpu/pods/web", "cpu", "10000\n"), Some(0.1));
        assert_eq!(files("cpu,cpuacct/pods", "cpu,cpuacct", "250000\n"), Some(2.5));
        assert_eq!(files("cpu", "cpu,cpuacct", "100000\n"), Some(1.0));
        assert_eq!(files("cpu", "cpuset", "100000\n"), None);
        assert_eq!(files("cpu", "cpu", "-1\n"), None);
    }

    #[test]
    fn where_nothing_is_said_there_is_no_quota() {
        assert_eq!(quota(&[]), None);
        assert_eq!(quota(&[("proc/self/cgroup", "0::/x\n")]), None);
    }
}
