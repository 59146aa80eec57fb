//! The program inside the emulated machine: its first and only process.

mod between;
mod cost;
mod flow;
mod hosts;
mod interfaces;
mod trace;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::termios::{SetArg, cfmakeraw, tcdrain, tcgetattr, tcsetattr};
use serde::{Deserialize, Serialize};

use super::image::{JOB_PATH, TOOL_DIRECTORY};
use super::record::{Job, Record};
use crate::error::LabError;

/// The serial line for the answer.
const RESULT_SERIAL_LINE: &str = "/dev/ttyS1";

/// The guest's answer on the serial line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Answer {
    /// The job is done.
    Done(Record),
    /// The job could not be done, for this reason.
    Failed(String),
}

/// Call this first thing in `main`. In the first process of an emulated machine it does the job and
/// turns the machine off. Elsewhere it does nothing.
pub fn run_if_guest() {
    if std::process::id() != 1 || !Path::new(JOB_PATH).is_file() {
        return;
    }
    let done = prepare().and_then(|job| execute(&job));
    let answer = match done {
        Ok(record) => Answer::Done(record),
        Err(error) => Answer::Failed(error.to_string()),
    };
    if let Err(error) = write_answer(&answer) {
        // The host finds no answer, and this text on the console.
        eprintln!("the guest: {error}");
    }
    // With `-no-reboot` QEMU ends. If the call fails, the kernel panics because its first process
    // ends, and QEMU ends too.
    let _ = reboot(RebootMode::RB_AUTOBOOT);
}

fn prepare() -> Result<Job, LabError> {
    for (kind, target) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tracefs", trace::DIRECTORY),
        ("tmpfs", "/run"),
        ("tmpfs", "/tmp"),
    ] {
        let none: Option<&str> = None;
        match mount(Some(kind), target, Some(kind), MsFlags::empty(), none) {
            // The kernel has already mounted /dev.
            Ok(()) | Err(nix::Error::EBUSY) => {}
            Err(errno) => return Err(LabError::errno(format!("cannot mount {target}"))(errno)),
        }
    }
    // SAFETY: no other thread exists yet that could read the environment.
    unsafe { std::env::set_var("PATH", TOOL_DIRECTORY) };
    let text = fs::read_to_string(JOB_PATH).map_err(LabError::os("cannot read the job"))?;
    serde_json::from_str(&text)
        .map_err(|error| LabError::Scenario(format!("the job cannot be read: {error}")))
}

fn execute(job: &Job) -> Result<Record, LabError> {
    let hosts = hosts::Hosts::build(job)?;
    let samples = flow::run(job, &hosts)?;
    let name =
        nix::sys::utsname::uname().map_err(LabError::errno("cannot read the kernel's name"))?;
    Ok(Record {
        kernel: format!(
            "{} {}",
            name.sysname().to_string_lossy(),
            name.release().to_string_lossy()
        ),
        samples,
    })
}

fn write_answer(answer: &Answer) -> Result<(), LabError> {
    let os = || LabError::os(format!("cannot write to {RESULT_SERIAL_LINE}"));
    let errno = || LabError::errno(format!("cannot set {RESULT_SERIAL_LINE}"));
    let text = serde_json::to_string(answer)
        .map_err(|error| LabError::Scenario(format!("the answer cannot be written: {error}")))?;
    let mut line: File = OpenOptions::new()
        .write(true)
        .open(RESULT_SERIAL_LINE)
        .map_err(os())?;
    let mut settings = tcgetattr(&line).map_err(errno())?;
    cfmakeraw(&mut settings);
    tcsetattr(&line, SetArg::TCSANOW, &settings).map_err(errno())?;
    line.write_all(text.as_bytes()).map_err(os())?;
    tcdrain(&line).map_err(errno())
}
