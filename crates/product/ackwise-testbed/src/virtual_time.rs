//! Runs a test on a separate kernel in virtual time.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

use ackwise_uml::{Ended, INIT, Kernel, KernelChoice, Machine, Release};

/// Set inside the guest.
const IN_GUEST: &str = "ACKWISE_TESTBED_GUEST";
/// Set to repeat only tests on the machine's own kernel (`make stress`): tests in virtual time do
/// not depend on how busy the machine is.
const NATIVE_ONLY: &str = "ACKWISE_TESTBED_HERE_ONLY";
/// The seed of the guest's random numbers.
const SEED: u64 = 7;

/// Returns whether this is the guest, where computing takes no time and every delay is exact.
#[must_use]
pub fn time_is_virtual() -> bool {
    std::env::var_os(IN_GUEST).is_some()
}

/// Runs a test on a separate kernel in virtual time: boots it, and starts this program there as
/// root for this one test. A failure reports what the program printed. The host needs no root.
///
/// `test` must be a closure in the test function itself, from which the name of the test is taken.
///
/// # Panics
/// If there is no kernel, or the test fails.
pub fn in_virtual_time<F: FnOnce()>(test: F) {
    if time_is_virtual() {
        return test();
    }
    run_in_guest(&name_of::<F>(), None);
}

/// Runs a test as [`in_virtual_time`] does, on a kernel of this release, whatever is selected for
/// other tests.
///
/// # Panics
/// If `kernel/build` has not built it, or the test fails.
pub fn in_virtual_time_on<F: FnOnce()>(release: Release, test: F) {
    if time_is_virtual() {
        return test();
    }
    run_in_guest(&name_of::<F>(), Some(&KernelChoice::Release(release)));
}

/// Runs a test in virtual time, and then here. Before it asserts when something happens, it must
/// check [`time_is_virtual`].
///
/// # Panics
/// If the test fails in either.
pub fn here_and_in_virtual_time<F: FnOnce()>(test: F) {
    if !time_is_virtual() && std::env::var_os(NATIVE_ONLY).is_none() {
        run_in_guest(&name_of::<F>(), None);
    }
    test();
}

/// The name of a test as its harness knows it, from the type of a closure in it:
/// `file::module::test::{{closure}}`.
fn name_of<F>() -> String {
    let path = std::any::type_name::<F>();
    let path = path.split("::{{closure}}").next().unwrap_or(path);
    path.split_once("::")
        .map_or(path, |(_, name)| name)
        .to_owned()
}

/// Limits the machines to one per core: more would only slow each other down.
struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A slot for a machine, free again when this is dropped.
struct Slot<'a>(&'a Slots);

impl Slots {
    fn take(&self) -> Slot<'_> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = self
                .freed
                .wait(free)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Slot(self)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

static SLOTS: std::sync::LazyLock<Slots> = std::sync::LazyLock::new(|| Slots {
    free: Mutex::new(std::thread::available_parallelism().map_or(1, usize::from)),
    freed: Condvar::new(),
});

fn run_in_guest(test: &str, kernel: Option<&KernelChoice>) {
    let _slot = SLOTS.take();
    let kernel = Kernel::find(kernel).unwrap_or_else(|error| panic!("{error}"));
    let arguments = ["--exact", test, "--nocapture", "--test-threads=1"];
    match this_program_in_virtual_time(&kernel, SEED, &arguments) {
        Ok(output) if output.contains("1 passed") => print!("{output}"),
        Ok(output) => panic!("{test} did not run in virtual time:\n{output}"),
        Err(why) => panic!("{test} failed in virtual time: {why}"),
    }
}

/// Runs this program with other arguments, as root, on a separate kernel in virtual time, and
/// returns what it printed. The guest's random numbers come from `seed`. The host needs no root.
///
/// # Errors
/// If the machine cannot be booted or makes no progress, or the program fails; with the program's
/// output or the console. A program that prints nothing for five minutes of CPU time makes no
/// progress.
pub fn this_program_in_virtual_time(
    kernel: &Kernel,
    seed: u64,
    arguments: &[&str],
) -> Result<String, String> {
    ackwise_uml::remove_leftovers();
    let mut machine = Machine::boot(kernel, "testbed", seed, |directory| {
        let init = directory.join(INIT);
        fs::write(&init, include_str!("guest.sh"))?;
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
        fs::write(directory.join("command"), command(arguments)?)
    })
    .map_err(|error| error.to_string())?;
    let printed = |directory: &Path| Some(fs::metadata(directory.join("output")).ok()?.len());
    let ended = machine
        .wait(|| false, printed)
        .map_err(|error| format!("{error}\n{}", output(&machine)))?;
    let Ended::ByItself(status) = ended else {
        unreachable!("nobody cancels it")
    };
    let output = output(&machine);
    match fs::read_to_string(machine.directory().join("status")) {
        Ok(code) if code.trim() == "0" => Ok(output),
        Ok(code) => Err(format!("exit code {}\n{output}", code.trim())),
        Err(_) => Err(format!(
            "{}\n{output}",
            machine.failed(&format!("died ({status})"))
        )),
    }
}

fn output(machine: &Machine) -> String {
    let bytes = fs::read(machine.directory().join("output")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The shell command that runs this program in the guest, with the variables that Cargo set for
/// this process.
fn command(arguments: &[&str]) -> std::io::Result<String> {
    let mut text = format!("export {IN_GUEST}=1\n");
    for (name, value) in std::env::vars() {
        // Cargo's variable for the path of a program with a dash in its name cannot be set by a
        // shell.
        let settable = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if settable && (name.starts_with("CARGO_") || name.starts_with("RUST_")) {
            let _ = writeln!(text, "export {name}={}", quoted(&value));
        }
    }
    let here = std::env::current_dir()?;
    let program = std::env::current_exe()?;
    for hidden in hidden(&[&here, &program]) {
        let hidden = quoted(&hidden.display().to_string());
        let _ = writeln!(text, "mkdir -p {hidden}");
        let _ = writeln!(
            text,
            "mount -n -t hostfs -o {hidden} hostfs {hidden} || exit"
        );
    }
    let _ = writeln!(text, "cd {}", quoted(&here.display().to_string()));
    let _ = write!(text, "exec {}", quoted(&program.display().to_string()));
    for argument in arguments {
        let _ = write!(text, " {}", quoted(argument));
    }
    text.push('\n');
    Ok(text)
}

/// The directories of these paths that `guest.sh` has hidden behind its own file systems.
fn hidden(paths: &[&Path]) -> BTreeSet<PathBuf> {
    let tops = paths.iter().filter_map(|path| {
        let mut parts = path.components();
        let top: PathBuf = parts.by_ref().take(3).collect();
        let covered = top.starts_with("/tmp") || top.starts_with("/run");
        (covered && parts.next().is_some()).then_some(top)
    });
    tops.collect()
}

/// Quotes a word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_workspace_in_tmp_is_seen_in_the_guest() {
        let paths = |paths: &[&str]| {
            let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
            hidden(&paths)
        };
        assert_eq!(
            paths(&["/root/a/crates/x", "/root/a/target/x"]),
            BTreeSet::new()
        );
        assert_eq!(
            paths(&["/tmp/a/crates/x", "/tmp/a/target/x", "/run/b/target/x"]),
            BTreeSet::from(["/run/b".into(), "/tmp/a".into()])
        );
    }

    #[test]
    fn a_closure_tells_the_name_of_its_test() {
        fn name<F: FnOnce()>(_: F) -> String {
            name_of::<F>()
        }
        let name = name(|| ());
        assert_eq!(
            name,
            "virtual_time::tests::a_closure_tells_the_name_of_its_test"
        );
    }

    #[test]
    fn an_hour_passes_at_once() {
        in_virtual_time(|| {
            let before = Instant::now();
            std::thread::sleep(Duration::from_secs(3600));
            let slept = before.elapsed();
            let late = slept - Duration::from_secs(3600);
            assert!(late < Duration::from_millis(1), "{slept:?}");
        });
    }
}
