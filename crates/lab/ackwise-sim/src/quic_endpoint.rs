//! QUIC endpoints of `ackwise-quic`, as ends of the engine.
//!
//! A simulated packet has no content, but a QUIC packet is nothing but content. So the datagrams of a
//! connection are stored beside it, and a packet refers to its datagram by number.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ackwise_queue::Nanos;
use ackwise_quic::{AckFrequency, Client, Config, Congestion, Datagram, Server};
use ackwise_scenario::{Flow, Quic};

use crate::endpoint::{End, RttSamples, Sink, Source, SourceView, Supply};
use crate::packet::{AckRateOption, Direction, Flags, FlowId, Packet, Sack};

/// Bytes of an IPv4 and a UDP header.
const HEADERS: u32 = 28;
/// Bytes of a full datagram that are not data: short header, connection ID, packet number, frame, tag.
const OVERHEAD: u32 = 36;
/// How much the receiver lets the sender have outstanding unless the flow configures it, in bytes: as
/// much as Linux TCP, so that both meet the same limit.
const WINDOW: u64 = 4_000_000;
/// Memory of the two endpoints of a connection beside its data, in bytes, rounded up.
const CONNECTION_BYTES: u64 = 200_000;
/// A datagram counts as lost once this many have followed it.
const MAX_IN_FLIGHT: usize = 1 << 16;

/// Datagrams of one direction, by number.
#[derive(Debug, Default)]
struct Lane {
    /// Number of the first datagram.
    base: u64,
    datagrams: VecDeque<Option<Datagram>>,
}

impl Lane {
    fn put(&mut self, datagram: Datagram) -> u64 {
        if self.datagrams.len() == MAX_IN_FLIGHT {
            self.datagrams.pop_front();
            self.base += 1;
        }
        self.datagrams.push_back(Some(datagram));
        self.base + self.datagrams.len() as u64 - 1
    }

    /// Takes the datagram with this number. A duplicate packet finds none; QUIC would discard it anyway.
    fn take(&mut self, number: u64) -> Option<Datagram> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        let taken = self.datagrams.get_mut(at)?.take();
        while let Some(None) = self.datagrams.front() {
            self.datagrams.pop_front();
            self.base += 1;
        }
        taken
    }
}

/// Both directions of a connection: the lane of its data and that of its ACKs.
type Wire = Arc<Mutex<[Lane; 2]>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Configuration shared by both ends of a flow's connections.
#[derive(Debug)]
pub struct QuicConfig {
    quic: Config,
    wires: Mutex<HashMap<FlowId, Wire>>,
}

impl QuicConfig {
    /// The configuration of a flow.
    ///
    /// # Errors
    ///
    /// Says which option of the flow QUIC does not have.
    pub fn of(flow: &Flow, quic: &Quic, cc: &str, mtu: u32, seed: u64) -> Result<Self, String> {
        let congestion = congestion(cc).ok_or_else(|| {
            let have = CONGESTION_CONTROLS.join(", ");
            format!("runs QUIC with '{cc}', which the simulator does not have for QUIC; choose one of {have}")
        })?;
        let datagram = u16::try_from(mtu.saturating_sub(HEADERS)).unwrap_or(u16::MAX);
        let quic = Config {
            congestion,
            datagram,
            window: window(flow),
            ack_frequency: quic.ack_eliciting_threshold.map(|packets| AckFrequency {
                packets,
                max_ack_delay: quic.max_ack_delay,
            }),
            seed,
        };
        match quic.check() {
            Ok(()) => Ok(QuicConfig {
                quic,
                wires: Mutex::default(),
            }),
            Err(why) => Err(format!("has links of {mtu} bytes: {why}")),
        }
    }

    /// Payload of a full packet, in bytes of the stream.
    pub fn mss(&self) -> u32 {
        u32::from(self.quic.datagram) - OVERHEAD
    }
}

fn window(flow: &Flow) -> u64 {
    flow.socket.receive_buffer.unwrap_or(WINDOW)
}

/// The maximum memory of a connection of the flow, in bytes: quinn-proto keeps what it has sent until it
/// is acknowledged.
pub(crate) fn memory(flow: &Flow) -> u64 {
    CONNECTION_BYTES.saturating_add(window(flow))
}

/// The congestion controls that a flow over QUIC may run with.
pub const CONGESTION_CONTROLS: [&str; 3] = ["reno", "cubic", "bbr"];

fn congestion(cc: &str) -> Option<Congestion> {
    match cc {
        "cubic" => Some(Congestion::Cubic),
        "reno" => Some(Congestion::NewReno),
        "bbr" => Some(Congestion::Bbr),
        _ => None,
    }
}

/// Stores a datagram in its lane, and returns the packet of the simulator that refers to it.
fn packet(
    flow: FlowId,
    direction: Direction,
    datagram: Datagram,
    wire: &Wire,
    delivered: u64,
) -> Packet {
    let payload = u32::try_from(datagram.bytes.len()).unwrap_or(u32::MAX);
    let mut flags = Flags::UDP;
    flags.set(Flags::ECT, datagram.ect);
    let number = lock(wire)[direction as usize].put(datagram);
    Packet {
        flow,
        direction,
        ack_rate: AckRateOption::NONE,
        flags,
        wire_len: HEADERS + payload,
        payload,
        seq: number,
        ack: delivered,
        window: 0,
        tsval: 0,
        tsecr: 0,
        sack: Sack::default(),
    }
}

/// The datagram of a packet, with the marks of the path.
fn datagram(packet: &Packet, wire: &Wire) -> Option<Datagram> {
    let taken = lock(wire)[packet.direction as usize].take(packet.seq)?;
    Some(Datagram {
        ce: packet.flags.contains(Flags::CE),
        ..taken
    })
}

/// The end that sends data.
pub struct QuicSender {
    flow: FlowId,
    client: Client,
    wire: Wire,
    mss: u32,
}

impl End for QuicSender {
    fn on_packet(&mut self, packet: &Packet, now: Nanos) {
        if let Some(datagram) = datagram(packet, &self.wire) {
            self.client.on_datagram(&datagram, now);
        }
    }
    fn on_timer(&mut self, now: Nanos) {
        self.client.on_timer(now);
    }
    fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        let datagram = self.client.poll_transmit(now)?;
        Some(packet(self.flow, Direction::Data, datagram, &self.wire, 0))
    }
    fn next_timer(&self) -> Option<Nanos> {
        self.client.next_timer()
    }
}

impl Source for QuicSender {
    type Config = Arc<QuicConfig>;

    fn open(config: &Self::Config, flow: FlowId) -> Self {
        let wire = Wire::default();
        lock(&config.wires).insert(flow, Arc::clone(&wire));
        QuicSender {
            flow,
            client: Client::new(&config.quic),
            wire,
            mss: config.mss(),
        }
    }

    fn supply(&mut self, supply: Supply, now: Nanos) {
        match supply {
            Supply::Endless => self.client.supply(None, false, now),
            Supply::Bytes(bytes) => self.client.supply(Some(bytes), false, now),
            Supply::Last(bytes) => self.client.supply(Some(bytes), true, now),
        }
    }

    /// The smoothed round-trip time at each ACK: quinn-proto does not expose the samples.
    fn rtt(&self) -> RttSamples {
        let stats = self.client.stats();
        RttSamples {
            count: stats.acks,
            last: stats.srtt_ns.unwrap_or_default(),
        }
    }

    fn view(&self) -> SourceView {
        let stats = self.client.stats();
        SourceView {
            srtt: stats.srtt_ns,
            cwnd: stats.cwnd,
            ssthresh: None,
            in_flight: None,
            mss: self.mss,
            retransmits: stats.lost_packets,
            timeouts: None,
            sent: stats.written,
            finished: stats.finished,
        }
    }
}

/// The end that receives and acknowledges.
pub struct QuicReceiver {
    flow: FlowId,
    server: Server,
    wire: Wire,
}

impl End for QuicReceiver {
    fn on_packet(&mut self, packet: &Packet, now: Nanos) {
        if let Some(datagram) = datagram(packet, &self.wire) {
            self.server.on_datagram(&datagram, now);
        }
    }
    fn on_timer(&mut self, now: Nanos) {
        self.server.on_timer(now);
    }
    fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        let datagram = self.server.poll_transmit(now)?;
        let delivered = self.server.delivered();
        Some(packet(
            self.flow,
            Direction::Ack,
            datagram,
            &self.wire,
            delivered,
        ))
    }
    fn next_timer(&self) -> Option<Nanos> {
        self.server.next_timer()
    }
}

impl Sink for QuicReceiver {
    type Config = Arc<QuicConfig>;

    /// The sender was opened first and made the lanes between the two.
    fn open(config: &Self::Config, flow: FlowId) -> Self {
        let wire = lock(&config.wires).get(&flow).map(Arc::clone);
        QuicReceiver {
            flow,
            server: Server::new(&config.quic),
            wire: wire.unwrap_or_default(),
        }
    }

    fn delivered(&self) -> u64 {
        self.server.delivered()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(byte: u8) -> Datagram {
        Datagram {
            bytes: vec![byte].into(),
            ect: false,
            ce: false,
        }
    }

    #[test]
    fn a_datagram_is_taken_once_in_any_order() {
        let mut lane = Lane::default();
        let numbers: Vec<u64> = (0..5).map(|byte| lane.put(datagram(byte))).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        assert_eq!(lane.take(3), Some(datagram(3)));
        assert_eq!(lane.take(0), Some(datagram(0)));
        assert_eq!(
            (lane.take(0), lane.take(3), lane.take(9)),
            (None, None, None)
        );
        assert_eq!(lane.put(datagram(5)), 5);
        // Datagram 1 was lost: a datagram this far behind it takes its place.
        for _ in 0..MAX_IN_FLIGHT {
            lane.put(datagram(6));
        }
        assert_eq!(lane.take(1), None);
        assert_eq!(lane.datagrams.len(), MAX_IN_FLIGHT);
    }
}
