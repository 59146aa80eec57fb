//! What the engine asks of the two ends of a connection.

use ackwise_queue::Nanos;

use crate::packet::{FlowId, Packet};

/// One end of a connection.
///
/// After [`on_packet`](Self::on_packet) and [`on_timer`](Self::on_timer) the
/// engine asks [`poll_transmit`](Self::poll_transmit) until it returns `None`,
/// then [`next_timer`](Self::next_timer). Timers of the engine are lazy: one
/// that was put off is looked at when it would have fired.
pub trait End {
    /// A packet arrived.
    fn on_packet(&mut self, packet: &Packet, now: Nanos);
    /// The time of [`next_timer`](Self::next_timer) has come; it may be early.
    fn on_timer(&mut self, now: Nanos);
    /// The next packet that may leave now.
    fn poll_transmit(&mut self, now: Nanos) -> Option<Packet>;
    /// As [`poll_transmit`](Self::poll_transmit), but writes the packet where it will stay, and says
    /// whether there is one. To copy it twice costs more than to make it.
    #[inline]
    fn transmit_into(&mut self, place: &mut Packet, now: Nanos) -> bool {
        match self.poll_transmit(now) {
            Some(packet) => {
                *place = packet;
                true
            }
            None => false,
        }
    }
    /// When to call [`on_timer`](Self::on_timer).
    fn next_timer(&self) -> Option<Nanos>;
}

/// The end that sends data.
pub trait Source: End {
    /// What it is made from.
    type Config;
    /// An end that has nothing to send yet.
    fn open(config: &Self::Config, flow: FlowId) -> Self;
    /// The application hands over data; [`Supply::Endless`] for as much as goes.
    fn supply(&mut self, supply: Supply, now: Nanos);
    /// The round-trip times that were measured.
    fn rtt(&self) -> RttSamples;
    /// How it stands.
    fn view(&self) -> SourceView;
}

/// The end that receives and acknowledges.
pub trait Sink: End {
    /// What it is made from.
    type Config;
    /// An end that expects the first byte.
    fn open(config: &Self::Config, flow: FlowId) -> Self;
    /// Bytes that the application was given, in order.
    fn delivered(&self) -> u64;
    /// What data of the other direction, which leave now, can say in the place of an
    /// ACK; `None` if nothing arrived yet.
    fn piggyback(&mut self, now: Nanos) -> Option<Packet> {
        let _ = now;
        None
    }
}

/// Round-trip times that a sender has measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RttSamples {
    /// How many there are.
    pub count: u64,
    /// The last of them.
    pub last: Nanos,
}

/// Data of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// This many bytes more.
    Bytes(u64),
    /// This many bytes more, and then the end.
    Last(u64),
    /// Without end.
    Endless,
}

/// How a sender stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceView {
    /// Smoothed round-trip time, if there is one.
    pub srtt: Option<Nanos>,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `None` while it is infinite.
    pub ssthresh: Option<u64>,
    /// Bytes in flight, if it tells.
    pub in_flight: Option<u64>,
    /// Payload of a full segment.
    pub mss: u32,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts, if it tells.
    pub timeouts: Option<u64>,
    /// Bytes sent at least once.
    pub sent: u64,
    /// Everything supplied is acknowledged, and no more will come.
    pub finished: bool,
}
