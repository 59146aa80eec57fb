//! The control socket of a daemon: by it other processes read its counters, and stop it.
//!
//! A request is a line of JSON, and so is the answer. Both sides limit what they read. The socket
//! is also the daemon's [`Claim`] to a name: nobody else can bind it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How long either side waits for the other.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest request in bytes.
const MAX_REQUEST: u64 = 4096;
/// The longest answer in bytes: one with all flows of a large table.
const MAX_ANSWER: u64 = 256 << 20;
/// The pause after a failed connection: an error of accept(2) may last for a while.
const RETRY: Duration = Duration::from_millis(10);

/// What a daemon can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// The counters, with up to `flows` flows where the daemon keeps any.
    Status {
        /// The largest number of flows in the answer.
        flows: usize,
    },
    /// Stop; the answer is the last counters.
    Stop,
}

impl Request {
    /// The counters without flows.
    pub const STATUS: Request = Request::Status { flows: 0 };
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer<S> {
    Status(Box<S>),
    Error(String),
}

/// Why a daemon gave no answer.
#[derive(Debug, PartialEq, Eq)]
pub enum AskError {
    /// No daemon has the name.
    NotRunning,
    /// It is there, but refused, or failed in this way.
    Failed(String),
}

/// The right to a name, and the socket that is bound to it. Dropping it gives the name back.
#[derive(Debug)]
pub struct Claim(UnixListener);

impl Claim {
    /// Claims a name of this network namespace. The name is in no file system, so that it goes
    /// with the process (an abstract socket, unix(7)).
    ///
    /// # Errors
    /// `AddrInUse` if another process has the name, or the name is too long.
    pub fn by_name(name: &str) -> io::Result<Self> {
        let address = SocketAddr::from_abstract_name(name)?;
        UnixListener::bind_addr(&address).map(Self)
    }

    /// Claims a path. The caller must know that nobody else uses it, for instance by a lock.
    ///
    /// # Errors
    /// The path cannot be bound.
    pub fn by_path(path: &Path) -> io::Result<Self> {
        UnixListener::bind(path).map(Self)
    }
}

/// Answers requests in a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Server {
    stop: Arc<AtomicBool>,
    listener: Arc<UnixListener>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Answers each line with a line. Only root and the user of this process are answered;
    /// others get `refusal`.
    ///
    /// # Errors
    /// No thread can be started.
    fn start(
        claim: Claim,
        refusal: String,
        answer: impl Fn(&str) -> String + Send + 'static,
    ) -> io::Result<Self> {
        let (listener, stop) = (Arc::new(claim.0), Arc::new(AtomicBool::new(false)));
        let (accepting, stopped) = (Arc::clone(&listener), Arc::clone(&stop));
        let serve = move |stream: &UnixStream| match is_permitted(stream)? {
            true => talk(stream, &answer),
            // Nothing is read: a stranger may never write.
            false => write_line(stream, &refusal),
        };
        let thread = std::thread::Builder::new()
            .name("ackwise-control".into())
            .spawn(move || {
                for stream in accepting.incoming() {
                    if stopped.load(Ordering::Acquire) {
                        return;
                    }
                    if let Err(error) = stream.and_then(|stream| serve(&stream)) {
                        tracing::debug!("control connection: {error}");
                        std::thread::sleep(RETRY);
                    }
                }
            })?;
        Ok(Self {
            stop,
            listener,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // The thread sits in accept(2), which this makes fail.
        // SAFETY: a valid descriptor.
        unsafe { libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR) };
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A kind of daemon whose counters are an `S`.
#[derive(Debug)]
pub struct Service<S> {
    kind: &'static str,
    status: PhantomData<fn() -> S>,
}

impl<S: Serialize + DeserializeOwned + 'static> Service<S> {
    /// The daemons of this kind, for instance `gateway`, in this network namespace.
    #[must_use]
    pub const fn new(kind: &'static str) -> Self {
        let status = PhantomData;
        Self { kind, status }
    }

    fn socket_name(&self, name: &str) -> String {
        format!("ackwise-{}-{name}", self.kind)
    }

    /// Claims a name for a daemon of this kind.
    ///
    /// # Errors
    /// `AddrInUse` if another process has it, or the name is too long.
    pub fn claim(&self, name: &str) -> io::Result<Claim> {
        Claim::by_name(&self.socket_name(name))
    }

    /// Answers requests with what `answer` returns, until the server is dropped.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn serve(
        &self,
        claim: Claim,
        answer: impl Fn(Request) -> Result<S, String> + Send + 'static,
    ) -> io::Result<Server> {
        let refusal = format!("only root and the user of the {} may ask", self.kind);
        let refusal = to_line(&Answer::<S>::Error(refusal));
        Server::start(claim, refusal, move |line| {
            let status = serde_json::from_str(line)
                .map_err(|error| format!("the request is not understood: {error}"))
                .and_then(&answer);
            to_line(&status.map_or_else(Answer::Error, |status| Answer::Status(Box::new(status))))
        })
    }

    /// Asks the daemon that has a name of this network namespace.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn ask(&self, name: &str, request: Request) -> Result<S, AskError> {
        let address = SocketAddr::from_abstract_name(self.socket_name(name));
        self.ask_over(
            address.and_then(|at| UnixStream::connect_addr(&at)),
            request,
        )
    }

    /// Asks the daemon that answers at a path.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn ask_at(&self, path: &Path, request: Request) -> Result<S, AskError> {
        self.ask_over(UnixStream::connect(path), request)
    }

    fn ask_over(&self, stream: io::Result<UnixStream>, request: Request) -> Result<S, AskError> {
        let failed = |error: &dyn std::error::Error| AskError::Failed(error.to_string());
        let line = serde_json::to_string(&request).map_err(|e| failed(&e))?;
        let answer = stream.and_then(|stream| exchange(stream, &line));
        let answer = answer.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => AskError::NotRunning,
            _ => failed(&error),
        })?;
        match serde_json::from_str(&answer).map_err(|e| failed(&e))? {
            Answer::Status(status) => Ok(*status),
            Answer::Error(why) => Err(AskError::Failed(why)),
        }
    }

    /// Returns the names of this network namespace that daemons of this kind have.
    ///
    /// # Errors
    /// The list of sockets cannot be read.
    pub fn list(&self) -> io::Result<Vec<String>> {
        let prefix = self.socket_name("");
        let table = std::fs::read_to_string("/proc/thread-self/net/unix")?;
        let mut names: Vec<String> = table
            .lines()
            // Only listening sockets; accepted ones have the same name.
            .filter(|line| line.split_whitespace().nth(3) == Some("00010000"))
            .filter_map(|line| line.split_whitespace().nth(7)?.strip_prefix('@'))
            .filter_map(|name| name.strip_prefix(&prefix))
            .map(str::to_owned)
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }
}

fn to_line<S: Serialize>(answer: &Answer<S>) -> String {
    serde_json::to_string(answer).unwrap_or_default()
}

/// Says whether the peer of a connection is root or the user of this process. An abstract socket
/// has no permissions in a file system.
fn is_permitted(stream: &UnixStream) -> io::Result<bool> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut size = size_of::<libc::ucred>() as u32;
    // SAFETY: peer is writable and has the given size.
    let answer = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no arguments, cannot fail.
    Ok(peer.uid == 0 || peer.uid == unsafe { libc::geteuid() })
}

/// Answers one line. A peer that writes nothing gets nothing.
fn talk(stream: &UnixStream, answer: impl Fn(&str) -> String) -> io::Result<()> {
    match read_line(stream, MAX_REQUEST)? {
        line if line.is_empty() => Ok(()),
        line => write_line(stream, &answer(&line)),
    }
}

fn exchange(stream: UnixStream, line: &str) -> io::Result<String> {
    write_line(&stream, line)?;
    read_line(&stream, MAX_ANSWER)
}

/// Reads a line of at most `max` bytes. What exceeds is not read, so that the line is cut.
fn read_line(stream: &UnixStream, max: u64) -> io::Result<String> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(Read::take(stream, max)).read_line(&mut line)?;
    Ok(line)
}

fn write_line(mut stream: &UnixStream, line: &str) -> io::Result<()> {
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect<S: Serialize + DeserializeOwned + 'static>(
        service: &Service<S>,
        name: &str,
    ) -> UnixStream {
        let address = SocketAddr::from_abstract_name(service.socket_name(name)).unwrap();
        UnixStream::connect_addr(&address).unwrap()
    }

    #[test]
    fn a_request_is_answered_or_refused_with_a_reason() {
        let service = Service::<u32>::new("test-of-control");
        let name = std::process::id().to_string();
        let ask = |request| service.ask(&name, request);
        assert_eq!(ask(Request::STATUS), Err(AskError::NotRunning));
        let claim = service.claim(&name).unwrap();
        let taken = service.claim(&name).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let server = service.serve(claim, |request| match request {
            Request::Status { flows } => Ok(7 + flows as u32),
            Request::Stop => Err("it stays".to_owned()),
        });
        assert_eq!(ask(Request::STATUS), Ok(7));
        assert_eq!(ask(Request::Status { flows: 2 }), Ok(9));
        let stays = AskError::Failed("it stays".to_owned());
        assert_eq!(ask(Request::Stop), Err(stays));
        assert!(service.list().unwrap().contains(&name));
        let other = exchange(connect(&service, &name), "\"sideways\"").unwrap();
        assert!(other.contains("not understood"), "{other}");
        let long = format!("\"{}\"", "x".repeat(2 * MAX_REQUEST as usize));
        let other = exchange(connect(&service, &name), &long).unwrap();
        assert!(other.contains("not understood"), "{other}");
        drop(server);
        assert_eq!(ask(Request::STATUS), Err(AskError::NotRunning));
    }

    #[test]
    fn a_path_is_asked_as_a_name_is() {
        let dir = std::env::temp_dir().join(format!("ackwise-control-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("it.sock");
        let service = Service::<String>::new("test-of-paths");
        let claim = Claim::by_path(&path).unwrap();
        let server = service.serve(claim, |_| Ok("here".to_owned())).unwrap();
        assert_eq!(service.ask_at(&path, Request::Stop), Ok("here".to_owned()));
        drop(server);
        assert!(service.ask_at(&path, Request::STATUS).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
