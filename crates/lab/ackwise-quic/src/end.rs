//! The two ends of a connection.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, Event, StreamEvent,
    StreamId,
};

use crate::config::Config;

/// The content of streams.
static ZEROES: [u8; 65536] = [0; 65536];

/// The origin of time; quinn-proto only looks at differences.
static START: OnceLock<Instant> = OnceLock::new();

fn instant(now_ns: u64) -> Instant {
    *START.get_or_init(Instant::now) + Duration::from_nanos(now_ns)
}

fn nanoseconds(at: Instant) -> u64 {
    let since = at.saturating_duration_since(instant(0));
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A UDP payload in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// Its bytes.
    pub bytes: Bytes,
    /// Whether the IP header says that the endpoints understand marks (ECT(0)).
    pub ect: bool,
    /// Whether a queue has marked it (CE).
    pub ce: bool,
}

/// The state of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Smoothed round-trip time, ns; `None` before the first ACK of data.
    pub srtt_ns: Option<u64>,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// ACK frames received.
    pub acks: u64,
    /// Bytes that were supplied and written to the stream.
    pub written: u64,
    /// Whether everything supplied is acknowledged, and no more will come.
    pub finished: bool,
}

/// An endpoint with its single connection.
struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// The address of the other end.
    remote: SocketAddr,
    /// Datagrams with which the endpoint itself answers.
    answers: VecDeque<Datagram>,
    buffer: Vec<u8>,
    timer: Option<Instant>,
}

impl End {
    fn new(endpoint: Endpoint, remote: u8) -> End {
        End {
            endpoint,
            connection: None,
            remote: SocketAddr::from((Ipv4Addr::new(192, 0, 2, remote), 443)),
            answers: VecDeque::new(),
            buffer: Vec::new(),
            timer: None,
        }
    }

    fn receive(&mut self, datagram: &Datagram, now: Instant) {
        let ecn = match (datagram.ce, datagram.ect) {
            (true, _) => Some(EcnCodepoint::Ce),
            (false, true) => Some(EcnCodepoint::Ect0),
            (false, false) => None,
        };
        let bytes = BytesMut::from(&datagram.bytes[..]);
        self.buffer.clear();
        let event = self
            .endpoint
            .handle(now, self.remote, None, ecn, bytes, &mut self.buffer);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut self.buffer, None);
                if let Ok(made) = accepted {
                    self.connection = Some(made);
                }
            }
            Some(DatagramEvent::Response(transmit)) => self.answers.push_back(Datagram {
                bytes: Bytes::copy_from_slice(&self.buffer[..transmit.size]),
                ect: false,
                ce: false,
            }),
            None => {}
        }
        self.exchange();
    }

    fn time_out(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(now);
        }
        self.exchange();
    }

    /// Exchanges events between the connection and its endpoint.
    fn exchange(&mut self) {
        let Some((handle, connection)) = &mut self.connection else {
            return;
        };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
        self.timer = connection.poll_timeout();
    }

    fn transmit(&mut self, now: Instant) -> Option<Datagram> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        self.buffer.clear();
        let (_, connection) = self.connection.as_mut()?;
        let transmit = connection.poll_transmit(now, 1, &mut self.buffer);
        self.timer = connection.poll_timeout();
        let transmit = transmit?;
        Some(Datagram {
            bytes: Bytes::copy_from_slice(&self.buffer[..transmit.size]),
            ect: transmit.ecn == Some(EcnCodepoint::Ect0),
            ce: false,
        })
    }
}

/// The end that opens the connection, and sends.
pub struct Client {
    end: End,
    config: Config,
    stream: Option<StreamId>,
    /// Bytes that wait for the stream; `None` for an endless supply.
    left: Option<u64>,
    /// Whether no more will be supplied.
    last: bool,
    finishing: bool,
    stats: Stats,
}

impl Client {
    /// An end that has nothing to send yet. The configuration must pass [`Config::check`].
    #[must_use]
    pub fn new(config: &Config) -> Client {
        let endpoint = Endpoint::new(Arc::new(config.endpoint(1)), None, true, None);
        Client {
            end: End::new(endpoint, 2),
            config: *config,
            stream: None,
            left: Some(0),
            last: false,
            finishing: false,
            stats: Stats::default(),
        }
    }

    /// Supplies `bytes` more bytes from the application, or endless data if `None`. With `last`, no
    /// more will follow.
    pub fn supply(&mut self, bytes: Option<u64>, last: bool, now_ns: u64) {
        self.left = match (self.left, bytes) {
            (Some(left), Some(bytes)) => Some(left.saturating_add(bytes)),
            _ => None,
        };
        self.last |= last;
        if self.end.connection.is_none() {
            let (config, remote) = (self.config.client(), self.end.remote);
            let made = self
                .end
                .endpoint
                .connect(instant(now_ns), config, remote, "receiver");
            self.end.connection = made.ok();
            self.end.exchange();
        }
        self.write();
    }

    /// Handles a datagram from the other end.
    pub fn on_datagram(&mut self, datagram: &Datagram, now_ns: u64) {
        self.end.receive(datagram, instant(now_ns));
        self.poll_events();
    }

    /// Call this when the time of [`next_timer`](Self::next_timer) has come.
    pub fn on_timer(&mut self, now_ns: u64) {
        self.end.time_out(instant(now_ns));
        self.poll_events();
    }

    /// The next datagram that may leave now.
    pub fn poll_transmit(&mut self, now_ns: u64) -> Option<Datagram> {
        let datagram = self.end.transmit(instant(now_ns));
        self.update_stats();
        datagram
    }

    /// When to call [`on_timer`](Self::on_timer), ns.
    #[must_use]
    pub fn next_timer(&self) -> Option<u64> {
        self.end.timer.map(nanoseconds)
    }

    /// The state of the sender.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    fn poll_events(&mut self) {
        while let Some((_, connection)) = &mut self.end.connection {
            match connection.poll() {
                Some(Event::Connected) => self.stream = connection.streams().open(Dir::Uni),
                Some(Event::Stream(StreamEvent::Finished { .. })) => self.stats.finished = true,
                Some(_) => {}
                None => break,
            }
        }
        self.write();
    }

    /// Writes as much as the stream accepts.
    fn write(&mut self) {
        let (Some((_, connection)), Some(id)) = (&mut self.end.connection, self.stream) else {
            return self.update_stats();
        };
        let mut stream = connection.send_stream(id);
        while self.left != Some(0) {
            let most = ZEROES.len() as u64;
            let chunk = self.left.unwrap_or(most).min(most) as usize;
            match stream.write(&ZEROES[..chunk]) {
                Ok(bytes) => {
                    self.stats.written += bytes as u64;
                    self.left = self.left.map(|left| left - bytes as u64);
                }
                Err(_) => break,
            }
        }
        if self.last && self.left == Some(0) && !self.finishing {
            self.finishing = stream.finish().is_ok();
        }
        self.update_stats();
    }

    fn update_stats(&mut self) {
        let Some((_, connection)) = &self.end.connection else {
            return;
        };
        let seen = connection.stats();
        let acked = seen.frame_rx.acks > 0;
        self.stats.srtt_ns = acked.then_some(seen.path.rtt.as_nanos() as u64);
        self.stats.cwnd = seen.path.cwnd;
        self.stats.lost_packets = seen.path.lost_packets;
        self.stats.acks = seen.frame_rx.acks;
    }
}

/// The end that receives and acknowledges.
pub struct Server {
    end: End,
    stream: Option<StreamId>,
    delivered: u64,
}

impl Server {
    /// An end that waits for a connection. The configuration must pass [`Config::check`].
    #[must_use]
    pub fn new(config: &Config) -> Server {
        let server = Arc::new(config.server());
        let endpoint = Endpoint::new(Arc::new(config.endpoint(2)), Some(server), true, None);
        Server {
            end: End::new(endpoint, 1),
            stream: None,
            delivered: 0,
        }
    }

    /// Handles a datagram from the other end.
    pub fn on_datagram(&mut self, datagram: &Datagram, now_ns: u64) {
        self.end.receive(datagram, instant(now_ns));
        self.poll_events();
    }

    /// Call this when the time of [`next_timer`](Self::next_timer) has come.
    pub fn on_timer(&mut self, now_ns: u64) {
        self.end.time_out(instant(now_ns));
        self.poll_events();
    }

    /// The next datagram that may leave now.
    pub fn poll_transmit(&mut self, now_ns: u64) -> Option<Datagram> {
        self.end.transmit(instant(now_ns))
    }

    /// When to call [`on_timer`](Self::on_timer), ns.
    #[must_use]
    pub fn next_timer(&self) -> Option<u64> {
        self.end.timer.map(nanoseconds)
    }

    /// Bytes delivered to the application in order.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    fn poll_events(&mut self) {
        while let Some((_, connection)) = &mut self.end.connection {
            let Some(event) = connection.poll() else {
                break;
            };
            match event {
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    self.stream = connection.streams().accept(Dir::Uni);
                    self.read();
                }
                Event::Stream(StreamEvent::Readable { .. }) => self.read(),
                _ => {}
            }
        }
        self.end.exchange();
    }

    fn read(&mut self) {
        let (Some((_, connection)), Some(id)) = (&mut self.end.connection, self.stream) else {
            return;
        };
        let mut stream = connection.recv_stream(id);
        if let Ok(mut chunks) = stream.read(true) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                self.delivered += chunk.bytes.len() as u64;
            }
            // The window update leaves with the next datagram.
            let _ = chunks.finalize();
        }
    }
}
