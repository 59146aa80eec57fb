//! The two programs: what the client requests, and what the server does.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ackwise_netdev::sockopt::set_int;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::Error;
use crate::engine::{Endpoint, Engine, Records, with_scope};
use crate::error::PeerText;
use crate::protocol::{
    Answer, Frame, MAX_ANSWER, MAX_RECORDED, MAX_REQUEST, MAX_SENT, Request, VERSION, read,
    records_len, write_message, write_records,
};
use crate::record::Record;
use crate::script::{End, Script, Stage};
use crate::socket::{PortFilter, RawSocket, SilentListener};

/// How long the client waits for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an end waits for a message from the other. Each message is one packet, which a path
/// that loses in bursts may lose several times.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the client waits for the records of a stage, however slowly they arrive.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);
/// The time after which a session is over at both ends, whatever the other one does.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(180);

/// The records of both ends of a stage.
#[derive(Debug)]
pub struct StageRecords {
    /// The stage that was played.
    pub stage: Stage,
    /// The end whose ACKs are examined.
    pub acks: End,
    /// The client's records.
    pub client: Records,
    /// The server's records.
    pub server: Records,
}

/// A probe that has found its partner and can start: its sockets are open.
#[derive(Debug)]
pub struct Client {
    control: TcpStream,
    began: Instant,
    socket: RawSocket,
    here: IpAddr,
    there: IpAddr,
    scope_id: u32,
    port: u16,
    /// A set of ports for each stage, since packets of an earlier stage that are in flight would
    /// confuse the next.
    ports: VecDeque<Vec<u16>>,
    /// Keeps the kernel from answering on these ports.
    quiet: Vec<SilentListener>,
}

/// Two scripts in two directions.
const STAGES: usize = 4;

fn canonical(address: SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}

/// The interface of a link-local address, or 0.
fn scope_id(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    }
}

impl Client {
    /// Connects to the partner and opens what needs privileges.
    ///
    /// # Errors
    /// If there is no partner, or a capability is missing.
    pub fn connect(host: &str, port: u16) -> Result<Self, Error> {
        let control = connect(host, port)?;
        let failed = Error::system("ask for the addresses of a connection");
        let addresses = control
            .local_addr()
            .and_then(|here| Ok((here, control.peer_addr()?)));
        let (here, there) = addresses.map_err(failed)?;
        let scope_id = scope_id(there);
        let (here, there) = (canonical(here), canonical(there));
        prepare(&control).map_err(Error::system("set up the control connection"))?;
        let mut client = Self {
            socket: RawSocket::open(there.is_ipv6(), PortFilter::From(port.wrapping_add(1)))?,
            control,
            began: Instant::now(),
            here,
            there,
            scope_id,
            port: port.wrapping_add(1),
            ports: VecDeque::new(),
            quiet: Vec::new(),
        };
        let flows = Script::new(Stage::Short, 0).connections.len();
        for _ in 0..STAGES {
            let mut ports = Vec::new();
            for _ in 0..flows {
                let quiet = SilentListener::bind(with_scope(here, 0, scope_id))?;
                ports.push(quiet.port()?);
                client.quiet.push(quiet);
            }
            client.ports.push_back(ports);
        }
        client.send(&Request::Hello { version: VERSION })?;
        match client.receive()? {
            Answer::Welcome { version, .. } if version != VERSION => Err(Error::Version {
                theirs: version,
                ours: VERSION,
            }),
            Answer::Welcome { port, .. } if port == client.port => Ok(client),
            Answer::Busy { seconds } => Err(Error::Busy { seconds }),
            other => Err(unexpected(&other)),
        }
    }

    /// The partner's address.
    #[must_use]
    pub fn partner(&self) -> IpAddr {
        self.there
    }

    /// The control connection, limited to `timeout` and to the end of the session.
    fn with_timeout(&self, timeout: Duration) -> DeadlineStream<'_> {
        DeadlineStream::new(&self.control, self.began, timeout)
    }

    fn send(&self, request: &Request) -> Result<(), Error> {
        write_message(&mut self.with_timeout(MESSAGE_TIMEOUT), request)
    }

    fn receive(&self) -> Result<Answer, Error> {
        match read(&mut self.with_timeout(MESSAGE_TIMEOUT), MAX_ANSWER)? {
            Frame::Message(Answer::Failed { why }) => Err(Error::Partner(PeerText::new(&why))),
            Frame::Message(answer) => Ok(answer),
            Frame::Records(_) => Err(Error::protocol("records that nobody asked for")),
        }
    }

    /// Plays all stages, and reports before each how many are done.
    ///
    /// # Errors
    /// If the partner is gone, or no connection could be established.
    pub fn probe(
        mut self,
        interval_us: u32,
        mut progress: impl FnMut(usize),
    ) -> Result<Vec<StageRecords>, Error> {
        let mut records = Vec::new();
        for acks in [End::Client, End::Server] {
            for stage in [Stage::Long, Stage::Short] {
                progress(records.len());
                let ports = self.ports.pop_front().unwrap_or_default();
                records.push(self.run_stage(stage, acks, interval_us, ports)?);
            }
        }
        Ok(records)
    }

    fn run_stage(
        &mut self,
        stage: Stage,
        acks: End,
        interval_us: u32,
        ports: Vec<u16>,
    ) -> Result<StageRecords, Error> {
        let request = Request::Stage {
            stage,
            acks,
            interval_us,
        };
        self.send(&request)?;
        match self.receive()? {
            Answer::Ready => {}
            other => return Err(unexpected(&other)),
        }
        let script = Script::new(stage, interval_us);
        let endpoint = Endpoint {
            end: End::Client,
            acks,
            here: self.here,
            there: self.there,
            scope_id: self.scope_id,
            port: self.port,
            ports,
        };
        let until = self.began + SESSION_TIMEOUT;
        let engine = Engine::new(&mut self.socket, endpoint, script);
        let client = engine.run(self.control.as_fd(), until)?;
        if !client.connected {
            return Err(Error::NoFlow {
                address: self.there,
                port: self.port,
            });
        }
        self.send(&Request::Collect)?;
        match self.receive()? {
            Answer::Collected => {}
            other => return Err(unexpected(&other)),
        }
        let server = Records {
            sent: self.records(MAX_SENT)?,
            seen: self.records(MAX_RECORDED)?,
            ..Records::default()
        };
        Ok(StageRecords {
            stage,
            acks,
            client,
            server,
        })
    }

    /// Reads at most as many records as a stage can have.
    fn records(&self, most: usize) -> Result<Vec<Record>, Error> {
        match read::<Answer>(&mut self.with_timeout(TRANSFER_TIMEOUT), records_len(most))? {
            Frame::Records(records) => Ok(records),
            Frame::Message(other) => Err(unexpected(&other)),
        }
    }
}

/// Messages are sent at once. The retransmission timer of a lost message does not back off
/// exponentially: few messages are outstanding, and each end waits for each of them.
fn prepare(control: &TcpStream) -> io::Result<()> {
    control.set_nodelay(true)?;
    set_int(control, libc::IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1)
}

/// The option's number in linux/tcp.h.
const TCP_THIN_LINEAR_TIMEOUTS: libc::c_int = 16;

fn unexpected(answer: &Answer) -> Error {
    Error::protocol(&format!("{answer:?} where something else belongs"))
}

fn connect(host: &str, port: u16) -> Result<TcpStream, Error> {
    use std::net::ToSocketAddrs;

    let host = host.to_owned();
    let addresses = match (host.as_str(), port).to_socket_addrs() {
        Ok(addresses) => addresses,
        Err(source) => return Err(Error::NoAddress { host, source }),
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    let source = last;
    Err(Error::NoPartner { host, port, source })
}

/// The partner, with all its sockets open. It can drop all privileges before [`Server::serve`].
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    v4: RawSocket,
    v6: Option<RawSocket>,
    port: u16,
    _quiet: SilentListener,
}

impl Server {
    /// Listens on an address; flows use the next port.
    ///
    /// # Errors
    /// If a port is in use, or a capability is missing.
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        let port = address.port().wrapping_add(1);
        let flows = with_scope(address.ip(), port, scope_id(address));
        let listener = listen(address).map_err(Error::system("listen for clients"))?;
        let only = PortFilter::To(port);
        Ok(Self {
            listener,
            v4: RawSocket::open(false, only)?,
            // The host may have no IPv6.
            v6: RawSocket::open(true, only).ok(),
            port,
            _quiet: SilentListener::bind(flows)?,
        })
    }

    /// The socket that becomes readable when a client connects.
    #[must_use]
    pub fn listener(&self) -> &TcpListener {
        &self.listener
    }

    /// Accepts a client and serves its requests, one client at a time; others are told to retry.
    ///
    /// # Errors
    /// If the client has gone, sent an invalid request, or asked for too much. The server can
    /// continue.
    pub fn serve(&mut self) -> Result<SocketAddr, Error> {
        let (control, from) =
            next_client(&self.listener).map_err(Error::system("take a client"))?;
        prepare(&control).map_err(Error::system("set up the control connection"))?;
        let listener = self
            .listener
            .try_clone()
            .map_err(Error::system("listen for clients"))?;
        let mut session = Session {
            server: self,
            control,
            began: Instant::now(),
        };
        let over = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            scope.spawn(|| refuse_others(&listener, &over));
            let result = session.run();
            over.store(true, Ordering::Relaxed);
            result
        });
        match result {
            Ok(()) => Ok(from),
            Err(error) => {
                let why = error.to_string();
                // The client may have gone.
                let _ = session.send(&Answer::Failed { why });
                Err(error)
            }
        }
    }
}

/// Listens without blocking, so that a client that has gone before it is accepted delays nobody.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Waits for a client, however long it takes.
fn next_client(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    loop {
        match listener.accept() {
            Err(error) if is_transient(&error) => {}
            taken => return taken,
        }
        let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Returns whether there is no client, or it has gone again, or a signal arrived.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
    )
}

/// How often to check whether a session is over.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Tells clients that connect during a session to retry.
fn refuse_others(listener: &TcpListener, over: &AtomicBool) {
    let waits = |timeout: Duration| {
        let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::ZERO);
        // After an error of poll, try to accept, which does not block if there is nobody.
        poll(&mut fds, timeout) != Ok(0)
    };
    refuse(waits, || listener.accept().map(|it| it.0), over);
}

/// Refuses clients as long as the session lasts. After an error, which may persist as long as the
/// waiting client (if no descriptor is free, for example), it retries a little later.
fn refuse(
    mut waits: impl FnMut(Duration) -> bool,
    mut accept: impl FnMut() -> io::Result<TcpStream>,
    over: &AtomicBool,
) {
    let began = Instant::now();
    // Closing a connection at once would discard the message. This many are kept open.
    const MAX_OPEN_REFUSED: usize = 64;
    let mut refused = VecDeque::new();
    while !over.load(Ordering::Relaxed) {
        if !waits(POLL_INTERVAL) || over.load(Ordering::Relaxed) {
            continue;
        }
        match accept() {
            Ok(mut control) => {
                let left = SESSION_TIMEOUT.saturating_sub(began.elapsed()).as_secs() as u32 + 1;
                let busy = Answer::Busy { seconds: left };
                // A new connection has room for a short message; the client may have gone.
                let _ = control.set_nonblocking(true);
                let _ = write_message(&mut control, &busy);
                refused.push_back(control);
                if refused.len() > MAX_OPEN_REFUSED {
                    refused.pop_front();
                }
            }
            Err(_) => {
                // The kept connections may be what uses up the descriptors.
                refused.clear();
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }
}

struct Session<'a> {
    server: &'a mut Server,
    control: TcpStream,
    began: Instant,
}

impl Session<'_> {
    fn with_timeout(&self, timeout: Duration) -> DeadlineStream<'_> {
        DeadlineStream::new(&self.control, self.began, timeout)
    }

    fn send(&self, answer: &Answer) -> Result<(), Error> {
        write_message(&mut self.with_timeout(MESSAGE_TIMEOUT), answer)
    }

    fn run(&mut self) -> Result<(), Error> {
        let Some(Request::Hello { .. }) = self.receive()? else {
            return Err(Error::protocol("no greeting"));
        };
        let welcome = Answer::Welcome {
            version: VERSION,
            port: self.server.port,
        };
        self.send(&welcome)?;
        loop {
            let (stage, acks, interval_us) = match self.receive()? {
                None => return Ok(()),
                Some(Request::Stage {
                    stage,
                    acks,
                    interval_us,
                }) => (stage, acks, interval_us),
                Some(_) => return Err(Error::protocol("a request out of order")),
            };
            let records = self.stage(stage, acks, interval_us)?;
            match self.receive()? {
                Some(Request::Collect) => {}
                None => return Err(Error::Gone),
                Some(_) => return Err(Error::protocol("a request out of order")),
            }
            self.send(&Answer::Collected)?;
            write_records(&mut self.with_timeout(TRANSFER_TIMEOUT), &records.sent)?;
            write_records(&mut self.with_timeout(TRANSFER_TIMEOUT), &records.seen)?;
        }
    }

    fn stage(&mut self, stage: Stage, acks: End, interval_us: u32) -> Result<Records, Error> {
        let failed = Error::system("ask for the addresses of a connection");
        let addresses = self.control.local_addr();
        let addresses = addresses.and_then(|here| Ok((here, self.control.peer_addr()?)));
        let (here, there) = addresses.map_err(failed)?;
        let scope_id = scope_id(there);
        let there = canonical(there);
        let socket = match (there, &mut self.server.v6) {
            (IpAddr::V4(_), _) => &mut self.server.v4,
            (IpAddr::V6(_), Some(socket)) => socket,
            (IpAddr::V6(_), None) => {
                return Err(Error::protocol("IPv6, which this host lacks"));
            }
        };
        // Discard what is left of an earlier stage.
        socket.drain();
        let endpoint = Endpoint {
            end: End::Server,
            acks,
            here: canonical(here),
            there,
            scope_id,
            port: self.server.port,
            ports: Vec::new(),
        };
        let script = Script::new(stage, interval_us);
        let mut stream = DeadlineStream::new(&self.control, self.began, MESSAGE_TIMEOUT);
        write_message(&mut stream, &Answer::Ready)?;
        let until = self.began + SESSION_TIMEOUT;
        Engine::new(socket, endpoint, script).run(self.control.as_fd(), until)
    }

    /// The next request; `None` if the client has closed the connection.
    fn receive(&mut self) -> Result<Option<Request>, Error> {
        let mut stream = self.with_timeout(MESSAGE_TIMEOUT);
        match stream.is_over() {
            Ok(true) => return Ok(None),
            Ok(false) => {}
            Err(source) => {
                return Err(Error::System {
                    what: "hear the client",
                    source,
                });
            }
        }
        match read(&mut stream, MAX_REQUEST)? {
            Frame::Message(request) => Ok(Some(request)),
            Frame::Records(_) => Err(Error::protocol("records from a client")),
        }
    }
}

/// The control connection with a deadline, however slowly the other end reads and writes.
struct DeadlineStream<'a> {
    control: &'a TcpStream,
    until: Instant,
}

impl<'a> DeadlineStream<'a> {
    /// Limited to `timeout` from now, and to the end of a session that began at `began`.
    fn new(control: &'a TcpStream, began: Instant, timeout: Duration) -> Self {
        Self {
            control,
            until: (Instant::now() + timeout).min(began + SESSION_TIMEOUT),
        }
    }

    /// The remaining time.
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(timed_out());
        }
        Ok(Some(left))
    }

    /// Waits, and returns whether the other end has closed the connection.
    fn is_over(&self) -> io::Result<bool> {
        self.control.set_read_timeout(self.left()?)?;
        let waiting = self.control.peek(&mut [0]).map_err(describe)?;
        Ok(waiting == 0)
    }
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the other end takes too long")
}

/// Replaces the error of a timeout, which a socket reports as "would block".
fn describe(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => timed_out(),
        _ => error,
    }
}

impl Read for DeadlineStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.control.set_read_timeout(self.left()?)?;
        self.control.read(buffer).map_err(describe)
    }
}

impl Write for DeadlineStream<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.control.set_write_timeout(self.left()?)?;
        self.control.write(buffer).map_err(describe)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// The waiting client stays readable while no descriptor is free for it.
    #[test]
    fn an_error_that_stays_takes_no_processor() {
        let (over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let accept = || {
                    asked.fetch_add(1, Ordering::Relaxed);
                    Err(io::Error::from_raw_os_error(libc::EMFILE))
                };
                refuse(|_| true, accept, &over);
            });
            std::thread::sleep(10 * POLL_INTERVAL);
            over.store(true, Ordering::Relaxed);
        });
        let asked = asked.into_inner();
        assert!((1..=11).contains(&asked), "{asked}");
    }

    /// Whatever poll has reported, the client may have gone before it is accepted. The session that
    /// waits for this thread still ends.
    #[test]
    fn nobody_waits_for_a_client_that_is_gone() {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let refusing = scope.spawn(|| {
                refuse(|_| true, || listener.accept().map(|it| it.0), &over);
            });
            std::thread::sleep(POLL_INTERVAL);
            over.store(true, Ordering::Relaxed);
            for _ in 0..100 {
                if refusing.is_finished() {
                    return;
                }
                std::thread::sleep(POLL_INTERVAL);
            }
            // Let the thread go, so that this test ends.
            let address = listener.local_addr().expect("an address");
            let _ = TcpStream::connect(address);
            panic!("it waits for a client");
        });
    }

    #[test]
    fn one_that_comes_during_a_session_is_told_and_one_that_comes_later_is_taken() {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let address = listener.local_addr().expect("an address");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| refuse_others(&listener, &over));
            let mut control = TcpStream::connect(address).expect("a listener");
            let answer = read::<Answer>(&mut control, MAX_ANSWER);
            over.store(true, Ordering::Relaxed);
            let Ok(Frame::Message(Answer::Busy { seconds })) = answer else {
                panic!("{answer:?}");
            };
            assert!(seconds > 170, "{seconds}");
        });
        let control = TcpStream::connect(address).expect("a listener");
        let (_, from) = next_client(&listener).expect("a client");
        assert_eq!(from, control.local_addr().expect("an address"));
    }
}
