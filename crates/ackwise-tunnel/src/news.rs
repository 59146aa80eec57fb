//! Which packets may be bundled, and which ACKs should not wait: by the ACK contract.

use std::collections::HashMap;
use std::net::SocketAddr;

use ackwise_policy::{
    Config, Flow, FlowConfig, LinkKind, Policy, Reason, Segment, TcpFlags, Verdict, parse,
};

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
    flows: HashMap<(SocketAddr, SocketAddr), (Flow, Option<Reason>)>,
    max_flows: usize,
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
            flows: HashMap::new(),
            max_flows: max_flows.into(),
        }
    }

    /// What a packet is, that was seen at this time.
    pub fn look(&mut self, packet: &[u8], now_us: u64) -> Kind {
        let Some(segment) = parse(packet, LinkKind::Ip).ok().filter(is_pure_ack) else {
            return Kind::Other;
        };
        let Some(config) = &self.config else {
            return Kind::Ack;
        };
        let key = (segment.src(), segment.dst());
        if self.flows.len() >= self.max_flows && !self.flows.contains_key(&key) {
            // The next ACK of each is the first again: it only leaves sooner.
            self.flows.clear();
        }
        let (flow, last) = self
            .flows
            .entry(key)
            .or_insert_with(|| (Flow::new(None, now_us), None));
        let decision = flow.on_ack(config, &segment, now_us);
        if decision.verdict != Verdict::Send {
            // Nothing is withheld for long here: to the contract, it left.
            flow.left(config, &segment, now_us);
        }
        let before = last.replace(decision.reason);
        let name = decision.reason.name();
        let begins = EPISODES.contains(&name) && before != Some(decision.reason);
        if begins || ALWAYS.contains(&name) {
            Kind::News
        } else {
            Kind::Ack
        }
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
