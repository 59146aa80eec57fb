//! What the two ends of a flow do, and when. Both ends derive it from the same few numbers.
//!
//! The data sender sends segments by the clock. The other end reacts to what arrives: for each
//! segment the script says whether it is acknowledged at once, or later in a burst. So every ACK is
//! one that TCP could send, and middleboxes that track connections see ordinary ACKs.

use ackwise_rng::Rng;
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
    /// Many young flows.
    Short,
}

/// The part of the script that a packet belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Phase {
    /// Handshakes, the ends of flows, the first segments.
    Other,
    /// ACKs at the rate of a fast download: 1000 per second, or what `--rate` permits.
    Fast,
    /// 200 ACKs per second.
    Steady,
    /// 25 packets per second: slower than the threshold of any filter by rate.
    Slow,
    /// Five ACKs at once, with pauses.
    Burst,
    /// Five ACKs at once behind data, which build up a queue.
    Queued,
    /// 24 ACKs at once behind data.
    Train,
    /// Four ACKs of a young flow behind data, one flow after the other.
    Alone,
    /// Four ACKs from each of 40 flows in quick succession.
    Crowd,
}

impl Phase {
    /// All phases, by number.
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

/// How a segment is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// An immediate ACK.
    Now(News),
    /// An ACK later, together with those of the following segments.
    Defer,
    /// All ACKs that are due, one for each segment, with data around them.
    Flush(SurroundingData),
    /// A segment of a few bytes instead of an ACK.
    Small,
    /// A segment of data instead of an ACK.
    Large,
}

/// Data around ACKs that leave at once. Anything that a queue does for lack of room also happens to
/// the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SurroundingData {
    /// Segments of data before the ACKs.
    pub before: u8,
    /// Whether the last ACK carries a few bytes of data: on a slow link it takes as long as an ACK.
    pub tail: bool,
    /// Segments of data after the ACKs.
    pub behind: u8,
}

/// What an ACK says in addition to its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Nothing.
    None,
    /// ECN echo.
    Ece,
    /// A changed window.
    Window,
    /// An option that no middlebox knows.
    Option,
}

/// One data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Send {
    /// The time in microseconds from the start of the script.
    pub at_us: u64,
    /// The index of the connection.
    pub conn: usize,
    /// The index of the segment within its connection.
    pub index: usize,
}

/// The answer to one data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The kind of answer.
    pub act: Act,
    /// The phase that it belongs to.
    pub phase: Phase,
    /// The repetition within the phase.
    pub round: u8,
}

/// A connection of a script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Connection {
    /// Whether it asks for AccECN (RFC 9768) instead of classic ECN.
    pub acc_ecn: bool,
    /// Whether its SYN has an option that no middlebox knows.
    pub experiment: bool,
    /// Whether its SYN has the Multipath TCP option.
    pub mptcp: bool,
    /// The answers to its segments, by index.
    pub answers: Vec<Answer>,
}

/// What both ends do in a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The payload of the data sender's segments, in bytes.
    pub segment: u16,
    /// The connections of the stage.
    pub connections: Vec<Connection>,
    /// The segments of the data sender, in order of time.
    pub sends: Vec<Send>,
    /// When the last segment leaves, in microseconds from the start.
    pub length_us: u64,
    /// The maximum time that a segment waits for earlier ones of the script, in microseconds.
    pub queue_us: u64,
}

/// The payload of a segment that stands for full-sized ones, in bytes: the default MSS, which any
/// path carries.
pub const LARGE: u16 = 536;
/// The payload of a segment that is hardly longer than an ACK.
pub const SMALL: u16 = 10;
/// The window field of every packet, in units of 128 bytes as negotiated in the handshake.
pub const WINDOW: u16 = 2048;
/// The window field of an ACK with [`News::Window`].
pub const WINDOW_UPDATE: u16 = WINDOW - 64;
/// The number of young flows with classic ECN.
pub const CLASSIC: usize = 40;
/// The number of young flows with AccECN.
const ACC_ECN: usize = 12;
/// The range of the time between ACKs of [`Phase::Fast`], in microseconds.
pub const INTERVALS: std::ops::RangeInclusive<u32> = 1000..=20_000;

const MS: u64 = 1000;

impl Script {
    /// The script of a stage. `interval_us` is the interval of [`Phase::Fast`]: the time that a
    /// large segment takes on the path, plus a quarter.
    #[must_use]
    pub fn new(stage: Stage, interval_us: u32) -> Self {
        let interval = u64::from(interval_us.clamp(*INTERVALS.start(), *INTERVALS.end()));
        let script = match stage {
            Stage::Long => long(interval),
            Stage::Short => short(interval),
        };
        Self {
            queue_us: MAX_BURST_SEGMENTS * interval,
            ..script
        }
    }
}

struct Builder {
    script: Script,
    now_us: u64,
    /// The places of data among ACKs are random, so that nothing periodic on the path always hits
    /// the same ones. Both ends draw the same numbers.
    rng: Rng,
}

impl Builder {
    fn new(segment: u16) -> Self {
        Self {
            rng: Rng::stream(u64::from(segment), 0),
            script: Script {
                segment,
                connections: Vec::new(),
                sends: Vec::new(),
                length_us: 0,
                queue_us: 0,
            },
            now_us: 20 * MS,
        }
    }

    /// Adds a segment now, with its answer.
    fn send(&mut self, conn: usize, answer: Answer) {
        let answers = &mut self.script.connections[conn].answers;
        self.script.sends.push(Send {
            at_us: self.now_us,
            conn,
            index: answers.len(),
        });
        answers.push(answer);
    }

    /// Adds segments of the first connection at a fixed interval.
    fn pace(&mut self, phase: Phase, interval_us: u64, acts: &[Act]) {
        for &act in acts {
            let round = 0;
            self.send(0, Answer { act, phase, round });
            self.now_us += interval_us;
        }
    }

    /// Adds segments that leave at once, whose ACKs are due with the last one.
    fn burst(&mut self, conn: usize, phase: Phase, round: u8, acks: u8, around: SurroundingData) {
        for n in 1..=acks {
            let act = if n == acks {
                Act::Flush(around)
            } else {
                Act::Defer
            };
            self.send(conn, Answer { act, phase, round });
        }
    }

    /// The ACKs of a young flow leave after some data segments and before one. An AQM that acts on,
    /// say, the second packet of a flow then sometimes hits data and sometimes an ACK.
    fn among_data(&mut self) -> SurroundingData {
        SurroundingData {
            before: 1 + self.rng.below(3) as u8,
            tail: false,
            behind: 1,
        }
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.rng.below(last as u64 + 1) as usize);
        }
    }

    fn finish(mut self) -> Script {
        self.script.sends.sort_by_key(|send| send.at_us);
        self.script.length_us = self.now_us;
        self.script
    }
}

const ACK: Act = Act::Now(News::None);
/// What leaves at once takes less time than this many large segments.
const MAX_BURST_SEGMENTS: u64 = 50;
/// The number of rounds of ACKs that leave at once.
const ROUNDS: u8 = 14;

/// A large segment next to a small one, among ACKs.
fn fast(it: &mut Builder, interval: u64) {
    const BLOCK: usize = 12;
    let blocks = (1000 * MS / interval).max(200) as usize / BLOCK;
    for _ in 0..blocks {
        let mut acts = [ACK; BLOCK];
        let at = 2 + it.rng.below(BLOCK as u64 - 4) as usize;
        let large_first = it.rng.below(2) as usize;
        acts[at] = [Act::Small, Act::Large][large_first];
        acts[at + 1] = [Act::Large, Act::Small][large_first];
        it.pace(Phase::Fast, interval, &acts);
    }
}

/// Like [`fast`], at 200 per second; one neighbour of each large segment is an ACK with news.
fn steady(it: &mut Builder, interval: u64) {
    const BLOCK: usize = 6;
    let interval = interval.max(5 * MS);
    for block in 0..14 * 4 {
        let mut acts = [ACK; BLOCK];
        let at = 2 + it.rng.below(2) as usize;
        let news_first = block / 4 % 2 == 0;
        let (news, other) = if news_first {
            (at - 1, at + 1)
        } else {
            (at + 1, at - 1)
        };
        acts[at] = Act::Large;
        if it.rng.below(2) == 0 {
            acts[other] = Act::Small;
        }
        // A segment that is late leaves a hole, which the ACK with news reports by SACK.
        let mut late = None;
        match block % 4 {
            0 => acts[news] = Act::Now(News::Ece),
            1 => acts[news] = Act::Now(News::Window),
            2 => acts[news] = Act::Now(News::Option),
            // The large segment itself, or the one before it.
            _ if news_first => {
                acts.swap(at, news);
                late = Some((at - 1, interval * 7 / 5));
            }
            _ => late = Some((at - 1, interval * 12 / 5)),
        }
        let first = it.script.sends.len();
        it.pace(Phase::Steady, interval, &acts);
        if let Some((place, by)) = late {
            it.script.sends[first + place].at_us += by;
        }
    }
}

fn long(interval: u64) -> Script {
    let mut it = Builder::new(LARGE);
    it.script.connections.push(Connection::default());
    it.pace(Phase::Other, interval.max(10 * MS), &[ACK; 20]);
    fast(&mut it, interval);
    steady(&mut it, interval);
    for _ in 0..ROUNDS {
        let mut acts = [ACK, Act::Small, Act::Large];
        it.shuffle(&mut acts);
        it.pace(Phase::Slow, interval.max(40 * MS), &acts);
    }
    let mut tails = [[true, false]; 10].concat();
    it.shuffle(&mut tails);
    for (round, tail) in (0..).zip(tails) {
        let around = SurroundingData {
            tail,
            ..SurroundingData::default()
        };
        it.burst(0, Phase::Burst, round, 5, around);
        let half = interval.max(20 * MS) * 13 / 4;
        it.now_us += half;
        let alone = Answer {
            act: Act::Large,
            phase: Phase::Burst,
            round,
        };
        it.send(0, alone);
        it.now_us += half;
    }
    for (phase, acks, pause) in [(Phase::Queued, 5, 150), (Phase::Train, 24, 200)] {
        for round in 0..ROUNDS {
            // This many fill a short queue, at a different place each time.
            let around = SurroundingData {
                before: 24 + it.rng.below(12) as u8,
                tail: false,
                behind: 3,
            };
            it.burst(0, phase, round, acks, around);
            it.now_us += (pause * MS).max(MAX_BURST_SEGMENTS * interval);
        }
    }
    it.finish()
}

fn short(interval: u64) -> Script {
    let mut it = Builder::new(120);
    for n in 0..CLASSIC + ACC_ECN {
        it.script.connections.push(Connection {
            acc_ecn: n >= CLASSIC,
            experiment: n == 0,
            mptcp: n == 1,
            answers: Vec::new(),
        });
    }
    // Let the buckets of filters by rate refill after the handshakes.
    it.now_us += 150 * MS;
    for conn in 0..CLASSIC + ACC_ECN {
        let around = it.among_data();
        it.burst(conn, Phase::Alone, 0, 4, around);
        it.now_us += (25 * MS).max(6 * interval);
    }
    it.now_us += 100 * MS;
    // Flows with AccECN are among the others: an ACK filter before a policer leaves one ACK of a
    // classic burst, for which the policer may have room, and four of a burst with AccECN.
    let mut crowd: Vec<_> = (0..CLASSIC + ACC_ECN).collect();
    it.shuffle(&mut crowd);
    for round in 0..2 {
        for &conn in &crowd {
            let around = it.among_data();
            it.burst(conn, Phase::Crowd, round, 4, around);
            // Leave time for the queue to drain, so that no AQM acts.
            it.now_us += (3 * MS).max(4 * interval);
        }
        it.now_us += 100 * MS;
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

    /// A slow path can carry all scripts within a session, with the handshakes and the records.
    #[test]
    fn a_session_has_time_for_all_scripts() {
        let lengths = |interval| {
            let scripts = [Stage::Long, Stage::Short].map(|stage| Script::new(stage, interval));
            2 * scripts.iter().map(|it| it.length_us).sum::<u64>()
        };
        let [low, high] = [*INTERVALS.start(), *INTERVALS.end()].map(lengths);
        assert!(low < 32_000_000, "{low}");
        let session = crate::session::SESSION_TIMEOUT.as_micros() as u64;
        // Each of the four may wait for connections for 12.5 s.
        assert!(high + 50_000_000 < session, "{high}");
    }

    /// No phase asks for more than the path's rate, averaged over the pauses.
    #[test]
    fn every_phase_keeps_to_the_rate() {
        for interval in [1000, 4000, 20_000] {
            for stage in [Stage::Long, Stage::Short] {
                let script = Script::new(stage, interval);
                for phase in Phase::ALL {
                    let (mut first, mut last, mut data, mut acks) = (None, 0, 0, 0);
                    for send in &script.sends {
                        let answer = script.connections[send.conn].answers[send.index];
                        if answer.phase != phase {
                            continue;
                        }
                        first = first.or(Some(send.at_us));
                        last = send.at_us;
                        data += u64::from(script.segment);
                        acks += match answer.act {
                            Act::Flush(around) => u64::from(around.before + around.behind) * 536,
                            Act::Large => 536,
                            _ => 0,
                        };
                    }
                    let Some(first) = first else { continue };
                    // A pause follows the last round, too.
                    let elapsed = last - first + u64::from(interval) * 50;
                    let most = elapsed * u64::from(LARGE) / u64::from(interval);
                    assert!(
                        data <= most && acks <= most,
                        "{interval} {phase:?}: {data} {acks} {most}"
                    );
                }
            }
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
            let elapsed = at[at.len() - 1] - at[0];
            assert!(at.len() as u64 * 1_000_000 / elapsed <= 50, "{phase:?}");
        }
    }
}
