//! The inside: the first program of the guest, which is this program again.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use ackwise_scenario::Scenario;
use ackwise_scenario::trace::TraceFiles;
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::utsname::uname;

use super::job::{
    ACKWISE_FILE, Answer, CAPTURE_DIRECTORY, JOB_FILE, Job, PROGRESS_FILE, RESULT_FILE, RecordedRun,
};
use crate::error::LabError;
use crate::live::{self, Progress, RunOptions};
use crate::{clock, command, kernel_link};

/// The argument that makes a first program a guest.
pub(super) const ARGUMENT: &str = "ackwise-guest";
/// Path of the job's directory in the guest.
const DIRECTORY: &str = "/run/ackwise-job";
/// Path of the operator's command in the guest, if the job needs it.
const ACKWISE: &str = "/run/ackwise-program";

/// Call this first thing in `main`. In the first process of a virtual machine it runs the job and
/// powers off; in a process that such a job started as a part of itself, it does that part.
/// Elsewhere it does nothing.
pub fn run_if_guest() {
    live::tunnel_process::run_if_asked();
    serve_if_guest(ARGUMENT, serve);
}

/// Serves a job of another kind than [`run_if_guest`] does. In the first process of a virtual
/// machine that was booted with this argument, it sets up the system, calls `serve` with the
/// directory that host and guest share, and powers off.
pub fn serve_if_guest(argument: &str, serve: fn(&Path) -> Result<(), LabError>) {
    let is_guest = std::env::args_os()
        .nth(1)
        .is_some_and(|arg| arg == argument);
    if !is_guest || std::process::id() != 1 {
        return;
    }
    let served = || {
        set_up()?;
        serve(Path::new(DIRECTORY))
    };
    if let Err(error) =
        catch_unwind(AssertUnwindSafe(served)).unwrap_or(Err(LabError::Panicked("the guest")))
    {
        eprintln!("the guest: {error}");
    }
    nix::unistd::sync();
    // On success this does not return. Otherwise the kernel panics because its first process ends,
    // and the host sees that.
    let _ = reboot(RebootMode::RB_POWER_OFF);
}

fn serve(directory: &Path) -> Result<(), LabError> {
    let text = fs::read_to_string(directory.join(JOB_FILE))
        .map_err(LabError::os("cannot read the job"))?;
    let job: Job = serde_json::from_str(&text).map_err(|error| LabError::Os {
        what: "cannot parse the job".to_owned(),
        source: error.into(),
    })?;
    let answer = catch_unwind(AssertUnwindSafe(|| work(&job, directory)))
        .unwrap_or(Err(LabError::Panicked("the engine")))
        .unwrap_or_else(|error| Answer::Failed {
            fatal: error.is_of_scenario(),
            why: error.to_string(),
        });
    let text = serde_json::to_vec(&answer).map_err(|error| LabError::Os {
        what: "cannot write the answer".to_owned(),
        source: error.into(),
    })?;
    fs::write(directory.join(RESULT_FILE), text).map_err(LabError::os("cannot write the answer"))
}

/// Turns a bare kernel on the host's files into a system that runs scenarios.
fn set_up() -> Result<(), LabError> {
    // The host's /proc is still visible. In it, this process is the machine itself, which runs in
    // the job's directory, so the directory need not be on the command line, which would change the
    // guest's random numbers.
    let job =
        fs::read_link("/proc/self/cwd").map_err(LabError::os("cannot find the job's directory"))?;
    // It may be in a directory that the mounts below hide.
    let ackwise = File::open(Path::new("/proc/self/cwd").join(ACKWISE_FILE)).ok();
    attach("proc", "/proc", "proc", None)?;
    attach("sysfs", "/sys", "sysfs", None)?;
    attach("devtmpfs", "/dev", "devtmpfs", None)?;
    attach("bpf", "/sys/fs/bpf", "bpf", None)?;
    attach("tmpfs", "/run", "tmpfs", None)?;
    attach("tmpfs", "/tmp", "tmpfs", None)?;
    symlink("/proc/self/fd", "/dev/fd").map_err(LabError::os("cannot link /dev/fd"))?;
    fs::create_dir_all(DIRECTORY).map_err(LabError::os("cannot make the job's directory"))?;
    attach("hostfs", DIRECTORY, "hostfs", Some(&job))?;
    if let Some(program) = ackwise {
        File::create(ACKWISE).map_err(LabError::os("cannot make a file for `ackwise`"))?;
        let opened = format!("/proc/self/fd/{}", program.as_raw_fd());
        mount(
            Some(opened.as_str()),
            ACKWISE,
            None::<&str>,
            MsFlags::MS_BIND,
            None::<&str>,
        )
        .map_err(LabError::errno("cannot show `ackwise` to the guest"))?;
    }
    // SAFETY: there is no other thread that could read the environment.
    unsafe {
        std::env::set_var(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        );
        std::env::set_var("HOME", "/run");
        std::env::set_var("TMPDIR", "/tmp");
        std::env::set_var("LC_ALL", "C");
    }
    // Makes timers fire when they are due, without slack; threads inherit this. SAFETY: takes no
    // pointers and concerns only the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
    clock::set_computation_free();
    kernel_link::raise_backlog().map_err(LabError::os("cannot make room for bursts of packets"))?;
    command::run("ip", &["link", "set", "lo", "up"]).map(drop)
}

fn attach(source: &str, at: &str, kind: &str, directory: Option<&PathBuf>) -> Result<(), LabError> {
    mount(
        Some(source),
        at,
        Some(kind),
        MsFlags::empty(),
        directory.map(PathBuf::as_path),
    )
    .map_err(LabError::errno(format!("cannot mount {kind} on {at}")))
}

fn work(job: &Job, directory: &Path) -> Result<Answer, LabError> {
    let traces = TraceFiles::given(job.traces.clone());
    let scenario = Scenario::parse_with(&job.path, &job.text, &traces)?;
    let spec = scenario
        .runs()
        .into_iter()
        .find(|run| run.id == job.run)
        .ok_or_else(|| LabError::Scenario(format!("there is no run `{}`", job.run)))?;
    for _ in 0..job.disturbance {
        let mut bytes = [0_u8; 16];
        // SAFETY: the buffer is live and its length is its own.
        unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        let _ = clock::now_ns();
    }
    let ackwise = Path::new(ACKWISE);
    let options = RunOptions {
        ackwise: ackwise.exists().then(|| ackwise.to_owned()),
        backend: job.backend,
        behaviour: job.behaviour.clone(),
        incidents: job.incidents.clone(),
        capture_dir: Some(directory.join(CAPTURE_DIRECTORY)),
        ..RunOptions::default()
    };
    let done = live::run_virtual(&scenario, &spec, &options, &mut |progress| {
        if let Progress::Running { elapsed, .. } = progress {
            // This only shows progress to the user; a failure has no consequence.
            let _ = fs::write(
                directory.join(PROGRESS_FILE),
                elapsed.as_nanos().to_string(),
            );
        }
    })?;
    let names = uname().map_err(LabError::errno("cannot read the kernel's name"))?;
    let mut context = done.context;
    context.environment.kernel = Some(format!(
        "{} {}",
        names.sysname().to_string_lossy(),
        names.release().to_string_lossy()
    ));
    Ok(Answer::Done(Box::new(RecordedRun {
        run: done.run,
        context,
    })))
}
