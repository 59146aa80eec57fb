//! The directory in which daemons of any network namespace register their claims and are found.
//!
//! A daemon has two files, named after its kind, the inode of its network namespace, and the index
//! of its interface or the name of its device: a lock file with a record in JSON, and its control
//! socket. The process that holds the lock has the claim. If no process holds it, the daemon was
//! killed, and the record says what it left behind. A process that takes the lock marks such a
//! record, and keeps it until it publishes its own: whatever ends it meanwhile, the record stays.
//!
//! The directory is `/run/ackwise`, or `$ACKWISE_RUN_DIR`. It belongs to root or to the daemons'
//! own user, and nobody else has access: another user can neither take a claim nor hold a lock. An
//! existing directory that others may enter is refused, since it may be somebody's (`/tmp`). A
//! [janitor](Janitor) removes the files of a daemon that has become a user without write permission
//! there.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::{Gid, Uid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::attach::stale_filters;
use crate::control::{Listener, from_json};
use crate::janitor::{Janitor, RateSetter};
use crate::qdisc::Replaced;
use crate::user::{User, effective_user, is_system_user};

/// How often to try a lock that may be held only for reading.
const MAX_LOCK_ATTEMPTS: usize = 4;
/// The pause between two tries.
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(10);
/// How often to open a lock file that others delete at the same time.
const MAX_OPEN_ATTEMPTS: usize = 8;
/// What follows the record of a killed daemon once another process has taken its entry.
const LEFT_MARK: &[u8] = b"\nleft by a killed process\n";
/// The maximum length of a record in bytes.
const MAX_RECORD: usize = 1 << 16;

/// The kinds of daemons that take packets from an interface and send them through it again.
const REDIRECTORS: [&str; 2] = ["gateway", "tunnel"];

/// Why an entry could not be taken.
#[derive(Debug)]
pub enum TakeError<R> {
    /// Another process holds it. Its record is missing while that process starts.
    Held(Option<R>),
    /// The directory or the file cannot be used.
    Registry(Error),
}

/// The name of an entry within the daemons of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The inode of the network namespace.
    pub netns: u64,
    /// The index of an interface, or the name of a device that the daemon creates.
    pub name: String,
}

impl Key {
    /// The key for a name in the calling thread's network namespace.
    ///
    /// # Errors
    /// If `/proc` is missing, or the name cannot be part of a file name.
    pub fn here(name: &str) -> Result<Self, Error> {
        let usable = !name.is_empty() && !name.contains(['/', '\0']);
        usable
            .then(netns_inode)
            .unwrap_or_else(|| Err(io::Error::from(io::ErrorKind::InvalidInput)))
            .map(|netns| Self {
                netns,
                name: name.to_owned(),
            })
            .map_err(Error::system("name an entry of the registry"))
    }
}

/// The registry of one kind of daemon, whose records have the type `R`.
#[derive(Debug)]
pub struct Registry<R> {
    kind: &'static str,
    dir: PathBuf,
    keep: fn(&R) -> bool,
}

/// An entry that this process holds until it is dropped.
#[derive(Debug)]
pub struct Entry<R> {
    file: File,
    path: PathBuf,
    /// `Some` if this process may not remove the files, or if something must be restored first.
    janitor: Option<Janitor>,
    /// Whether the files stay for a later cleanup.
    keeps_files: bool,
    /// The record that a killed daemon left here.
    pub leftover: Option<R>,
}

/// The record of a daemon that takes packets from an interface and sends them through it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirector {
    /// The process.
    pub pid: u32,
    /// The name by which it is asked: that of its interface or of its device.
    pub name: String,
    /// The inode of the network namespace.
    pub netns: u64,
    /// The interface and the program on it. `None` for a daemon to which packets are routed.
    pub redirect: Option<Redirect>,
}

impl Registry<Redirector> {
    /// Waits until a daemon that was asked to stop has ended, so that another one can start.
    /// Returns whether it ended within `time`.
    ///
    /// # Errors
    /// If the directory cannot be read, or belongs to somebody else.
    pub fn wait_ended(&self, pid: u32, time: Duration) -> Result<bool, Error> {
        let until = Instant::now() + time;
        loop {
            if self.list()?.iter().all(|daemon| daemon.pid != pid) {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A program whose packets leave the interface a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// The index of the interface.
    pub ifindex: u32,
    /// The kernel's id of the program.
    pub program: u32,
}

/// Returns the inode of the calling thread's network namespace.
///
/// # Errors
/// If `/proc` is missing.
pub fn netns_inode() -> io::Result<u64> {
    fs::metadata("/proc/thread-self/ns/net").map(|about| about.ino())
}

/// Returns the directory of the registry.
#[must_use]
pub fn run_dir() -> PathBuf {
    std::env::var_os("ACKWISE_RUN_DIR").map_or_else(|| PathBuf::from("/run/ackwise"), PathBuf::from)
}

/// Returns the ids of the programs on this interface of the calling thread's network namespace
/// whose packets leave it a second time. The oldest comes first.
///
/// # Errors
/// If the registry cannot be read.
pub fn redirecting_programs(ifindex: u32) -> Result<Vec<u32>, Error> {
    let netns = netns_inode().map_err(Error::system("read the network namespace's inode"))?;
    let mut programs = Vec::new();
    for kind in REDIRECTORS {
        let daemons = Registry::<Redirector>::new(kind, |_| false).list()?;
        let redirects = daemons
            .into_iter()
            .filter(|daemon| daemon.netns == netns)
            .filter_map(|daemon| daemon.redirect);
        programs.extend(
            redirects
                .filter(|redirect| redirect.ifindex == ifindex)
                .map(|redirect| redirect.program),
        );
    }
    programs.sort_unstable();
    Ok(programs)
}

impl<R: Serialize + DeserializeOwned> Registry<R> {
    /// The registry for a kind of daemon, for instance `gateway`. `keep` decides whether the record
    /// of a killed daemon is still needed.
    #[must_use]
    pub fn new(kind: &'static str, keep: fn(&R) -> bool) -> Self {
        Self::in_dir(kind, keep, run_dir())
    }

    /// A registry in another directory, which need not exist yet.
    #[must_use]
    pub fn in_dir(kind: &'static str, keep: fn(&R) -> bool, dir: PathBuf) -> Self {
        Self { kind, dir, keep }
    }

    fn lock_path(&self, key: &Key) -> PathBuf {
        let (kind, Key { netns, name }) = (self.kind, key);
        self.dir.join(format!("{kind}-{netns}-{name}.lock"))
    }

    /// Returns the path of the control socket for this key.
    #[must_use]
    pub fn socket_path(&self, key: &Key) -> PathBuf {
        socket_of(&self.lock_path(key))
    }

    /// Takes the entry with this key. Removes the files of killed daemons that need not be kept.
    ///
    /// # Errors
    /// See [`TakeError`].
    pub fn take(&self, key: &Key) -> Result<Entry<R>, TakeError<R>> {
        let path = self.lock_path(key);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| TakeError::Registry(Error::Registry { path, source })
        };
        make_private(&self.dir).map_err(failed(&self.dir))?;
        for attempt in 1..=MAX_OPEN_ATTEMPTS {
            let mut options = File::options();
            let options = options.read(true).write(true).create(true).truncate(false);
            let file = open_plain(options.mode(0o600), &path).map_err(failed(&path))?;
            let locked = try_lock(&file).map_err(failed(&path))?;
            let Content { record, is_left } = Content::read(&file);
            if !locked && attempt < MAX_LOCK_ATTEMPTS {
                // It may only be somebody's list().
                std::thread::sleep(LOCK_RETRY_DELAY);
                continue;
            }
            if !locked {
                return Err(TakeError::Held(record.filter(|_| !is_left)));
            }
            // The previous holder may have removed the file between open and lock.
            if is_named(&file, &path) {
                if record.is_some() && !is_left {
                    mark_left(&file);
                }
                // Only after taking the lock, since this removes files that nobody has locked.
                self.list().map_err(TakeError::Registry)?;
                return Ok(Entry {
                    file,
                    path,
                    janitor: None,
                    keeps_files: false,
                    leftover: record,
                });
            }
        }
        Err(failed(&path)(io::ErrorKind::ResourceBusy.into()))
    }

    /// Returns the records of all running daemons, in any network namespace. Removes the files of
    /// killed daemons that need not be kept.
    ///
    /// # Errors
    /// If the directory cannot be read, or belongs to somebody else.
    pub fn list(&self) -> Result<Vec<R>, Error> {
        Ok(self.entries()?.running)
    }

    /// Returns the keys of the entries that a process holds without having published its record
    /// yet, in any network namespace.
    ///
    /// # Errors
    /// If the directory cannot be read, or belongs to somebody else.
    pub fn starting(&self) -> Result<Vec<Key>, Error> {
        Ok(self.entries()?.starting)
    }

    /// Returns the interfaces of this network namespace on which killed daemons of this kind have left
    /// clsact filters with these names. The entries of the kind are named after the indices of their
    /// interfaces. `attached_to` returns the network namespace of a record, and the index of the
    /// interface that its daemon is attached to.
    ///
    /// # Errors
    /// If the registry cannot be read, or the kernel refuses.
    pub fn left_filters(
        &self,
        programs: &[&str],
        attached_to: impl Fn(&R) -> Option<(u64, u32)>,
    ) -> Result<Vec<String>, Error> {
        stale_filters(programs, || {
            let here =
                netns_inode().map_err(Error::system("read the network namespace's inode"))?;
            // Those that start first: one that has started meanwhile is in the list.
            let starting = self.starting()?.into_iter();
            let starting = starting.filter_map(|key| Some((key.netns, key.name.parse().ok()?)));
            let running: Vec<_> = self.list()?.iter().filter_map(attached_to).collect();
            let all = starting.chain(running);
            Ok(all
                .filter(|(netns, _)| *netns == here)
                .map(|(_, index)| index)
                .collect())
        })
    }

    /// Returns the records of killed daemons that are kept, in any network namespace. One whose
    /// entry another process has taken is not among them.
    ///
    /// # Errors
    /// If the directory cannot be read, or belongs to somebody else.
    pub fn leftovers(&self) -> Result<Vec<R>, Error> {
        Ok(self.entries()?.left)
    }

    /// Returns what is registered. Removes the files of killed daemons that need not be kept.
    fn entries(&self) -> Result<Entries<R>, Error> {
        let failed = |source| Error::Registry {
            path: self.dir.clone(),
            source,
        };
        let entries = match check_owner(&self.dir).and_then(|()| fs::read_dir(&self.dir)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Entries::default()),
            Err(error) => return Err(failed(error)),
        };
        let mut found = Entries::default();
        for path in entries.flatten().map(|entry| entry.path()) {
            let Some(key) = self.key_of(&path) else {
                continue;
            };
            let Ok(file) = open_plain(File::options().read(true), &path) else {
                continue;
            };
            // The content after the lock: whoever holds that has marked what it found.
            let mut locked = try_lock(&file);
            let mut content = Content::read(&file);
            for _ in 1..MAX_LOCK_ATTEMPTS {
                if !matches!(locked, Ok(false)) || content.is_published() {
                    break;
                }
                // It may only be somebody else's reading.
                std::thread::sleep(LOCK_RETRY_DELAY);
                (locked, content) = (try_lock(&file), Content::read(&file));
            }
            // Another process may have replaced the file between open and lock.
            if !is_named(&file, &path) {
                continue;
            }
            match (locked, content.record) {
                (Ok(false), Some(record)) if !content.is_left => found.running.push(record),
                (Ok(false), _) => found.starting.push(key),
                (Ok(true), Some(record)) if (self.keep)(&record) => found.left.push(record),
                (Ok(true), Some(_)) => remove(&path),
                (Ok(true), None) | (Err(_), _) => {}
            }
        }
        Ok(found)
    }

    /// The key of a lock file; `None` if the file is none of this kind.
    fn key_of(&self, path: &Path) -> Option<Key> {
        let name = path.file_name()?.to_str()?;
        let key = name.strip_prefix(self.kind)?.strip_prefix('-')?;
        let (netns, name) = key.strip_suffix(".lock")?.split_once('-')?;
        Some(Key {
            netns: netns.parse().ok()?,
            name: name.to_owned(),
        })
    }
}

/// What is registered for one kind of daemon.
struct Entries<R> {
    /// The records of the daemons that run.
    running: Vec<R>,
    /// The keys of those that have not published a record yet.
    starting: Vec<Key>,
    /// The records of killed daemons that are kept.
    left: Vec<R>,
}

impl<R> Default for Entries<R> {
    fn default() -> Self {
        Self {
            running: Vec::new(),
            starting: Vec::new(),
            left: Vec::new(),
        }
    }
}

/// The content of a lock file.
struct Content<R> {
    record: Option<R>,
    /// Whether the record is that of a killed daemon, and another process has taken the entry.
    is_left: bool,
}

impl<R: DeserializeOwned> Content<R> {
    fn read(file: &File) -> Self {
        let mut bytes = vec![0; MAX_RECORD];
        let length = file.read_at(&mut bytes, 0).unwrap_or(0);
        let text = str::from_utf8(&bytes[..length]).unwrap_or("");
        // A record is one line.
        let (record, is_left) = match text.split_once('\n') {
            Some((record, _)) => (record, true),
            None => (text, false),
        };
        Self {
            record: from_json(record).ok(),
            is_left,
        }
    }

    /// Whether the holder of the lock has written this record.
    fn is_published(&self) -> bool {
        self.record.is_some() && !self.is_left
    }
}

/// Marks the record of a killed daemon, so that it is not taken for that of the process that holds
/// the lock now.
fn mark_left(file: &File) {
    let end = file.metadata().map(|about| about.len());
    // If there is no room, the record is not marked, which only others notice.
    let _ = end.and_then(|end| file.write_all_at(LEFT_MARK, end));
}

impl<R: Serialize> Entry<R> {
    /// Writes the record, so that others find this daemon.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn publish(&mut self, record: &R) -> Result<(), Error> {
        let text = serde_json::to_string(record).map_err(io::Error::other);
        text.and_then(|text| {
            // If there is no room, the old record stays.
            self.file.write_all_at(text.as_bytes(), 0)?;
            self.file.set_len(text.len() as u64)
        })
        .map_err(|source| Error::Registry {
            path: self.path.clone(),
            source,
        })
    }

    /// Binds the control socket, which is removed with the entry.
    ///
    /// # Errors
    /// If the path cannot be bound.
    pub fn listen(&self) -> Result<Listener, Error> {
        let path = socket_of(&self.path);
        let _ = fs::remove_file(&path);
        let listener = Listener::bind(&path).and_then(|listener| {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map(|()| listener)
        });
        listener.map_err(|source| Error::Registry { path, source })
    }

    /// Makes sure that the files are removed when this process ends, in any way, if it is about to
    /// become a user who may not remove them. Call this while the process has one thread.
    ///
    /// # Errors
    /// If the directory cannot be read, or the system refuses another process.
    pub(crate) fn outlive_rights(&mut self, user: u32) -> Result<(), Error> {
        let owner = self.owner()?;
        if owner.uid.as_raw() != user {
            self.start_janitor(&owner, None)?;
        }
        Ok(())
    }

    /// Makes sure that, when this entry or this process ends in any way, what is about to be
    /// replaced is restored and the files are removed. Call this while the process has one thread
    /// and, if there is something to restore, CAP_NET_ADMIN.
    ///
    /// # Errors
    /// If the directory cannot be read, or the system refuses another process.
    pub fn guard(&mut self, replaced: Option<&Replaced>) -> Result<(), Error> {
        let owner = self.owner()?;
        self.start_janitor(&owner, replaced)
    }

    /// Returns the user who may remove the files: the owner of the directory.
    fn owner(&self) -> Result<User, Error> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let about = fs::metadata(dir).map_err(|source| Error::Registry {
            path: dir.to_owned(),
            source,
        })?;
        Ok(User {
            uid: Uid::from_raw(about.uid()),
            gid: Gid::from_raw(about.gid()),
        })
    }

    fn start_janitor(&mut self, owner: &User, replaced: Option<&Replaced>) -> Result<(), Error> {
        let files = [socket_of(&self.path), self.path.clone()];
        self.janitor = Some(Janitor::start(owner, &self.file, &files, replaced)?);
        Ok(())
    }
}

impl<R> Entry<R> {
    /// Returns a handle that sets the rate of the cake that [`guard`](Self::guard) is to remove;
    /// `None` if there is no guard.
    ///
    /// # Errors
    /// If the process has too many descriptors.
    pub fn rate_setter(&self) -> io::Result<Option<RateSetter>> {
        self.janitor.as_ref().map(Janitor::rate_setter).transpose()
    }

    /// Releases the entry but keeps the record for a later cleanup.
    pub fn leave(mut self) {
        self.keeps_files = true;
    }

    /// Releases the entry. Returns `false` if the cleanup process failed, because it was killed or
    /// the kernel refused. The record then stays.
    #[must_use]
    pub fn end(mut self) -> bool {
        self.janitor.take().is_none_or(|janitor| {
            let done = janitor.end();
            self.keeps_files = true;
            done
        })
    }
}

impl<R> Drop for Entry<R> {
    fn drop(&mut self) {
        match self.janitor.take() {
            Some(janitor) => {
                if !janitor.end() {
                    let path = self.path.display();
                    tracing::warn!("the process that clears up failed; {path} says what is left");
                }
            }
            None if self.keeps_files => {}
            None => remove(&self.path),
        }
    }
}

/// Creates a directory to which only its owner has access. One that exists is never changed: it is
/// refused if others have access.
fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    check_owner(dir)?;
    let mode = fs::metadata(dir)?.mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let is_chosen = std::env::var_os("ACKWISE_RUN_DIR").is_some();
    let mend = close_advice(dir, is_chosen);
    let why = format!("others have access to this directory (mode {mode:04o}): {mend}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// What to do about a directory to which others have access. One that was chosen by the environment
/// may be somebody's.
fn close_advice(dir: &Path, is_chosen: bool) -> String {
    let close = format!("`chmod 700 {}`", dir.display());
    if is_chosen {
        format!("if it is ackwise's own, {close}; otherwise set ACKWISE_RUN_DIR to one that is")
    } else {
        format!("{close} mends that")
    }
}

/// Fails unless the path is a directory that belongs to root or to this user. Root also accepts the
/// daemons' own user, for whom systemd creates the directory.
fn check_owner(dir: &Path) -> io::Result<()> {
    let about = fs::symlink_metadata(dir)?;
    if !about.is_dir() {
        let why = "it is not a directory: remove it";
        return Err(io::Error::new(io::ErrorKind::NotADirectory, why));
    }
    let (me, owner) = (effective_user(), about.uid());
    if owner != 0 && owner != me && !(me == 0 && is_system_user(owner)) {
        let mend = if me == 0 { "remove it" } else { "run as root" };
        let why = format!("it belongs to user {owner}, and this process to user {me}: {mend}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

fn socket_of(lock: &Path) -> PathBuf {
    let mut path = lock.to_owned();
    path.set_extension("sock");
    path
}

/// Returns whether an open file still has this name.
fn is_named(file: &File, path: &Path) -> bool {
    let (named, opened) = (fs::metadata(path).ok(), file.metadata().ok());
    named
        .zip(opened)
        .is_some_and(|(a, b)| (a.dev(), a.ino()) == (b.dev(), b.ino()))
}

fn remove(lock: &Path) {
    let _ = fs::remove_file(socket_of(lock));
    let _ = fs::remove_file(lock);
}

/// Opens a file of the directory, which may belong to another user: symbolic links are not
/// followed, and opening a pipe does not block.
fn open_plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = options.custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
    }
}

/// Takes the lock of a file if it is free (flock(2)). The kernel releases it with the process.
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
    fn a_file_that_somebody_else_has_made_anew_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("up-1-2.lock");
        let file = File::create(&path).unwrap();
        assert!(is_named(&file, &path));
        fs::remove_file(&path).unwrap();
        assert!(!is_named(&file, &path));
        let another = File::create(&path).unwrap();
        assert!(!is_named(&file, &path) && is_named(&another, &path));
    }

    #[test]
    fn a_chosen_directory_is_closed_only_if_it_is_ackwise_s_own() {
        let said = close_advice(Path::new("/srv/run"), true);
        for word in [
            "if it is ackwise's own, `chmod 700 /srv/run`",
            "ACKWISE_RUN_DIR",
        ] {
            assert!(said.contains(word), "{said}");
        }
        let said = close_advice(Path::new("/run/ackwise"), false);
        assert_eq!(said, "`chmod 700 /run/ackwise` mends that");
    }

    #[test]
    fn an_entry_has_one_holder_and_tells_what_a_killed_one_left() {
        let dir = std::env::temp_dir().join(format!("ackwise-registry-{}", std::process::id()));
        let kept = Registry::<u32>::in_dir("test", |_| true, dir.clone());
        let registry = Registry::<u32>::in_dir("test", |_| false, dir.clone());
        let other = Registry::<u32>::in_dir("other", |_| false, dir.clone());
        let key = Key {
            netns: 1,
            name: "aw0".to_owned(),
        };
        assert!(registry.list().unwrap().is_empty());
        let mut entry = registry.take(&key).unwrap();
        assert_eq!(entry.leftover, None);
        assert!(matches!(registry.take(&key), Err(TakeError::Held(None))));
        assert_eq!(registry.starting().unwrap(), std::slice::from_ref(&key));
        assert!(other.starting().unwrap().is_empty());
        entry.publish(&77).unwrap();
        assert!(registry.starting().unwrap().is_empty());
        entry.publish(&8).unwrap();
        assert!(matches!(registry.take(&key), Err(TakeError::Held(Some(8)))));
        assert_eq!(registry.list().unwrap(), [8]);
        assert!(other.list().unwrap().is_empty());
        drop(other.take(&key).unwrap());
        let _socket = entry.listen().unwrap();
        assert!(registry.socket_path(&key).exists());
        drop(entry);
        assert!(!registry.socket_path(&key).exists());
        assert!(registry.list().unwrap().is_empty());

        fs::write(registry.lock_path(&key), "9").unwrap();
        assert!(kept.list().unwrap().is_empty());
        assert_eq!(kept.leftovers().unwrap(), [9]);
        kept.take(&key).unwrap().leave();
        assert_eq!(kept.take(&key).unwrap().leftover, Some(9));
        assert!(kept.leftovers().unwrap().is_empty());
        fs::write(registry.lock_path(&key), "9").unwrap();
        assert!(registry.list().unwrap().is_empty());
        assert!(!registry.lock_path(&key).exists());
        fs::remove_dir_all(&dir).unwrap();
    }

    /// Until the next holder publishes its own, the record stays: it says what is to be restored.
    #[test]
    fn the_record_of_a_killed_daemon_is_not_that_of_the_next_holder() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::<u32>::in_dir("test", |_| true, dir.path().to_owned());
        let key = Key {
            netns: 1,
            name: "aw-0".to_owned(),
        };
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(registry.lock_path(&key), "9").unwrap();
        for _ in 0..2 {
            assert_eq!(registry.leftovers().unwrap(), [9]);
            let entry = registry.take(&key).unwrap();
            assert_eq!(entry.leftover, Some(9));
            assert!(registry.list().unwrap().is_empty());
            assert!(registry.leftovers().unwrap().is_empty());
            assert_eq!(registry.starting().unwrap(), std::slice::from_ref(&key));
            assert!(matches!(registry.take(&key), Err(TakeError::Held(None))));
            // As if this process were killed.
            entry.leave();
        }
        let mut entry = registry.take(&key).unwrap();
        entry.publish(&8).unwrap();
        assert_eq!(registry.list().unwrap(), [8]);
        assert!(registry.starting().unwrap().is_empty());
        drop(entry);
        assert!(!registry.lock_path(&key).exists());
    }

    #[test]
    fn a_key_is_the_name_of_a_file() {
        assert_eq!(Key::here("awtun0").unwrap().name, "awtun0");
        for name in ["", "../aw0", "a\0b"] {
            assert!(Key::here(name).is_err(), "{name:?}");
        }
    }
}
