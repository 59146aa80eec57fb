//! A case: packets that leave at given times, and what must arrive.

use serde::{Deserialize, Serialize};

use crate::packet::{Flow, Segment};

/// The severity of a failed case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A failure stalls a connection or makes a sender believe something false.
    Must,
    /// A failure costs a sender a sample or speed, or delays recovery from a rare event.
    Should,
}

/// A packet that leaves at a time, in nanoseconds from the start of its script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Time of departure.
    pub at_ns: u64,
    /// The segment.
    pub segment: Segment,
}

/// What must arrive. Steps are named by their index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// The segment itself arrives in time.
    Arrives(usize),
    /// The sender has accepted in time an acknowledgment of everything that this one acknowledges.
    Acked(usize),
    /// The sender has been told in time of all SACK blocks of this one.
    Sacked(usize),
    /// At least `count` segments with the acknowledgment number of this one arrive.
    Duplicates {
        /// One of these segments.
        of: usize,
        /// Their minimum number.
        count: usize,
    },
    /// The sender has been told in time the right edge of this one's window, or a later one.
    Window(usize),
    /// An ACK with these flags arrives in time that is this one or was sent after it.
    Flagged {
        /// The first ACK with the flags.
        from: usize,
        /// The flags, see [`crate::packet::flag`].
        flags: u16,
    },
    /// The sender counts as acknowledged under ECE exactly the bytes that were (RFC 8257 §3.3).
    EceBytes,
    /// The sender reads from ACE exactly the CE marks that the receiver counted.
    AceCount,
    /// The same holds if the sender assumes that ACE may have wrapped, as RFC 9768 §3.2.2.5 asks.
    AceSafe,
    /// The sender learns in time the counter of this AccECN option in the given field (RFC 9768
    /// §3.2.3): 0, 1 or 2.
    Counter {
        /// The ACK with the option.
        of: usize,
        /// The field of the option.
        field: usize,
    },
    /// No segment overtakes an earlier one of its flow.
    Order,
}

/// Steps in order of time, and what they must lead to.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// The steps, in order of time.
    pub steps: Vec<Step>,
    /// What must arrive.
    pub expects: Vec<Expect>,
    /// The window scale of the receiver.
    pub window_scale: u8,
    /// Whether ACKs need timestamps: the sender drops those without (RFC 7323 §3.2).
    pub timestamps: bool,
    /// The option that ACKs need: the sender drops those without (RFC 5925 §7.3).
    pub signed: Option<u8>,
}

/// One of several runs of a case, with its own addresses and number of ACKs around the news.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// The connection; a second connection of the case differs from it.
    pub flow: Flow,
    /// Additional ACKs before and after the news, compared with the first run.
    pub phase: u32,
}

/// A case of the suite.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name in reports and on the command line.
    pub name: &'static str,
    /// The place that says that this is news.
    pub rfc: &'static str,
    /// The severity of a failure.
    pub level: Level,
    /// What must happen, in a sentence.
    pub what: &'static str,
    /// A function that builds its steps.
    pub script: fn(Variant) -> Script,
}
