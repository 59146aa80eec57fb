//! The freezer of control groups (cgroup-v2 in the kernel's documentation, `cgroup.freeze`).

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use crate::common::{eventually, run_command};

/// A control group with one process in it.
pub struct Freezer {
    /// The root of the hierarchy, which is not mounted elsewhere.
    _root: File,
    path: PathBuf,
    /// The previous group of the process.
    before: PathBuf,
}

impl Freezer {
    /// Creates a group, and moves a process into it.
    pub fn around(pid: u32) -> Self {
        // The mount is in a namespace that ends with the thread; the descriptor keeps it.
        let root = std::thread::spawn(|| {
            // SAFETY: no pointers; only this thread changes its namespace.
            let r = unsafe { libc::unshare(libc::CLONE_NEWNS) };
            assert_eq!(r, 0, "{}", std::io::Error::last_os_error());
            run_command("mount", "--make-rprivate /");
            run_command("mount", "-t cgroup2 none /mnt");
            File::open("/mnt").expect("a hierarchy")
        });
        let root = root.join().expect("a thread in a new namespace");
        let at = PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()));
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("groups");
        let before = groups.lines().find_map(|line| line.strip_prefix("0::/"));
        let before = at.join(before.expect("cgroup v2"));
        let path = at.join(format!("ackwise-test-{pid}"));
        fs::create_dir(&path).expect("a group");
        fs::write(path.join("cgroup.procs"), pid.to_string()).expect("moves");
        Self {
            _root: root,
            path,
            before,
        }
    }

    /// Freezes or thaws everything in the group, and waits until that is done.
    pub fn freeze(&self, frozen: bool) {
        let value = u8::from(frozen);
        fs::write(self.path.join("cgroup.freeze"), value.to_string()).expect("cgroup.freeze");
        let wanted = format!("frozen {value}");
        eventually("the group is frozen, or thawed", || {
            let events = fs::read_to_string(self.path.join("cgroup.events")).expect("events");
            events.lines().any(|line| line == wanted)
        });
    }

    /// Removes the group, whose process has ended.
    pub fn remove(self) {
        eventually("the group is removed", || {
            fs::remove_dir(&self.path).is_ok()
        });
    }
}

impl Drop for Freezer {
    /// After a failure: thaws the process, and leaves no group behind.
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("cgroup.freeze"), "0");
        let members = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines() {
            let _ = fs::write(self.before.join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.path);
    }
}
