//! Names the known middleboxes that explain the findings.
//!
//! Each box is recognised by a sign that the others do not show under the same conditions, so that
//! several in a row can be told apart. A sign that they share (ACKs missing in a fast flow)
//! identifies none.
//!
//! Some boxes are also recognised by what they do not do. That needs evidence, too: if too little
//! arrived to show it, the box is not named, or all that fit are. Anything that none of the boxes
//! found does is reported as [`BoxKind::Unknown`].

use serde::Serialize;

use crate::changes::Changes;
use crate::findings::Sign;
use crate::script::{CLASSIC, Phase};
use crate::signs::Signs;
use crate::stats::{SIGNIFICANCE_LEVEL, Share, coin, percent};

/// A kind of middlebox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BoxKind {
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
pub struct IdentifiedBox {
    /// The kind of box.
    pub name: BoxKind,
    /// A description of the box.
    pub what: &'static str,
    /// The evidence for it.
    pub because: String,
    /// What to do about it.
    pub advice: &'static str,
}

impl BoxKind {
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

impl IdentifiedBox {
    fn new(name: BoxKind, because: String) -> Self {
        Self {
            name,
            what: name.what(),
            because,
            advice: name.advice(),
        }
    }
}

/// Boxes that explain a finding equally well: one, or several that cannot be told apart here.
struct Explanation {
    fit: Vec<BoxKind>,
    because: String,
}

impl Explanation {
    fn one(known: BoxKind, because: String) -> Self {
        Self {
            fit: vec![known],
            because,
        }
    }

    fn named(&self) -> IdentifiedBox {
        if let [known] = self.fit[..] {
            return IdentifiedBox::new(known, self.because.clone());
        }
        let fit: Vec<_> = self.fit.iter().map(|it| it.what()).collect();
        IdentifiedBox {
            name: BoxKind::Unknown,
            what: "one of several boxes, which this probe cannot tell apart",
            because: format!("{}: {}", fit.join(", or "), self.because),
            advice: "probe again when the path loses less",
        }
    }
}

/// Names the boxes in a direction.
#[must_use]
pub fn boxes(signs: &Signs, changes: &Changes) -> Vec<IdentifiedBox> {
    let found = [
        proxy(changes),
        length_and_rate(signs),
        policer(signs),
        queue(signs),
        attach(signs),
        gateway(signs),
    ];
    let found: Vec<_> = found.into_iter().flatten().collect();
    let mut named: Vec<_> = found.iter().map(Explanation::named).collect();
    named.extend(unknown(signs, &found));
    named
}

fn proxy(changes: &Changes) -> Option<Explanation> {
    let foreign = changes.foreign_handshakes;
    let because = format!(
        "{} of {} handshakes were made on the way, not by the other end",
        foreign.hit, foreign.of
    );
    (foreign.hit > 0).then(|| Explanation::one(BoxKind::Proxy, because))
}

/// Returns whether a path is shown to let these pass: of at least ten, no more than a quarter is
/// lost. With few samples, finding no loss beyond chance shows nothing.
fn pass(these: Share) -> bool {
    const MIN_FLOWS: usize = 10;
    these.of >= MIN_FLOWS && 4 * these.hit <= these.of
}

fn length_and_rate(signs: &Signs) -> Option<Explanation> {
    let because = format!(
        "{} of the segments with a few bytes of data are lost and {} of those with many, at 200 a second and more; at a slow pace {}",
        percent(signs.short.these),
        percent(signs.short.others),
        percent(signs.slow_short),
    );
    let found = signs.short.holds_in_any_order() && pass(signs.slow_short);
    found.then(|| Explanation::one(BoxKind::LengthAndRate, because))
}

fn policer(signs: &Signs) -> Option<Explanation> {
    let because = format!(
        "of many flows, none of them fast, {} lose their last ACK, and {} their data; at a slow pace {} of the ACKs are lost",
        percent(signs.crowd.these),
        percent(signs.crowd.others),
        percent(signs.slow_acks),
    );
    let found = signs.crowd.holds() && pass(signs.slow_acks);
    found.then(|| Explanation::one(BoxKind::Policer, because))
}

fn queue(signs: &Signs) -> Option<Explanation> {
    let young = &signs.young;
    if !young.older_give_way() {
        return None;
    }
    // It is known to be a filter; most of twelve flows tell which.
    const MIN_FLOWS: usize = 6;
    let acc_ecn = &signs.young_acc_ecn;
    let ignores_acc_ecn = coin(acc_ecn.first_lost, acc_ecn.last_lost) < 10.0 * SIGNIFICANCE_LEVEL;
    let spares_acc_ecn = acc_ecn.bursts >= MIN_FLOWS && 4 * acc_ecn.first_lost <= acc_ecn.bursts;
    let keeps_two = 2 * young.last_but_one > young.bursts;
    let of_cake = if keeps_two {
        BoxKind::CakeAckFilter
    } else {
        BoxKind::CakeAckFilterAggressive
    };
    let (fit, reason) = match (ignores_acc_ecn, spares_acc_ecn) {
        (true, _) => (vec![BoxKind::NumbersOnly], "the same"),
        (false, true) => (vec![of_cake], "not so"),
        (false, false) => (
            vec![of_cake, BoxKind::NumbersOnly],
            "too few arrived to say the same",
        ),
    };
    let because = format!(
        "of four ACKs of a young flow behind data {:.1} are left, the newest; with AccECN {reason}",
        young.mean_arrivals(),
    );
    Some(Explanation { fit, because })
}

fn attach(signs: &Signs) -> Option<Explanation> {
    let because = format!(
        "the last ACK of a burst comes {:.1} ms later than data in its place, and those before it do not come",
        signs.hold.late_ms
    );
    let burst = signs.thins(Phase::Burst) || signs.second.holds();
    let thins = burst || signs.old.older_give_way();
    (signs.hold.sure && thins).then(|| Explanation::one(BoxKind::AckwiseAttach, because))
}

/// If ACKs are also held, both boxes look alike.
fn gateway(signs: &Signs) -> Option<Explanation> {
    let (old, young) = (&signs.old, &signs.young);
    if !old.older_give_way() || young.older_give_way() || signs.hold.sure {
        return None;
    }
    // An average over the four ACKs of young flows, from at least half of the flows.
    let spares_young = young.bursts >= CLASSIC / 2 && young.mean_arrivals() > 3.5;
    let mut fit = vec![BoxKind::AckwiseGateway];
    let mut because = format!(
        "of five ACKs behind data {:.1} are left, the newest",
        old.mean_arrivals()
    );
    because.push_str(if signs.hold.none {
        ", at once"
    } else {
        fit.push(BoxKind::AckwiseAttach);
        "; too few arrived to say whether they are held"
    });
    because.push_str(if spares_young {
        "; those of young flows all come"
    } else {
        fit.push(BoxKind::CakeAckFilter);
        "; too few of young flows arrived to say whether it leaves those alone"
    });
    Some(Explanation { fit, because })
}

/// Returns whether a box that was found can also cause this.
fn explains(known: BoxKind, sign: Sign) -> bool {
    let young = [Phase::Alone, Phase::Crowd];
    match (known, sign) {
        (BoxKind::Proxy, _) => true,
        (BoxKind::Unknown, _) => false,
        (BoxKind::AckwiseAttach, Sign::Held) => true,
        (_, Sign::Held) => false,
        (BoxKind::LengthAndRate, Sign::ShortDataLost) => true,
        (_, Sign::ShortDataLost) => false,
        (BoxKind::LengthAndRate | BoxKind::Policer, Sign::LastLost) => true,
        (_, Sign::LastLost) => false,
        // These three do not read the contents of an ACK.
        (BoxKind::LengthAndRate | BoxKind::Policer | BoxKind::NumbersOnly, Sign::NewsLost) => true,
        (_, Sign::NewsLost) => false,
        (_, Sign::Thinned(Phase::Slow)) => false,
        (BoxKind::AckwiseAttach | BoxKind::AckwiseGateway, Sign::Thinned(phase)) => {
            !young.contains(&phase)
        }
        (_, Sign::Thinned(_)) => true,
    }
}

/// Anything that none of the boxes found does.
fn unknown(signs: &Signs, found: &[Explanation]) -> Option<IdentifiedBox> {
    let mut fit = found.iter().flat_map(|it| &it.fit);
    let findings = signs.findings().into_iter();
    let rest = findings.filter(|it| !fit.clone().any(|known| explains(*known, it.sign)));
    let rest: Vec<_> = rest.map(|it| it.text).collect();
    let alone = if fit.next().is_some() {
        "what is found above does not do this: "
    } else {
        ""
    };
    let because = format!("{alone}{}", rest.join("; "));
    (!rest.is_empty()).then(|| IdentifiedBox::new(BoxKind::Unknown, because))
}
