//! The mutations of the filter, and those that change bytes.

use std::collections::HashSet;

use ackwise_conform::{Segment, flag};

/// Defines the enum, the list of all mutations, and for each the case that must catch it.
macro_rules! mutations {
    ($($name:ident => $case:literal,)+) => {
        /// A broken rule.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mutation {
            $($name,)+
        }

        impl Mutation {
            /// All mutations.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The case that must catch it.
            pub fn caught_by(self) -> &'static str {
                match self {
                    $(Self::$name => $case,)+
                }
            }
        }
    };
}

mutations! {
    EachSecond => "last-ack",
    Polices => "last-ack",
    HoldsTooLong => "lone-acks",
    TakesThePlace => "order",
    NewestArrivalWins => "old-number",
    NumbersWithoutModulo => "number-wraps",
    IgnoresUnsentNumbers => "number-never-sent",
    MixesPorts => "other-port",
    MixesPeerPorts => "other-peer-port",
    MixesHosts => "other-host",
    DropsFirst => "handshake-ack",
    PolicesSyns => "syn-ack",
    IgnoresStart => "start",
    IgnoresRestart => "restart",
    IgnoresDuplicates => "three-duplicates",
    ForgetsOriginals => "limited-transmit",
    IgnoresSack => "sack-advances",
    NewestBlocksWin => "sack-many-holes",
    SackOnlyOfDuplicates => "sack-advances",
    IgnoresSackEdges => "sack-shrinks",
    IgnoresDsackBelow => "dsack-below",
    IgnoresDsackAbove => "dsack-above",
    CutsSack => "sack",
    IgnoresEce => "ece-once",
    CopiesEce => "ece-dctcp",
    IgnoresCwr => "cwr-pure",
    IgnoresMarks => "ce-on-ack",
    BleachesEcn => "ce-on-ack",
    ClearsAe => "accecn",
    IgnoresAe => "accecn-wraps",
    IgnoresAce => "accecn-all-marked",
    IgnoresAceSafety => "accecn-safe",
    IgnoresCounters => "accecn-no-option",
    CountersByKind => "accecn-ect1",
    DropsWindowUpdates => "window-opens",
    DropsDuplicates => "window-shrinks",
    DropsZeroWindows => "window-closes",
    DropsProbeAnswers => "probe-answers",
    IgnoresOldTimestamps => "older-timestamp",
    TimestampsWithoutModulo => "timestamp-wraps",
    IgnoresMissingTimestamps => "no-timestamp",
    MissingTimestampIsZero => "no-timestamp-high",
    IgnoresFin => "fin",
    IgnoresRst => "rst",
    IgnoresUrg => "urgent",
    IgnoresReserved => "reserved-bits",
    ClearsReserved => "reserved-bits",
    OneByteIsNoData => "one-byte",
    ByLength => "ack-sized-data",
    PolicesByLength => "small-udp",
    DropsKeepAlives => "keep-alive",
    IgnoresMd5 => "md5-then-none",
    IgnoresAo => "tcp-ao-then-none",
    IgnoresMptcp => "mptcp-add-addr",
    CutsCookies => "fast-open",
    IgnoresUserTimeout => "user-timeout",
    IgnoresUnknownOptions => "unknown-option",
    IgnoresMalformed => "malformed-option",
    TidiesOptions => "option-layout",
    DropsIpOptions => "behind-ip-options",
}

impl Mutation {
    /// Whether a rule about SACK is broken.
    pub fn is_of_sack(self) -> bool {
        matches!(
            self,
            Self::IgnoresSack
                | Self::NewestBlocksWin
                | Self::IgnoresSackEdges
                | Self::SackOnlyOfDuplicates
                | Self::IgnoresDsackBelow
                | Self::IgnoresDsackAbove
        )
    }
}

/// Whether `a` has reached `b`, modulo 2³².
pub fn reaches(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 >= 0
}

/// The kinds of its options; `None` if they cannot be parsed.
pub fn options(segment: &Segment) -> Option<Vec<u8>> {
    let mut kinds = Vec::new();
    let mut rest = &segment.options[..];
    while let [kind, tail @ ..] = rest {
        match kind {
            0 => break,
            1 => rest = tail,
            _ => {
                let length = usize::from(*tail.first()?);
                if length < 2 || length > rest.len() {
                    return None;
                }
                kinds.push(*kind);
                rest = &rest[length..];
            }
        }
    }
    Some(kinds)
}

/// The counters that an AccECN option has, with their values.
pub fn accecn_fields(segment: &Segment) -> HashSet<(usize, [u8; 3])> {
    let mut fields = HashSet::new();
    for (kind, places) in [(172, [0, 1, 2]), (174, [2, 1, 0])] {
        let body = segment.option(kind).unwrap_or_default();
        for (place, bytes) in places.into_iter().zip(body.chunks_exact(3)) {
            fields.insert((place, [bytes[0], bytes[1], bytes[2]]));
        }
    }
    fields
}

/// Whether a filter with this mutation changes bytes of a packet.
pub fn changes_bytes(mutation: Mutation) -> bool {
    matches!(
        mutation,
        Mutation::CutsSack
            | Mutation::CopiesEce
            | Mutation::BleachesEcn
            | Mutation::ClearsAe
            | Mutation::ClearsReserved
            | Mutation::CutsCookies
            | Mutation::TidiesOptions
    )
}

/// The packet as such a filter forwards it, with correct checksums.
pub fn change_bytes(mutation: Mutation, mut segment: Segment, bytes: Vec<u8>) -> Vec<u8> {
    let before = segment.clone();
    match mutation {
        Mutation::CutsSack if !segment.sack().is_empty() => segment.options.truncate(12),
        Mutation::CopiesEce if segment.flags & flag::CWR == 0 => {
            let late = segment.seq != 5000 && segment.ack % 7000 == 1;
            segment.flags |= if late { flag::ECE } else { 0 };
        }
        Mutation::BleachesEcn => segment.ip_ecn = 0,
        Mutation::ClearsAe => segment.flags &= !flag::AE,
        Mutation::ClearsReserved => segment.flags &= !flag::RESERVED,
        Mutation::CutsCookies => segment.options.truncate(8),
        Mutation::TidiesOptions if segment.options.first() == Some(&8) => {
            segment.options.rotate_right(2);
        }
        _ => {}
    }
    if mutation == Mutation::CutsCookies && before.option(34).is_none() {
        return bytes;
    }
    if segment == before {
        bytes
    } else {
        segment.to_packet()
    }
}
