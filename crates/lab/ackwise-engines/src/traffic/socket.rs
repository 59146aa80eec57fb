//! Sockets with the options of a flow, and input and output that always end.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ackwise_netdev::sockopt;
use ackwise_scenario::SocketOptions;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::clock::now_ns;

/// Protocol number of Multipath TCP sockets.
const IPPROTO_MPTCP: i32 = 262;
/// How often a wait looks whether it should end.
const SLICE_MS: u16 = 50;
/// Reads that find data from one look at the clock to the next.
const READS_A_CHECK: u32 = 64;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// A sender does not write more than this ahead of the network, so that the
/// end of a run need not wait for megabytes that nobody asked for.
const UNSENT_BYTES: u32 = 512 * 1024;

/// What a wait says that was given up on request.
pub const CANCELLED: &str = "cancelled";

/// When everything must come to an end.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Set from outside: give up now.
    pub cancel: Arc<AtomicBool>,
    /// Set within the run when it has failed as a whole.
    pub abort: Arc<AtomicBool>,
    /// Set by a side of a flow that has failed: the other need not wait.
    pub failed: Option<Arc<AtomicBool>>,
    /// No wait lasts longer than until then.
    pub deadline_ns: u64,
}

impl Limits {
    /// Whether to give up.
    #[must_use]
    pub fn over(&self) -> bool {
        self.stopped() || now_ns() >= self.deadline_ns
    }

    /// Whether somebody asked to give up.
    #[must_use]
    pub fn stopped(&self) -> bool {
        let set = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        set(&self.cancel) || set(&self.abort) || self.failed.as_ref().is_some_and(set)
    }

    /// Tells the other side of the flow to give up too.
    pub fn fail(&self) {
        if let Some(failed) = &self.failed {
            failed.store(true, Ordering::Relaxed);
        }
    }

    fn check(&self) -> io::Result<()> {
        if self.stopped() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, CANCELLED));
        }
        if now_ns() >= self.deadline_ns {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "no end within the time allowed",
            ));
        }
        Ok(())
    }

    /// Waits until a descriptor is ready.
    ///
    /// # Errors
    /// Time is up or the run was cancelled.
    pub fn wait(&self, fd: &impl AsFd, events: PollFlags) -> io::Result<()> {
        loop {
            self.check()?;
            let mut waiting = [PollFd::new(fd.as_fd(), events)];
            match poll(&mut waiting, PollTimeout::from(SLICE_MS)) {
                Ok(0) | Err(nix::Error::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sleeps until a moment.
    ///
    /// # Errors
    /// Time is up or the run was cancelled.
    pub fn sleep_until(&self, at_ns: u64) -> io::Result<()> {
        loop {
            self.check()?;
            let left = at_ns.saturating_sub(now_ns());
            if left == 0 {
                return Ok(());
            }
            let slice = left.min(u64::from(SLICE_MS) * 1_000_000);
            std::thread::sleep(Duration::from_nanos(slice));
        }
    }
}

/// A non-blocking connection.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    limits: Limits,
    /// Reads since the clock was asked.
    reads: u32,
    /// Whether the call that reads waits.
    waits: bool,
}

fn new_socket(address: SocketAddr, cc: &str, options: &SocketOptions) -> io::Result<Socket> {
    let protocol = if options.mptcp {
        Protocol::from(IPPROTO_MPTCP)
    } else {
        Protocol::TCP
    };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_congestion(cc.as_bytes())?;
    Ok(socket)
}

/// Sets a buffer even beyond the system's limit.
fn force_buffer(socket: &Socket, option: libc::c_int, bytes: u64) -> io::Result<()> {
    // The kernel doubles what it is given, for its own book-keeping.
    let value = libc::c_int::try_from(bytes / 2).unwrap_or(libc::c_int::MAX);
    sockopt::set_int(socket, libc::SOL_SOCKET, option, value)
}

/// Sets the buffers of the side that sends the data or of the one that receives.
fn set_buffers(socket: &Socket, options: &SocketOptions, sends: bool) -> io::Result<()> {
    match (sends, options.send_buffer, options.receive_buffer) {
        (true, Some(bytes), _) => force_buffer(socket, libc::SO_SNDBUFFORCE, bytes),
        (false, _, Some(bytes)) => force_buffer(socket, libc::SO_RCVBUFFORCE, bytes),
        _ => Ok(()),
    }
}

/// A listening socket; `sends` if its side sends the flow's data.
///
/// # Errors
/// The address is taken, or the kernel lacks the congestion control or MPTCP.
pub fn listen(
    address: SocketAddr,
    cc: &str,
    options: &SocketOptions,
    sends: bool,
) -> io::Result<Socket> {
    let socket = new_socket(address, cc, options)?;
    socket.set_reuse_address(true)?;
    // Before listen(): accepted connections inherit it, and the window scale
    // is chosen by it.
    set_buffers(&socket, options, sends)?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// The next connection.
///
/// # Errors
/// None came in time.
pub fn accept(listener: &Socket, limits: &Limits) -> io::Result<Connection> {
    loop {
        limits.wait(listener, PollFlags::POLLIN)?;
        match listener.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(true)?;
                return Ok(Connection {
                    socket,
                    limits: limits.clone(),
                    reads: 0,
                    waits: false,
                });
            }
            // Another worker was faster.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

impl Connection {
    /// Opens a connection; `sends` if this side sends the flow's data.
    ///
    /// # Errors
    /// It was refused or not made in time.
    pub fn open(
        address: SocketAddr,
        cc: &str,
        options: &SocketOptions,
        sends: bool,
        limits: &Limits,
    ) -> io::Result<Self> {
        let socket = new_socket(address, cc, options)?;
        set_buffers(&socket, options, sends)?;
        match socket.connect(&SockAddr::from(address)) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                limits.wait(&socket, PollFlags::POLLOUT)?;
                if let Some(error) = socket.take_error()? {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(Self {
            socket,
            limits: limits.clone(),
            reads: 0,
            waits: false,
        })
    }

    /// The socket, to ask the kernel about it.
    #[must_use]
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Another limit for what follows.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Port of this end.
    ///
    /// # Errors
    /// The kernel does not know.
    pub fn local_port(&self) -> io::Result<u16> {
        port_of(&self.socket.local_addr()?)
    }

    /// Port of the other end.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn peer_port(&self) -> io::Result<u16> {
        port_of(&self.socket.peer_addr()?)
    }

    /// Sends small messages at once.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn no_delay(&self) -> io::Result<()> {
        self.socket.set_tcp_nodelay(true)
    }

    /// Keeps what waits in the kernel short.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn limit_unsent(&self) -> io::Result<()> {
        self.socket.set_tcp_notsent_lowat(UNSENT_BYTES)
    }

    /// From now on waits for data within the call that reads them: one system
    /// call instead of three.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn wait_in_reads(&mut self) -> io::Result<()> {
        self.socket.set_nonblocking(false)?;
        let slice = Duration::from_millis(SLICE_MS.into());
        self.socket.set_read_timeout(Some(slice))?;
        self.waits = true;
        Ok(())
    }

    /// Reads what there is, at least one byte; 0 at the end of the stream.
    ///
    /// # Errors
    /// The connection broke, or nothing came in time.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&self.socket).read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.waits {
                        self.limits.check()?;
                    } else {
                        self.limits.wait(&self.socket, PollFlags::POLLIN)?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => self.limits.check()?,
                other => {
                    self.reads += 1;
                    if self.limits.stopped() || self.reads.is_multiple_of(READS_A_CHECK) {
                        self.limits.check()?;
                    }
                    return other;
                }
            }
        }
    }

    /// Reads exactly so much.
    ///
    /// # Errors
    /// The stream ended or broke before, or it took too long.
    pub fn read_exact(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read(buffer)? {
                0 => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the other side ended the connection early",
                    ));
                }
                count => buffer = &mut buffer[count..],
            }
        }
        Ok(())
    }

    /// Writes all of it unless `until_ns` passes before; returns how much.
    ///
    /// # Errors
    /// The connection broke, or the limits are over.
    pub fn write_until(&mut self, buffer: &[u8], until_ns: u64) -> io::Result<usize> {
        let mut written = 0;
        let brief = Limits {
            deadline_ns: self.limits.deadline_ns.min(until_ns),
            ..self.limits.clone()
        };
        while written < buffer.len() {
            match (&self.socket).write(&buffer[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Err(error) = brief.wait(&self.socket, PollFlags::POLLOUT) {
                        if error.kind() == io::ErrorKind::TimedOut && !self.limits.over() {
                            return Ok(written);
                        }
                        return Err(error);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => self.limits.check()?,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// The connection broke, or it took too long.
    pub fn write_all(&mut self, buffer: &[u8]) -> io::Result<()> {
        let written = self.write_until(buffer, u64::MAX)?;
        debug_assert_eq!(written, buffer.len());
        Ok(())
    }

    /// Says that nothing more will be sent.
    ///
    /// # Errors
    /// The connection broke.
    pub fn end(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    /// Waits until the other side has ended too.
    ///
    /// # Errors
    /// The connection broke, or it took too long.
    pub fn wait_for_end(&mut self) -> io::Result<()> {
        let mut scrap = [0; 64];
        while self.read(&mut scrap)? > 0 {}
        Ok(())
    }
}

fn port_of(address: &SockAddr) -> io::Result<u16> {
    address
        .as_socket()
        .map(|address| address.port())
        .ok_or_else(|| io::Error::other("a socket without a port"))
}
