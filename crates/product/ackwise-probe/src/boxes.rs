//! Which known middleboxes explain what was found.
//!
//! Each is known by a sign that the others do not show under the same conditions, so that several
//! in a row are told apart. What they share (that ACKs are missing in a fast flow) names none.

use serde::Serialize;

use crate::changes::Changes;
use crate::script::Phase;
use crate::signs::Signs;
use crate::stats::coin;

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

/// Names the boxes of a direction.
#[must_use]
pub fn boxes(signs: &Signs, changes: &Changes) -> Vec<Named> {
    let mut found = Vec::new();
    found.extend(proxy(changes));
    found.extend(length_and_rate(signs));
    found.extend(policer(signs));
    found.extend(queue(signs));
    found.extend(attach(signs));
    found.extend(gateway(signs));
    if found.is_empty() {
        found.extend(unknown(signs));
    }
    found
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn proxy(changes: &Changes) -> Option<Named> {
    let foreign = changes.foreign_handshakes;
    (foreign.hit > 0).then(|| Named {
        name: Known::Proxy,
        what: "a proxy that splits connections",
        because: format!(
            "{} of {} handshakes were made on the way, not by the other end",
            foreign.hit, foreign.of
        ),
        advice: "what is said about ACKs ends at the proxy: probe from and to a port that it leaves alone",
    })
}

fn length_and_rate(signs: &Signs) -> Option<Named> {
    (signs.short.holds() && !signs.slow.holds()).then(|| Named {
        name: Known::LengthAndRate,
        what: "rules that drop short packets above a rate, as they are copied for OpenWrt",
        because: format!(
            "{} of the segments with a few bytes of data are lost and {} of those with many, at 200 a second and more; at a slow pace all pass",
            percent(signs.short.these.value()),
            percent(signs.short.others.value()),
        ),
        advice: "it loses data and the ends of connections: replace the rules by a filter of the queue (`ackwise gateway`, or cake's)",
    })
}

fn policer(signs: &Signs) -> Option<Named> {
    signs.crowd.holds().then(|| Named {
        name: Known::Policer,
        what: "a policer that knows no flow, as tc's",
        because: format!(
            "of many flows that acknowledge at once {} lose their last ACK, and {} their data",
            percent(signs.crowd.these.value()),
            percent(signs.crowd.others.value()),
        ),
        advice: "it loses last ACKs, after which senders wait for their timers: remove it, or hold what it drops (`ackwise attach --policy police`)",
    })
}

fn queue(signs: &Signs) -> Option<Named> {
    let young = &signs.young;
    if !young.older_give_way() {
        return None;
    }
    let acc_ecn = &signs.young_acc_ecn;
    let ignores_acc_ecn =
        acc_ecn.first_lost >= 5 && coin(acc_ecn.first_lost, acc_ecn.last_lost) < 0.05;
    let keeps_two = 2 * young.last_but_one > young.bursts;
    let left = young.arrived as f64 / young.bursts.max(1) as f64;
    let (name, what) = match (ignores_acc_ecn, keeps_two) {
        (true, _) => (
            Known::NumbersOnly,
            "an ACK filter of a queue that looks at numbers only, as ns-2's",
        ),
        (false, true) => (Known::CakeAckFilter, "cake with ack-filter"),
        (false, false) => (
            Known::CakeAckFilterAggressive,
            "cake with ack-filter-aggressive",
        ),
    };
    let with = if ignores_acc_ecn {
        "the same"
    } else {
        "not so"
    };
    Some(Named {
        name,
        what,
        because: format!(
            "of four ACKs of a young flow behind data {left:.1} are left, the newest; with AccECN {with}"
        ),
        advice: if ignores_acc_ecn {
            "it loses marks and SACK blocks: replace it by a filter that reads them"
        } else {
            "it does no harm to most flows; `ackwise-lab conform` has what it loses"
        },
    })
}

fn attach(signs: &Signs) -> Option<Named> {
    let thins = signs.thins(Phase::Burst) || signs.old.older_give_way();
    (signs.hold.sure && thins).then(|| Named {
        name: Known::AckwiseAttach,
        what: "a datapath that holds ACKs and lets the newest out in time, as ackwise attach",
        because: format!(
            "the last ACK of a burst comes {:.1} ms later than data in its place, and those before it do not come",
            signs.hold.late_ms
        ),
        advice: "nothing is lost; `ackwise status` there says what it saves",
    })
}

/// Where ACKs are held, too, both look alike.
fn gateway(signs: &Signs) -> Option<Named> {
    let old = &signs.old;
    let alone = old.older_give_way() && !signs.young.older_give_way() && !signs.hold.sure;
    alone.then(|| Named {
        name: Known::AckwiseGateway,
        what: "a queue that thins flows which are not young, as ackwise gateway",
        because: format!(
            "of five ACKs behind data {:.1} are left, the newest, at once; those of young flows all come",
            old.arrived as f64 / old.bursts.max(1) as f64
        ),
        advice: "nothing is lost; `ackwise gateway status` there says what it saves",
    })
}

fn unknown(signs: &Signs) -> Option<Named> {
    let thinned = signs.thinned.iter().find(|(_, contrast)| contrast.holds());
    thinned.map(|(_, contrast)| Named {
        name: Known::Unknown,
        what: "something that removes ACKs, and is no box that this program knows",
        because: format!(
            "{} of the ACKs are missing where {} of the data are",
            percent(contrast.these.value()),
            percent(contrast.others.value()),
        ),
        advice: "capture at both ends, and ask what is missing: `ackwise analyze`",
    })
}
