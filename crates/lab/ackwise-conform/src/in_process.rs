//! Devices that are code of this process: a queue before the suite's shaper.

use std::collections::VecDeque;
use std::net::SocketAddr;

use ackwise_policy::{LinkKind, Segment, TcpFlags, parse};
use ackwise_queue::{
    Discipline, Ecn, FilterConfig, FilterRule, Packet, Place, QueueConfig, QueueDiscipline as _,
    QueueLimit, Queued,
};

use crate::device::{Arrival, Device, Error};
use crate::packet::Side;
use crate::schedule::{Schedule, Shaper};

/// A queue that may filter waiting packets.
pub trait QueueFilter {
    /// Takes an arriving packet of the ACKs' direction.
    fn enqueue(&mut self, now_ns: u64, packet: Vec<u8>);

    /// Returns the next packet to leave.
    fn dequeue(&mut self, now_ns: u64) -> Option<Vec<u8>>;

    /// Sees a packet that passes in the other direction.
    fn sees_data(&mut self, _now_ns: u64, _packet: &[u8]) {}
}

/// A [`QueueFilter`] in front of [`Shaper::SUITE`]. Packets of the other direction arrive at
/// once.
#[derive(Debug)]
pub struct InProcess<F> {
    name: String,
    filter: F,
}

impl<F: QueueFilter> InProcess<F> {
    /// A device with this name.
    pub fn new(name: impl Into<String>, filter: F) -> Self {
        Self {
            name: name.into(),
            filter,
        }
    }
}

impl<F: QueueFilter> Device for InProcess<F> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn shaper(&self) -> Shaper {
        Shaper::SUITE
    }

    fn run(&mut self, schedule: &Schedule) -> Result<Vec<Arrival>, Error> {
        let rate = Shaper::SUITE.rate_bps.unwrap_or(1);
        let mut arrivals = Vec::new();
        // Time at which the wire becomes free.
        let mut free_ns = 0;
        let mut leave = |filter: &mut F, until_ns: u64, arrivals: &mut Vec<Arrival>| {
            while free_ns < until_ns {
                let Some(packet) = filter.dequeue(free_ns) else {
                    break;
                };
                let bytes = packet.len() as u64 + Shaper::SUITE.overhead;
                free_ns += bytes * 8 * 1_000_000_000 / rate;
                arrivals.push(Arrival {
                    at_ns: free_ns,
                    from: Side::Receiver,
                    packet,
                });
            }
            free_ns = free_ns.max(until_ns);
        };
        for departure in schedule.departures() {
            leave(&mut self.filter, departure.at_ns, &mut arrivals);
            match departure.from {
                Side::Receiver => self.filter.enqueue(departure.at_ns, departure.packet),
                Side::Sender => {
                    self.filter.sees_data(departure.at_ns, &departure.packet);
                    arrivals.push(Arrival {
                        at_ns: departure.at_ns,
                        from: Side::Sender,
                        packet: departure.packet,
                    });
                }
            }
        }
        leave(&mut self.filter, schedule.end_ns(), &mut arrivals);
        arrivals.sort_by_key(|it| it.at_ns);
        Ok(arrivals)
    }
}

/// A queue of `ackwise-queue`, with or without one of its filters.
#[derive(Debug)]
pub struct Queue {
    discipline: Discipline<Waiting>,
    evicted: VecDeque<ackwise_queue::Evicted<Waiting>>,
}

impl Queue {
    /// A plain queue without a filter, which passes everything.
    #[must_use]
    pub fn plain() -> Self {
        Self::with(None)
    }

    /// The filter of `ackwise gateway`: RFC 3449's filter, restricted by the contract.
    #[must_use]
    pub fn contract() -> Self {
        Self::with(Some(FilterRule::Rfc3449 {
            keep: 0,
            place: Place::Append,
            max_stretch: None,
        }))
    }

    /// A model of ns-2's semantic packet queue with `filteracks_`.
    #[must_use]
    pub fn ns2() -> Self {
        Self::with(Some(FilterRule::Ns2Append))
    }

    fn with(rule: Option<FilterRule>) -> Self {
        let config = QueueConfig {
            ack_filter: rule.map(FilterConfig::new),
            ..QueueConfig::drop_tail(QueueLimit::Unlimited)
        };
        Self {
            discipline: Discipline::new(&config),
            evicted: VecDeque::new(),
        }
    }
}

impl QueueFilter for Queue {
    fn enqueue(&mut self, now_ns: u64, packet: Vec<u8>) {
        let len = packet.len() as u64 + Shaper::SUITE.overhead;
        let queued = Queued {
            packet: Waiting::new(packet),
            len: len as u32,
            arrived_ns: now_ns,
        };
        // Refused and filtered packets are lost, which the judge will notice.
        drop(self.discipline.enqueue(queued, &mut self.evicted));
        self.evicted.clear();
    }

    fn dequeue(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        let queued = self.discipline.dequeue(now_ns, &mut self.evicted);
        queued.map(|it| it.packet.bytes)
    }
}

/// A waiting packet, with its headers as the contract reads them.
#[derive(Debug, Clone)]
struct Waiting {
    bytes: Vec<u8>,
    segment: Option<Segment>,
}

impl Waiting {
    fn new(bytes: Vec<u8>) -> Self {
        let segment = parse(&bytes, LinkKind::Ip).ok();
        Self { bytes, segment }
    }
}

impl Packet for Waiting {
    type Flow = Option<(SocketAddr, SocketAddr)>;

    fn flow(&self) -> Self::Flow {
        self.segment.as_ref().map(|it| (it.src(), it.dst()))
    }

    fn is_pure_ack(&self) -> bool {
        let opens_or_ends = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
        self.segment.as_ref().is_some_and(|it| {
            it.payload() == 0
                && it.flags().contains(TcpFlags::ACK)
                && !it.flags().intersects(opens_or_ends)
        })
    }

    fn ecn(&self) -> Ecn {
        let class = match self.bytes.first().map(|it| it >> 4) {
            Some(4) => self.bytes[1],
            _ => self.bytes[1] >> 4,
        };
        match class & 3 {
            3 => Ecn::Marked,
            0 => Ecn::NotCapable,
            _ => Ecn::Capable,
        }
    }

    fn mark(&mut self) {}

    fn segment(&self) -> Option<Segment> {
        self.segment
    }

    fn synthesize(&self, _back: u32) -> Option<Self> {
        None
    }
}
