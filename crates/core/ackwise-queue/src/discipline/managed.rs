//! A queue that examines packets: RED, ACK filters, ACKs first.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use super::filter::Filter;
use super::fq_codel::may_overtake;
use super::red::{Decision, Red};
use super::store::{Store, Tag};
use super::{FromConfig, QueueConfig};
use crate::Nanos;
use crate::packet::Packet;
use crate::queue::{DropCause, Evicted, QueueDiscipline, QueueLimit, QueueStats, Queued};

/// The list that is sent first: packets without data if ACKs go first, otherwise all packets.
const FIRST: u32 = 0;
/// The list that is sent after it: packets with data if ACKs go first.
const SECOND: u32 = 1;

/// A queue that may drop or mark early (RED), removes ACKs (an ACK filter), and may send
/// ACKs before data.
#[derive(Debug)]
pub struct Managed<P: Packet> {
    limit: QueueLimit,
    store: Store<P>,
    red: Option<Red>,
    filter: Option<Filter<P::Flow>>,
    acks_first: Option<NonZeroU32>,
    /// Number of ACKs sent in a row while something else waited.
    run: u32,
    stats: QueueStats,
}

impl<P: Packet> Managed<P> {
    fn new(config: &QueueConfig) -> Self {
        Self {
            limit: config.limit,
            store: Store::with_capacity(config.limit.room(), 2),
            red: config.red.map(|red| Red::new(red, config.seed)),
            filter: config
                .ack_filter
                .map(|filter| Filter::new(filter, config.acks_first.is_some())),
            acks_first: config.acks_first,
            run: 0,
            stats: QueueStats::default(),
        }
    }

    fn has_room(&self, len: u32) -> bool {
        let (packets, bytes) = self
            .filter
            .as_ref()
            .map_or((0, 0), |filter| filter.freed(&self.store));
        let packets = self.store.packets() - packets;
        let bytes = self.store.bytes() - bytes;
        match (self.limit, &self.red) {
            (QueueLimit::Bytes(limit), Some(_)) => bytes < limit,
            (limit, _) => limit.has_room(packets, bytes, len),
        }
    }

    /// RED drops or marks an arrival.
    fn early(&mut self, queued: &mut Queued<P>) -> Result<(), DropCause> {
        let Some(red) = &mut self.red else {
            return Ok(());
        };
        let decision = red.arrival(
            self.store.packets(),
            self.store.bytes(),
            queued.len,
            queued.packet.ecn(),
            queued.arrived_ns,
        );
        match decision {
            Decision::Pass => {}
            Decision::Mark => {
                queued.packet.mark();
                self.stats.marks += 1;
            }
            Decision::DropEarly => {
                self.stats.early_drops += 1;
                return Err(DropCause::Discipline);
            }
            Decision::DropForced => {
                self.stats.forced_drops += 1;
                return Err(DropCause::Discipline);
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<u32> {
        let Some(max_run) = self.acks_first else {
            return self.store.first(FIRST);
        };
        match (self.store.first(FIRST), self.store.first(SECOND)) {
            (Some(ack), Some(_)) if self.run < max_run.get() => {
                self.run += 1;
                Some(ack)
            }
            (None | Some(_), Some(other)) => {
                self.run = 0;
                Some(other)
            }
            (ack, None) => ack,
        }
    }
}

/// Whether a packet is data, or has its place behind the data of its flow.
fn belongs_to_data<P: Packet>(packet: &P) -> bool {
    packet.carries_data() || packet.segment().is_some() && !may_overtake(packet)
}

impl<P: Packet> FromConfig for Box<Managed<P>> {
    fn from_config(config: &QueueConfig) -> Option<Self> {
        let asked =
            config.red.is_some() || config.ack_filter.is_some() || config.acks_first.is_some();
        asked.then(|| Box::new(Managed::new(config)))
    }
}

impl<P: Packet> QueueDiscipline<P> for Managed<P> {
    fn enqueue(
        &mut self,
        mut queued: Queued<P>,
        evicted: &mut VecDeque<Evicted<P>>,
    ) -> Result<(), Evicted<P>> {
        if let Err(cause) = self.early(&mut queued) {
            return Err(Evicted { queued, cause });
        }
        let now = queued.arrived_ns;
        let arrival = self
            .filter
            .as_mut()
            .and_then(|filter| filter.inspect(&self.store, &queued.packet, now));
        if !self.has_room(queued.len) {
            self.stats.tail_drops += 1;
            if let Some(red) = &mut self.red {
                red.dropped();
            }
            return Err(Evicted {
                queued,
                cause: DropCause::QueueFull,
            });
        }
        let lane = match self.acks_first {
            Some(_) if belongs_to_data(&queued.packet) => SECOND,
            _ => FIRST,
        };
        match (&mut self.filter, arrival) {
            (Some(filter), Some(arrival)) => filter.admit(
                &mut self.store,
                queued,
                lane,
                &arrival,
                evicted,
                &mut self.stats,
            ),
            _ => {
                self.store.push(lane, queued, Tag::NONE);
            }
        }
        Ok(())
    }

    fn dequeue(&mut self, now: Nanos, _evicted: &mut VecDeque<Evicted<P>>) -> Option<Queued<P>> {
        let id = self.next()?;
        if let Some(filter) = &mut self.filter {
            filter.on_dequeue(&mut self.store, id, now);
        }
        let queued = self.store.remove(id)?;
        if let Some(red) = self.red.as_mut().filter(|_| self.store.packets() == 0) {
            red.emptied(queued.len, now);
        }
        Some(queued)
    }

    fn packets(&self) -> usize {
        self.store.packets()
    }

    fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    fn stats(&self) -> QueueStats {
        self.stats
    }

    fn red_average(&self) -> Option<f64> {
        self.red.as_ref().map(Red::average)
    }

    fn rate_changed(&mut self, bps: u64) {
        if let Some(red) = &mut self.red {
            red.rate_changed(bps);
        }
    }
}
