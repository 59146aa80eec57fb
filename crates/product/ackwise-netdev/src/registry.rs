//! A directory of the host in which daemons of any network namespace are found.
//!
//! Each daemon has two files, named after the inode of its network namespace and the index of its
//! interface: a lock file with a record in JSON, and its control socket. If nobody holds the
//! lock, the daemon was killed, and the record says what it has left.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::control::Claim;

/// How often a lock is tried that somebody may hold just to read.
const TRIES: usize = 4;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);
/// How often a lock file is opened that others delete at the same time.
const OPENS: usize = 8;

/// A file or directory of the registry that cannot be used.
#[derive(Debug)]
pub struct RegistryError {
    /// Which one.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

/// Why an entry could not be taken.
#[derive(Debug)]
pub enum TakeError<R> {
    /// Another process has it. Its record is missing while it starts.
    Held(Option<R>),
    /// The directory or the file cannot be used.
    Registry(RegistryError),
}

/// What an entry is named after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The inode of the network namespace.
    pub netns: u64,
    /// The index of the interface.
    pub ifindex: u32,
}

/// The registry, whose records are an `R`.
#[derive(Debug, Clone)]
pub struct Registry<R> {
    dir: PathBuf,
    record: PhantomData<fn() -> R>,
}

/// An entry that this process has, until it is dropped.
#[derive(Debug)]
pub struct Entry<R> {
    file: File,
    path: PathBuf,
    /// What a killed daemon has left here.
    pub leftover: Option<R>,
}

/// Returns the inode of the calling thread's network namespace.
///
/// # Errors
/// `/proc` is not there.
pub fn netns_inode() -> io::Result<u64> {
    fs::metadata("/proc/thread-self/ns/net").map(|about| about.ino())
}

impl<R: Serialize + DeserializeOwned> Registry<R> {
    /// The registry in a directory, which need not exist yet.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        let record = PhantomData;
        Self { dir, record }
    }

    fn lock_path(&self, key: Key) -> PathBuf {
        self.dir.join(format!("{}-{}.lock", key.netns, key.ifindex))
    }

    /// Returns where the daemon with this key has its control socket.
    #[must_use]
    pub fn socket_path(&self, key: Key) -> PathBuf {
        self.lock_path(key).with_extension("sock")
    }

    /// Takes the entry with this key.
    ///
    /// # Errors
    /// See [`TakeError`].
    pub fn take(&self, key: Key) -> Result<Entry<R>, TakeError<R>> {
        let path = self.lock_path(key);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| TakeError::Registry(RegistryError { path, source })
        };
        fs::create_dir_all(&self.dir).map_err(failed(&self.dir))?;
        for attempt in 1..=OPENS {
            let mut options = File::options();
            let options = options.read(true).write(true).create(true).truncate(false);
            let file = options.open(&path).map_err(failed(&path))?;
            let locked = try_lock(&file).map_err(failed(&path))?;
            let record = read_record(&path);
            if !locked && attempt < TRIES {
                // It may be no more than somebody's list().
                std::thread::sleep(PAUSE);
                continue;
            }
            if !locked {
                return Err(TakeError::Held(record));
            }
            // Between open and lock the last holder may have removed the name.
            let (named, opened) = (fs::metadata(&path).ok(), file.metadata().ok());
            if named.zip(opened).is_some_and(|(a, b)| a.ino() == b.ino()) {
                return Ok(Entry {
                    file,
                    path,
                    leftover: record,
                });
            }
        }
        Err(failed(&path)(io::ErrorKind::ResourceBusy.into()))
    }

    /// Returns the records of all daemons that run, of any network namespace. Removes the files
    /// of killed daemons, except where `keep` says that their record is still needed.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn list(&self, keep: impl Fn(&R) -> bool) -> Result<Vec<R>, RegistryError> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => {
                let path = self.dir.clone();
                return Err(RegistryError { path, source });
            }
        };
        let mut records = Vec::new();
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_none_or(|extension| extension != "lock") {
                continue;
            }
            let Ok(file) = File::open(&path) else {
                continue;
            };
            let record = read_record(&path);
            match try_lock(&file) {
                Ok(false) => records.extend(record),
                Ok(true) if record.is_some_and(|record| !keep(&record)) => remove(&path),
                _ => {}
            }
        }
        Ok(records)
    }
}

impl<R: Serialize> Entry<R> {
    /// Writes the record, so that others find this daemon.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn publish(&mut self, record: &R) -> Result<(), RegistryError> {
        let text = serde_json::to_string(record).map_err(io::Error::other);
        text.and_then(|text| {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(text.as_bytes())
        })
        .map_err(|source| self.failed(source))
    }

    /// Binds the control socket, for root and the user of this process only. Its name goes with
    /// the entry.
    ///
    /// # Errors
    /// The path cannot be bound.
    pub fn control_socket(&self) -> Result<Claim, RegistryError> {
        let path = self.path.with_extension("sock");
        let _ = fs::remove_file(&path);
        let claim = Claim::by_path(&path).and_then(|claim| {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map(|()| claim)
        });
        claim.map_err(|source| RegistryError { path, source })
    }

    fn failed(&self, source: io::Error) -> RegistryError {
        let path = self.path.clone();
        RegistryError { path, source }
    }
}

impl<R> Drop for Entry<R> {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn remove(lock: &Path) {
    let _ = fs::remove_file(lock.with_extension("sock"));
    let _ = fs::remove_file(lock);
}

fn read_record<R: DeserializeOwned>(path: &Path) -> Option<R> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// Takes the lock of a file if it is free (flock(2)). The kernel frees it with the process.
fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: a valid descriptor.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock {
        Ok(false)
    } else {
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_one_holder_and_tells_what_a_killed_one_left() {
        let dir = std::env::temp_dir().join(format!("ackwise-registry-{}", std::process::id()));
        let registry = Registry::<u32>::new(dir.clone());
        let key = Key {
            netns: 1,
            ifindex: 2,
        };
        assert!(registry.list(|_| true).unwrap().is_empty());
        let mut entry = registry.take(key).unwrap();
        assert_eq!(entry.leftover, None);
        assert!(matches!(registry.take(key), Err(TakeError::Held(None))));
        entry.publish(&77).unwrap();
        entry.publish(&8).unwrap();
        assert!(matches!(registry.take(key), Err(TakeError::Held(Some(8)))));
        assert_eq!(registry.list(|_| true).unwrap(), [8]);
        let _socket = entry.control_socket().unwrap();
        assert!(registry.socket_path(key).exists());
        drop(entry);
        assert!(!registry.socket_path(key).exists());
        assert!(registry.list(|_| true).unwrap().is_empty());

        fs::write(registry.lock_path(key), "9").unwrap();
        assert!(registry.list(|_| true).unwrap().is_empty());
        assert_eq!(registry.take(key).unwrap().leftover, Some(9));
        fs::write(registry.lock_path(key), "9").unwrap();
        assert!(registry.list(|_| false).unwrap().is_empty());
        assert!(!registry.lock_path(key).exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
