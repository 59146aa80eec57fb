//! The outside: a virtual machine that does a job.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use ackwise_uml::{Ended, Kernel, Machine, link_init};

use super::guest::ARGUMENT;
use super::job::{
    ACKWISE_FILE, Answer, CAPTURE_DIRECTORY, JOB_FILE, Job, PROGRESS_FILE, RESULT_FILE,
};
use crate::error::LabError;

/// How a machine ended.
#[derive(Debug)]
pub(super) enum End {
    /// The guest did the job, or gave the reason why it could not.
    Answered(Answer),
    /// The caller cancelled it.
    Cancelled,
}

/// Boots a machine to do `job`. `init` is the program that calls
/// [`run_if_guest`](super::run_if_guest) first thing, and `ackwise` the operator's command, for jobs
/// that need it.
pub(super) fn boot(
    kernel: &Kernel,
    init: &Path,
    ackwise: Option<&Path>,
    job: &Job,
    seed: u64,
) -> Result<Machine, LabError> {
    let machine = Machine::boot(kernel, ARGUMENT, seed, |directory| {
        fs::write(directory.join(JOB_FILE), serde_json::to_vec(job)?)?;
        if let Some(program) = ackwise {
            symlink(program, directory.join(ACKWISE_FILE))?;
        }
        link_init(directory, init)
    })?;
    Ok(machine)
}

/// Waits for the guest's answer, and reports the progress of its traffic now and then. Captures are
/// moved to the directory `captures`.
pub(super) fn wait(
    mut machine: Machine,
    captures: &Path,
    cancelled: impl Fn() -> bool,
    mut progress: impl FnMut(Duration),
) -> Result<End, LabError> {
    let mut seen = 0;
    let ended = machine.wait(cancelled, |directory| {
        let now = elapsed_ns(directory)?;
        if now != seen {
            seen = now;
            progress(Duration::from_nanos(now));
        }
        Some(now)
    })?;
    let Ended::ByItself(status) = ended else {
        return Ok(End::Cancelled);
    };
    let Ok(text) = fs::read_to_string(machine.directory().join(RESULT_FILE)) else {
        let what = format!("ended without an answer ({status})");
        return Err(machine.failed(&what).into());
    };
    let answer = serde_json::from_str(&text)
        .map_err(|error| machine.failed(&format!("gave an answer that cannot be read: {error}")))?;
    move_files(&machine.directory().join(CAPTURE_DIRECTORY), captures)?;
    Ok(End::Answered(answer))
}

/// Nanoseconds of traffic so far; `None` if the file is just being written and still empty.
fn elapsed_ns(directory: &Path) -> Option<u64> {
    let text = fs::read_to_string(directory.join(PROGRESS_FILE)).ok()?;
    text.trim().parse().ok()
}

fn move_files(from: &Path, to: &Path) -> Result<(), LabError> {
    let Ok(entries) = fs::read_dir(from) else {
        return Ok(());
    };
    let failed = |error: io::Error| LabError::Os {
        what: format!("cannot put captures into {}", to.display()),
        source: error,
    };
    fs::create_dir_all(to).map_err(failed)?;
    for entry in entries {
        let entry = entry.map_err(failed)?;
        fs::copy(entry.path(), to.join(entry.file_name())).map_err(failed)?;
    }
    Ok(())
}
