//! Which packets may be bundled, and which ACKs should not wait: by the ACK contract.

use ackwise_policy::{
    Config, Flow, FlowConfig, LinkKind, Policy, Reason, Segment, TcpFlags, Verdict, parse,
};
use hashbrown::HashTable;

use crate::key::{Hasher, Key};

/// Reasons that begin an episode in which the first ACK is news; those after it say more of
/// the same, and travel with others.
const EPISODES: [&str; 8] = [
    "duplicate",
    "window-update",
    "sack",
    "recovery",
    "ecn",
    "ace-wrap",
    "window-opens",
    "window-shrinks",
];
/// Reasons for which every ACK is news: a sender that starts needs each of them.
const ALWAYS: [&str; 3] = ["first", "start", "timestamp"];

/// What a packet is to a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No ACK, or one with something beside.
    Other,
    /// An ACK that may wait for company.
    Ack,
    /// One that should not.
    News,
}

/// Looks at the ACKs of all flows.
#[derive(Debug)]
pub(crate) struct Classifier {
    config: Option<FlowConfig>,
    /// By the reason's number.
    weights: Vec<Weight>,
    flows: Vec<Known>,
    /// Their places.
    by_key: HashTable<u16>,
    hasher: Hasher,
    max_flows: usize,
}

/// What a reason makes of an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    Nothing,
    /// News, if the last ACK had another reason.
    Episode,
    Always,
}

impl Weight {
    fn of(reason: Reason) -> Weight {
        match reason.name() {
            name if ALWAYS.contains(&name) => Weight::Always,
            name if EPISODES.contains(&name) => Weight::Episode,
            _ => Weight::Nothing,
        }
    }
}

/// A flow that was seen.
#[derive(Debug)]
struct Known {
    key: Key,
    flow: Flow,
    last: Option<Reason>,
}

impl Classifier {
    /// For so many flows.
    pub fn new(max_flows: u16) -> Classifier {
        // It has to exist: `policy/` defines it. Without it no ACK would be news.
        let config = Policy::by_name("every-n")
            .ok()
            .map(|policy| FlowConfig::new(&Config::new(policy)));
        Classifier {
            config,
            weights: Reason::all().map(Weight::of).collect(),
            flows: Vec::new(),
            by_key: HashTable::new(),
            hasher: Hasher::new(),
            max_flows: max_flows.max(1).into(),
        }
    }

    /// What a packet is, that was seen at this time.
    pub fn look(&mut self, packet: &[u8], now_us: u64) -> Kind {
        let Some(segment) = parse(packet, LinkKind::Ip).ok().filter(is_pure_ack) else {
            return Kind::Other;
        };
        let at = self.place(&Key::of(&segment), now_us);
        let Some(config) = &self.config else {
            return Kind::Ack;
        };
        let Known { flow, last, .. } = &mut self.flows[at];
        let decision = flow.on_ack(config, &segment, now_us);
        if decision.verdict != Verdict::Send {
            // Nothing is withheld for long here: to the contract, it left.
            flow.on_sent(config, &segment, now_us);
        }
        let before = last.replace(decision.reason);
        let weight = self.weights.get(decision.reason.id() as usize);
        match weight {
            Some(Weight::Always) => Kind::News,
            Some(Weight::Episode) if before != Some(decision.reason) => Kind::News,
            _ => Kind::Ack,
        }
    }

    /// Where a flow is, which may be new.
    fn place(&mut self, key: &Key, now_us: u64) -> usize {
        let hash = self.hasher.of(key);
        let same = |at: &u16| self.flows[usize::from(*at)].key == *key;
        if let Some(at) = self.by_key.find(hash, same) {
            return usize::from(*at);
        }
        if self.flows.len() >= self.max_flows {
            // The next ACK of each is the first again: it only leaves sooner.
            self.flows.clear();
            self.by_key.clear();
        }
        let at = self.flows.len();
        self.flows.push(Known {
            key: *key,
            flow: Flow::new(None, now_us),
            last: None,
        });
        let (flows, hasher) = (&self.flows, &self.hasher);
        let again = |at: &u16| hasher.of(&flows[usize::from(*at)].key);
        self.by_key.insert_unique(hash, at as u16, again);
        at
    }
}

fn is_pure_ack(segment: &Segment) -> bool {
    let flags = segment.flags();
    let more = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST | TcpFlags::URG;
    segment.payload() == 0 && flags.contains(TcpFlags::ACK) && !flags.intersects(more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Recorded;

    #[test]
    fn few_acks_of_a_bulk_download_are_news() {
        let trace = Recorded::Plain.read().expect("recorded");
        let mut classifier = Classifier::new(64);
        let mut count = |from: usize, to: usize| {
            let looks = trace[from..to].iter();
            let kinds = looks.map(|seen| classifier.look(&seen.packet, seen.at_ns / 1000));
            let kinds: Vec<Kind> = kinds.collect();
            assert!(!kinds.contains(&Kind::Other));
            kinds.iter().filter(|kind| **kind == Kind::News).count()
        };
        assert!(count(0, 40) >= 1);
        let later = count(40, trace.len());
        assert!(later < trace.len() / 50, "{later}");
    }

    #[test]
    fn what_is_no_ack_is_other() {
        let mut classifier = Classifier::new(4);
        assert_eq!(classifier.look(b"", 0), Kind::Other);
        assert_eq!(classifier.look(&[0x45; 40], 0), Kind::Other);
        let trace = Recorded::Plain.read().expect("recorded");
        let mut packet = trace[0].packet.to_vec();
        packet[33] |= 1;
        assert_eq!(classifier.look(&packet, 0), Kind::Other);
    }

    #[test]
    fn flows_are_bounded() {
        let trace = Recorded::Plain.read().expect("recorded");
        let mut classifier = Classifier::new(8);
        for port in 0..1000_u16 {
            let mut packet = trace[0].packet.to_vec();
            packet[20..22].copy_from_slice(&port.to_be_bytes());
            classifier.look(&packet, 0);
            assert!(classifier.flows.len() <= 8);
        }
    }
}
