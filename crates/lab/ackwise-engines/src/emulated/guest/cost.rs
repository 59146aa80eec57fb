//! CPU usage: idle time, the time of single threads, and TCP's counters.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::LabError;
use crate::priority::schedule;

/// A file of `/proc` that is read repeatedly.
pub struct Watched {
    file: File,
    path: PathBuf,
}

impl Watched {
    /// Opens the file.
    ///
    /// # Errors
    /// It does not exist.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LabError> {
        let path = path.into();
        let file =
            File::open(&path).map_err(LabError::os(format!("cannot open {}", path.display())))?;
        Ok(Self { file, path })
    }

    fn read(&self) -> Result<String, LabError> {
        let mut buffer = [0_u8; 4096];
        let length = self
            .file
            .read_at(&mut buffer, 0)
            .map_err(LabError::os(format!("cannot read {}", self.path.display())))?;
        Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }

    fn malformed(&self) -> LabError {
        LabError::os(format!("cannot read {}", self.path.display()))(io::Error::new(
            io::ErrorKind::InvalidData,
            "unknown format",
        ))
    }
}

/// Time that the CPU has been idle, from `/proc/uptime`.
pub struct Idle(Watched);

impl Idle {
    /// Opens the file.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn open() -> Result<Self, LabError> {
        Watched::open("/proc/uptime").map(Self)
    }

    /// Idle time in nanoseconds, in steps of 10 ms.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn ns(&self) -> Result<u64, LabError> {
        parse_idle(&self.0.read()?).ok_or_else(|| self.0.malformed())
    }
}

/// Parses "12.34 5.67": time since boot, and idle time.
fn parse_idle(text: &str) -> Option<u64> {
    let (seconds, hundredths) = text.split_whitespace().nth(1)?.split_once('.')?;
    let hundredths = seconds.parse::<u64>().ok()? * 100 + hundredths.parse::<u64>().ok()?;
    Some(hundredths * 10_000_000)
}

/// CPU time of a thread, from its `schedstat`.
pub struct Busy(Watched);

impl Busy {
    /// The CPU time of a thread by its id.
    ///
    /// # Errors
    /// There is no such thread, or the kernel lacks SCHED_INFO.
    pub fn of(tid: u32) -> Result<Self, LabError> {
        Watched::open(format!("/proc/{tid}/schedstat")).map(Self)
    }

    /// The CPU time of the calling thread.
    ///
    /// # Errors
    /// The kernel lacks SCHED_INFO.
    pub fn of_this_thread() -> Result<Self, LabError> {
        let tid = nix::unistd::gettid().as_raw();
        Self::of(u32::try_from(tid).unwrap_or_default())
    }

    /// Nanoseconds on the CPU.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn ns(&self) -> Result<u64, LabError> {
        let text = self.0.read()?;
        text.split_whitespace()
            .next()
            .and_then(|field| field.parse().ok())
            .ok_or_else(|| self.0.malformed())
    }
}

/// CPU time of a thread, which can be read even after the thread has ended.
#[derive(Default)]
pub struct Worker {
    busy: OnceLock<Busy>,
    last_ns: AtomicU64,
}

impl Worker {
    /// Runs the calling thread's work and accounts its CPU time.
    ///
    /// # Errors
    /// The work failed, or the kernel lacks SCHED_INFO.
    pub fn account(&self, work: impl FnOnce() -> Result<(), LabError>) -> Result<(), LabError> {
        let own = Busy::of_this_thread()?;
        let busy = self.busy.get_or_init(|| own);
        let done = work();
        self.last_ns.store(busy.ns()?, Ordering::Relaxed);
        done
    }

    /// Nanoseconds on the CPU so far; 0 before the work began.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn ns(&self) -> Result<u64, LabError> {
        match self.last_ns.load(Ordering::Relaxed) {
            0 => self.busy.get().map_or(Ok(0), Busy::ns),
            last => Ok(last),
        }
    }
}

/// The kernel thread that polls an interface.
pub struct NapiThread {
    tid: u32,
}

impl NapiThread {
    /// Moves the polling of an interface from interrupt context into a thread, so that its work can
    /// be accounted separately. The interface must still be in the namespace in which `/sys` was
    /// mounted.
    ///
    /// # Errors
    /// The kernel does not support it, or started no such thread.
    pub fn of(interface: &str) -> Result<Self, LabError> {
        let path = format!("/sys/class/net/{interface}/threaded");
        fs::write(&path, "1").map_err(LabError::os(format!("cannot set {path}")))?;
        let prefix = format!("napi/{interface}-");
        let tid = thread_named(&prefix)
            .map_err(LabError::os("cannot list the threads of the kernel"))?
            .ok_or_else(|| LabError::Scenario(format!("no thread polls {interface}")))?;
        Ok(Self { tid })
    }

    /// Thread id.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// CPU time of the thread.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn busy(&self) -> Result<Busy, LabError> {
        Busy::of(self.tid)
    }
}

fn thread_named(prefix: &str) -> io::Result<Option<u32>> {
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process that has ended meanwhile is not the one that we look for.
        let comm = fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
        if comm.starts_with(prefix) {
            return Ok(Some(tid));
        }
    }
    Ok(None)
}

/// Gives a thread (0 for the calling one) priority over all ordinary ones.
///
/// # Errors
/// There is no such thread.
pub fn serve_first(tid: u32, priority: i32) -> Result<(), LabError> {
    let tid = libc::pid_t::try_from(tid).unwrap_or(-1);
    schedule(tid, libc::SCHED_FIFO, priority).map_err(LabError::os("cannot give a thread priority"))
}

/// TCP's counters in a namespace.
pub struct Counters(Watched);

/// The values of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segments {
    /// Segments sent, without retransmissions.
    pub out: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
}

impl Counters {
    /// The counters of the calling thread's namespace.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn open() -> Result<Self, LabError> {
        Watched::open("/proc/thread-self/net/snmp").map(Self)
    }

    /// The current values.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self) -> Result<Segments, LabError> {
        let text = self.0.read()?;
        let field = |name| snmp(&text, "Tcp:", name).ok_or_else(|| self.0.malformed());
        Ok(Segments {
            out: field("OutSegs")?,
            retransmitted: field("RetransSegs")?,
        })
    }

    /// IPv4 packets forwarded.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn forwarded(&self) -> Result<u64, LabError> {
        snmp(&self.0.read()?, "Ip:", "ForwDatagrams").ok_or_else(|| self.0.malformed())
    }
}

/// A value by its name, from a line "Tcp: NAME…" and a line "Tcp: VALUE…".
fn snmp(text: &str, group: &str, wanted: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let names = lines.next()?.split_whitespace();
    let mut values = names.zip(lines.next()?.split_whitespace());
    let (_, value) = values.find(|(name, _)| *name == wanted)?;
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read() {
        assert_eq!(parse_idle("12.34 5.67\n"), Some(5_670_000_000));
        assert_eq!(parse_idle("12.34\n"), None);
        let text = "Ip: Forwarding ForwDatagrams\nIp: 1 6\n\
            Tcp: MaxConn InSegs OutSegs RetransSegs\n\
            Tcp: -1 7 8 9\n";
        assert_eq!(snmp(text, "Tcp:", "OutSegs"), Some(8));
        assert_eq!(snmp(text, "Tcp:", "RetransSegs"), Some(9));
        assert_eq!(snmp(text, "Ip:", "ForwDatagrams"), Some(6));
        assert_eq!(snmp(text, "Ip:", "OutSegs"), None);
        assert_eq!(snmp("Tcp: OutSegs\nTcp: x\n", "Tcp:", "OutSegs"), None);
    }

    #[test]
    fn this_kernel_has_what_is_read() {
        assert!(Idle::open().unwrap().ns().is_ok());
        let counters = Counters::open().unwrap();
        assert!(counters.read().is_ok() && counters.forwarded().is_ok());
    }
}
