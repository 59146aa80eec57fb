//! RACK (RFC 8985 §6), as in Linux: a segment is lost when one that was sent
//! later has been delivered and the reordering window has passed.

use ackwise_queue::Nanos;

use crate::tcp::recovery_state::RecoveryState;
use crate::tcp::scoreboard::{Mark, Scoreboard, Seg};
use crate::time::NEVER;

/// Number of recoveries for which a wider reordering window lasts (RFC 8985 §6.2 step 4).
const PERSIST: u8 = 16;
/// Linux: the maximum degree of reordering, in segments.
const MAX_REORDERING: u32 = 300;

/// When a segment was sent. Of two segments sent at the same time, the one with the higher
/// number counts as the later one (RFC 8985 §6.2 step 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct SentAt {
    time: Nanos,
    end: u64,
}

impl SentAt {
    fn of(seg: &Seg) -> SentAt {
        SentAt {
            time: seg.sent,
            end: seg.end(),
        }
    }
}

/// State of RACK: the segment last delivered, and how much later others may arrive.
#[derive(Debug, Clone)]
pub(crate) struct Rack {
    /// When the newest delivered segment was sent.
    sent: SentAt,
    /// RTT of that segment.
    rtt: Nanos,
    /// Whether a segment was delivered since the last search for losses.
    advanced: bool,
    /// Minimum RTT of segments sent once.
    pub min_rtt: Nanos,
    reordering_seen: bool,
    /// How many segments out of order do not yet indicate a loss.
    reordering: u32,
    steps: u8,
    persist: u8,
    /// The window widens no further before this byte is acknowledged.
    step_at: u64,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            sent: SentAt::default(),
            rtt: 0,
            advanced: false,
            min_rtt: NEVER,
            reordering_seen: false,
            reordering: 3,
            steps: 1,
            persist: 0,
            step_at: 0,
        }
    }
}

impl Rack {
    /// Records the delivery of a segment (RFC 8985 §6.2 step 2).
    pub fn advance(&mut self, seg: &Seg, now: Nanos) {
        if seg.mark.contains(Mark::SACKED) {
            return;
        }
        let rtt = now - seg.sent;
        // Too early to be an answer to the retransmission.
        if seg.mark.contains(Mark::EVER) && rtt < self.min_rtt {
            return;
        }
        self.advanced = true;
        self.rtt = rtt;
        self.sent = self.sent.max(SentAt::of(seg));
    }

    /// Records that a segment arrived `distance` bytes late.
    pub fn reordered(&mut self, distance: u64, mss: u32) {
        let segments = u32::try_from(distance / u64::from(mss) + 1).unwrap_or(u32::MAX);
        self.reordering = self.reordering.max(segments.min(MAX_REORDERING));
        self.reordering_seen = true;
    }

    /// Widens the reordering window after a DSACK, once per round trip.
    pub fn note_dsack(&mut self, dsack: bool, una: u64, nxt: u64) {
        if dsack && una >= self.step_at {
            self.steps = self.steps.saturating_add(1);
            self.persist = PERSIST;
            self.step_at = nxt;
        }
    }

    /// Records that a necessary recovery ended.
    pub fn forget_step(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// How long a segment may still be in transit; it is lost if this is 0 or less.
    pub fn remaining(&self, seg: &Seg, window: Nanos, now: Nanos) -> i128 {
        i128::from(self.rtt) + i128::from(window) - i128::from(now - seg.sent)
    }

    /// The reordering window (RFC 8985 §6.2 step 4).
    fn window(&self, scoreboard: &Scoreboard, limits: &Limits) -> Nanos {
        if !self.reordering_seen {
            let enough = scoreboard.sacked() >= self.reordering.max(limits.dupthresh);
            if enough || limits.state >= RecoveryState::Recovery {
                return 0;
            }
        }
        (self.min_rtt / 4)
            .saturating_mul(u64::from(self.steps))
            .min(limits.srtt)
    }

    /// Whether a segment was delivered since the last call.
    pub fn take_advanced(&mut self) -> bool {
        std::mem::take(&mut self.advanced)
    }

    /// Marks lost segments (RFC 8985 §6.2 step 5). Returns how long to wait for the others that
    /// may be lost, or `None` if there are none.
    pub fn detect(
        &self,
        scoreboard: &mut Scoreboard,
        limits: &Limits,
        now: Nanos,
    ) -> Option<Nanos> {
        let window = self.window(scoreboard, limits);
        let mut longest = None;
        for i in 0..scoreboard.len() as usize {
            let Some(seg) = scoreboard.get(i).copied() else {
                break;
            };
            let waits = seg.mark.contains(Mark::LOST) && !seg.mark.contains(Mark::RETRANS);
            if waits || seg.mark.contains(Mark::SACKED) {
                continue;
            }
            if self.sent <= SentAt::of(&seg) {
                // Segments sent once are in the order of their times.
                if seg.mark.contains(Mark::EVER) {
                    continue;
                }
                break;
            }
            let remaining = self.remaining(&seg, window, now);
            if remaining <= 0 {
                scoreboard.mark_lost(i);
            } else {
                longest = longest.max(Some(remaining as Nanos));
            }
        }
        longest
    }
}

/// Inputs of the reordering window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub state: RecoveryState,
    /// Number of duplicates that indicate a loss.
    pub dupthresh: u32,
    /// The smoothed RTT; 0 before the first sample.
    pub srtt: Nanos,
}
