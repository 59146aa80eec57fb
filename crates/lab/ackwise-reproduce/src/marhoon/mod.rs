//! Marhoon: 20 uploads over 10 Mbit/s whose ACKs return over 300 kbit/s, with plain NewReno or
//! with ACK filtering and ACK congestion control.
//!
//! The scenarios are in `scenarios/papers/marhoon/`. The paper prints neither delays nor
//! queues, windows, sizes or start times, and its unit is wrong. Its digits give the unit, the
//! length of a run and the sizes; all else was chosen so that ns-2 comes near its counts of drops.
//! `docs/papers/marhoon.md` has both lists.

mod ack_ratio;
mod arms;
mod figures;
mod open;
mod real;
mod two_way;

use crate::tolerances::{above, below, range};
use crate::{Claim, Engine, Error, Held, Lab, Paper, Reproduced};

/// The link between the two routers; data travel forward, ACKs in reverse.
const DATA_QUEUE: &str = "shared.forward";
const ACK_QUEUE: &str = "shared.reverse";
const CC: &str = "newreno";
const DURATION_S: f64 = 50.0;

/// The paper.
pub struct Marhoon;

impl Paper for Marhoon {
    fn name(&self) -> &'static str {
        "marhoon"
    }

    fn title(&self) -> &'static str {
        "Evaluation of Combination of ACK Filtering and ACK Congestion Control with Pure \
         TCP/NewReno protocol in Asymmetry Network"
    }

    fn source(&self) -> &'static str {
        "H. A. Marhoon; Kerbala University"
    }

    fn about(&self) -> &'static str {
        "20 sources share 10 Mbit/s for data and 300 kbit/s for ACKs. The paper compares NewReno \
         with ACK filtering and ACK congestion control in ns-2 and finds NewReno better: fewer \
         drops, smoother windows, more throughput. Its digits tell that throughputs are Mbit/s, \
         runs last 50 s and packets have 590 or 600 bytes; and in ns-2 no ACK is ever marked, so \
         that its ACC did nothing. Here: its two arms with the spread over start times, and what \
         it left out: filtering alone, an ACC that works, ACKs first. On the other engines: Linux at \
         the ends and a real gateway before the ACKs' link."
    }

    fn engines(&self) -> &'static [Engine] {
        &[Engine::Sim, Engine::Live, Engine::Virtual]
    }

    fn claims(&self) -> &'static [Claim] {
        &CLAIMS
    }

    fn tolerances(&self) -> Vec<Held> {
        TOLERANCES.to_vec()
    }

    fn reproduce(&self, lab: &Lab<'_>) -> Result<Reproduced, Error> {
        let mut all = Reproduced::default();
        if lab.engine() != Engine::Sim {
            real::run(lab, &mut all)?;
            return Ok(all);
        }
        let outcome = arms::run(lab, &mut all)?;
        figures::add(&outcome, &mut all)?;
        open::run(lab, &mut all)?;
        two_way::run(lab, &mut all)?;
        ack_ratio::run(lab, &mut all)?;
        real::run(lab, &mut all)?;
        all.notes.extend(NOTES.map(str::to_owned));
        Ok(all)
    }
}

const NOTES: [&str; 5] = [
    "The paper's digits give 50 s and 550 B of data a packet (Asym 560 B). The rest is a fit, chosen \
     because ns-2 then comes near its counts of drops: NewReno with a window of 1000; 30 ms and \
     1 … 4.8 ms one way; DropTail of 50 packets before 10 Mbit/s, RED with ns-2's defaults before \
     300 kbit/s; for Asym at most four packets at once, where ns-2 has no limit unless it is given.",
    "The paper calls the data's way the uplink, since its sources upload, and the ACKs' way the \
     downlink; so does this page.",
    "All averages that the paper prints leave the remainder of one 40-byte SYN and whole packets \
     of 600 B (first list) or 590 B (second) when taken as Mbit/s over 50 s. As MByte/s, as it \
     has them, five of the flows alone would carry twice what the link can.",
    "Start times are drawn from the seed, 0 … 5 s, a seed a run; the measured value is the median \
     over the seeds.",
    "The paper says that ACC makes senders slow down. In RFC 3449 §4.3 it makes the receiver send \
     fewer ACKs; a marked ACK does not touch the window.",
];

const REAL: &str = "not derived from the runs of this engine";
/// The paper states ns-2. Linux at the ends is not one of the settings that it leaves open.
const CLAIMS: [Claim; 6] = [
    Claim::new(
        "fig3",
        "Figs. 3, 4",
        "with AF and ACC the uplink queue fluctuates more",
        &["marhoon/ratio/queue-deviation"],
        REAL,
    )
    .beside(&[
        "marhoon/virtual/ratio/queue-deviation",
        "marhoon/live/ratio/queue-deviation",
    ]),
    Claim::new(
        "fig5",
        "Figs. 5, 6",
        "with AF and ACC twice as many packets are dropped on the uplink",
        &["marhoon/ratio/data-drops"],
        REAL,
    )
    .beside(&[
        "marhoon/virtual/ratio/data-drops",
        "marhoon/live/ratio/data-drops",
    ]),
    Claim::new(
        "fig7",
        "Figs. 7, 8",
        "with AF and ACC fewer ACKs are lost on the downlink",
        &[
            "marhoon/ratio/acks-removed",
            "marhoon/ratio/ack-queue-drops",
        ],
        REAL,
    )
    .beside(&[
        "marhoon/virtual/ratio/acks-removed",
        "marhoon/live/ratio/acks-removed",
    ]),
    Claim::new(
        "fig9",
        "Figs. 9, 10",
        "with AF and ACC windows fluctuate and time out for long; some flows of NewReno never do",
        &["marhoon/ratio/timeouts", "marhoon/ratio/window-deviation"],
        REAL,
    )
    .beside(&[
        "marhoon/virtual/ratio/timeouts",
        "marhoon/live/ratio/timeouts",
    ]),
    Claim::new(
        "fig11",
        "Figs. 11, 12",
        "the first five flows get less with AF and ACC: 0.32 instead of 0.55 Mbit/s each",
        &["marhoon/ratio/throughput"],
        REAL,
    )
    .beside(&[
        "marhoon/virtual/ratio/throughput",
        "marhoon/live/ratio/throughput",
    ]),
    Claim::new(
        "acc",
        "Conclusion",
        "pure NewReno is better than with AF and ACC together",
        &["marhoon/ratio-acc/"],
        "an Asym sender with an ACC that works is simulated only",
    ),
];

/// Tolerances of the rows; `docs/papers/README.md` prints them.
const TOLERANCES: [Held; 7] = [
    Held::new(
        "counts of drops, whose start times are not printed: half an order of magnitude",
        arms::MAGNITUDE,
        "",
    ),
    Held::new("mean of the first five, and its ratio", arms::FIFTH, ""),
    Held::new("flows of NewReno without a timeout", above(0.0), ""),
    Held::new("ratio of drops on the uplink", range(1.3, 4.0), ""),
    Held::new("ratio of ACKs taken out", below(1.0), ""),
    Held::new("ratio of ACKs that RED dropped", range(0.3, 1.0), ""),
    Held::new(
        "ratios of the queue's deviation, of the windows', of timeouts",
        above(1.0),
        "",
    ),
];
