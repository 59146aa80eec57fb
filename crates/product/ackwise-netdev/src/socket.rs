//! A process that is found and asked by a name.
//!
//! The name is in no file system: it is a claim, is of one network namespace as
//! interfaces are, and is gone with the process. A line is answered by a line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long either side waits for the other.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The right to a name.
#[derive(Debug)]
pub struct Claim(UnixListener);

impl Claim {
    /// Takes a name.
    ///
    /// # Errors
    /// `AddrInUse`: another process has it. Or it is too long.
    pub fn take(name: &str) -> io::Result<Self> {
        let address = SocketAddr::from_abstract_name(name)?;
        UnixListener::bind_addr(&address).map(Self)
    }
}

/// Answers until it is dropped.
#[derive(Debug)]
pub struct Server {
    stop: Arc<AtomicBool>,
    listener: Arc<UnixListener>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Root and the user of this process are answered: a name in no file system has no
    /// permissions. Others get `refusal`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        claim: Claim,
        refusal: String,
        answer: impl Fn(&str) -> String + Send + 'static,
    ) -> io::Result<Self> {
        Self::serve(claim.0, move |stream| match may_ask(stream)? {
            true => talk(stream, &answer),
            // Without waiting for what a stranger may never say.
            false => say(stream, &refusal),
        })
    }

    /// Answers whoever may connect, one after another.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn open(
        listener: UnixListener,
        answer: impl Fn(&str) -> String + Send + 'static,
    ) -> io::Result<Self> {
        Self::serve(listener, move |stream| talk(stream, &answer))
    }

    fn serve(
        listener: UnixListener,
        serve: impl Fn(&UnixStream) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (listener, stop) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
        let (accepting, seen) = (Arc::clone(&listener), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("ackwise-control".into())
            .spawn(move || {
                for stream in accepting.incoming() {
                    if seen.load(Ordering::Acquire) {
                        return;
                    }
                    if let Err(error) = stream.and_then(|stream| serve(&stream)) {
                        tracing::debug!("control connection: {error}");
                        // An error of accept() may stay for a while.
                        std::thread::sleep(Duration::from_millis(10));
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
        // The thread sits in accept(), which this makes fail.
        // SAFETY: a valid descriptor.
        unsafe { libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR) };
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

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

/// A line is answered by a line; one who says nothing gets nothing.
fn talk(stream: &UnixStream, answer: impl Fn(&str) -> String) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(Read::take(stream, 4096)).read_line(&mut line)?;
    if line.is_empty() {
        return Ok(());
    }
    say(stream, &answer(&line))
}

fn say(mut stream: &UnixStream, line: &str) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{line}\n").as_bytes())
}

/// Sends a line to whoever has a name; the answer.
///
/// # Errors
/// `ConnectionRefused`: nobody has it. Or the answer did not come.
pub fn ask(name: &str, line: &str) -> io::Result<String> {
    let address = SocketAddr::from_abstract_name(name)?;
    ask_over(UnixStream::connect_addr(&address)?, line)
}

/// Sends a line; the answer.
///
/// # Errors
/// It did not come.
pub fn ask_over(mut stream: UnixStream, line: &str) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer)
}

/// The names of this network namespace that begin so, without that beginning.
///
/// # Errors
/// The list of sockets cannot be read.
pub fn list(prefix: &str) -> io::Result<Vec<String>> {
    let table = std::fs::read_to_string("/proc/thread-self/net/unix")?;
    let mut names: Vec<String> = table
        .lines()
        // Listening sockets; one that accepted has the same name.
        .filter(|line| line.split_whitespace().nth(3) == Some("00010000"))
        .filter_map(|line| line.split_whitespace().nth(7)?.strip_prefix('@'))
        .filter_map(|name| name.strip_prefix(prefix))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}
