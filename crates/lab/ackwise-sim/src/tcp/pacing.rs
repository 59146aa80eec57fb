//! Pacing at the rate that a congestion control sets, as TCP of Linux does it itself
//! where no fq queue does it: chunk after chunk, each no sooner than the one before
//! takes at that rate.

use ackwise_queue::Nanos;

/// The first segments of a connection leave unpaced (Linux: `TCP_INIT_CWND`).
const UNPACED_SEGMENTS: u64 = 10;
const SECOND: u128 = 1_000_000_000;

/// When segments may leave.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pacer {
    /// The earliest departure of the next chunk.
    departure: Nanos,
    /// Bytes of the chunk that is leaving.
    chunk: u64,
    /// Something waits for its departure; 0: nothing does.
    timer: Nanos,
}

impl Pacer {
    /// The earliest departure of the next chunk.
    pub fn departure(&self) -> Nanos {
        self.departure
    }

    /// Whether the next chunk may leave. If not, the timer is set.
    pub fn may_leave(&mut self, now: Nanos) -> bool {
        let may = now >= self.departure;
        self.timer = if may { 0 } else { self.departure };
        may
    }

    /// When to ask again, if something waits.
    pub fn timer(&self) -> Option<Nanos> {
        (self.timer > 0).then_some(self.timer)
    }

    /// Whether what waited may leave now.
    pub fn fires(&mut self, now: Nanos) -> bool {
        let fires = self.timer > 0 && now >= self.timer;
        if fires {
            self.timer = 0;
        }
        fires
    }

    /// A segment of `bytes` leaves at `rate` bytes a second; it is number `segments` of
    /// the connection. The last of its chunk sets the next departure. Who comes late
    /// makes up for it, by half of the chunk's time at most.
    pub fn on_sent(&mut self, now: Nanos, bytes: u64, last: bool, segments: u64, rate: u64) {
        self.chunk += bytes;
        if !last {
            return;
        }
        let bytes = std::mem::take(&mut self.chunk);
        let at = self.departure.max(now);
        let late = at - self.departure;
        self.departure = at;
        if segments >= UNPACED_SEGMENTS {
            let time = (u128::from(bytes) * SECOND / u128::from(rate.max(1))) as Nanos;
            self.departure += time - late.min(time / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// 3000 bytes at 1 MB/s take 3 ms.
    #[test]
    fn a_chunk_waits_for_the_one_before() {
        let mut pacer = Pacer::default();
        let send = |pacer: &mut Pacer, now| {
            assert!(pacer.may_leave(now));
            pacer.on_sent(now, 1500, false, 20, 1_000_000);
            assert!(pacer.may_leave(now), "within a chunk");
            pacer.on_sent(now, 1500, true, 21, 1_000_000);
        };
        send(&mut pacer, 100 * MS);
        // The first came as late as can be: half its time is made up for.
        assert_eq!(pacer.departure(), 101 * MS + MS / 2);
        assert!(!pacer.may_leave(101 * MS));
        assert_eq!(pacer.timer(), Some(101 * MS + MS / 2));
        assert!(!pacer.fires(101 * MS));
        assert!(pacer.fires(102 * MS));
        send(&mut pacer, 102 * MS);
        assert_eq!(pacer.departure(), 104 * MS + MS / 2);
    }

    #[test]
    fn the_first_ten_segments_are_not_paced() {
        let mut pacer = Pacer::default();
        for segment in 1..=9 {
            pacer.on_sent(MS, 1500, true, segment, 1_000_000);
            assert!(pacer.may_leave(MS));
        }
        pacer.on_sent(MS, 1500, true, 10, 1_000_000);
        assert!(!pacer.may_leave(MS));
    }
}
