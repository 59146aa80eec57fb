//! The report about a path, in the structure of `ackwise probe --format json`.

use std::fmt::Write as _;

use serde::Serialize;

use crate::boxes::{BoxKind, IdentifiedBox, boxes};
use crate::changes::Changes;
use crate::compare::Direction;
use crate::findings::Finding;
use crate::script::{End, Phase};
use crate::session::StageRecords;
use crate::signs::Signs;
use crate::stats::Share;

/// The findings.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The partner's address.
    pub partner: String,
    /// The shortest round-trip time of a handshake, in milliseconds, if any was measured.
    pub rtt_ms: Option<f64>,
    /// ACKs to the partner, then those from it.
    pub directions: Vec<Side>,
}

/// One direction.
#[derive(Debug, Serialize)]
pub struct Side {
    /// The direction of the ACKs: `to the partner` or `from the partner`.
    pub acks: &'static str,
    /// Whether nothing was found.
    pub clean: bool,
    /// The known boxes that do what was found.
    pub boxes: Vec<IdentifiedBox>,
    /// The findings.
    pub facts: Vec<Fact>,
    /// The counts of ACKs and data, by phase.
    pub phases: Vec<Counts>,
}

/// Something that the path does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// An identifier for programs.
    pub kind: &'static str,
    /// How often it was seen.
    pub hit: usize,
    /// How often it could have been seen.
    pub of: usize,
    /// A description.
    pub text: String,
}

/// The packet counts of a phase.
#[derive(Debug, Serialize)]
pub struct Counts {
    /// The phase.
    pub phase: Phase,
    /// ACKs that left.
    pub acks: usize,
    /// ACKs that left and did not arrive.
    pub acks_lost: usize,
    /// Data segments that the ACKs are compared with.
    pub data: usize,
    /// Data segments among `data` that did not arrive.
    pub data_lost: usize,
}

impl Report {
    /// Evaluates the records of both ends.
    #[must_use]
    pub fn of(partner: String, records: &[StageRecords]) -> Self {
        let rtts = records.iter().filter_map(|it| it.client.rtt_ns);
        let sides = [
            (End::Client, "to the partner"),
            (End::Server, "from the partner"),
        ];
        Self {
            partner,
            rtt_ms: rtts.min().map(|ns| ns as f64 / 1e6),
            directions: sides
                .map(|(end, acks)| Side::of(acks, &Direction::of(records, end)))
                .into(),
        }
    }

    /// The names of the boxes of a direction, in the order of [`BoxKind`].
    #[must_use]
    pub fn named(&self, direction: usize) -> Vec<BoxKind> {
        let boxes = self.directions.get(direction).map(|it| &it.boxes);
        let mut named: Vec<_> = boxes.into_iter().flatten().map(|it| it.name).collect();
        named.sort();
        named
    }

    /// The report for a person.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("The path to {} and back", self.partner);
        if let Some(rtt_ms) = self.rtt_ms {
            let _ = write!(text, ", a round trip of {rtt_ms:.1} ms");
        }
        text.push('\n');
        for side in &self.directions {
            let _ = writeln!(text, "\nACKs {}", side.acks);
            if side.clean {
                text.push_str("  they arrive unchanged\n");
            }
            for fact in &side.facts {
                let _ = writeln!(text, "  {}", fact.text);
            }
            for named in &side.boxes {
                let _ = writeln!(text, "  found: {}", named.what);
                let _ = writeln!(text, "    because {}", named.because);
                let _ = writeln!(text, "    {}", named.advice);
            }
        }
        text
    }
}

impl From<Finding> for Fact {
    fn from(finding: Finding) -> Self {
        Self {
            kind: finding.sign.kind(),
            hit: finding.hit,
            of: finding.of,
            text: finding.text,
        }
    }
}

impl Side {
    fn of(acks: &'static str, path: &Direction) -> Self {
        let signs = Signs::of(path);
        let changes = Changes::of(path);
        let mut facts = Vec::new();
        too_little(&signs, &mut facts);
        facts.extend(signs.findings().into_iter().map(Fact::from));
        lost(path, &mut facts);
        changed(&changes, &mut facts);
        let boxes = boxes(&signs, &changes);
        let phases = signs.thinned.iter().map(|(phase, contrast)| Counts {
            phase: *phase,
            acks: contrast.these.of,
            acks_lost: contrast.these.hit,
            data: contrast.others.of,
            data_lost: contrast.others.hit,
        });
        Self {
            acks,
            clean: boxes.is_empty() && facts.iter().all(|it| PATH.contains(&it.kind)),
            boxes,
            facts,
            phases: phases.collect(),
        }
    }
}

/// What any path does occasionally.
const PATH: [&str; 3] = ["loss", "copies", "marked"];

/// Reports if at most an eighth of what the script sends arrived, or nothing was sent.
fn too_little(signs: &Signs, facts: &mut Vec<Fact>) {
    let shares = signs.thinned.values().flat_map(|it| [it.these, it.others]);
    let (hit, of) = shares.fold((0, 0), |(hit, of), share| (hit + share.hit, of + share.of));
    if 8 * (of - hit) <= of {
        facts.push(Fact {
            kind: "too-little",
            hit,
            of,
            text: "too few packets arrived to say what is done to ACKs".to_owned(),
        });
    }
}

/// Reports the loss of data, which is not attributed to a box.
fn lost(path: &Direction, facts: &mut Vec<Fact>) {
    let data = path.lost(&Phase::ALL, crate::record::Role::Large);
    if data.hit > 0 {
        facts.push(Fact {
            kind: "loss",
            hit: data.hit,
            of: data.of,
            text: format!(
                "the path loses {:.1} % of the data beside them, too",
                data.value() * 100.0
            ),
        });
    }
}

fn changed(changes: &Changes, facts: &mut Vec<Fact>) {
    let mut note = |kind: &'static str, share: Share, what: &str| {
        if share.hit > 0 {
            facts.push(Fact {
                kind,
                hit: share.hit,
                of: share.of,
                text: format!("{what}: {} of {}", share.hit, share.of),
            });
        }
    };
    note(
        "proxy",
        changes.foreign_handshakes,
        "handshakes are answered by something on the way",
    );
    note(
        "sequence-numbers",
        changes.numbers,
        "first sequence numbers are replaced",
    );
    note(
        "ack-changed",
        changes.acks,
        "acknowledgment numbers are rewritten",
    );
    note("window-changed", changes.windows, "windows are rewritten");
    note(
        "timestamps-changed",
        changes.timestamps,
        "timestamps are rewritten",
    );
    note(
        "mss-lowered",
        changes.mss,
        "the maximum segment size is lowered",
    );
    for (name, share) in &changes.stripped {
        note(
            "option-stripped",
            *share,
            &format!("an option is removed or rewritten, {name}"),
        );
    }
    note("option-added", changes.added, "an option is added");
    note(
        "ecn-refused",
        changes.ecn_handshakes,
        "flags of ECN are cleared in handshakes",
    );
    note(
        "ecn-flags-cleared",
        changes.ecn_flags,
        "flags of ECN are cleared",
    );
    note(
        "ect-cleared",
        changes.ect_cleared,
        "ECN-capable packets lose that (ECT to Not-ECT)",
    );
    note(
        "ce-cleared",
        changes.ce_cleared,
        "marks of congestion (CE) are cleared",
    );
    note(
        "ect-set",
        changes.ect_set,
        "packets become ECN-capable or marked that were not",
    );
    note("marked", changes.ce_set, "a queue marks (CE)");
    note("made", changes.made, "packets arrive that nobody has sent");
    note("copies", changes.copies, "packets arrive more than once");
}
