//! What the path has changed in packets that it let through.

use std::collections::BTreeMap;

use crate::compare::{Direction, Sample, StageSamples};
use crate::record::{KINDS, Record};
use crate::segment::{CE, flag, kind};
use crate::stats::Share;

/// The changes in one direction. Each share is of the packets where the change could have happened.
#[derive(Debug, Default)]
pub struct Changes {
    /// Connections whose handshake came from a third party.
    pub foreign_handshakes: Share,
    /// Connections whose initial sequence number was changed.
    pub numbers: Share,
    /// Packets whose acknowledgment number was changed.
    pub acks: Share,
    /// Packets whose window was changed.
    pub windows: Share,
    /// Packets whose timestamp (TSval) was changed.
    pub timestamps: Share,
    /// Handshakes whose maximum segment size was lowered.
    pub mss: Share,
    /// Handshakes and other packets that lost an option.
    pub stripped: BTreeMap<&'static str, Share>,
    /// Packets that gained an option.
    pub added: Share,
    /// Handshakes that lost an ECN flag.
    pub ecn_handshakes: Share,
    /// Other packets that lost an ECN flag.
    pub ecn_flags: Share,
    /// ECN-capable packets that no longer are (ECT became Not-ECT).
    pub ect_cleared: Share,
    /// Marked packets that lost their mark.
    pub ce_cleared: Share,
    /// ECN-capable packets that were marked on the way, by a queue that marks.
    pub ce_set: Share,
    /// Packets that became ECN-capable.
    pub ect_set: Share,
    /// Packets that arrived more than once.
    pub copies: Share,
    /// Packets that neither end has sent.
    pub made: Share,
}

const ECN: u16 = flag::ECE | flag::CWR | flag::AE;
const NOT_ECT: u8 = 0;

/// Names of options, in the order of [`KINDS`].
const OPTIONS: [&str; KINDS.len()] = [
    "MSS",
    "window scale",
    "SACK permitted",
    "SACK",
    "timestamps",
    "Multipath TCP",
    "AccECN",
    "an unknown option",
];

impl Changes {
    /// Finds the changes.
    #[must_use]
    pub fn of(path: &Direction) -> Self {
        let mut changes = Self::default();
        for stage in path.stages.iter().chain(&path.of_data) {
            changes.stage(stage);
        }
        changes
    }

    fn stage(&mut self, stage: &StageSamples) {
        let is_syn = |it: &Record| it.flags & flag::SYN != 0;
        for it in &stage.made {
            if is_syn(it) {
                self.foreign_handshakes.add(true);
            }
        }
        let all = stage.samples.len();
        self.made.of += all;
        self.made.hit += stage.made.len();
        self.copies.of += all;
        self.copies.hit += stage.copies;
        for Sample { sent, seen } in &stage.samples {
            let Some(seen) = seen else { continue };
            if is_syn(sent) {
                self.handshake(sent, seen);
            } else {
                self.other(sent, seen);
            }
            self.common(sent, seen);
        }
    }

    fn handshake(&mut self, sent: &Record, seen: &Record) {
        self.foreign_handshakes.add(false);
        self.numbers.add(sent.raw_seq != seen.raw_seq);
        self.mss.add(seen.mss < sent.mss && seen.mss != 0);
        self.ecn_handshakes.add(sent.flags & ECN & !seen.flags != 0);
    }

    fn other(&mut self, sent: &Record, seen: &Record) {
        self.acks.add(sent.ack != seen.ack);
        self.windows.add(sent.window != seen.window);
        if sent.flags & ECN != 0 {
            self.ecn_flags.add(sent.flags & ECN & !seen.flags != 0);
        }
    }

    fn common(&mut self, sent: &Record, seen: &Record) {
        for (kind, name) in KINDS.into_iter().zip(OPTIONS) {
            if sent.has(kind) {
                let gone = !seen.has(kind) || kind == kind::SACK && seen.sack != sent.sack;
                self.stripped.entry(name).or_default().add(gone);
            }
        }
        if sent.has(kind::TIMESTAMPS) && seen.has(kind::TIMESTAMPS) {
            self.timestamps.add(sent.ts_val != seen.ts_val);
        }
        self.added.add(seen.options & !sent.options != 0);
        match sent.ecn {
            NOT_ECT => self.ect_set.add(seen.ecn != NOT_ECT),
            CE => self.ce_cleared.add(seen.ecn != CE),
            _ => {
                self.ect_cleared.add(seen.ecn == NOT_ECT);
                self.ce_set.add(seen.ecn == CE);
            }
        }
    }
}
