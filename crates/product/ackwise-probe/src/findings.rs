//! Describes what is beyond chance in a direction.

use crate::script::Phase;
use crate::signs::Signs;
use crate::stats::percent;

/// A kind of effect on ACKs or on short data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// ACKs are removed in a phase.
    Thinned(Phase),
    /// The last ACKs of many flows, none of which is fast, are removed.
    LastLost,
    /// ACKs with news are lost, whatever the news.
    NewsLost,
    /// Short segments of data are lost.
    ShortDataLost,
    /// The last ACK of a burst is late.
    Held,
}

impl Sign {
    /// An identifier for programs.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Thinned(_) | Self::LastLost => "thinned",
            Self::NewsLost => "news-lost",
            Self::ShortDataLost => "short-data-lost",
            Self::Held => "held",
        }
    }
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The kind of finding.
    pub sign: Sign,
    /// How often it was seen.
    pub hit: usize,
    /// How often it could have been seen.
    pub of: usize,
    /// A description.
    pub text: String,
}

/// A phase in words.
const fn when(phase: Phase) -> &'static str {
    match phase {
        Phase::Other => "around handshakes",
        Phase::Fast => "in a fast flow",
        Phase::Steady => "at 200 a second",
        Phase::Slow => "at 25 a second",
        Phase::Burst => "five at once",
        Phase::Queued => "five at once behind data",
        Phase::Train => "24 at once behind data",
        Phase::Alone => "four at once of a young flow, behind data",
        Phase::Crowd => "four at once of each of many flows, one after the other",
    }
}

impl Signs {
    /// Everything that is beyond chance.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (phase, contrast) in self.thinned.iter().filter(|(_, it)| it.holds()) {
            let share = contrast.these;
            findings.push(Finding {
                sign: Sign::Thinned(*phase),
                hit: share.hit,
                of: share.of,
                text: format!(
                    "{} of the ACKs are removed {}",
                    percent(share),
                    when(*phase)
                ),
            });
        }
        if self.crowd.holds() {
            let share = self.crowd.these;
            findings.push(Finding {
                sign: Sign::LastLost,
                hit: share.hit,
                of: share.of,
                text: format!(
                    "{} of the flows lose the last of their ACKs where many flows send some, one after the other",
                    percent(share)
                ),
            });
        }
        for (name, contrast) in self.news.iter().filter(|(_, it)| it.holds_in_any_order()) {
            let share = contrast.these;
            findings.push(Finding {
                sign: Sign::NewsLost,
                hit: share.hit,
                of: share.of,
                text: format!("{} of the ACKs with news are lost: {name}", percent(share)),
            });
        }
        if self.short.holds_in_any_order() {
            let share = self.short.these;
            findings.push(Finding {
                sign: Sign::ShortDataLost,
                hit: share.hit,
                of: share.of,
                text: format!("{} of the short segments of data are lost", percent(share)),
            });
        }
        if self.hold.sure {
            findings.push(Finding {
                sign: Sign::Held,
                hit: 1,
                of: 1,
                text: format!(
                    "the last ACK of a burst comes {:.1} ms later than data in its place",
                    self.hold.late_ms
                ),
            });
        }
        findings
    }
}
