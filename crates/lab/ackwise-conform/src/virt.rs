//! A device in a virtual machine: the schedule runs in virtual time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ackwise_engines::{LabError, virt};
use ackwise_uml::{Ended, Kernel, KernelChoice, Machine, link_init};
use serde::{Deserialize, Serialize};

use crate::capture;
use crate::cases::chosen;
use crate::device::{Device, Error};
use crate::judge::{DeviceReport, judge};
use crate::netns::{Router, Spec};
use crate::schedule::Schedule;

/// The argument that makes a first program a guest of the suite.
const ARGUMENT: &str = "ackwise-conform-guest";
const JOB_FILE: &str = "conform.json";
const RESULT_FILE: &str = "conform-answer.json";
const PROGRESS_FILE: &str = "progress";
const CAPTURES: &str = "captures";
/// Seed of the guest's random numbers.
const SEED: u64 = 7;

/// Host → guest.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    spec: Spec,
    cases: Vec<String>,
}

/// Guest → host.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Judged(DeviceReport),
    Failed(String),
}

/// The directory in which the guest reports its progress.
static SHARED: OnceLock<PathBuf> = OnceLock::new();

/// Call this first thing in `main`. In the first process of a virtual machine that should test a
/// device, it does that and powers off. Elsewhere it does nothing.
pub fn run_if_guest() {
    virt::serve_if_guest(ARGUMENT, serve);
}

fn serve(directory: &Path) -> Result<(), LabError> {
    let failed = |what: &'static str| {
        move |error: serde_json::Error| LabError::Os {
            what: what.to_owned(),
            source: error.into(),
        }
    };
    let text = fs::read(directory.join(JOB_FILE)).map_err(LabError::os("cannot read the job"))?;
    let job: Job = serde_json::from_slice(&text).map_err(failed("cannot parse the job"))?;
    let _ = SHARED.set(directory.to_owned());
    let answer = match work(&job, directory) {
        Ok(report) => Answer::Judged(report),
        Err(error) => Answer::Failed(error.to_string()),
    };
    let text = serde_json::to_vec(&answer).map_err(failed("cannot write the answer"))?;
    fs::write(directory.join(RESULT_FILE), text).map_err(LabError::os("cannot write the answer"))
}

fn work(job: &Job, directory: &Path) -> Result<DeviceReport, Error> {
    let schedule = Schedule::new(&chosen(&job.cases)?);
    let on_progress = |packets: usize| {
        if let Some(directory) = SHARED.get() {
            // This only shows progress to the user; a failure has no consequence.
            let _ = fs::write(directory.join(PROGRESS_FILE), packets.to_string());
        }
    };
    let mut router = Router::new(&job.spec, true).with_progress(on_progress);
    run(&mut router, &schedule, Some(&directory.join(CAPTURES)))
}

/// Runs a device here and judges it. Captures of failed cases go to `captures`.
///
/// # Errors
/// The device cannot be set up, or a capture cannot be written.
pub fn run(
    device: &mut dyn Device,
    schedule: &Schedule,
    captures: Option<&Path>,
) -> Result<DeviceReport, Error> {
    let arrivals = device.run(schedule)?;
    let report = judge(&device.name(), schedule, device.shaper(), &arrivals);
    if let Some(captures) = captures {
        capture::write(captures, schedule, &arrivals, &report)?;
    }
    Ok(report)
}

/// Tests a device on a kernel in virtual time. `init` is the program that calls [`run_if_guest`]
/// first thing; this program if `None`. Captures of failed cases go to a directory named after the
/// device in `captures`.
///
/// # Errors
/// There is no such kernel, or the device cannot be set up there.
pub fn in_virtual_time(
    spec: &Spec,
    cases: &[String],
    kernel: Option<&KernelChoice>,
    init: Option<&Path>,
    captures: Option<&Path>,
) -> Result<DeviceReport, Error> {
    let kernel = Kernel::find(kernel).map_err(LabError::from)?;
    let init = match init {
        Some(path) => path.to_owned(),
        None => {
            std::env::current_exe().map_err(LabError::os("cannot find the path of this program"))?
        }
    };
    let job = Job {
        spec: spec.clone(),
        cases: cases.to_vec(),
    };
    let mut machine = Machine::boot(&kernel, ARGUMENT, SEED, |directory| {
        fs::write(directory.join(JOB_FILE), serde_json::to_vec(&job)?)?;
        link_init(directory, &init)
    })
    .map_err(LabError::from)?;
    let progress = |directory: &Path| {
        let text = fs::read_to_string(directory.join(PROGRESS_FILE)).ok()?;
        text.trim().parse().ok()
    };
    let ended = machine.wait(|| false, progress).map_err(LabError::from)?;
    let answer = fs::read(machine.directory().join(RESULT_FILE)).ok();
    let answer = answer.and_then(|text| serde_json::from_slice(&text).ok());
    match (ended, answer) {
        (_, Some(Answer::Judged(report))) => {
            if let Some(captures) = captures {
                let from = machine.directory().join(CAPTURES);
                capture::move_files(&from, &capture::directory(captures, &spec.name))?;
            }
            Ok(report)
        }
        (_, Some(Answer::Failed(why))) => Err(Error::Missing(why)),
        (Ended::ByItself(status), None) => {
            let what = format!("ended without an answer ({status})");
            Err(LabError::from(machine.failed(&what)).into())
        }
        (Ended::Cancelled, None) => Err(LabError::Cancelled.into()),
    }
}
