//! Starts the emulated machine, waits for it, and reads its answer.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ackwise_uml::Watchdog;

use super::guest::Answer;
use super::image;
use super::record::{Job, Record};
use crate::error::LabError;

const QEMU: &str = "qemu-system-x86_64";
/// Environment variable that names a kernel to use instead of the one that `kernel/build x86_64`
/// made.
pub const KERNEL_VARIABLE: &str = "ACKWISE_X86_64_KERNEL";
/// Interval at which we check whether the guest has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of console lines in an error message.
const CONSOLE_LINES: usize = 15;

/// The emulated machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// A bzImage, as `kernel/build x86_64` makes it.
    pub kernel: PathBuf,
    /// The program that runs as `/init`; it calls [`super::run_if_guest`] first
    /// thing.
    pub init: PathBuf,
    /// An instruction lasts 2^shift ns: 0 is 1000 MIPS, 3 is 125.
    pub shift: u8,
    /// Memory, MiB.
    pub memory_mib: u32,
    /// The guest is killed after this much CPU time of the host, or this much real time without
    /// any. A busy host alone does not end it.
    pub timeout: Duration,
}

impl Machine {
    /// A machine with 256 MiB that is killed after ten minutes of CPU time.
    #[must_use]
    pub fn new(kernel: impl Into<PathBuf>, init: impl Into<PathBuf>, shift: u8) -> Self {
        Self {
            kernel: kernel.into(),
            init: init.into(),
            shift,
            memory_mib: 256,
            timeout: Duration::from_secs(600),
        }
    }

    /// Millions of instructions per second.
    #[must_use]
    pub fn mips(&self) -> f64 {
        1000.0 / f64::from(1_u32 << self.shift.min(31))
    }
}

/// The kernel of [`KERNEL_VARIABLE`], or the last one that `kernel/build x86_64` made.
///
/// # Errors
/// There is none.
pub fn kernel_image() -> Result<PathBuf, LabError> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let built = || {
        let cache = set("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))?;
        Some(cache.join("ackwise/kernel/images/x86_64-ackwise/bzImage"))
    };
    let image = set(KERNEL_VARIABLE).map(PathBuf::from).or_else(built);
    match image {
        Some(image) if image.is_file() => Ok(image),
        Some(image) => Err(no_kernel(&image)),
        None => Err(no_kernel(Path::new("~/.cache/ackwise/kernel"))),
    }
}

fn no_kernel(image: &Path) -> LabError {
    LabError::Missing {
        what: format!(
            "there is no kernel for the emulated machine at {}",
            image.display()
        ),
        hint: format!(
            "run `kernel/build x86_64` in ackwise's source (some minutes, once; no root), or name \
             a bzImage in {KERNEL_VARIABLE}"
        ),
    }
}

/// The version that QEMU reports.
///
/// # Errors
/// QEMU is not installed.
pub fn qemu_version() -> Result<String, LabError> {
    let output = Command::new(QEMU)
        .arg("--version")
        .output()
        .map_err(not_started)?;
    let output = String::from_utf8_lossy(&output.stdout);
    Ok(output.lines().next().unwrap_or_default().to_owned())
}

/// Boots the machine, lets it do its job, and returns its record. The machine is killed when
/// `cancel` is set.
///
/// # Errors
/// QEMU, a tool or the kernel is missing, or the guest failed or did not end in time. The error has
/// the last lines of the console.
pub fn run(machine: &Machine, job: &Job, cancel: &AtomicBool) -> Result<Record, LabError> {
    if !machine.kernel.is_file() {
        return Err(no_kernel(&machine.kernel));
    }
    let directory =
        tempfile::tempdir().map_err(LabError::os("cannot make a temporary directory"))?;
    let directory = directory.path();
    let initramfs = directory.join("initramfs");
    fs::write(&initramfs, image::build(&machine.init, job)?).map_err(LabError::os(format!(
        "cannot write {}",
        initramfs.display()
    )))?;
    let log = directory.join("qemu.log");
    let log_file =
        File::create(&log).map_err(LabError::os(format!("cannot write {}", log.display())))?;
    let child = Command::new(QEMU)
        .args(arguments(machine, job.between.wires(), directory))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log_file)
        .spawn()
        .map_err(not_started)?;
    let mut child = Guest(child);
    let ended = child.wait(machine.timeout, cancel);
    let console = fs::read(directory.join("console")).unwrap_or_default();
    let output = fs::read_to_string(&log).unwrap_or_default();
    let failed = |why: String| {
        LabError::Guest(format!(
            "{why}\n{}{}",
            output,
            last_lines(&String::from_utf8_lossy(&console))
        ))
    };
    match ended? {
        Ended::Exited => {}
        Ended::Late => {
            return Err(failed(format!(
                "the emulated machine did not end within {} s of CPU time",
                machine.timeout.as_secs()
            )));
        }
    }
    let answer = fs::read(directory.join("answer")).unwrap_or_default();
    match serde_json::from_slice(&answer) {
        Ok(Answer::Done(record)) => Ok(record),
        Ok(Answer::Failed(why)) => Err(failed(format!("in the emulated machine: {why}"))),
        Err(error) => Err(failed(format!(
            "the emulated machine ended without an answer ({error})"
        ))),
    }
}

fn not_started(error: io::Error) -> LabError {
    if error.kind() == io::ErrorKind::NotFound {
        return LabError::Missing {
            what: format!("`{QEMU}` is not installed, and the slow device is emulated with it"),
            hint: "run scripts/setup, or install qemu-system-x86".to_owned(),
        };
    }
    LabError::os(format!("cannot start `{QEMU}`"))(error)
}

/// The command line. It fixes everything that could let in the host's time or chance: the clock
/// counts instructions, the calendar runs on it, and the random numbers of devices and CPU come
/// from one seed.
fn arguments(machine: &Machine, wires: usize, directory: &Path) -> Vec<String> {
    let file = |name: &str| format!("file:{}", directory.join(name).display());
    let append = "console=ttyS0 quiet panic=-1 reboot=k tsc=reliable rdinit=/init".to_owned();
    let mut arguments: Vec<String> = [
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-machine",
        "pc,accel=tcg,usb=off,hpet=off",
        "-cpu",
        "qemu64,-rdrand,-rdseed",
        "-smp",
        "1",
        "-seed",
        "1",
        "-rtc",
        "base=2026-01-01T00:00:00,clock=vm",
    ]
    .map(str::to_owned)
    .into();
    let pairs = [
        ("-m", format!("{}M", machine.memory_mib)),
        (
            "-icount",
            format!("shift={},align=off,sleep=off", machine.shift),
        ),
        ("-kernel", machine.kernel.display().to_string()),
        ("-initrd", directory.join("initramfs").display().to_string()),
        ("-append", append),
        ("-serial", file("console")),
        ("-serial", file("answer")),
    ];
    for (option, value) in pairs {
        arguments.extend([option.to_owned(), value]);
    }
    for end in 0..2 * wires {
        // Without `mitigation` each packet raises an interrupt, as on a device without interrupt
        // coalescing.
        arguments.extend([
            "-netdev".to_owned(),
            format!("hubport,id=port{end},hubid={}", end / 2),
            "-device".to_owned(),
            format!("e1000,netdev=port{end},mac=02:00:00:00:00:0{end},mitigation=off,romfile="),
        ]);
    }
    arguments
}

enum Ended {
    Exited,
    Late,
}

/// A running QEMU; killed on drop.
struct Guest(Child);

impl Guest {
    fn wait(&mut self, timeout: Duration, cancel: &AtomicBool) -> Result<Ended, LabError> {
        let mut watchdog = Watchdog::new(timeout);
        loop {
            let status = self
                .0
                .try_wait()
                .map_err(LabError::os(format!("cannot wait for `{QEMU}`")))?;
            if status.is_some() {
                return Ok(Ended::Exited);
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(LabError::Cancelled);
            }
            if watchdog.has_expired(self.0.id()) {
                return Ok(Ended::Late);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Both calls fail only if QEMU has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn last_lines(console: &str) -> String {
    let lines: Vec<&str> = console.lines().collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(command: &str, timeout: Duration) -> Ended {
        let child = Command::new("sh").args(["-c", command]).spawn().unwrap();
        Guest(child).wait(timeout, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn a_guest_is_given_up_for_the_cpu_time_it_used_or_for_using_none() {
        let timeout = Duration::from_millis(200);
        for hung in ["while :; do :; done", "exec sleep 60"] {
            assert!(matches!(wait(hung, timeout), Ended::Late), "{hung}");
        }
        let long = Duration::from_secs(60);
        assert!(matches!(wait("exit 3", long), Ended::Exited));
    }
}
