//! Runs `ip`, `tc` and `ethtool`, and reports their errors.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::error::LabError;

/// Runs a program to its end and returns its standard output.
///
/// # Errors
/// The program could not be started or did not succeed; the error carries the command line and the
/// program's output.
pub fn run<S: AsRef<OsStr>>(program: &str, args: &[S]) -> Result<String, LabError> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    let output = command
        .output()
        .map_err(LabError::os(format!("cannot start `{program}`")))?;
    finish(&describe(program, args), output)
}

/// Feeds lines to `ip -batch -` in the named namespace, or in the current one. One process makes
/// many changes.
///
/// # Errors
/// As for [`run`]; the program's output names the line that failed.
pub fn ip_batch(namespace: Option<&str>, lines: &[String]) -> Result<(), LabError> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut args: Vec<&str> = Vec::new();
    if let Some(name) = namespace {
        args.extend(["-n", name]);
    }
    args.extend(["-batch", "-"]);
    let mut child = Command::new("ip")
        .args(&args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(LabError::os("cannot start `ip`"))?;
    let mut text = lines.join("\n");
    text.push('\n');
    if let Some(mut stdin) = child.stdin.take() {
        // If `ip` stops reading early, its own message below says why.
        let _ = stdin.write_all(text.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(LabError::os("cannot wait for `ip`"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let failed = failed_line(&stderr).and_then(|number| lines.get(number - 1));
    args.truncate(args.len() - 2);
    let described = match failed {
        Some(line) => format!("{} {line}", describe("ip", &args)),
        None => format!("{} -batch -", describe("ip", &args)),
    };
    finish(&described, output).map(drop)
}

/// The line number, counted from 1, at which `ip` says it failed: "Command failed -:11".
fn failed_line(stderr: &str) -> Option<usize> {
    let (_, number) = stderr.rsplit_once("Command failed -:")?;
    number.trim().parse().ok().filter(|&number| number > 0)
}

fn describe<S: AsRef<OsStr>>(program: &str, args: &[S]) -> String {
    let mut line = program.to_owned();
    for arg in args {
        line.push(' ');
        line.push_str(&arg.as_ref().to_string_lossy());
    }
    line
}

fn finish(command: &str, output: Output) -> Result<String, LabError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(LabError::Command {
        command: command.to_owned(),
        status: output.status.to_string(),
        stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

/// Whether a program of that name is in `PATH`.
#[must_use]
pub fn exists(program: &str) -> bool {
    find(program).is_some()
}

/// The first program of that name in `PATH`.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_and_why() {
        let error = run("sh", &["-c", "echo went wrong >&2; exit 3"]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("sh -c") && text.contains("went wrong"),
            "{text}"
        );
        assert!(text.contains('3'), "{text}");
    }

    #[test]
    fn the_line_that_failed_is_found() {
        let stderr = "Error: something\nCommand failed -:11\n";
        assert_eq!(failed_line(stderr), Some(11));
        assert_eq!(failed_line("Command failed -:0"), None);
        assert_eq!(failed_line("no idea"), None);
    }

    #[test]
    fn a_batch_names_its_line() {
        let lines = ["link show lo", "link show no-such-device"].map(str::to_owned);
        let text = ip_batch(None, &lines).unwrap_err().to_string();
        assert!(text.contains("`ip link show no-such-device`"), "{text}");
        assert!(text.contains("does not exist"), "{text}");
    }

    #[test]
    fn output_is_returned() {
        assert_eq!(run("printf", &["%s", "hello"]).unwrap(), "hello");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run("no-such-program-here", &["x"]).unwrap_err();
        assert!(error.to_string().contains("no-such-program-here"));
        assert!(!exists("no-such-program-here"));
        assert!(exists("sh"));
    }
}
