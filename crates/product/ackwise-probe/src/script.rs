//! What the two ends of a flow do, and when. Both ends derive it from the same few numbers.
//!
//! The data sender sends segment after segment by the clock. The other end acts by what arrives:
//! for each segment the script says whether it is acknowledged at once, or later in a burst. So
//! every ACK is one that TCP could send, and middleboxes that follow connections see ordinary
//! ones.

use serde::{Deserialize, Serialize};

/// One of the two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The one that was asked to probe.
    Client,
    /// The partner.
    Server,
}

/// A part of the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// One long flow.
    Long,
    /// Many flows that are young.
    Short,
}

/// What a packet belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Phase {
    /// Handshakes, the ends of flows, the first segments.
    Other,
    /// As many ACKs a second as a fast download has: 1000, or what `--rate` leaves.
    Fast,
    /// 200 ACKs a second.
    Steady,
    /// 25 packets a second: slower than any filter by rate asks for.
    Slow,
    /// Five ACKs at once, with pauses.
    Burst,
    /// Five ACKs at once behind data, which make a queue stand.
    Queued,
    /// 24 ACKs at once behind data.
    Train,
    /// Four ACKs of a young flow behind data, one flow after the other.
    Alone,
    /// Four ACKs behind data, of 40 flows at once.
    Crowd,
}

impl Phase {
    /// All of them, by their numbers.
    pub const ALL: [Self; 9] = [
        Self::Other,
        Self::Fast,
        Self::Steady,
        Self::Slow,
        Self::Burst,
        Self::Queued,
        Self::Train,
        Self::Alone,
        Self::Crowd,
    ];
}

/// What a segment is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// An ACK at once.
    Now(News),
    /// An ACK later, with those of the segments after it.
    Defer,
    /// So many segments of data, then all ACKs that are due, one for each segment. With `tail`
    /// the last of them is a segment of data.
    Flush {
        /// Segments of data before the ACKs.
        large: u8,
        /// Whether the last ACK has data.
        tail: bool,
    },
    /// A segment of a few bytes instead of an ACK.
    Small,
    /// A segment of data instead of an ACK.
    Large,
}

/// What an ACK says beside its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Nothing.
    None,
    /// ECN echo.
    Ece,
    /// Another window.
    Window,
    /// An option that no box knows.
    Option,
}

/// One data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Send {
    /// Microseconds from the start of the script.
    pub at_us: u64,
    /// The connection's number.
    pub conn: usize,
    /// The segment's number within its connection.
    pub index: usize,
}

/// What is done about one data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// What it is answered with.
    pub act: Act,
    /// What it belongs to.
    pub phase: Phase,
    /// Which repetition within the phase.
    pub round: u8,
}

/// A connection of a script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Connection {
    /// It asks for AccECN (RFC 9768) instead of classic ECN.
    pub acc_ecn: bool,
    /// Its SYN has an option that no box knows.
    pub experiment: bool,
    /// Its SYN has the option of Multipath TCP.
    pub mptcp: bool,
    /// What its segments are answered with, by number.
    pub answers: Vec<Answer>,
}

/// What both ends do in a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Data of a segment of the data sender, in bytes.
    pub segment: u16,
    /// Its connections.
    pub connections: Vec<Connection>,
    /// What the data sender sends, in the order of time.
    pub sends: Vec<Send>,
    /// When the last segment leaves, in microseconds from the start.
    pub length_us: u64,
}

/// Data of a segment that stands for full-sized ones, in bytes: the default MSS, which any path
/// carries.
pub const LARGE: u16 = 536;
/// Data of a segment that is hardly longer than an ACK.
pub const SMALL: u16 = 10;
/// Young flows with classic ECN.
pub const CLASSIC: usize = 40;
/// Young flows with AccECN.
const ACC_ECN: usize = 12;
/// The shortest and the longest time between ACKs of [`Phase::Fast`], in microseconds.
pub const INTERVALS: std::ops::RangeInclusive<u32> = 1000..=20_000;
/// Each so many-th ACK is a segment of data, which tells what the path does to those.
const CONTROL: usize = 12;

const MS: u64 = 1000;

impl Script {
    /// The script of a stage; `interval_us` is that of [`Phase::Fast`].
    #[must_use]
    pub fn new(stage: Stage, interval_us: u32) -> Self {
        let low = *INTERVALS.start();
        let interval = u64::from(interval_us.clamp(low, *INTERVALS.end()));
        match stage {
            Stage::Long => long(interval),
            Stage::Short => short(interval / u64::from(low)),
        }
    }
}

struct Builder {
    script: Script,
    now_us: u64,
}

impl Builder {
    fn new(segment: u16) -> Self {
        Self {
            script: Script {
                segment,
                connections: Vec::new(),
                sends: Vec::new(),
                length_us: 0,
            },
            now_us: 20 * MS,
        }
    }

    /// A segment now, and what it is answered with.
    fn send(&mut self, conn: usize, answer: Answer) {
        let answers = &mut self.script.connections[conn].answers;
        self.script.sends.push(Send {
            at_us: self.now_us,
            conn,
            index: answers.len(),
        });
        answers.push(answer);
    }

    /// Segments at once, whose ACKs are due with the last one.
    fn burst(&mut self, conn: usize, phase: Phase, round: u8, acks: u8, flush: Act) {
        for n in 1..=acks {
            let act = if n == acks { flush } else { Act::Defer };
            self.send(conn, Answer { act, phase, round });
        }
    }

    fn finish(mut self) -> Script {
        self.script.sends.sort_by_key(|send| send.at_us);
        self.script.length_us = self.now_us;
        self.script
    }
}

/// An ACK, or a segment of data now and then.
fn paced(n: usize) -> Act {
    match n % (2 * CONTROL) {
        5 => Act::Small,
        17 => Act::Large,
        _ => Act::Now(News::None),
    }
}

fn steady(n: usize) -> Act {
    match (paced(n), n) {
        (Act::Now(_), 40..50) => Act::Now(News::Ece),
        (Act::Now(_), 120..130) => Act::Now(News::Window),
        (Act::Now(_), 150..160) => Act::Now(News::Option),
        (act, _) => act,
    }
}

fn long(interval: u64) -> Script {
    let mut it = Builder::new(LARGE);
    it.script.connections.push(Connection::default());
    let mut pace = |phase: Phase, count: usize, interval: u64, act: fn(usize) -> Act| {
        for n in 0..count {
            let (act, round) = (act(n), 0);
            it.send(0, Answer { act, phase, round });
            it.now_us += interval;
        }
    };
    pace(Phase::Other, 20, 10 * MS, |_| Act::Now(News::None));
    let fast = (1000 * MS / interval) as usize;
    pace(Phase::Fast, fast, interval, paced);
    let fast = 20 + fast;
    pace(Phase::Steady, 200, 5 * MS, steady);
    pace(Phase::Slow, 24, 40 * MS, |n| match n % 4 {
        1 => Act::Small,
        3 => Act::Large,
        _ => Act::Now(News::None),
    });
    // Holes: these segments come 40 ms late, so that the ACKs in between have SACK blocks.
    for send in &mut it.script.sends {
        if send.index == fast + 72 || send.index == fast + 96 {
            send.at_us += 40 * MS;
        }
    }
    for round in 0..20 {
        let tail = round % 2 == 1;
        it.burst(0, Phase::Burst, round, 5, Act::Flush { large: 0, tail });
        it.now_us += 110 * MS;
    }
    let scale = interval / u64::from(*INTERVALS.start());
    for round in 0..10 {
        let act = Act::Flush {
            large: 30,
            tail: false,
        };
        it.burst(0, Phase::Queued, round, 5, act);
        it.now_us += 150 * MS * scale;
    }
    for round in 0..4 {
        let act = Act::Flush {
            large: 30,
            tail: false,
        };
        it.burst(0, Phase::Train, round, 24, act);
        it.now_us += 200 * MS * scale;
    }
    it.finish()
}

fn short(scale: u64) -> Script {
    let mut it = Builder::new(120);
    for n in 0..CLASSIC + ACC_ECN {
        it.script.connections.push(Connection {
            acc_ecn: n >= CLASSIC,
            experiment: n == 0,
            mptcp: n == 1,
            answers: Vec::new(),
        });
    }
    // The buckets of filters by rate fill again after the handshakes.
    it.now_us += 150 * MS;
    let tail = false;
    for conn in 0..CLASSIC + ACC_ECN {
        let act = Act::Flush { large: 2, tail };
        it.burst(conn, Phase::Alone, 0, 4, act);
        it.now_us += 25 * MS * scale;
    }
    it.now_us += 100 * MS;
    for round in 0..2 {
        for conn in 0..CLASSIC {
            let act = Act::Flush { large: 1, tail };
            it.burst(conn, Phase::Crowd, round, 4, act);
        }
        it.now_us += 400 * MS * scale;
    }
    it.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_segment_is_sent_once_and_answered() {
        for (stage, interval) in [
            (Stage::Long, 1000),
            (Stage::Long, 20_000),
            (Stage::Short, 0),
            (Stage::Short, u32::MAX),
        ] {
            let script = Script::new(stage, interval);
            let mut sent: Vec<_> = script.sends.iter().map(|it| (it.conn, it.index)).collect();
            assert!(script.sends.is_sorted_by_key(|it| it.at_us));
            sent.sort_unstable();
            let answered = script.connections.iter().enumerate();
            let answered: Vec<_> = answered
                .flat_map(|(conn, it)| (0..it.answers.len()).map(move |index| (conn, index)))
                .collect();
            assert_eq!(sent, answered);
        }
    }

    #[test]
    fn slow_phases_stay_below_fifty_short_packets_a_second() {
        let script = Script::new(Stage::Long, 1000);
        let answers = &script.connections[0].answers;
        let at = |phase: Phase| {
            let sends = script.sends.iter();
            let sends = sends.filter(move |it| answers[it.index].phase == phase);
            sends.map(|it| it.at_us).collect::<Vec<_>>()
        };
        for phase in [Phase::Slow, Phase::Burst, Phase::Queued] {
            let at = at(phase);
            let took = at[at.len() - 1] - at[0];
            assert!(at.len() as u64 * 1_000_000 / took <= 50, "{phase:?}");
        }
    }
}
