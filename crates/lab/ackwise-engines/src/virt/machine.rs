//! Outside: a virtual machine as a child process.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::personality::{self, Persona};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, killpg};
use nix::sys::statvfs::statvfs;
use nix::unistd::Pid;
use tempfile::TempDir;

use super::guest::ARGUMENT;
use super::job::{ANSWER, Answer, CAPTURES, INIT, JOB, Job, PROGRESS};
use super::kernel::Kernel;
use crate::error::LabError;
use crate::netns::{self, Naming};

/// The guest's memory; what it does not touch takes no room on the host.
const MEMORY_MIB: u64 = 512;
/// Files in memory, on most systems.
const SHARED: &str = "/dev/shm";
/// How often the host looks at a machine.
const LOOK: Duration = Duration::from_millis(10);
/// A machine that makes no progress for so long will not make any. Nothing
/// but a stuck kernel takes this long, however busy the host is.
const STUCK: Duration = Duration::from_secs(300);
/// The end of the console that is shown when a machine fails.
const CONSOLE_LINES: usize = 25;
/// Virtual time starts here (2023-11-14): certificates and file times of the
/// host matter to nobody inside, but a clock at 1970 upsets some programs.
const EPOCH_S: u64 = 1_700_000_000;

/// A directory for one run, and the machine that runs it.
#[derive(Debug)]
pub(super) struct Machine {
    directory: TempDir,
    child: Child,
    ended: bool,
    _lock: Flock<File>,
}

/// How a machine ended.
#[derive(Debug)]
pub(super) enum End {
    Answered(Answer),
    Cancelled,
}

impl Machine {
    /// Boots a machine that will do `job`. `init` is the program that calls
    /// [`run_if_guest`](super::run_if_guest) first thing.
    pub fn boot(kernel: &Kernel, init: &Path, job: &Job, seed: u64) -> Result<Self, LabError> {
        let directory = directory()?;
        let at = directory.path();
        let lock = lock(at).map_err(LabError::os("cannot lock a machine's directory"))?;
        let text = serde_json::to_vec(job).map_err(|error| LabError::Os {
            what: "cannot write the job".to_owned(),
            source: error.into(),
        })?;
        fs::write(at.join(JOB), text).map_err(LabError::os("cannot write the job"))?;
        symlink(init, at.join(INIT))
            .map_err(LabError::os("cannot link the guest's first program"))?;
        let console =
            File::create(at.join("console")).map_err(LabError::os("cannot make a console"))?;
        let errors = console
            .try_clone()
            .map_err(LabError::os("cannot make a console"))?;
        let mut command = Command::new(&kernel.image);
        command
            .arg0("linux")
            .args(arguments(seed))
            // The environment lies where the machine's memory might begin.
            .env_clear()
            .env("TMPDIR", ".")
            .current_dir(at)
            .stdin(Stdio::null())
            .stdout(console)
            .stderr(errors)
            .process_group(0);
        // SAFETY: both calls are single system calls, safe after a fork.
        unsafe {
            command.pre_exec(|| {
                set_pdeathsig(Signal::SIGKILL)?;
                // Where the stack and the libraries lie decides how much memory
                // the guest finds, and so what it does.
                let now = personality::get()?;
                personality::set(now | Persona::ADDR_NO_RANDOMIZE)?;
                Ok(())
            });
        }
        let child = command.spawn().map_err(LabError::os(format!(
            "cannot start {}",
            kernel.image.display()
        )))?;
        Ok(Self {
            directory,
            child,
            ended: false,
            _lock: lock,
        })
    }

    /// Waits for the end, and tells how far traffic has come now and then.
    /// `cancelled` is asked all the time.
    pub fn wait(
        mut self,
        captures: &Path,
        cancelled: impl Fn() -> bool,
        mut progress: impl FnMut(Duration),
    ) -> Result<End, LabError> {
        let mut seen = 0;
        let mut moved = Instant::now();
        let status = loop {
            if let Some(status) = self
                .child
                .try_wait()
                .map_err(LabError::os("cannot wait for a virtual machine"))?
            {
                self.ended = true;
                break status;
            }
            if cancelled() {
                return Ok(End::Cancelled);
            }
            if let Some(now) = self.elapsed().filter(|&now| now != seen) {
                seen = now;
                moved = Instant::now();
                progress(Duration::from_nanos(now));
            }
            if moved.elapsed() > STUCK {
                return Err(self.failed(&format!("made no progress for {} s", STUCK.as_secs())));
            }
            std::thread::sleep(LOOK);
        };
        let Ok(text) = fs::read_to_string(self.directory.path().join(ANSWER)) else {
            return Err(self.failed(&format!("ended without an answer ({})", described(status))));
        };
        let answer = serde_json::from_str(&text).map_err(|error| {
            self.failed(&format!("gave an answer that cannot be read: {error}"))
        })?;
        move_files(&self.directory.path().join(CAPTURES), captures)?;
        Ok(End::Answered(answer))
    }

    /// Nanoseconds of traffic. A file that is being written may be empty.
    fn elapsed(&self) -> Option<u64> {
        let text = fs::read_to_string(self.directory.path().join(PROGRESS)).ok()?;
        text.trim().parse().ok()
    }

    fn failed(&self, what: &str) -> LabError {
        let bytes = fs::read(self.directory.path().join("console")).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n  ");
        LabError::Machine {
            what: what.to_owned(),
            console: last,
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // The machine's own processes are of its group; those of the guest die
        // with it, because it traces them so.
        if let Ok(id) = i32::try_from(self.child.id()) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

fn described(status: ExitStatus) -> String {
    status.to_string()
}

/// The same for every machine and every host, but for the seed: the guest
/// mixes its command line into its random numbers.
fn arguments(seed: u64) -> Vec<String> {
    [
        // Zero would mean the host's random numbers.
        format!("umseed={}", seed.max(1)),
        "time-travel=inf-cpu".to_owned(),
        format!("time-travel-start={EPOCH_S}"),
        "uml_dir=./".to_owned(),
        "umid=machine".to_owned(),
        format!("mem={MEMORY_MIB}M"),
        "rootfstype=hostfs".to_owned(),
        "rootflags=/".to_owned(),
        "ro".to_owned(),
        // It would hide the host's /dev/shm, and the job in it, before init runs.
        "devtmpfs.mount=0".to_owned(),
        // The host's /proc is seen on its files: this is the job's directory.
        format!("init=/proc/self/cwd/{INIT}"),
        "con=null".to_owned(),
        "con0=fd:0,fd:1".to_owned(),
        "panic=-1".to_owned(),
        "quiet".to_owned(),
        "--".to_owned(),
        ARGUMENT.to_owned(),
    ]
    .into()
}

/// Removes the directories of processes that were killed. Their machines went
/// with them.
pub(super) fn remove_leftovers() {
    for parent in [PathBuf::from(SHARED), std::env::temp_dir()] {
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if !name.to_str().is_some_and(netns::is_left_over) {
                continue;
            }
            // A process of another container is not seen, but its lock is.
            if lock(&entry.path()).is_ok() {
                // Another process may be removing it just now.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// Held as long as a directory is in use.
fn lock(directory: &Path) -> io::Result<Flock<File>> {
    Flock::lock(File::open(directory)?, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| errno.into())
}

/// A directory for a run: in memory if there is room, since the guest's memory
/// is a file beside it.
fn directory() -> Result<TempDir, LabError> {
    let shared = PathBuf::from(SHARED);
    let room = statvfs(&shared).map_or(0, |stat| stat.blocks_available() * stat.fragment_size());
    let parent = if room > (MEMORY_MIB << 20) {
        shared
    } else {
        std::env::temp_dir()
    };
    tempfile::Builder::new()
        .prefix(&Naming::fresh().of("machine-"))
        .tempdir_in(&parent)
        .map_err(LabError::os(format!(
            "cannot make a directory in {}",
            parent.display()
        )))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_depends_on_the_seed_alone() {
        assert_eq!(arguments(7), arguments(7));
        let differ = arguments(7)
            .into_iter()
            .zip(arguments(8))
            .filter(|(a, b)| a != b)
            .count();
        assert_eq!(differ, 1);
        assert_eq!(arguments(0)[0], "umseed=1");
        assert!(arguments(1).iter().all(|word| !word.contains(' ')));
    }
}
