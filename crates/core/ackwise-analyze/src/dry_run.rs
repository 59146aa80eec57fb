//! The counters of a dry run of the datapath (`bpf/dry_run.h`), for one policy and one direction of
//! data: every ACK passes, and the policy sees what it would have seen.

use ackwise_policy::{Flow, FlowConfig, Handshake, Reason, Segment, Verdict, sys};
use serde::Serialize;

/// Counters of a policy, as `ackwise status` shows them after a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Judged segments: those of the ACK direction for which a flow is kept.
    pub acks: u64,
    /// Their bytes, from the IP header on.
    pub ack_bytes: u64,
    /// ACKs that would have been withheld.
    pub withheld: u64,
    /// Their bytes.
    pub withheld_bytes: u64,
    /// Withheld ACKs that were replaced by a newer withheld one.
    pub replaced: u64,
    /// Withheld ACKs made unnecessary by a newer one that left.
    pub superseded: u64,
    /// Withheld ACKs that would have left at their deadline.
    pub reemitted: u64,
    /// Their bytes.
    pub reemitted_bytes: u64,
    /// ACKs that would have left twice, as duplicates of a withheld one.
    pub cloned: u64,
    /// Segments sent or held for each reason, in the order of `Reason::all`.
    pub reasons: Vec<u64>,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            acks: 0,
            ack_bytes: 0,
            withheld: 0,
            withheld_bytes: 0,
            replaced: 0,
            superseded: 0,
            reemitted: 0,
            reemitted_bytes: 0,
            cloned: 0,
            reasons: vec![0; Reason::all().len()],
        }
    }
}

impl Counters {
    /// ACKs that would not have been sent.
    #[must_use]
    pub fn saved(&self) -> u64 {
        self.withheld.saturating_sub(self.reemitted + self.cloned)
    }

    /// Bytes that would not have been sent; a duplicate counts as an ACK of mean length.
    #[must_use]
    pub fn saved_bytes(&self) -> u64 {
        let clone = self.ack_bytes.checked_div(self.acks).unwrap_or(0);
        self.withheld_bytes
            .saturating_sub(self.reemitted_bytes + self.cloned * clone)
    }
}

/// What one flow saved by one policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Saved {
    /// ACKs that would have been withheld.
    pub withheld: u64,
    /// Withheld ACKs that would have left at their deadline.
    pub reemitted: u64,
}

/// The withheld ACK of a flow.
#[derive(Debug, Clone, Copy)]
struct Held {
    until_ns: u64,
    segment: Segment,
}

/// A flow under one policy.
#[derive(Debug, Clone)]
pub struct DryRun {
    flow: Flow,
    held: Option<Held>,
    /// Counts for this flow's line of the report.
    pub saved: Saved,
}

impl DryRun {
    /// Starts a flow, with what its handshake revealed.
    pub fn new(handshake: Option<&Handshake>, now_ns: u64) -> DryRun {
        DryRun {
            flow: Flow::new(handshake, now_ns / 1000),
            held: None,
            saved: Saved::default(),
        }
    }

    /// Takes a segment from the data sender, which is `segments` segments on the wire.
    pub fn on_data(&mut self, config: &FlowConfig, s: &Segment, segments: u32, now_ns: u64) {
        self.flow.on_data(config, s, segments, now_ns / 1000);
    }

    /// Takes a segment of the ACK direction that is not a SYN.
    pub fn on_ack(&mut self, config: &FlowConfig, s: &Segment, now_ns: u64, c: &mut Counters) {
        if let Some(held) = &mut self.held
            && self.flow.releases(s)
        {
            held.until_ns = now_ns;
        }
        self.expire(config, now_ns, c);
        let decision = self.flow.on_ack(config, s, now_ns / 1000);
        c.acks += 1;
        c.ack_bytes += u64::from(s.ip_len());
        c.reasons[decision.reason.id() as usize] += 1;
        match decision.verdict {
            Verdict::Send => {
                if decision.supersedes && self.held.take().is_some() {
                    c.superseded += 1;
                }
                c.cloned += u64::from(decision.twice);
            }
            Verdict::Hold { us } => self.withhold(s, u64::from(us), now_ns, c),
            Verdict::Drop => self.withhold(s, 0, now_ns, c),
        }
    }

    fn withhold(&mut self, s: &Segment, hold_us: u64, now_ns: u64, c: &mut Counters) {
        c.withheld += 1;
        c.withheld_bytes += u64::from(s.ip_len());
        self.saved.withheld += 1;
        let until_ns = match &self.held {
            Some(held) => {
                c.replaced += 1;
                held.until_ns
            }
            None => now_ns + hold_us * 1000,
        };
        let from = s.raw();
        // The other fields no longer matter, as in aw_entry.
        let segment = Segment::from_raw(sys::aw_seg {
            ack: from.ack,
            tsval: from.tsval,
            window: from.window,
            opts: from.opts,
            len: from.len,
            ..sys::aw_seg::default()
        });
        self.held = Some(Held { until_ns, segment });
    }

    /// Releases the withheld ACK if its deadline has passed.
    pub fn expire(&mut self, config: &FlowConfig, now_ns: u64, c: &mut Counters) {
        let Some(held) = self.held.take_if(|held| now_ns >= held.until_ns) else {
            return;
        };
        // If it is the newest ACK, it has that one's SACK blocks.
        let (newest, mut sent) = (&self.flow.raw().acks, *held.segment.raw());
        if sent.ack == newest.rcvd_ack {
            (sent.n_sack, sent.sack) = (newest.n_sack.into(), newest.sack);
        }
        let sent = Segment::from_raw(sent);
        self.flow.on_sent(config, &sent, held.until_ns / 1000);
        c.reemitted += 1;
        c.reemitted_bytes += u64::from(held.segment.ip_len());
        self.saved.reemitted += 1;
    }

    /// The flow's state.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }
}
