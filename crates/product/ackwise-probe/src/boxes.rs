//! Which known middleboxes explain what was found.
//!
//! Each is known by a sign that the others do not show under the same conditions, so that several
//! in a row are told apart. What they share (that ACKs are missing in a fast flow) names none.

use serde::Serialize;

use crate::changes::Changes;
use crate::script::Phase;
use crate::signs::Signs;
use crate::stats::{LEVEL, coin, percent};

/// A kind of box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// cake with `ack-filter`.
    CakeAckFilter,
    /// cake with `ack-filter-aggressive`.
    CakeAckFilterAggressive,
    /// A filter of a queue that looks at numbers only, as ns-2's.
    NumbersOnly,
    /// Rules by length, flag and rate, as they are copied for OpenWrt.
    LengthAndRate,
    /// A policer that knows no flow, as tc's.
    Policer,
    /// A datapath that holds ACKs, as `ackwise attach`.
    AckwiseAttach,
    /// A queue that keeps to the contract, as `ackwise gateway`.
    AckwiseGateway,
    /// A proxy that splits connections.
    Proxy,
    /// ACKs are removed, and no known box explains it.
    Unknown,
}

/// A box that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    /// Which.
    pub name: Known,
    /// What is called so, in words.
    pub what: &'static str,
    /// What shows it.
    pub because: String,
    /// What to do about it.
    pub advice: &'static str,
}

impl Known {
    /// What is called so, in words.
    const fn what(self) -> &'static str {
        match self {
            Self::CakeAckFilter => "cake with ack-filter",
            Self::CakeAckFilterAggressive => "cake with ack-filter-aggressive",
            Self::NumbersOnly => "an ACK filter of a queue that looks at numbers only, as ns-2's",
            Self::LengthAndRate => {
                "rules that drop short packets above a rate, as they are copied for OpenWrt"
            }
            Self::Policer => "a policer that knows no flow, as tc's",
            Self::AckwiseAttach => {
                "a datapath that holds ACKs and lets the newest out in time, as ackwise attach"
            }
            Self::AckwiseGateway => {
                "a queue that thins flows which are not young, as ackwise gateway"
            }
            Self::Proxy => "a proxy that splits connections",
            Self::Unknown => "something that removes ACKs, and is no box that this program knows",
        }
    }

    /// What to do about it.
    const fn advice(self) -> &'static str {
        match self {
            Self::CakeAckFilter | Self::CakeAckFilterAggressive => {
                "it does no harm to most flows; `ackwise-lab conform` has what it loses"
            }
            Self::NumbersOnly => {
                "it loses marks and SACK blocks: replace it by a filter that reads them"
            }
            Self::LengthAndRate => {
                "it loses data and the ends of connections: replace the rules by a filter of the queue (`ackwise gateway`, or cake's)"
            }
            Self::Policer => {
                "it loses last ACKs, after which senders wait for their timers: remove it, or hold what it drops (`ackwise attach --policy police`)"
            }
            Self::AckwiseAttach => "nothing is lost; `ackwise status` there says what it saves",
            Self::AckwiseGateway => {
                "nothing is lost; `ackwise gateway status` there says what it saves"
            }
            Self::Proxy => {
                "what is said about ACKs ends at the proxy: probe from and to a port that it leaves alone"
            }
            Self::Unknown => "capture at both ends, and ask what is missing: `ackwise analyze`",
        }
    }
}

impl Named {
    fn new(name: Known, because: String) -> Self {
        Self {
            name,
            what: name.what(),
            because,
            advice: name.advice(),
        }
    }
}

/// Names the boxes of a direction.
#[must_use]
pub fn boxes(signs: &Signs, changes: &Changes) -> Vec<Named> {
    let found = [
        proxy(changes),
        length_and_rate(signs),
        policer(signs),
        queue(signs),
        attach(signs),
        gateway(signs),
    ];
    let mut found: Vec<_> = found.into_iter().flatten().collect();
    if found.is_empty() {
        found.extend(unknown(signs));
    }
    found
}

fn proxy(changes: &Changes) -> Option<Named> {
    let foreign = changes.foreign_handshakes;
    let because = format!(
        "{} of {} handshakes were made on the way, not by the other end",
        foreign.hit, foreign.of
    );
    (foreign.hit > 0).then(|| Named::new(Known::Proxy, because))
}

fn length_and_rate(signs: &Signs) -> Option<Named> {
    let because = format!(
        "{} of the segments with a few bytes of data are lost and {} of those with many, at 200 a second and more; at a slow pace all pass",
        percent(signs.short.these),
        percent(signs.short.others),
    );
    let found = signs.short.holds_in_any_order() && !signs.slow.holds();
    found.then(|| Named::new(Known::LengthAndRate, because))
}

fn policer(signs: &Signs) -> Option<Named> {
    let because = format!(
        "of many flows, none of them fast, {} lose their last ACK, and {} their data",
        percent(signs.crowd.these),
        percent(signs.crowd.others),
    );
    let found = signs.crowd.holds();
    found.then(|| Named::new(Known::Policer, because))
}

fn queue(signs: &Signs) -> Option<Named> {
    let young = &signs.young;
    if !young.older_give_way() {
        return None;
    }
    let acc_ecn = &signs.young_acc_ecn;
    // That it is a filter is known; of twelve flows most say which.
    let ignores_acc_ecn = coin(acc_ecn.first_lost, acc_ecn.last_lost) < 10.0 * LEVEL;
    let keeps_two = 2 * young.last_but_one > young.bursts;
    let name = match (ignores_acc_ecn, keeps_two) {
        (true, _) => Known::NumbersOnly,
        (false, true) => Known::CakeAckFilter,
        (false, false) => Known::CakeAckFilterAggressive,
    };
    let because = format!(
        "of four ACKs of a young flow behind data {:.1} are left, the newest; with AccECN {}",
        young.left(),
        if ignores_acc_ecn {
            "the same"
        } else {
            "not so"
        }
    );
    Some(Named::new(name, because))
}

fn attach(signs: &Signs) -> Option<Named> {
    let because = format!(
        "the last ACK of a burst comes {:.1} ms later than data in its place, and those before it do not come",
        signs.hold.late_ms
    );
    let burst = signs.thins(Phase::Burst) || signs.second.holds();
    let thins = burst || signs.old.older_give_way();
    (signs.hold.sure && thins).then(|| Named::new(Known::AckwiseAttach, because))
}

/// Where ACKs are held, too, both look alike.
fn gateway(signs: &Signs) -> Option<Named> {
    let because = format!(
        "of five ACKs behind data {:.1} are left, the newest, at once; those of young flows all come",
        signs.old.left()
    );
    let young = signs.young.older_give_way();
    let alone = signs.old.older_give_way() && !young && !signs.hold.sure;
    alone.then(|| Named::new(Known::AckwiseGateway, because))
}

fn unknown(signs: &Signs) -> Option<Named> {
    let contrast = signs.thinned.values().find(|it| it.holds())?;
    let because = format!(
        "{} of the ACKs are missing where {} of the data are",
        percent(contrast.these),
        percent(contrast.others),
    );
    Some(Named::new(Known::Unknown, because))
}
