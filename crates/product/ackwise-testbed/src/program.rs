//! The command under test, run from outside, and helpers for tests of commands.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

pub use crate::until;

/// A command that Cargo has built for the tests.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    path: &'static str,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ended {
    /// Converts the output of a process.
    ///
    /// # Panics
    /// If a signal ended it, or its output is not UTF-8.
    #[must_use]
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        let code = output.status.code();
        Self {
            code: code.unwrap_or_else(|| panic!("ended by a signal: {:?}", output.status)),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

impl Program {
    /// The program at `env!("CARGO_BIN_EXE_<name>")`, which is defined only in tests of its own
    /// crate.
    #[must_use]
    pub const fn new(path: &'static str) -> Self {
        Self { path }
    }

    /// The path of the program.
    #[must_use]
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// A process of the program that is killed after five minutes.
    #[must_use]
    pub fn command(&self) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::new(self.path);
        command
            .timeout(Duration::from_secs(300))
            .env_remove("RUST_LOG")
            .env_remove("NOTIFY_SOCKET");
        command
    }

    /// Runs it with these arguments.
    ///
    /// # Panics
    /// If it cannot be run, or a signal ended it.
    #[must_use]
    pub fn run(&self, args: &[&str]) -> Ended {
        Ended::of(&self.command().args(args).output().expect("runs"))
    }

    /// Asserts that these arguments are refused: exit code 2, nothing on standard output, and each
    /// of these texts on standard error.
    ///
    /// # Panics
    /// If they are not.
    pub fn refuses(&self, args: &[&str], texts: &[&str]) {
        let Ended { code, out, err } = self.run(args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert_eq!(out, "", "{args:?}");
        for text in texts {
            assert!(err.contains(text), "{args:?}: no {text:?} in: {err}");
        }
        assert!(!err.contains("panicked"), "{args:?}: {err}");
    }

    /// Asserts that `completions` prints a script for each shell that contains these words, and
    /// refuses an unknown shell.
    ///
    /// # Panics
    /// If it does not.
    pub fn completes(&self, words: &[&str]) {
        for shell in ["bash", "zsh", "fish"] {
            let Ended { code, out, .. } = self.run(&["completions", shell]);
            assert_eq!(code, 0);
            for word in words {
                assert!(out.contains(word), "{shell}: no {word:?} in: {out}");
            }
        }
        self.refuses(&["completions", "tcsh"], &["bash"]);
    }

    /// Asserts that `--version` prints this name and version.
    ///
    /// # Panics
    /// If it does not.
    pub fn has_version(&self, name: &str, version: &str) {
        let expected = format!("{name} {version}\n");
        self.command()
            .arg("--version")
            .assert()
            .success()
            .stdout(expected);
    }

    /// Copies the program to this path, where everybody may run it.
    ///
    /// # Panics
    /// If it cannot be copied.
    pub fn install(&self, to: &Path) {
        install(Path::new(self.path), to);
    }
}

/// Copies a file and lets everybody run it.
///
/// Another process writes the copy. If this one did, a test that starts a process meanwhile would
/// pass on the open file, and running the copy would fail with ETXTBSY.
///
/// # Panics
/// If it cannot be copied.
pub fn install(from: &Path, to: &Path) {
    let status = Command::new("install")
        .args(["-m", "755"])
        .args([from, to])
        .status()
        .expect("install");
    assert!(status.success(), "install {}", to.display());
}

/// Fails without root: no test skips itself.
///
/// # Panics
/// If the user is not root.
pub fn root() {
    assert!(
        crate::is_root(),
        "this test needs root; `make check` runs those that do not"
    );
}

/// Runs a program that must succeed, and returns what it printed.
///
/// # Panics
/// If it cannot be run, or it fails.
pub fn must(line: &str) -> String {
    let mut words = line.split_whitespace();
    let out = Command::new(words.next().expect("a program"))
        .args(words)
        .output()
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(
        out.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).expect("UTF-8")
}
