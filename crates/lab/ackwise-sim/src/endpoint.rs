//! The interface between the engine and the two ends of a connection.

use ackwise_queue::Nanos;

use crate::packet::{FlowId, Packet};

/// One end of a connection.
///
/// After [`on_packet`](Self::on_packet) and [`on_timer`](Self::on_timer) the
/// engine calls [`poll_transmit`](Self::poll_transmit) until it returns `None`,
/// then [`next_timer`](Self::next_timer). Timers of the engine are lazy: one
/// that was postponed is checked when it would have fired.
pub trait End {
    /// A packet arrived.
    fn on_packet(&mut self, packet: &Packet, now: Nanos);
    /// The time of [`next_timer`](Self::next_timer) has come; the call may be early.
    fn on_timer(&mut self, now: Nanos);
    /// The next packet that may leave now.
    fn poll_transmit(&mut self, now: Nanos) -> Option<Packet>;
    /// Like [`poll_transmit`](Self::poll_transmit), but writes the packet to its final place, and returns
    /// whether there is one. Copying it twice costs more than making it.
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
    /// Configuration of the sender.
    type Config;
    /// An end that has nothing to send yet.
    fn open(config: &Self::Config, flow: FlowId) -> Self;
    /// The application hands over data; [`Supply::Endless`] means as much as can be sent.
    fn supply(&mut self, supply: Supply, now: Nanos);
    /// The round-trip times measured so far.
    fn rtt(&self) -> RttSamples;
    /// The state of the sender.
    fn view(&self) -> SourceView;
}

/// The end that receives and acknowledges.
pub trait Sink: End {
    /// Configuration of the receiver.
    type Config;
    /// An end that expects the first byte.
    fn open(config: &Self::Config, flow: FlowId) -> Self;
    /// Bytes delivered in order to the application.
    fn delivered(&self) -> u64;
    /// The ACK that data of the other direction can carry now, in place of a pure ACK;
    /// `None` if nothing has arrived yet.
    fn piggyback(&mut self, now: Nanos) -> Option<Packet> {
        let _ = now;
        None
    }
}

/// Round-trip times that a sender has measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RttSamples {
    /// How many samples there are.
    pub count: u64,
    /// The last sample.
    pub last: Nanos,
}

/// Data of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// This many more bytes.
    Bytes(u64),
    /// This many more bytes, and then the end.
    Last(u64),
    /// Data without end.
    Endless,
}

/// The state of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceView {
    /// Smoothed round-trip time, if one was measured.
    pub srtt: Option<Nanos>,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `None` while it is infinite.
    pub ssthresh: Option<u64>,
    /// Bytes in flight, if the sender reports them.
    pub in_flight: Option<u64>,
    /// Payload of a full segment.
    pub mss: u32,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Retransmission timeouts, if the sender reports them.
    pub timeouts: Option<u64>,
    /// Bytes sent at least once.
    pub sent: u64,
    /// Whether everything supplied is acknowledged and no more will come.
    pub finished: bool,
}
