//! Who has a gateway where, and how to talk to them.
//!
//! Each gateway listens on a socket whose name is in no file system: the name is
//! the claim to the interface, is of one network namespace as the interface is, and
//! is gone with the process. A line is answered by a line of JSON.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::gateway::Inner;
use crate::{Error, Stats};

const PREFIX: &str = "ackwise-gateway-";
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Request {
    Status,
    Down,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Stats(Box<Stats>),
    Error(String),
}

fn address(interface: &str) -> Result<SocketAddr, Error> {
    SocketAddr::from_abstract_name(format!("{PREFIX}{interface}"))
        .map_err(Error::system("naming the control socket"))
}

/// The right to be the gateway of an interface.
#[derive(Debug)]
pub(crate) struct Claim(UnixListener);

impl Claim {
    pub fn take(interface: &str) -> Result<Self, Error> {
        match UnixListener::bind_addr(&address(interface)?) {
            Ok(listener) => Ok(Self(listener)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(Error::Held {
                interface: interface.to_owned(),
                pid: status(interface).map_or(0, |stats| stats.pid),
            }),
            Err(error) => Err(Error::system("opening the control socket")(error)),
        }
    }
}

/// Answers until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    stop: Arc<AtomicBool>,
    listener: Arc<UnixListener>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(claim: Claim, gateway: Arc<Inner>) -> Result<Self, Error> {
        let (listener, stop) = (Arc::new(claim.0), Arc::new(AtomicBool::new(false)));
        let (accepting, seen) = (Arc::clone(&listener), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("ackwise-control".into())
            .spawn(move || {
                for stream in accepting.incoming() {
                    if seen.load(Ordering::Acquire) {
                        return;
                    }
                    let served = stream.and_then(|stream| serve(&stream, &gateway));
                    if let Err(error) = served {
                        tracing::debug!("control connection: {error}");
                        // An error of accept() may stay for a while.
                        std::thread::sleep(Duration::from_millis(10));
                    }
                }
            })
            .map_err(Error::system("starting the control thread"))?;
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
        // The thread sits in accept(), which this makes fail.
        // SAFETY: a valid descriptor.
        unsafe { libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR) };
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A name that is in no file system has no permissions either: root and the
/// gateway's own user are answered.
fn may_ask(stream: &UnixStream) -> io::Result<bool> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut size = size_of::<libc::ucred>() as u32;
    // SAFETY: peer is writable and of the size that is said.
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

fn serve(mut stream: &UnixStream, gateway: &Inner) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let answer = if may_ask(stream)? {
        let mut line = String::new();
        BufReader::new(Read::take(stream, 4096)).read_line(&mut line)?;
        let stats = match serde_json::from_str(&line) {
            Ok(Request::Status) => gateway.stats(),
            Ok(Request::Down) => gateway.stop_and_wait(PATIENCE / 2),
            Err(error) => Err(Error::Control {
                interface: "this interface".to_owned(),
                why: format!("the question is not understood: {error}"),
            }),
        };
        stats.map_or_else(
            |error| Answer::Error(error.to_string()),
            |stats| Answer::Stats(Box::new(stats)),
        )
    } else {
        Answer::Error("only root and the user of the gateway may ask".to_owned())
    };
    let mut text = serde_json::to_string(&answer).map_err(io::Error::other)?;
    text.push('\n');
    stream.write_all(text.as_bytes())
}

fn ask(interface: &str, request: &Request) -> Result<Stats, Error> {
    let address = address(interface)?;
    let talk = |mut stream: UnixStream| -> io::Result<Answer> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = serde_json::to_string(request).map_err(io::Error::other)?;
        text.push('\n');
        stream.write_all(text.as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        serde_json::from_str(&line).map_err(io::Error::other)
    };
    let stream = match UnixStream::connect_addr(&address) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return Err(Error::NotThere(interface.to_owned()));
        }
        Err(error) => return Err(Error::system("connecting to the gateway")(error)),
    };
    let why = match talk(stream) {
        Ok(Answer::Stats(stats)) => return Ok(*stats),
        Ok(Answer::Error(why)) => why,
        Err(error) => error.to_string(),
    };
    Err(Error::Control {
        interface: interface.to_owned(),
        why,
    })
}

/// The counters of the gateway of an interface.
///
/// # Errors
/// There is none, or it does not answer.
pub fn status(interface: &str) -> Result<Stats, Error> {
    ask(interface, &Request::Status)
}

/// Ends the gateway of an interface; its last counters.
///
/// # Errors
/// There is none, or it does not answer.
pub fn down(interface: &str) -> Result<Stats, Error> {
    ask(interface, &Request::Down)
}

/// The interfaces of this network namespace that have a gateway.
///
/// # Errors
/// The list of sockets cannot be read.
pub fn list() -> Result<Vec<String>, Error> {
    let table = std::fs::read_to_string("/proc/thread-self/net/unix")
        .map_err(Error::system("reading the list of sockets"))?;
    let mut interfaces: Vec<String> = table
        .lines()
        // Listening sockets; one that accepted has the same name.
        .filter(|line| line.split_whitespace().nth(3) == Some("00010000"))
        .filter_map(|line| line.split_whitespace().nth(7)?.strip_prefix('@'))
        .filter_map(|name| name.strip_prefix(PREFIX))
        .map(str::to_owned)
        .collect();
    interfaces.sort();
    interfaces.dedup();
    Ok(interfaces)
}
