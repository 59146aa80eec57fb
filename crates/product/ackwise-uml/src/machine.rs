//! A virtual machine as a child process.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use nix::sys::personality::{self, Persona};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, killpg};
use nix::sys::statvfs::{Statvfs, statvfs};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::error::Error;
use crate::kernel::Kernel;
use crate::owner::{Naming, is_left_over};
use crate::watchdog::Watchdog;

/// The guest's memory. Untouched memory uses no space on the host.
const MEMORY_MIB: u64 = 512;
/// A file system in memory, on most systems.
const SHARED: &str = "/dev/shm";
/// How often the host checks a machine.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// A machine that makes no progress for this much CPU time, or uses none for this long, counts as
/// stuck, however busy the host is.
const MAX_WITHOUT_PROGRESS: Duration = Duration::from_secs(300);
/// The number of console lines shown when a machine fails.
const CONSOLE_LINES: usize = 25;
/// The start of virtual time (2023-11-14), in seconds since 1970. Certificates and file times of
/// the host do not matter inside, but a clock at 1970 confuses some programs.
const EPOCH_S: u64 = 1_700_000_000;
/// The guest's first program, in the machine's directory.
pub const INIT: &str = "init";

/// A running machine and its directory. Dropping it ends the one and removes the other.
#[derive(Debug)]
pub struct Machine {
    directory: TempDir,
    child: Child,
    ended: bool,
    _lock: Flock<File>,
}

/// How a machine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It powered off or failed; the files that its first program left in the directory tell which.
    ByItself(ExitStatus),
    /// The caller no longer wanted it.
    Cancelled,
}

impl Machine {
    /// Boots a kernel on the host's files, read-only. `prepare` gets the machine's directory, which
    /// both sides see, and must put the guest's first program there as [`INIT`]; `argument` is
    /// passed to that program. The guest's random numbers come from `seed`.
    ///
    /// The guest finds the directory as `/proc/self/cwd` in the host's `/proc`, before it mounts
    /// its own. So its path is not on the command line, which would change the guest's random
    /// numbers.
    ///
    /// # Errors
    /// If the host refuses something, or `prepare` fails.
    pub fn boot(
        kernel: &Kernel,
        argument: &str,
        seed: u64,
        prepare: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<Self, Error> {
        let directory = directory()?;
        let at = directory.path();
        let lock = lock(at).map_err(Error::os("cannot lock a machine's directory"))?;
        prepare(at).map_err(Error::os("cannot prepare a machine's directory"))?;
        let console =
            File::create(at.join("console")).map_err(Error::os("cannot make a console"))?;
        let errors = console
            .try_clone()
            .map_err(Error::os("cannot make a console"))?;
        let mut command = Command::new(&kernel.image);
        command
            .arg0("linux")
            .args(arguments(seed, argument))
            // The environment is stored where the machine's memory might begin.
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
                // The placement of the stack and the libraries determines how much memory the guest
                // finds, and so what it does.
                let now = personality::get()?;
                personality::set(now | Persona::ADDR_NO_RANDOMIZE)?;
                Ok(())
            });
        }
        let child = command.spawn().map_err(Error::os(format!(
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

    /// The directory that host and guest share.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Waits for the end. `progress` says how far the guest is, in a unit of its own; a machine
    /// that does not advance for five minutes of CPU time is killed. `cancelled` is polled.
    ///
    /// # Errors
    /// If the machine is stuck, or the host refuses something.
    pub fn wait(
        &mut self,
        cancelled: impl Fn() -> bool,
        mut progress: impl FnMut(&Path) -> Option<u64>,
    ) -> Result<Ended, Error> {
        let mut seen = None;
        let mut watchdog = Watchdog::new(MAX_WITHOUT_PROGRESS);
        loop {
            if let Some(status) = self
                .child
                .try_wait()
                .map_err(Error::os("cannot wait for a virtual machine"))?
            {
                self.ended = true;
                return Ok(Ended::ByItself(status));
            }
            if cancelled() {
                return Ok(Ended::Cancelled);
            }
            let now = progress(self.directory.path());
            if now.is_some() && now != seen {
                seen = now;
                watchdog.progress();
            }
            if watchdog.has_expired(self.child.id()) {
                let seconds = MAX_WITHOUT_PROGRESS.as_secs();
                return Err(self.failed(&format!("made no progress for {seconds} s")));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// An error that says what happened to the machine, with the end of its console.
    #[must_use]
    pub fn failed(&self, what: &str) -> Error {
        let bytes = fs::read(self.directory.path().join("console")).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        Error::Failed {
            what: what.to_owned(),
            console: lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n  "),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // The machine's own processes are in its process group; the guest's processes die with it,
        // because it traces them with that option.
        if let Ok(id) = i32::try_from(self.child.id()) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

/// Puts the guest's first program into a machine's directory.
///
/// # Errors
/// If the link cannot be created.
pub fn link_init(directory: &Path, program: &Path) -> io::Result<()> {
    symlink(program, directory.join(INIT))
}

/// The kernel's command line is the same for every machine and host except for the seed, since the
/// guest mixes it into its random numbers.
fn arguments(seed: u64, argument: &str) -> Vec<String> {
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
        // The host's /proc is visible among its files: this is the job's directory.
        format!("init=/proc/self/cwd/{INIT}"),
        "con=null".to_owned(),
        "con0=fd:0,fd:1".to_owned(),
        "panic=-1".to_owned(),
        "quiet".to_owned(),
        "--".to_owned(),
        argument.to_owned(),
    ]
    .into()
}

/// Removes the directories of killed processes. Their machines died with them.
pub fn remove_leftovers() {
    for parent in [PathBuf::from(SHARED), std::env::temp_dir()] {
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if !name.to_str().is_some_and(is_left_over) {
                continue;
            }
            // A process in another container is not visible, but its lock is.
            if lock(&entry.path()).is_ok() {
                // Another process may be removing it just now.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// Takes the lock that is held while a directory is in use.
fn lock(directory: &Path) -> io::Result<Flock<File>> {
    Flock::lock(File::open(directory)?, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| errno.into())
}

/// The free bytes, which may exceed 32 bits where the fields have no more.
#[allow(clippy::useless_conversion, reason = "32 bits on 32-bit glibc")]
fn free_bytes(stat: &Statvfs) -> u64 {
    u64::from(stat.blocks_available()).saturating_mul(u64::from(stat.fragment_size()))
}

/// Creates a directory for a run: in memory if there is room, since the guest's memory is a file
/// there.
fn directory() -> Result<TempDir, Error> {
    let shared = PathBuf::from(SHARED);
    let room = statvfs(&shared).map_or(0, |stat| free_bytes(&stat));
    let parent = if room > (MEMORY_MIB << 20) {
        shared
    } else {
        std::env::temp_dir()
    };
    tempfile::Builder::new()
        .prefix(&Naming::fresh().of("machine-"))
        .tempdir_in(&parent)
        .map_err(Error::os(format!(
            "cannot make a directory in {}",
            parent.display()
        )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_depends_on_the_seed_alone() {
        assert_eq!(arguments(7, "guest"), arguments(7, "guest"));
        let differ = arguments(7, "guest")
            .into_iter()
            .zip(arguments(8, "guest"))
            .filter(|(a, b)| a != b)
            .count();
        assert_eq!(differ, 1);
        assert_eq!(arguments(0, "guest")[0], "umseed=1");
        assert!(arguments(1, "guest").iter().all(|word| !word.contains(' ')));
    }
}
