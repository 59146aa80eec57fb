//! Classifies packets by the ACK contract: which may be bundled, and which ACKs should not wait.

use ackwise_policy::{
    Config, Flow, FlowConfig, LinkKind, Policy, Reason, Segment, TcpFlags, Verdict, parse,
};
use hashbrown::HashTable;

use crate::flow_key::{FlowKey, Hasher};

/// The contract's reasons that start an episode. The first ACK of an episode is expedited; those
/// after it carry more of the same news and travel with others.
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
/// The contract's reasons for which every ACK is expedited: a sender in slow start needs each of
/// them.
const ALWAYS: [&str; 3] = ["first", "start", "timestamp"];

/// How a tunnel treats a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketClass {
    /// The packet is not a pure ACK.
    Other,
    /// A pure ACK that may wait for others.
    Ack,
    /// A pure ACK that should not wait, because its sender acts on it.
    ExpeditedAck,
}

/// Classifies the packets of all flows.
#[derive(Debug)]
pub(crate) struct Classifier {
    config: Option<FlowConfig>,
    /// Indexed by the number of the reason.
    urgency: Vec<Urgency>,
    flows: Vec<KnownFlow>,
    /// Indices into `flows`.
    by_key: HashTable<u16>,
    hasher: Hasher,
    max_flows: usize,
}

/// How a reason of the contract affects an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Urgency {
    /// The ACK may wait.
    None,
    /// The ACK is expedited if the last ACK of the flow had another reason.
    Episode,
    /// The ACK is expedited.
    Always,
}

impl Urgency {
    fn of(reason: Reason) -> Urgency {
        match reason.name() {
            name if ALWAYS.contains(&name) => Urgency::Always,
            name if EPISODES.contains(&name) => Urgency::Episode,
            _ => Urgency::None,
        }
    }
}

/// A known flow.
#[derive(Debug)]
struct KnownFlow {
    key: FlowKey,
    flow: Flow,
    last: Option<Reason>,
}

impl Classifier {
    /// Creates a classifier that remembers at most this many flows.
    pub fn new(max_flows: u16) -> Classifier {
        // The policy exists in `policy/`. Without it no ACK would be expedited.
        let config = Policy::by_name("every-n")
            .ok()
            .map(|policy| FlowConfig::new(&Config::new(policy)));
        Classifier {
            config,
            urgency: Reason::all().map(Urgency::of).collect(),
            flows: Vec::new(),
            by_key: HashTable::new(),
            hasher: Hasher::new(),
            max_flows: max_flows.max(1).into(),
        }
    }

    /// Classifies a packet that was seen at `now_us`.
    pub fn classify(&mut self, packet: &[u8], now_us: u64) -> PacketClass {
        let Some(segment) = pure_ack(packet) else {
            return PacketClass::Other;
        };
        let index = self.flow_index(&FlowKey::of(&segment), now_us);
        let Some(config) = &self.config else {
            return PacketClass::Ack;
        };
        let KnownFlow { flow, last, .. } = &mut self.flows[index];
        let decision = flow.on_ack(config, &segment, now_us);
        if decision.verdict != Verdict::Send {
            // No ACK is withheld for long here, so for the contract it has been sent.
            flow.on_sent(config, &segment, now_us);
        }
        let before = last.replace(decision.reason);
        match self.urgency.get(decision.reason.id() as usize) {
            Some(Urgency::Always) => PacketClass::ExpeditedAck,
            Some(Urgency::Episode) if before != Some(decision.reason) => PacketClass::ExpeditedAck,
            _ => PacketClass::Ack,
        }
    }

    /// Returns the index of a flow, which is added if it is new.
    fn flow_index(&mut self, key: &FlowKey, now_us: u64) -> usize {
        let hash = self.hasher.of(key);
        let same = |at: &u16| self.flows[usize::from(*at)].key == *key;
        if let Some(at) = self.by_key.find(hash, same) {
            return usize::from(*at);
        }
        if self.flows.len() >= self.max_flows {
            // The next ACK of each flow counts as its first again, which only makes it leave
            // sooner.
            self.flows.clear();
            self.by_key.clear();
        }
        let at = self.flows.len();
        self.flows.push(KnownFlow {
            key: *key,
            flow: Flow::new(None, now_us),
            last: None,
        });
        let (flows, hasher) = (&self.flows, &self.hasher);
        let rehash = |at: &u16| hasher.of(&flows[usize::from(*at)].key);
        self.by_key.insert_unique(hash, at as u16, rehash);
        at
    }
}

/// Whether a packet is a whole TCP segment that only acknowledges.
pub(crate) fn is_pure_ack(packet: &[u8]) -> bool {
    pure_ack(packet).is_some()
}

fn pure_ack(packet: &[u8]) -> Option<Segment> {
    let more = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST | TcpFlags::URG;
    parse(packet, LinkKind::Ip).ok().filter(|segment| {
        let flags = segment.flags();
        segment.payload() == 0 && flags.contains(TcpFlags::ACK) && !flags.intersects(more)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Recorded;

    #[test]
    fn few_acks_of_a_bulk_download_are_expedited() {
        let trace = Recorded::Plain.read().expect("recorded");
        let mut classifier = Classifier::new(64);
        let mut count = |from: usize, to: usize| {
            let classes = trace[from..to]
                .iter()
                .map(|traced| classifier.classify(&traced.packet, traced.at_ns / 1000));
            let classes: Vec<PacketClass> = classes.collect();
            assert!(!classes.contains(&PacketClass::Other));
            let expedited = |class: &&PacketClass| **class == PacketClass::ExpeditedAck;
            classes.iter().filter(expedited).count()
        };
        assert!(count(0, 40) >= 1);
        let later = count(40, trace.len());
        assert!(later < trace.len() / 50, "{later}");
    }

    #[test]
    fn packets_that_are_not_pure_acks_are_other() {
        let mut classifier = Classifier::new(4);
        assert_eq!(classifier.classify(b"", 0), PacketClass::Other);
        assert_eq!(classifier.classify(&[0x45; 40], 0), PacketClass::Other);
        let trace = Recorded::Plain.read().expect("recorded");
        let mut packet = trace[0].packet.to_vec();
        packet[33] |= 1;
        assert_eq!(classifier.classify(&packet, 0), PacketClass::Other);
    }

    #[test]
    fn the_number_of_flows_is_bounded() {
        let trace = Recorded::Plain.read().expect("recorded");
        let mut classifier = Classifier::new(8);
        for port in 0..1000_u16 {
            let mut packet = trace[0].packet.to_vec();
            packet[20..22].copy_from_slice(&port.to_be_bytes());
            classifier.classify(&packet, 0);
            assert!(classifier.flows.len() <= 8);
        }
    }
}
