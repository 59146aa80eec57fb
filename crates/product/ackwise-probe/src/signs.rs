//! Numbers that say what a direction does, each under conditions where only some boxes act.

use std::collections::BTreeMap;

use crate::compare::{Direction, Sample};
use crate::record::Role;
use crate::script::{CLASSIC, Phase};
use crate::segment::flag;
use crate::stats::{LEVEL, Share, coin, hit_more, larger, median};

/// A late ACK: more than this, in milliseconds. A hold is 1 ms at least.
const LATE_MS: f64 = 0.9;

/// A difference between what happens to ACKs and to other packets.
#[derive(Debug, Clone, Copy)]
pub struct Contrast {
    /// What is looked at.
    pub these: Share,
    /// What it is compared with.
    pub others: Share,
}

impl Contrast {
    /// Says whether these are hit more often, beyond chance, and by more than a twentieth.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.these.value() > self.others.value() + 0.05 && hit_more(self.these, self.others) < LEVEL
    }
}

/// What ACKs that left at once came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Order {
    /// Bursts whose first ACK is lost and whose last arrives.
    pub first_lost: usize,
    /// Bursts whose last ACK is lost and whose first arrives.
    pub last_lost: usize,
    /// Bursts of which an ACK arrives.
    pub bursts: usize,
    /// Bursts whose last ACK but one arrives.
    pub last_but_one: usize,
    /// ACKs that arrive.
    pub arrived: usize,
}

impl Order {
    /// Says whether older ACKs give way to newer ones.
    #[must_use]
    pub fn older_give_way(&self) -> bool {
        self.first_lost >= 5 && coin(self.first_lost, self.last_lost) < LEVEL.max(0.002)
    }
}

/// A delay of ACKs that data do not have.
#[derive(Debug, Clone, Copy)]
pub struct Hold {
    /// The median, in milliseconds.
    pub late_ms: f64,
    /// Whether it is beyond chance.
    pub sure: bool,
}

/// The signs of a direction.
#[derive(Debug)]
pub struct Signs {
    /// ACKs beside data, by phase.
    pub thinned: BTreeMap<Phase, Contrast>,
    /// Segments of a few bytes beside those of many.
    pub short: Contrast,
    /// What is short, at a slow pace, beside data.
    pub slow: Contrast,
    /// The last ACKs of many flows at once, beside data of the same.
    pub crowd: Contrast,
    /// Young flows with classic ECN, one at a time.
    pub young: Order,
    /// Young flows with AccECN.
    pub young_acc_ecn: Order,
    /// A flow that is not young, with a queue.
    pub old: Order,
    /// The last ACK of a burst beside data in its place.
    pub hold: Hold,
    /// ACKs that say more than a number, beside data.
    pub news: BTreeMap<&'static str, Contrast>,
}

/// Says whether a packet is looked at.
type Wanted = fn(&Sample) -> bool;

/// The phases where ACKs leave by the clock.
const PACED: [Phase; 2] = [Phase::Fast, Phase::Steady];

impl Signs {
    /// Reads them from a direction.
    #[must_use]
    pub fn of(path: &Direction) -> Self {
        let phases = Phase::ALL.into_iter().filter(|it| *it != Phase::Other);
        let thinned = phases.map(|phase| {
            let contrast = Contrast {
                these: path.lost(&[phase], Role::Ack),
                others: data_of(path, phase),
            };
            (phase, contrast)
        });
        let slow = [Role::Ack, Role::Small].map(|role| path.lost(&[Phase::Slow], role));
        let slow = Share {
            of: slow[0].of + slow[1].of,
            hit: slow[0].hit + slow[1].hit,
        };
        Self {
            thinned: thinned.collect(),
            short: Contrast {
                these: path.lost(&PACED, Role::Small),
                others: path.lost(&PACED, Role::Large),
            },
            slow: Contrast {
                these: slow,
                others: path.lost(&[Phase::Slow, Phase::Burst, Phase::Queued], Role::Large),
            },
            crowd: crowd(path),
            young: order(path, Phase::Alone, |it| usize::from(it.sent.conn) < CLASSIC),
            young_acc_ecn: order(path, Phase::Alone, |it| {
                usize::from(it.sent.conn) >= CLASSIC
            }),
            old: order(path, Phase::Queued, |_| true),
            hold: hold(path),
            news: news(path),
        }
    }

    /// Whether ACKs are removed beyond chance in this phase.
    #[must_use]
    pub fn thins(&self, phase: Phase) -> bool {
        self.thinned.get(&phase).is_some_and(Contrast::holds)
    }
}

/// Data that left beside the ACKs of a phase; where there are too few, those of all.
fn data_of(path: &Direction, phase: Phase) -> Share {
    let near = path.lost(&[phase], Role::Large);
    if near.of >= 20 {
        return near;
    }
    path.lost(&Phase::ALL, Role::Large)
}

fn crowd(path: &Direction) -> Contrast {
    let mut last = Share::default();
    for it in path.of_phase(Phase::Crowd, Role::Ack) {
        if it.sent.place == 4 {
            last.add(it.is_lost());
        }
    }
    Contrast {
        these: last,
        others: path.lost(&[Phase::Crowd], Role::Large),
    }
}

fn order(path: &Direction, phase: Phase, wanted: Wanted) -> Order {
    let mut bursts: BTreeMap<(u8, u8), Vec<bool>> = BTreeMap::new();
    for it in path.of_phase(phase, Role::Ack).filter(|it| wanted(it)) {
        let burst = bursts.entry((it.sent.conn, it.sent.round)).or_default();
        let place = usize::from(it.sent.place);
        if burst.len() < place {
            burst.resize(place, false);
        }
        if let Some(slot) = place.checked_sub(1).and_then(|at| burst.get_mut(at)) {
            *slot = !it.is_lost();
        }
    }
    let mut order = Order::default();
    for burst in bursts.values().filter(|it| it.len() > 2) {
        let (first, last) = (burst[0], burst[burst.len() - 1]);
        order.first_lost += usize::from(!first && last);
        order.last_lost += usize::from(first && !last);
        order.bursts += usize::from(burst.contains(&true));
        order.last_but_one += usize::from(burst[burst.len() - 2]);
        order.arrived += burst.iter().filter(|it| **it).count();
    }
    order
}

fn hold(path: &Direction) -> Hold {
    let delays = |role: Role| {
        let last = path
            .of_phase(Phase::Burst, role)
            .filter(|it| it.sent.place == 5);
        last.filter_map(Sample::delay_ms).collect::<Vec<_>>()
    };
    let (acks, data) = (delays(Role::Ack), delays(Role::Large));
    let late_ms = median(&acks) - median(&data);
    Hold {
        late_ms: if acks.is_empty() || data.is_empty() {
            0.0
        } else {
            late_ms
        },
        sure: late_ms > LATE_MS && larger(&acks, &data) < 0.002,
    }
}

fn news(path: &Direction) -> BTreeMap<&'static str, Contrast> {
    let kinds: [(&str, Wanted); 4] = [
        ("ECN echo", |it| {
            it.sent.flags & (flag::ECE | flag::AE) == flag::ECE
        }),
        ("window update", |it| it.sent.window == 2048 - 64),
        ("unknown option", |it| {
            it.sent.has(crate::segment::kind::EXPERIMENT)
        }),
        ("SACK", |it| it.sent.sack != 0),
    ];
    let data = path.lost(&[Phase::Steady], Role::Large);
    let all = path.lost(&Phase::ALL, Role::Large);
    let others = if data.of >= 20 { data } else { all };
    let count = |kind: Wanted| {
        let mut these = Share::default();
        for it in path
            .of_phase(Phase::Steady, Role::Ack)
            .filter(|it| kind(it))
        {
            these.add(it.is_lost());
        }
        Contrast { these, others }
    };
    kinds.map(|(name, kind)| (name, count(kind))).into()
}
