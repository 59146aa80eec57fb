//! What the command's tests share.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The command under test.
pub fn ackwise_lab() -> assert_cmd::Command {
    let mut c = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ackwise-lab"));
    c.timeout(Duration::from_secs(60))
        .env_remove("RUST_LOG")
        .env_remove("NOTIFY_SOCKET");
    c
}

/// Runs it with these arguments: exit code, standard output, standard error.
pub fn outcome(args: &[&str]) -> (i32, String, String) {
    unpack(&ackwise_lab().args(args).output().unwrap())
}

/// The same of any output.
pub fn unpack(out: &Output) -> (i32, String, String) {
    let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
    let code = out
        .status
        .code()
        .unwrap_or_else(|| panic!("ended by a signal: {:?}", out.status));
    (code, text(&out.stdout), text(&out.stderr))
}

/// No test skips itself: without root this one fails.
pub fn root() {
    assert!(
        nix::unistd::geteuid().is_root(),
        "this test needs root; `make check` runs those that do not"
    );
}

/// Runs a program that must succeed.
pub fn must(line: &str) -> String {
    let mut words = line.split_whitespace();
    let out = Command::new(words.next().unwrap())
        .args(words)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap()
}

/// Waits until something is there.
pub fn until<T>(what: &str, patience: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {patience:?} for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
