//! Who is attached where, and how to talk to them.
//!
//! Each attachment has two files below `/run/ackwise` (or `$ACKWISE_RUN_DIR`),
//! named after the inode of the network namespace and the interface's index: a
//! lock file that says who holds it, and a Unix socket that answers a line of
//! JSON with a line of JSON. A lock that nobody holds is a leftover.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ackwise_netdev::socket::{self, Server};
use serde::{Deserialize, Serialize};

use crate::{Error, FlowStats, Stats, net};

/// Who holds an interface, as its lock file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// The interface's name when it attached.
    pub ifname: String,
    /// Its index.
    pub ifindex: u32,
    /// Inode of the network namespace.
    pub netns: u64,
    /// The policy with its parameters.
    pub policy: String,
    /// Nothing is withheld.
    pub dry_run: bool,
    /// The clsact qdisc was not there before.
    pub made_clsact: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "op")]
enum Request {
    Status { flows: usize },
    Detach,
}

/// An answer to `status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The counters.
    pub stats: Stats,
    /// The flows that were asked for.
    pub flows: Vec<FlowStats>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
enum Answer {
    Status(Box<Status>),
    Detached { stats: Box<Stats> },
    Error { why: String },
}

/// What the server asks of an attachment.
pub(crate) trait Target: Send + Sync {
    fn status(&self, flows: usize) -> Result<Status, Error>;
    fn detach(&self) -> Result<Stats, Error>;
}

/// The runtime directory.
#[must_use]
pub fn run_dir() -> PathBuf {
    std::env::var_os("ACKWISE_RUN_DIR").map_or_else(|| PathBuf::from("/run/ackwise"), PathBuf::from)
}

fn netns() -> Result<u64, Error> {
    fs::metadata("/proc/thread-self/ns/net")
        .map(|m| m.ino())
        .map_err(Error::system("reading the network namespace's inode"))
}

fn registry(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Registry { path, source }
}

fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: a valid descriptor.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let e = io::Error::last_os_error();
    if e.kind() == io::ErrorKind::WouldBlock {
        Ok(false)
    } else {
        Err(e)
    }
}

/// A held lock: the right to attach to one interface.
#[derive(Debug)]
pub(crate) struct Claim {
    file: File,
    path: PathBuf,
    /// What a dead holder left here.
    pub(crate) leftover: Option<Holder>,
    pub(crate) netns: u64,
    ifindex: u32,
}

impl Claim {
    pub(crate) fn take(ifname: &str, ifindex: u32) -> Result<Self, Error> {
        let dir = run_dir();
        fs::create_dir_all(&dir).map_err(registry(&dir))?;
        let netns = netns()?;
        let path = dir.join(format!("{netns}-{ifindex}.lock"));
        for attempt in 0..8 {
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(registry(&path))?;
            let locked = try_lock(&file).map_err(registry(&path))?;
            let holder = read_holder(&path);
            if !locked && attempt < 3 {
                // It may be no more than somebody's list().
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
            if !locked {
                let (pid, policy) =
                    holder.map_or((0, "starting".to_owned()), |h| (h.pid, h.policy));
                return Err(Error::Held {
                    ifname: ifname.to_owned(),
                    pid,
                    policy,
                });
            }
            // Between open and lock the last holder may have removed the name.
            let same = fs::metadata(&path)
                .ok()
                .zip(file.metadata().ok())
                .is_some_and(|(a, b)| a.ino() == b.ino());
            if same {
                return Ok(Self {
                    file,
                    path,
                    leftover: holder,
                    netns,
                    ifindex,
                });
            }
        }
        Err(registry(&path)(io::ErrorKind::ResourceBusy.into()))
    }

    pub(crate) fn publish(&mut self, holder: &Holder) -> Result<(), Error> {
        let text = serde_json::to_string(holder).map_err(io::Error::other);
        text.and_then(|text| {
            self.file.set_len(0)?;
            use std::io::Seek;
            self.file.rewind()?;
            self.file.write_all(text.as_bytes())
        })
        .map_err(registry(&self.path))
    }

    fn socket(&self) -> PathBuf {
        run_dir().join(format!("{}-{}.sock", self.netns, self.ifindex))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.path.with_extension("sock"));
        let _ = fs::remove_file(&self.path);
    }
}

fn read_holder(path: &Path) -> Option<Holder> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// Answers on the claim's socket until it is dropped. The socket's name goes with the
/// claim; it may be somebody else's when the server ends.
pub(crate) fn serve(claim: &Claim, target: Arc<dyn Target>) -> Result<Server, Error> {
    let path = claim.socket();
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).map_err(registry(&path))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(registry(&path))?;
    Server::open(listener, move |line| {
        let answer = answer(line, target.as_ref());
        serde_json::to_string(&answer).unwrap_or_default()
    })
    .map_err(Error::system("starting the control thread"))
}

fn answer(line: &str, target: &dyn Target) -> Answer {
    let answer = match serde_json::from_str(line) {
        Ok(Request::Status { flows }) => target
            .status(flows)
            .map(|status| Answer::Status(Box::new(status))),
        Ok(Request::Detach) => target.detach().map(|stats| Answer::Detached {
            stats: Box::new(stats),
        }),
        Err(e) => {
            let why = format!("not understood: {e}");
            return Answer::Error { why };
        }
    };
    answer.unwrap_or_else(|e| Answer::Error { why: e.to_string() })
}

/// Everybody who is attached now, in any network namespace.
pub fn list() -> Result<Vec<Holder>, Error> {
    let dir = run_dir();
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(registry(&dir)(e)),
    };
    let mut holders = Vec::new();
    for path in entries.flatten().map(|e| e.path()) {
        if path.extension().is_none_or(|e| e != "lock") {
            continue;
        }
        let Ok(file) = File::open(&path) else {
            continue;
        };
        let holder = read_holder(&path);
        match try_lock(&file) {
            Ok(false) => holders.extend(holder),
            // Left by a process that was killed. What it says of a qdisc is still
            // wanted by whoever clears up; anything else is litter.
            Ok(true) if holder.is_some_and(|h| !h.made_clsact) => {
                let _ = fs::remove_file(path.with_extension("sock"));
                let _ = fs::remove_file(&path);
            }
            _ => {}
        }
    }
    holders.sort_by(|a, b| (a.netns, &a.ifname).cmp(&(b.netns, &b.ifname)));
    Ok(holders)
}

/// The holder of an interface of the calling thread's network namespace.
pub fn holder(ifname: &str) -> Result<Holder, Error> {
    let netns = netns()?;
    let index = net::ifindex(ifname);
    list()?
        .into_iter()
        .find(|h| h.netns == netns && index.map_or_else(|| h.ifname == ifname, |i| h.ifindex == i))
        .ok_or_else(|| Error::NotAttached(ifname.to_owned()))
}

fn ask(holder: &Holder, request: &Request) -> Result<Answer, Error> {
    let path = run_dir().join(format!("{}-{}.sock", holder.netns, holder.ifindex));
    let talk = || -> io::Result<Answer> {
        let line = serde_json::to_string(request).map_err(io::Error::other)?;
        let answer = socket::ask_over(UnixStream::connect(&path)?, &line)?;
        serde_json::from_str(&answer).map_err(io::Error::other)
    };
    match talk() {
        Ok(Answer::Error { why }) => Err(Error::Control {
            pid: holder.pid,
            why,
        }),
        Ok(answer) => Ok(answer),
        Err(e) => Err(Error::Control {
            pid: holder.pid,
            why: e.to_string(),
        }),
    }
}

/// Counters and up to `flows` flows of whoever is attached to the interface.
pub fn status(ifname: &str, flows: usize) -> Result<Status, Error> {
    status_of(&holder(ifname)?, flows)
}

/// The same of one of [`list`].
pub fn status_of(holder: &Holder, flows: usize) -> Result<Status, Error> {
    match ask(holder, &Request::Status { flows })? {
        Answer::Status(status) => Ok(*status),
        other => Err(Error::Control {
            pid: holder.pid,
            why: format!("an answer to another question: {other:?}"),
        }),
    }
}

/// Make whoever is attached to the interface detach. Its last counters come back.
///
/// Where a holder was killed, its filters on a clsact qdisc are removed instead,
/// and there are no counters.
pub fn detach(ifname: &str) -> Result<Option<Stats>, Error> {
    match holder(ifname) {
        Ok(holder) => match ask(&holder, &Request::Detach)? {
            Answer::Detached { stats } => Ok(Some(*stats)),
            other => Err(Error::Control {
                pid: holder.pid,
                why: format!("an answer to another question: {other:?}"),
            }),
        },
        Err(e @ Error::NotAttached(_)) => {
            let Some(index) = net::ifindex(ifname) else {
                return Err(Error::NoInterface(ifname.to_owned()));
            };
            let claim = Claim::take(ifname, index)?;
            let made = claim.leftover.as_ref().is_some_and(|h| h.made_clsact);
            if crate::hooks::sweep(ifname, index, made) {
                Ok(None)
            } else {
                Err(e)
            }
        }
        Err(e) => Err(e),
    }
}
