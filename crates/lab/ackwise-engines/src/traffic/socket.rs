//! Sockets with the options of a flow, and input and output with deadlines.

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
/// Interval at which a wait checks whether it should end.
const CANCEL_CHECK_MS: u16 = 50;
/// Number of successful reads between two looks at the clock.
const READS_PER_CLOCK_CHECK: u32 = 64;
/// Backlog of connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// Maximum unsent data in the socket, so that the end of a run need not wait for megabytes of
/// buffered data.
const MAX_UNSENT_BYTES: u32 = 512 * 1024;

/// Error text of a wait that was cancelled.
pub const CANCELLED: &str = "cancelled";

/// When a wait must end.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Set from outside to cancel.
    pub cancel: Arc<AtomicBool>,
    /// Set within the run when the whole run has failed.
    pub abort: Arc<AtomicBool>,
    /// Set by a side of a flow that has failed, so that the other side does not wait.
    pub failed: Option<Arc<AtomicBool>>,
    /// Deadline of every wait.
    pub deadline_ns: u64,
}

impl Limits {
    /// Whether to give up, for whatever reason.
    #[must_use]
    pub fn over(&self) -> bool {
        self.stopped() || now_ns() >= self.deadline_ns
    }

    /// Whether to give up on request or because of a failure.
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
                "not finished within the time allowed",
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
            match poll(&mut waiting, PollTimeout::from(CANCEL_CHECK_MS)) {
                Ok(0) | Err(nix::Error::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sleeps until `at_ns`.
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
            let slice = left.min(u64::from(CANCEL_CHECK_MS) * 1_000_000);
            std::thread::sleep(Duration::from_nanos(slice));
        }
    }
}

/// A non-blocking connection.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    limits: Limits,
    /// Reads since the last look at the clock.
    reads: u32,
    /// Whether a read blocks until there are data.
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

/// Sets a buffer size even beyond the system's limit.
fn force_buffer(socket: &Socket, option: libc::c_int, bytes: u64) -> io::Result<()> {
    // The kernel doubles the value for its own book-keeping.
    let value = libc::c_int::try_from(bytes / 2).unwrap_or(libc::c_int::MAX);
    sockopt::set_int(socket, libc::SOL_SOCKET, option, value)
}

/// A rate that limits nothing, but makes the kernel pace, bytes per second. `u32::MAX` would mean that
/// it need not.
const ANY_RATE: u32 = u32::MAX - 1;

/// Sets what differs between the sending and the receiving side.
fn set_side(socket: &Socket, options: &SocketOptions, sends: bool) -> io::Result<()> {
    if sends && options.pacing {
        sockopt::set(
            socket,
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            &ANY_RATE,
        )?;
    }
    match (sends, options.send_buffer, options.receive_buffer) {
        (true, Some(bytes), _) => force_buffer(socket, libc::SO_SNDBUFFORCE, bytes),
        (false, _, Some(bytes)) => force_buffer(socket, libc::SO_RCVBUFFORCE, bytes),
        _ => Ok(()),
    }
}

/// Opens a listening socket; `sends` is set if its side sends the flow's data.
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
    // Before listen(), because accepted connections inherit it, and the buffers determine the window
    // scale.
    set_side(&socket, options, sends)?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Accepts the next connection.
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
    /// Opens a connection; `sends` is set if this side sends the flow's data.
    ///
    /// # Errors
    /// The connection was refused or not made in time.
    pub fn open(
        address: SocketAddr,
        cc: &str,
        options: &SocketOptions,
        sends: bool,
        limits: &Limits,
    ) -> io::Result<Self> {
        let socket = new_socket(address, cc, options)?;
        set_side(&socket, options, sends)?;
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

    /// Sets the limits for later operations.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Port of this end.
    ///
    /// # Errors
    /// The system call fails.
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

    /// Sends small messages at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// The system call fails.
    pub fn no_delay(&self) -> io::Result<()> {
        self.socket.set_tcp_nodelay(true)
    }

    /// Limits the unsent data in the kernel.
    ///
    /// # Errors
    /// The system call fails.
    pub fn limit_unsent(&self) -> io::Result<()> {
        self.socket.set_tcp_notsent_lowat(MAX_UNSENT_BYTES)
    }

    /// Makes reads wait for data within the call: one system call instead of three.
    ///
    /// # Errors
    /// The system call fails.
    pub fn wait_in_reads(&mut self) -> io::Result<()> {
        self.socket.set_nonblocking(false)?;
        let slice = Duration::from_millis(CANCEL_CHECK_MS.into());
        self.socket.set_read_timeout(Some(slice))?;
        self.waits = true;
        Ok(())
    }

    /// Reads the available bytes, at least one; returns 0 at the end of the stream.
    ///
    /// # Errors
    /// The connection failed, or nothing arrived in time.
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
                    if self.limits.stopped() || self.reads.is_multiple_of(READS_PER_CLOCK_CHECK) {
                        self.limits.check()?;
                    }
                    return other;
                }
            }
        }
    }

    /// Fills the buffer.
    ///
    /// # Errors
    /// The stream ended or failed before, or it took too long.
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

    /// Writes the whole buffer unless `until_ns` passes before; returns the number of bytes
    /// written.
    ///
    /// # Errors
    /// The connection failed, or the limits are over.
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

    /// Writes the whole buffer.
    ///
    /// # Errors
    /// The connection failed, or it took too long.
    pub fn write_all(&mut self, buffer: &[u8]) -> io::Result<()> {
        let written = self.write_until(buffer, u64::MAX)?;
        debug_assert_eq!(written, buffer.len());
        Ok(())
    }

    /// Closes the sending side.
    ///
    /// # Errors
    /// The connection failed.
    pub fn end(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    /// Waits until the other side has closed too.
    ///
    /// # Errors
    /// The connection failed, or it took too long.
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
