//! A cgroup for the sockets of a test.

use std::path::{Path, PathBuf};
use std::{fs, process};

use ackwise_datapath::AckRateRequester;

use super::{run_command, time_is_virtual};

/// This process in a cgroup of its own.
pub struct Cgroup {
    pub path: PathBuf,
    before: PathBuf,
}

impl Cgroup {
    pub fn enter() -> Cgroup {
        if time_is_virtual() && AckRateRequester::root().is_err() {
            run_command("mount", "-t cgroup2 none /mnt");
        }
        let root = AckRateRequester::root().unwrap_or_else(|e| panic!("{e}"));
        let own = fs::read_to_string("/proc/self/cgroup").expect("cgroups");
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
        let before = root.join(own.expect("version 2"));
        let path = root.join(format!("ackwise-test-{}", process::id()));
        fs::create_dir(&path).expect("a cgroup");
        let cgroup = Cgroup { path, before };
        Cgroup::join(&cgroup.path);
        cgroup
    }

    fn join(path: &Path) {
        fs::write(path.join("cgroup.procs"), process::id().to_string()).expect("to join a cgroup");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        Cgroup::join(&self.before);
        fs::remove_dir(&self.path).expect("an empty cgroup");
    }
}
