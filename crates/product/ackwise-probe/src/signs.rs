//! Measures that characterise a direction, each under conditions where only some boxes act.

use std::collections::BTreeMap;

use crate::compare::{Direction, Sample};
use crate::pairs::{LossComparison, Part};
use crate::record::Role;
use crate::script::{CLASSIC, Phase, WINDOW_UPDATE};
use crate::segment::{flag, kind};
use crate::stats::{SIGNIFICANCE_LEVEL, Share, coin, larger, median};

/// The delay in milliseconds above which an ACK is late. A hold is at least 1 ms.
const LATE_MS: f64 = 0.9;

/// The minimum number of delays of ACKs, and of data, to show that ACKs are not held.
const MIN_DELAYS: usize = 5;

/// What happened to ACKs that left at once, where the data just before and behind them arrive. If
/// those do not arrive, the path has little room, or none at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct BurstResult {
    /// Bursts whose first two ACKs are lost and whose last arrives.
    pub first_lost: usize,
    /// Bursts whose last two ACKs are lost and whose first arrives.
    pub last_lost: usize,
    /// Bursts of which at least one ACK arrives.
    pub bursts: usize,
    /// Bursts whose last ACK but one arrives.
    pub last_but_one: usize,
    /// ACKs that arrive.
    pub arrived: usize,
}

impl BurstResult {
    /// The average number of ACKs that arrive from a burst.
    #[must_use]
    pub fn mean_arrivals(&self) -> f64 {
        self.arrived as f64 / self.bursts.max(1) as f64
    }

    /// Returns whether older ACKs give way to newer ones.
    #[must_use]
    pub fn older_give_way(&self) -> bool {
        coin(self.first_lost, self.last_lost) < SIGNIFICANCE_LEVEL
    }
}

/// The delay of ACKs relative to data.
#[derive(Debug, Clone, Copy)]
pub struct AckDelay {
    /// The difference of the medians, in milliseconds.
    pub late_ms: f64,
    /// Whether it is beyond chance.
    pub sure: bool,
    /// Whether ACKs are shown not to be held: enough arrived, no later than data.
    pub none: bool,
}

/// The signs in a direction.
#[derive(Debug)]
pub struct Signs {
    /// ACKs beside data, by phase; in bursts, the first ACK of each.
    pub thinned: BTreeMap<Phase, LossComparison>,
    /// Segments of a few bytes beside large ones.
    pub short: LossComparison,
    /// ACKs at a slow pace.
    pub slow_acks: Share,
    /// Segments of a few bytes at a slow pace.
    pub slow_short: Share,
    /// The last ACKs of many flows at once, beside data of the same flows.
    pub crowd: LossComparison,
    /// The bursts of young flows with classic ECN, one at a time.
    pub young: BurstResult,
    /// The bursts of young flows with AccECN.
    pub young_acc_ecn: BurstResult,
    /// The bursts of a flow that is not young, with a queue.
    pub old: BurstResult,
    /// The delay of the last ACK of a burst, relative to data in its place.
    pub hold: AckDelay,
    /// The second ACK of a burst beside data: some boxes that hold let the first one pass.
    pub second: LossComparison,
    /// ACKs with news beside data, by the kind of news.
    pub news: BTreeMap<&'static str, LossComparison>,
}

/// Selects the packets to examine.
type Wanted = fn(&Sample) -> bool;

/// The phases in which ACKs are sent by the clock.
const PACED: [Phase; 2] = [Phase::Fast, Phase::Steady];

fn is(it: &Sample, role: Role) -> bool {
    it.sent.role == role
}

/// Compares packets with the large segments of the same phases.
fn compare_with_data(
    path: &Direction,
    phases: &[Phase],
    wanted: impl Fn(&Sample) -> bool,
) -> LossComparison {
    let samples = path.samples();
    let samples = samples.filter(|it| phases.contains(&it.sent.phase));
    LossComparison::of(samples, |it| match it.sent.role {
        Role::Large => Part::Data,
        _ if wanted(it) => Part::Suspect,
        _ => Part::Aside,
    })
}

/// Compares ACKs with data. In a burst only the first counts, which a filter would remove.
fn acks_beside(path: &Direction, phase: Phase) -> LossComparison {
    let first = |it: &Sample| is(it, Role::Ack) && it.sent.place == 1 && !has_news(it);
    let mut contrast = compare_with_data(path, &[phase], first);
    contrast.these = path.lost(&[phase], Role::Ack);
    contrast
}

impl Signs {
    /// Determines the signs of a direction.
    #[must_use]
    pub fn of(path: &Direction) -> Self {
        let phases = Phase::ALL.into_iter().filter(|it| *it != Phase::Other);
        let last = |it: &Sample| is(it, Role::Ack) && it.sent.place == 4;
        let second = |it: &Sample| is(it, Role::Ack) && it.sent.place == 2;
        Self {
            thinned: phases.map(|it| (it, acks_beside(path, it))).collect(),
            short: compare_with_data(path, &PACED, |it| is(it, Role::Small)),
            slow_acks: path.lost(&[Phase::Slow], Role::Ack),
            slow_short: path.lost(&[Phase::Slow], Role::Small),
            crowd: compare_with_data(path, &[Phase::Crowd], last),
            young: order(path, Phase::Alone, |it| usize::from(it.sent.conn) < CLASSIC),
            young_acc_ecn: order(path, Phase::Alone, |it| {
                usize::from(it.sent.conn) >= CLASSIC
            }),
            old: order(path, Phase::Queued, |_| true),
            hold: hold(path),
            second: compare_with_data(path, &[Phase::Burst], second),
            news: NEWS.map(|(name, wanted)| (name, news(path, wanted))).into(),
        }
    }

    /// Returns whether ACKs are removed beyond chance in this phase.
    #[must_use]
    pub fn thins(&self, phase: Phase) -> bool {
        self.thinned.get(&phase).is_some_and(LossComparison::holds)
    }
}

/// The kinds of news. Each ACK with news is next to a large segment, before it as often as behind.
const NEWS: [(&str, Wanted); 4] = [
    ("ECN echo", |it| {
        it.sent.flags & (flag::ECE | flag::AE) == flag::ECE
    }),
    ("window update", |it| it.sent.window == WINDOW_UPDATE),
    ("unknown option", |it| it.sent.has(kind::EXPERIMENT)),
    ("SACK", |it| it.sent.sack != 0),
];

fn has_news(it: &Sample) -> bool {
    NEWS.iter().any(|(_, wanted)| wanted(it))
}

fn news(path: &Direction, wanted: Wanted) -> LossComparison {
    let is_wanted_ack = |it: &Sample| is(it, Role::Ack) && wanted(it);
    compare_with_data(path, &[Phase::Steady], is_wanted_ack)
}

#[derive(Default)]
struct Burst {
    /// Whether each ACK arrives, by place.
    acks: Vec<bool>,
    /// Whether the last data segment before the ACKs arrives, unmarked.
    before: Option<bool>,
    /// Whether the first data segment behind the ACKs arrives, unmarked.
    behind: Option<bool>,
}

impl Burst {
    fn add(&mut self, it: &Sample) {
        let arrives = !it.is_lost();
        let place = usize::from(it.sent.place);
        match (it.sent.role, place.checked_sub(1)) {
            (Role::Large, None) => self.before = Some(!it.is_hit()),
            (Role::Large, Some(_)) => self.behind = self.behind.or(Some(!it.is_hit())),
            (Role::Ack, Some(at)) => {
                if self.acks.len() < place {
                    self.acks.resize(place, false);
                }
                self.acks[at] = arrives;
            }
            _ => {}
        }
    }

    fn stands_in_data(&self) -> bool {
        self.before != Some(false) && self.behind != Some(false)
    }
}

fn order(path: &Direction, phase: Phase, wanted: Wanted) -> BurstResult {
    let mut bursts: BTreeMap<(u8, u8), Burst> = BTreeMap::new();
    let all = path.samples();
    for it in all.filter(|it| it.sent.phase == phase && wanted(it)) {
        let of = (it.sent.conn, it.sent.round);
        bursts.entry(of).or_default().add(it);
    }
    let mut order = BurstResult::default();
    for burst in bursts.values().filter(|it| it.stands_in_data()) {
        let [first, second, .., last_but_one, last] = burst.acks[..] else {
            continue;
        };
        // A single loss may be an AQM's.
        order.first_lost += usize::from(!first && !second && last);
        order.last_lost += usize::from(first && !last_but_one && !last);
        order.bursts += usize::from(burst.acks.contains(&true));
        order.last_but_one += usize::from(last_but_one);
        order.arrived += burst.acks.iter().filter(|it| **it).count();
    }
    order
}

fn hold(path: &Direction) -> AckDelay {
    let delays = |role: Role| {
        let last = path
            .of_phase(Phase::Burst, role)
            .filter(|it| it.sent.place == 5);
        last.filter_map(Sample::delay_ms).collect::<Vec<_>>()
    };
    let (acks, data) = (delays(Role::Ack), delays(Role::Small));
    let fewest = acks.len().min(data.len());
    let late_ms = if fewest == 0 {
        0.0
    } else {
        median(&acks) - median(&data)
    };
    AckDelay {
        late_ms,
        sure: late_ms > LATE_MS && larger(&acks, &data) < SIGNIFICANCE_LEVEL,
        none: late_ms <= LATE_MS && fewest >= MIN_DELAYS,
    }
}

#[cfg(test)]
mod tests;
