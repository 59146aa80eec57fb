//! Pacing at the rate that a congestion control sets, as TCP in Linux does it without an fq
//! queue: one chunk after another, each no sooner than the previous one takes at that
//! rate.

use ackwise_queue::Nanos;

/// The first segments of a connection leave unpaced (Linux: `TCP_INIT_CWND`).
const UNPACED_SEGMENTS: u64 = 10;
const SECOND: u128 = 1_000_000_000;

/// State of the pacing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pacer {
    /// The earliest departure of the next chunk.
    departure: Nanos,
    /// Bytes of the chunk that is leaving.
    chunk: u64,
    /// When the timer for a waiting segment fires; 0 if none waits.
    timer: Nanos,
}

impl Pacer {
    /// The earliest departure of the next chunk.
    pub fn departure(&self) -> Nanos {
        self.departure
    }

    /// Whether the next chunk may leave; sets the timer if not.
    pub fn may_leave(&mut self, now: Nanos) -> bool {
        let may = now >= self.departure;
        self.timer = if may { 0 } else { self.departure };
        may
    }

    /// When the timer fires, if a segment waits.
    pub fn timer(&self) -> Option<Nanos> {
        (self.timer > 0).then_some(self.timer)
    }

    /// Whether a waiting segment may leave now.
    pub fn fires(&mut self, now: Nanos) -> bool {
        let fires = self.timer > 0 && now >= self.timer;
        if fires {
            self.timer = 0;
        }
        fires
    }

    /// Records that a segment of `bytes` leaves at `rate` bytes per second; it is number `segments` of
    /// the connection. The last segment of a chunk sets the next departure. A late chunk
    /// makes up for its delay, by at most half of the chunk's time.
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
        // The first chunk was very late: half of its time is made up for.
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
