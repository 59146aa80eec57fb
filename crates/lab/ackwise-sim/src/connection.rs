//! What the engine records of a connection, and of the connections of a flow.

use ackwise_queue::Nanos;
use ackwise_scenario::Histogram;

use crate::count::Tally;
use crate::endpoint::{Sink, Source};
use crate::time::NEVER;

/// A connection: its two ends, and what the engine records of it.
pub struct Connection<S, R> {
    /// The end that sends data.
    pub source: S,
    /// The end that receives data.
    pub sink: R,
    /// Number of its flow in the scenario.
    pub flow: u32,
    /// Where the routes of its data and of its ACKs begin in the table of routes.
    pub(crate) routes: [u32; 2],
    /// When the pending timer event of the sender is due.
    pub(crate) source_due: Nanos,
    /// When the pending timer event of the receiver is due.
    pub(crate) sink_due: Nanos,
    /// Packets that are in flight.
    pub in_flight: u32,
    /// RTT samples counted so far.
    pub(crate) rtts: u64,
    /// Delivered bytes counted so far.
    pub delivered: u64,
    /// Delivered bytes at which the application acts.
    pub goal: u64,
    /// Number of its application.
    pub app: u32,
    /// Index of this connection within its application.
    pub role: u32,
    /// The other direction of a two-way connection, or [`NO_PEER`].
    pub(crate) peer: u32,
    /// Whether its application waits until the sender is done.
    pub await_end: bool,
    /// The window scale.
    pub(crate) shift: u8,
    /// When data were first sent; for a transfer, when its connection was opened.
    pub first: Nanos,
    /// When data last arrived in order.
    pub last: Nanos,
}

/// The peer of a connection whose data go one way only.
pub(crate) const NO_PEER: u32 = u32::MAX;

/// How a flow's connections are made.
#[derive(Debug, Clone)]
pub struct Template<A, B> {
    /// Configuration of the sender.
    pub source: A,
    /// Configuration of the receiver.
    pub sink: B,
    /// Where its routes begin in the table of routes: of data, and of ACKs.
    pub routes: [u32; 2],
    /// The window scale.
    pub shift: u8,
    /// Payload of a full segment.
    pub mss: u32,
}

/// What is counted for a flow.
#[derive(Debug, Default)]
pub struct Counted {
    /// What crossed the wire.
    pub tally: Tally,
    /// Round-trip times.
    pub rtt: Histogram,
    /// Sums over connections whose slot has been reused.
    pub past: Sums,
}

/// Sums over connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    /// Bytes delivered.
    pub bytes: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Retransmission timeouts; `None` if a sender does not report them.
    pub timeouts: Option<u64>,
    /// When the first data were sent; `Nanos::MAX` if none were.
    pub first: Nanos,
    /// When the last data were received.
    pub last: Nanos,
}

impl Default for Sums {
    fn default() -> Sums {
        Sums {
            bytes: 0,
            retransmits: 0,
            timeouts: Some(0),
            first: NEVER,
            last: 0,
        }
    }
}

impl Sums {
    /// Adds a connection.
    pub fn add<S: Source, R: Sink>(&mut self, connection: &Connection<S, R>) {
        let view = connection.source.view();
        self.bytes += connection.delivered;
        self.retransmits += view.retransmits;
        self.timeouts = self.timeouts.zip(view.timeouts).map(|(a, b)| a + b);
        self.first = self.first.min(connection.first);
        self.last = self.last.max(connection.last);
    }
}
