//! RACK (RFC 8985 §6), as Linux has it: a segment is lost when one that was sent
//! later has been delivered, and the time that reordering may take has passed.

use ackwise_queue::Nanos;

use crate::tcp::recovery_state::RecoveryState;
use crate::tcp::scoreboard::{Mark, Scoreboard, Seg};
use crate::time::NEVER;

/// How many recoveries a wider window for reordering lasts (RFC 8985 §6.2 step 4).
const PERSIST: u8 = 16;
/// Linux never takes a path for worse than this, in segments.
const MAX_REORDERING: u32 = 300;

/// When a segment was sent. Of two that were sent at the same time the one with the higher
/// number was sent later (RFC 8985 §6.2 step 2).
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

/// Which segment was delivered last, and how much later others may come.
#[derive(Debug, Clone)]
pub(crate) struct Rack {
    /// When the newest delivered segment was sent.
    sent: SentAt,
    /// Its RTT.
    rtt: Nanos,
    /// A segment was delivered since losses were looked for last.
    advanced: bool,
    /// The least RTT of segments that were sent once.
    pub min_rtt: Nanos,
    reordering_seen: bool,
    /// Segments out of order that are no loss.
    reordering: u32,
    steps: u8,
    persist: u8,
    /// No further step before this is acknowledged.
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
    /// A segment was delivered (RFC 8985 §6.2 step 2).
    pub fn advance(&mut self, seg: &Seg, now: Nanos) {
        if seg.mark.contains(Mark::SACKED) {
            return;
        }
        let rtt = now - seg.sent;
        // Too early for an answer to the retransmission.
        if seg.mark.contains(Mark::EVER) && rtt < self.min_rtt {
            return;
        }
        self.advanced = true;
        self.rtt = rtt;
        self.sent = self.sent.max(SentAt::of(seg));
    }

    /// A segment came `distance` bytes late.
    pub fn reordered(&mut self, distance: u64, mss: u32) {
        let segments = u32::try_from(distance / u64::from(mss) + 1).unwrap_or(u32::MAX);
        self.reordering = self.reordering.max(segments.min(MAX_REORDERING));
        self.reordering_seen = true;
    }

    /// A DSACK widens the window for reordering, once a round trip.
    pub fn note_dsack(&mut self, dsack: bool, una: u64, nxt: u64) {
        if dsack && una >= self.step_at {
            self.steps = self.steps.saturating_add(1);
            self.persist = PERSIST;
            self.step_at = nxt;
        }
    }

    /// A recovery ended that was needed.
    pub fn forget_step(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// How long a segment may still be on its way; 0 or less: it is lost.
    pub fn remaining(&self, seg: &Seg, window: Nanos, now: Nanos) -> i128 {
        i128::from(self.rtt) + i128::from(window) - i128::from(now - seg.sent)
    }

    /// The time that reordering may take (RFC 8985 §6.2 step 4).
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

    /// Whether a segment was delivered since this was asked last.
    pub fn take_advanced(&mut self) -> bool {
        std::mem::take(&mut self.advanced)
    }

    /// Marks what is lost (RFC 8985 §6.2 step 5). Returns how long to wait for the rest of
    /// what may be lost, or `None` if nothing else may be.
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
                // Segments that were sent once are in the order of their times.
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

/// What the time for reordering depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub state: RecoveryState,
    /// Duplicates that tell of a loss, segments.
    pub dupthresh: u32,
    /// The smoothed RTT; 0 before the first sample.
    pub srtt: Nanos,
}
