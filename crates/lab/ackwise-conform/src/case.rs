//! What a case is: packets that leave at given times, and what must come out.

use serde::{Deserialize, Serialize};

use crate::packet::{Flow, Segment};

/// How bad it is if a case fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A connection stalls, or a sender believes what is not so.
    Must,
    /// A sender loses a sample, is slower, or what is rare is not recovered at once.
    Should,
}

/// A packet that leaves at a time, in nanoseconds from the start of its script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// When it leaves.
    pub at_ns: u64,
    /// What leaves.
    pub segment: Segment,
}

/// What must come out. Steps are named by their index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// The segment itself arrives in time.
    Arrives(usize),
    /// In time the sender has accepted an acknowledgment of all that this one acknowledges.
    Acked(usize),
    /// In time the sender has been told of all the SACK blocks of this one.
    Sacked(usize),
    /// At least so many segments with the acknowledgment number of this one arrive.
    Duplicates {
        /// One of them.
        of: usize,
        /// How many.
        count: usize,
    },
    /// In time the sender has been told the window's right edge of this one, or a later one.
    Window(usize),
    /// In time an ACK with these flags arrives that is this one or was sent after it.
    Flagged {
        /// The first that has the flags.
        from: usize,
        /// The flags, see [`crate::packet::flag`].
        flags: u16,
    },
    /// The bytes that the sender counts as acknowledged under ECE are those that were
    /// (RFC 8257 §3.3).
    EceBytes,
    /// The CE marks that the sender reads from ACE are those that the receiver counted.
    AceCount,
    /// And they still are if it assumes, as RFC 9768 §3.2.2.5 asks, that ACE may have wrapped.
    AceSafe,
    /// In time the sender knows the counter of this AccECN option, by its field (RFC 9768
    /// §3.2.3): 0, 1 or 2.
    Counter {
        /// Which ACK has it.
        of: usize,
        /// Which field of the option.
        field: usize,
    },
    /// Nothing overtakes an earlier segment of its flow.
    Order,
}

/// Steps in order of time, and what must come of them.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// What leaves, in the order of time.
    pub steps: Vec<Step>,
    /// What must come out.
    pub expects: Vec<Expect>,
    /// The window scale of the receiver.
    pub window_scale: u8,
    /// ACKs need timestamps: the sender drops those without (RFC 7323 §3.2).
    pub timestamps: bool,
    /// ACKs need this option: the sender drops those without (RFC 5925 §7.3).
    pub signed: Option<u8>,
}

/// Which of several runs of a case: the addresses, and how many ACKs are around the news.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// The connection; further ones differ from it.
    pub flow: Flow,
    /// More ACKs before the news and after it than in the first run.
    pub phase: u32,
}

/// A case of the suite.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What it is called in reports and on the command line.
    pub name: &'static str,
    /// Where it is said that this is news.
    pub rfc: &'static str,
    /// How bad it is if this fails.
    pub level: Level,
    /// What must happen, in a sentence.
    pub what: &'static str,
    /// Its steps.
    pub script: fn(Variant) -> Script,
}
