//! Network namespaces of our own, gone when we are.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use nix::sched::{CloneFlags, setns};

use crate::command;
use crate::error::LabError;

/// Where `ip netns` keeps its names.
const DIRECTORY: &str = "/run/netns";
/// First part of every name that we make.
const PREFIX: &str = "ackwise";

/// Distinguishes runs of one process.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Names for the namespaces of one run, unlike those of any other.
#[derive(Debug, Clone)]
pub struct Naming {
    stem: String,
}

impl Naming {
    /// A fresh set of names.
    #[must_use]
    pub fn fresh() -> Self {
        let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let started = start_time(pid).unwrap_or(0);
        Self {
            stem: format!("{PREFIX}-{pid}-{started}-{generation}"),
        }
    }

    /// The name for a node.
    #[must_use]
    pub fn of(&self, node: &str) -> String {
        format!("{}-{node}", self.stem)
    }

    /// The name for a link: like that of no node.
    #[must_use]
    pub fn of_link(&self, link: &str) -> String {
        format!("{}-:{link}", self.stem)
    }
}

/// When a process began, in clock ticks since boot: a process id is used
/// again, the pair is not.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command may contain spaces and parentheses; fields follow the last one.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// A named network namespace; removed on drop.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// Makes a namespace of that name.
    ///
    /// # Errors
    /// It exists, or the caller may not.
    pub fn create(name: &str) -> Result<Self, LabError> {
        command::run("ip", &["netns", "add", name])?;
        let path = Path::new(DIRECTORY).join(name);
        let opened =
            File::open(&path).map_err(LabError::os(format!("cannot open {}", path.display())));
        match opened {
            Ok(file) => Ok(Self {
                name: name.to_owned(),
                file,
            }),
            Err(error) => {
                let _ = command::run("ip", &["netns", "del", name]);
                Err(error)
            }
        }
    }

    /// Its name, as `ip netns` knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Another handle to it; the namespace itself goes with the first.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn entrance(&self) -> Result<Entrance, LabError> {
        let file = self
            .file
            .try_clone()
            .map_err(LabError::os("cannot duplicate a namespace's descriptor"))?;
        Ok(Entrance { file })
    }

    /// Runs a closure on a thread of its own inside the namespace, and waits.
    ///
    /// # Errors
    /// The namespace cannot be entered, the closure failed, or it panicked.
    pub fn inside<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, LabError> + Send,
    ) -> Result<T, LabError> {
        let entrance = self.entrance()?;
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    entrance.enter()?;
                    work()
                })
                .join()
                .map_err(|_| LabError::Panicked("a thread in a namespace"))?
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = command::run("ip", &["netns", "del", &self.name]) {
            tracing::warn!("cannot remove namespace {}: {error}", self.name);
        }
    }
}

/// Lets a thread into a namespace.
#[derive(Debug)]
pub struct Entrance {
    file: File,
}

impl Entrance {
    /// Moves the calling thread into the namespace, for good: sockets that it
    /// opens and processes that it starts live there.
    ///
    /// # Errors
    /// The caller may not.
    pub fn enter(&self) -> Result<(), LabError> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)
            .map_err(LabError::errno("cannot enter a network namespace"))
    }
}

/// Writes per-namespace kernel parameters (`net.ipv4.tcp_sack` → `1`). The
/// calling thread must be inside.
///
/// # Errors
/// A parameter does not exist or refuses its value.
pub fn set_sysctls<'a>(
    settings: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(), LabError> {
    for (name, value) in settings {
        fs::write(sysctl_path(name), value)
            .map_err(LabError::os(format!("cannot set {name} = {value}")))?;
    }
    Ok(())
}

/// Reads a kernel parameter of the calling thread's namespace.
///
/// # Errors
/// It does not exist.
pub fn get_sysctl(name: &str) -> io::Result<String> {
    fs::read_to_string(sysctl_path(name)).map(|text| text.trim().to_owned())
}

/// `net.ipv4.conf.eth0/1.x`: as `sysctl` has it, a dot separates and a slash
/// stands for a dot in a name.
fn sysctl_path(name: &str) -> PathBuf {
    let path: String = name
        .chars()
        .map(|letter| match letter {
            '.' => '/',
            '/' => '.',
            other => other,
        })
        .collect();
    Path::new("/proc/sys").join(path)
}

/// Namespaces that this tool made, of any process.
#[must_use]
pub fn ours() -> Vec<String> {
    let Ok(entries) = fs::read_dir(DIRECTORY) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| owner(name).is_some())
        .collect();
    names.sort();
    names
}

/// The process (id, start time) that made a namespace of that name.
fn owner(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix(PREFIX)?.strip_prefix('-')?.splitn(4, '-');
    let pid = parts.next()?.parse().ok()?;
    let started = parts.next()?.parse().ok()?;
    let _generation: u32 = parts.next()?.parse().ok()?;
    parts.next()?;
    Some((pid, started))
}

/// Whether a name of [`Naming`] was given by a process that is no more.
pub(crate) fn is_left_over(name: &str) -> bool {
    owner(name).is_some_and(|(pid, started)| start_time(pid) != Some(started))
}

/// Removes namespaces of processes that are no more (killed, crashed); returns
/// their names. Those of living processes stay.
///
/// # Errors
/// One of them could not be removed.
pub fn remove_leftovers() -> Result<Vec<String>, LabError> {
    let mut removed = Vec::new();
    for name in ours() {
        if is_left_over(&name) {
            command::run("ip", &["netns", "del", &name])?;
            removed.push(name);
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_owner() {
        let name = Naming::fresh().of("node-with-dash");
        let (pid, started) = owner(&name).unwrap();
        assert_eq!(pid, std::process::id());
        assert_eq!(Some(started), start_time(pid));
        assert_ne!(Naming::fresh().of("a"), Naming::fresh().of("a"));
        assert!(!is_left_over(&name));
        assert!(is_left_over(&format!("ackwise-{pid}-{}-0-a", started + 1)));
        assert!(!is_left_over("of-somebody-else"));
    }

    #[test]
    fn names_of_others_are_left_alone() {
        for name in [
            "ackwise",
            "ackwise-engines",
            "ackwise-1-x-0-a",
            "mine",
            "ackwise-1-2-3",
        ] {
            assert_eq!(owner(name), None, "{name}");
        }
    }

    #[test]
    fn sysctl_names_map_to_paths() {
        assert_eq!(
            sysctl_path("net.ipv4.conf.eth0/1.rp_filter"),
            Path::new("/proc/sys/net/ipv4/conf/eth0.1/rp_filter")
        );
    }
}
