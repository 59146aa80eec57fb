//! Names the known middleboxes that explain the findings.
//!
//! Each box is recognised by a sign that the others do not show under the same conditions, so that
//! several in a row can be told apart. A sign that they share (ACKs missing in a fast flow)
//! identifies none.
//!
//! Some boxes are also recognised by what they do not do. That needs evidence, too: if too little
//! arrived to show it, the box is not named, or all that fit are. Anything that none of the boxes
//! found does is reported as [`Known::Unknown`].

use serde::Serialize;

use crate::changes::Changes;
use crate::script::{CLASSIC, Phase};
use crate::shown::Sign;
use crate::signs::Signs;
use crate::stats::{LEVEL, Share, coin, percent};

/// A kind of middlebox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// cake with `ack-filter`.
    CakeAckFilter,
    /// cake with `ack-filter-aggressive`.
    CakeAckFilterAggressive,
    /// An ACK filter in a queue that looks only at numbers, such as ns-2's.
    NumbersOnly,
    /// Rules by length, flag and rate, as copied for OpenWrt.
    LengthAndRate,
    /// A policer that does not distinguish flows, such as tc's.
    Policer,
    /// A datapath that holds ACKs, such as `ackwise attach`.
    AckwiseAttach,
    /// A queue that follows the contract, such as `ackwise gateway`.
    AckwiseGateway,
    /// A proxy that splits connections.
    Proxy,
    /// Something happens to ACKs, or to short data, that no known box explains, or several do.
    Unknown,
}

/// A box that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    /// The kind of box.
    pub name: Known,
    /// A description of the box.
    pub what: &'static str,
    /// The evidence for it.
    pub because: String,
    /// What to do about it.
    pub advice: &'static str,
}

impl Known {
    /// A description of the box.
    const fn what(self) -> &'static str {
        match self {
            Self::CakeAckFilter => "cake with ack-filter",
            Self::CakeAckFilterAggressive => "cake with ack-filter-aggressive",
            Self::NumbersOnly => {
                "an ACK filter that looks at acknowledgment numbers only, like ns-2's"
            }
            Self::LengthAndRate => {
                "firewall rules that drop short packets above a rate (a recipe often copied for \
                 OpenWrt)"
            }
            Self::Policer => "a policer that does not know flows, like tc's",
            Self::AckwiseAttach => {
                "a datapath that holds ACKs and sends only the newest, after a short wait, like \
                 ackwise attach"
            }
            Self::AckwiseGateway => {
                "a queue that thins flows which are not young, like ackwise gateway"
            }
            Self::Proxy => "a proxy that splits connections",
            Self::Unknown => "a box that this program does not know",
        }
    }

    /// What to do about it.
    const fn advice(self) -> &'static str {
        match self {
            Self::CakeAckFilter | Self::CakeAckFilterAggressive => {
                "it does no harm to most flows; `ackwise-lab conform` shows what it loses"
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
                "the findings about ACKs end at the proxy: probe from and to a port that it leaves alone"
            }
            Self::Unknown => "capture at both ends, and see with `ackwise analyze` what is missing",
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

/// Boxes that explain a finding equally well: one, or several that cannot be told apart here.
struct Found {
    fit: Vec<Known>,
    because: String,
}

impl Found {
    fn one(known: Known, because: String) -> Self {
        Self {
            fit: vec![known],
            because,
        }
    }

    fn named(&self) -> Named {
        if let [known] = self.fit[..] {
            return Named::new(known, self.because.clone());
        }
        let fit: Vec<_> = self.fit.iter().map(|it| it.what()).collect();
        Named {
            name: Known::Unknown,
            what: "one of several boxes, which this probe cannot tell apart",
            because: format!("{}: {}", fit.join(", or "), self.because),
            advice: "probe again when the path loses less",
        }
    }
}

/// Names the boxes in a direction.
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
    let found: Vec<_> = found.into_iter().flatten().collect();
    let mut named: Vec<_> = found.iter().map(Found::named).collect();
    named.extend(unknown(signs, &found));
    named
}

fn proxy(changes: &Changes) -> Option<Found> {
    let foreign = changes.foreign_handshakes;
    let because = format!(
        "{} of {} handshakes were made on the way, not by the other end",
        foreign.hit, foreign.of
    );
    (foreign.hit > 0).then(|| Found::one(Known::Proxy, because))
}

/// Returns whether a path is shown to let these pass: of at least ten, no more than a quarter is
/// lost. With few samples, finding no loss beyond chance shows nothing.
fn pass(these: Share) -> bool {
    const ENOUGH: usize = 10;
    these.of >= ENOUGH && 4 * these.hit <= these.of
}

fn length_and_rate(signs: &Signs) -> Option<Found> {
    let because = format!(
        "{} of the segments with a few bytes of data are lost and {} of those with many, at 200 a second and more; at a slow pace {}",
        percent(signs.short.these),
        percent(signs.short.others),
        percent(signs.slow_short),
    );
    let found = signs.short.holds_in_any_order() && pass(signs.slow_short);
    found.then(|| Found::one(Known::LengthAndRate, because))
}

fn policer(signs: &Signs) -> Option<Found> {
    let because = format!(
        "of many flows, none of them fast, {} lose their last ACK, and {} their data; at a slow pace {} of the ACKs are lost",
        percent(signs.crowd.these),
        percent(signs.crowd.others),
        percent(signs.slow_acks),
    );
    let found = signs.crowd.holds() && pass(signs.slow_acks);
    found.then(|| Found::one(Known::Policer, because))
}

fn queue(signs: &Signs) -> Option<Found> {
    let young = &signs.young;
    if !young.older_give_way() {
        return None;
    }
    // It is known to be a filter; most of twelve flows tell which.
    const ENOUGH: usize = 6;
    let acc_ecn = &signs.young_acc_ecn;
    let ignores_acc_ecn = coin(acc_ecn.first_lost, acc_ecn.last_lost) < 10.0 * LEVEL;
    let spares_acc_ecn = acc_ecn.bursts >= ENOUGH && 4 * acc_ecn.first_lost <= acc_ecn.bursts;
    let keeps_two = 2 * young.last_but_one > young.bursts;
    let of_cake = if keeps_two {
        Known::CakeAckFilter
    } else {
        Known::CakeAckFilterAggressive
    };
    let (fit, said) = match (ignores_acc_ecn, spares_acc_ecn) {
        (true, _) => (vec![Known::NumbersOnly], "the same"),
        (false, true) => (vec![of_cake], "not so"),
        (false, false) => (
            vec![of_cake, Known::NumbersOnly],
            "too few arrived to say the same",
        ),
    };
    let because = format!(
        "of four ACKs of a young flow behind data {:.1} are left, the newest; with AccECN {said}",
        young.left(),
    );
    Some(Found { fit, because })
}

fn attach(signs: &Signs) -> Option<Found> {
    let because = format!(
        "the last ACK of a burst comes {:.1} ms later than data in its place, and those before it do not come",
        signs.hold.late_ms
    );
    let burst = signs.thins(Phase::Burst) || signs.second.holds();
    let thins = burst || signs.old.older_give_way();
    (signs.hold.sure && thins).then(|| Found::one(Known::AckwiseAttach, because))
}

/// If ACKs are also held, both boxes look alike.
fn gateway(signs: &Signs) -> Option<Found> {
    let (old, young) = (&signs.old, &signs.young);
    if !old.older_give_way() || young.older_give_way() || signs.hold.sure {
        return None;
    }
    // An average over the four ACKs of young flows, from at least half of the flows.
    let spares_young = young.bursts >= CLASSIC / 2 && young.left() > 3.5;
    let mut fit = vec![Known::AckwiseGateway];
    let mut because = format!(
        "of five ACKs behind data {:.1} are left, the newest",
        old.left()
    );
    because.push_str(if signs.hold.none {
        ", at once"
    } else {
        fit.push(Known::AckwiseAttach);
        "; too few arrived to say whether they are held"
    });
    because.push_str(if spares_young {
        "; those of young flows all come"
    } else {
        fit.push(Known::CakeAckFilter);
        "; too few of young flows arrived to say whether it leaves those alone"
    });
    Some(Found { fit, because })
}

/// Returns whether a box that was found can also cause this.
fn explains(known: Known, sign: Sign) -> bool {
    let young = [Phase::Alone, Phase::Crowd];
    match (known, sign) {
        (Known::Proxy, _) => true,
        (Known::Unknown, _) => false,
        (Known::AckwiseAttach, Sign::Held) => true,
        (_, Sign::Held) => false,
        (Known::LengthAndRate, Sign::ShortDataLost) => true,
        (_, Sign::ShortDataLost) => false,
        (Known::LengthAndRate | Known::Policer, Sign::LastLost) => true,
        (_, Sign::LastLost) => false,
        // These three do not read the contents of an ACK.
        (Known::LengthAndRate | Known::Policer | Known::NumbersOnly, Sign::NewsLost) => true,
        (_, Sign::NewsLost) => false,
        (_, Sign::Thinned(Phase::Slow)) => false,
        (Known::AckwiseAttach | Known::AckwiseGateway, Sign::Thinned(phase)) => {
            !young.contains(&phase)
        }
        (_, Sign::Thinned(_)) => true,
    }
}

/// Anything that none of the boxes found does.
fn unknown(signs: &Signs, found: &[Found]) -> Option<Named> {
    let mut fit = found.iter().flat_map(|it| &it.fit);
    let shown = signs.shown().into_iter();
    let rest = shown.filter(|it| !fit.clone().any(|known| explains(*known, it.sign)));
    let rest: Vec<_> = rest.map(|it| it.text).collect();
    let alone = if fit.next().is_some() {
        "what is found above does not do this: "
    } else {
        ""
    };
    let because = format!("{alone}{}", rest.join("; "));
    (!rest.is_empty()).then(|| Named::new(Known::Unknown, because))
}
