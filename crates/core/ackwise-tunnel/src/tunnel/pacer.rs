//! Releases restored packets evenly over time, so that senders do not burst.

use std::collections::VecDeque;

use crate::Packets;

/// The maximum number of waiting packets. Beyond it, packets are released at once.
const MAX_WAITING: usize = 4096;

/// The waiting packets, each with its release time.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    /// The time at which the last bundle arrived.
    last_bundle_at: u64,
    waiting: VecDeque<(u64, Box<[u8]>)>,
}

impl Pacer {
    /// Spreads the packets of a bundle over the time until the next bundle is expected, at
    /// most a period. Packets that are due go to `out` at once.
    pub fn add(&mut self, packets: &Packets, period: u64, now: u64, out: &mut Packets) {
        let gap = now.saturating_sub(std::mem::replace(&mut self.last_bundle_at, now));
        let count = packets.len() as u64;
        let span = gap.min(period);
        let start = self.waiting.back().map_or(now, |last| last.0.max(now));
        // Waiting packets of the last bundle keep their order and times.
        let late = start.saturating_sub(now);
        for (i, packet) in (0..).zip(packets.iter()) {
            if self.waiting.len() >= MAX_WAITING || late > span {
                self.release_all(out);
                out.push(packet);
            } else {
                let at = start + span.saturating_sub(late) * i / count;
                self.waiting.push_back((at, packet.into()));
            }
        }
        self.release(now, out);
    }

    /// Releases the packets that are due.
    pub fn release(&mut self, now: u64, out: &mut Packets) {
        let due = self.waiting.partition_point(|(at, _)| *at <= now);
        for (_, packet) in self.waiting.drain(..due) {
            out.push(&packet);
        }
    }

    /// Releases all packets.
    pub fn release_all(&mut self, out: &mut Packets) {
        for (_, packet) in self.waiting.drain(..) {
            out.push(&packet);
        }
    }

    /// The time at which the next packet is due.
    pub fn next_release(&self) -> u64 {
        self.waiting.front().map_or(u64::MAX, |first| first.0)
    }
}
