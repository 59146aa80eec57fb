//! Network namespaces that are removed when this process ends.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use ackwise_uml::{is_left_over, is_of_ackwise};
use nix::sched::{CloneFlags, setns};

use crate::command;
use crate::error::LabError;

pub use ackwise_uml::Naming;

/// Where `ip netns` keeps its names.
const DIRECTORY: &str = "/run/netns";
/// A named network namespace; removed on drop.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// Creates a namespace with this name.
    ///
    /// # Errors
    /// The namespace exists already, or the caller lacks the permission.
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

    /// Another handle to the namespace. It does not keep the namespace's name alive.
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
    /// Moves the calling thread into the namespace permanently: sockets that it opens and processes
    /// that it starts live there.
    ///
    /// # Errors
    /// The caller lacks the permission.
    pub fn enter(&self) -> Result<(), LabError> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)
            .map_err(LabError::errno("cannot enter a network namespace"))
    }
}

/// Writes per-namespace kernel parameters (`net.ipv4.tcp_sack` → `1`). The
/// calling thread must be inside.
///
/// # Errors
/// A parameter does not exist or does not accept the value.
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

/// The path of a parameter such as `net.ipv4.conf.eth0/1.x`. As in `sysctl`, a dot separates
/// components and a slash stands for a dot within a name.
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

/// Namespaces that this tool created, in any process.
#[must_use]
pub fn own_namespaces() -> Vec<String> {
    let Ok(entries) = fs::read_dir(DIRECTORY) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| is_of_ackwise(name))
        .collect();
    names.sort();
    names
}

/// Removes the namespaces of processes that no longer exist (killed, crashed) and returns their
/// names. Those of running processes stay.
///
/// # Errors
/// One of them could not be removed.
pub fn remove_leftovers() -> Result<Vec<String>, LabError> {
    let mut removed = Vec::new();
    for name in own_namespaces() {
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
    fn sysctl_names_map_to_paths() {
        assert_eq!(
            sysctl_path("net.ipv4.conf.eth0/1.rp_filter"),
            Path::new("/proc/sys/net/ipv4/conf/eth0.1/rp_filter")
        );
    }
}
