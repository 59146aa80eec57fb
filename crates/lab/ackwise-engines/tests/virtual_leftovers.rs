//! A run in virtual time that is ended from outside leaves nothing behind.

mod virtual_harness;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ackwise_engines::live::{self, RunOptions};
use ackwise_engines::virt::{self, VirtualOptions};
use ackwise_testbed::until_within;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use virtual_harness::{BASELINE, lock_tests, options, run, two_hosts};

/// Set for the process that will be ended.
const VICTIM_VARIABLE: &str = "ACKWISE_TEST_VICTIM";
const LINK: &str = r#"both = { rate = "20 Mbit/s", delay = "10 ms", queue = "60 packets" }"#;

/// Does the victim's work if this process is one.
fn be_the_victim() -> bool {
    if std::env::var_os(VICTIM_VARIABLE).is_none() {
        return false;
    }
    let scenario = two_hosts("1 h", LINK, "app = \"bulk\"", BASELINE);
    let cancel = live::cancel_on_signals().unwrap();
    let options = VirtualOptions {
        run: RunOptions {
            cancel: Arc::clone(&cancel),
            ..RunOptions::default()
        },
        ..options()
    };
    let report = virt::run(&scenario, &options, &mut |_| {}).unwrap();
    assert!(
        report.runs.is_empty(),
        "the run of an hour ended before it was cancelled"
    );
    true
}

/// A process that runs a test of this file as a victim.
struct Victim(Child);

impl Victim {
    fn start(test: &str) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(VICTIM_VARIABLE, "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Its machine's directory, once traffic flows.
    fn machine(&self) -> PathBuf {
        let mark = format!("ackwise-{}-", self.0.id());
        wait_for("a machine", || {
            let mut found = Vec::new();
            for parent in [PathBuf::from("/dev/shm"), std::env::temp_dir()] {
                for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
                    if entry.file_name().to_string_lossy().starts_with(&mark) {
                        found.push(entry.path());
                    }
                }
            }
            found.pop().filter(|at| at.join("progress").exists())
        })
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for<T>(what: &str, poll: impl FnMut() -> Option<T>) -> T {
    until_within(Duration::from_secs(120), what, poll)
}

/// Processes with this working directory: a machine and everything in it.
fn living_in(directory: &Path) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let at = fs::read_link(entry.path().join("cwd")).ok()?;
            at.starts_with(directory).then_some(id)
        })
        .collect()
}

#[test]
fn interrupted() {
    if be_the_victim() {
        return;
    }
    let _lock = lock_tests();
    let mut victim = Victim::start("interrupted");
    let machine = victim.machine();
    assert!(
        living_in(&machine).len() >= 2,
        "the machine has a kernel and a process"
    );
    victim.signal(Signal::SIGINT);
    let status = victim.0.wait().unwrap();
    assert!(status.success(), "SIGINT must end it cleanly: {status}");
    assert!(!machine.exists());
    wait_for("end of the machine", || {
        living_in(&machine).is_empty().then_some(())
    });
}

#[test]
fn killed() {
    if be_the_victim() {
        return;
    }
    let _lock = lock_tests();
    let mut victim = Victim::start("killed");
    let machine = victim.machine();
    assert!(
        living_in(&machine).len() >= 2,
        "the machine has a kernel and a process"
    );
    victim.signal(Signal::SIGKILL);
    victim.0.wait().unwrap();
    wait_for("end of the machine", || {
        living_in(&machine).is_empty().then_some(())
    });
    // Nobody was left to remove its files; the next run does.
    assert!(machine.exists());
    run(&two_hosts("100 ms", LINK, "app = \"bulk\"", BASELINE));
    assert!(!machine.exists());
}

/// The kernel itself may be killed, for example by the OOM killer.
#[test]
fn without_its_kernel() {
    if be_the_victim() {
        return;
    }
    let _lock = lock_tests();
    let victim = Victim::start("without_its_kernel");
    let machine = victim.machine();
    let kernel = living_in(&machine).into_iter().min().unwrap();
    kill(Pid::from_raw(kernel as i32), Signal::SIGKILL).unwrap();
    wait_for("end of the machine", || {
        living_in(&machine).is_empty().then_some(())
    });
    wait_for("removal", || (!machine.exists()).then_some(()));
}
