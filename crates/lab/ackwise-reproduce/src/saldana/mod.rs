//! Saldana, Fernández-Navajas, Ruiz-Mas: a multiplexer holds ACKs for up to a period PE and
//! releases them together. How does that affect a Tahoe flow on its own (Fig. 2), and a flow
//! that competes with one that is not multiplexed (Table I)?
//!
//! The scenarios are in `scenarios/papers/saldana-2013/`; what the paper leaves open, and how it
//! was found, is in `docs/papers/saldana-2013.md`.

mod figure2;
mod real;
mod sizes;
mod table1;

use crate::tolerances::{at_least, at_most, by, share};
use crate::{Claim, Engine, Error, Held, Lab, Paper, Reproduced};

/// The interval of the averages: the last 500 of 1000 s, as in the paper.
const FROM_S: f64 = 500.0;
const TO_S: f64 = 1000.0;
/// Bytes of a full segment as an IP packet: the paper's bandwidth includes headers.
const PACKET_BYTES: f64 = 1500.0;
const BOTTLENECK_BPS: f64 = 10e6;

/// The paper.
pub struct Saldana;

impl Paper for Saldana {
    fn name(&self) -> &'static str {
        "saldana"
    }

    fn title(&self) -> &'static str {
        "Can We Multiplex ACKs without Harming the Performance of TCP?"
    }

    fn source(&self) -> &'static str {
        "J. Saldana, J. Fernández-Navajas, J. Ruiz-Mas; University of Zaragoza, 2013"
    }

    fn about(&self) -> &'static str {
        "A multiplexer collects ACKs and releases them at multiples of a period PE. The paper \
         finds that this costs a lone flow some throughput, and a flow that competes with an \
         undelayed one more, the longer the period; up to 10 ms it calls the loss small or \
         acceptable. \
         Here: the lone flow, Table I with the set-up that its numbers demand, and what remains \
         of Table I when the details that it does not print are varied. On the other engines: \
         Linux at the ends and the daemons of a real tunnel."
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
        figure2::run(lab, &mut all)?;
        table1::run(lab, &mut all)?;
        sizes::run(&mut all);
        all.notes.push(
            "Throughput is counted as ns-2's sink does: packets that arrive, with their headers, \
             duplicates too. Averages are over the last 500 of 1000 s."
                .to_owned(),
        );
        all.notes.push(
            "The paper gives neither packet size nor queue, window, hop count or start times. \
             1500-byte packets and a queue of 50 were chosen since they give its 9.24 and its 8.04 \
             Mbit/s: a fit, so that Fig. 2 tests the rest of the set-up, and not these two. The \
             rest is varied in table1-open.toml."
                .to_owned(),
        );
        Ok(all)
    }
}

const TUNNEL: &str = "a tunnel has it on the other engines, `--on virtual`; its bytes for each ACK are \
                      not these of the paper's protocol";
const ABSENT: &str = "its runs are absent";
const TABLE: &str = "derived from the simulated table alone";
const CLAIMS: [Claim; 8] = [
    Claim::new(
        "fig2a",
        "Fig. 2a",
        "a lone Tahoe flow has 9.24 Mbit/s and starts again every 7 s",
        &[
            "saldana/fig2/baseline/",
            "saldana/virtual/single/reno/direct",
            "saldana/live/single/reno/direct",
        ],
        ABSENT,
    ),
    Claim::new(
        "fig2b",
        "Fig. 2b",
        "with PE = 50 ms 8.039 Mbit/s, every 9.5 s: 12 % less",
        &[
            "saldana/fig2/mux-50ms/",
            "saldana/virtual/single/reno/50ms",
            "saldana/live/single/reno/50ms",
        ],
        ABSENT,
    ),
    Claim::new(
        "table1",
        "Table I",
        "20 cells: what a multiplexed flow loses to its neighbour",
        &[
            "saldana/table1/",
            "saldana/virtual/pair/reno/5ms",
            "saldana/live/pair/reno/5ms",
        ],
        ABSENT,
    ),
    Claim::new(
        "tolerable",
        "§ on Table I",
        "up to 10 ms the loss is small or acceptable, 10 to 20 % at 10 ms",
        &["saldana/claim/10ms"],
        TABLE,
    ),
    Claim::new(
        "dip",
        "Table I",
        "15 and 25 ms are worse than 20 ms",
        &["saldana/claim/dip"],
        TABLE,
    ),
    Claim::new(
        "reno",
        "Table I",
        "Reno loses most in each column",
        &["saldana/claim/reno-worst"],
        TABLE,
    ),
    Claim::new(
        "sizes",
        "§ on multiplexing",
        "an ACK of 40 B becomes 7 to 8 B: 80 % saved",
        &[
            "saldana/sizes/saved-50",
            "saldana/virtual/single/reno/bytes-per-ack",
            "saldana/live/single/reno/bytes-per-ack",
        ],
        TUNNEL,
    ),
    Claim::new(
        "bundle",
        "§ on multiplexing",
        "100 flows of 100 ACKs a second: 50 ACKs a bundle of 5 ms",
        &["saldana/virtual/hundred/"],
        "a real tunnel has 100 flows on another engine, `--on virtual`; 50 is arithmetic (100 × 100 × 5 ms)",
    ),
];

/// Tolerances of the rows; `docs/papers/README.md` prints them.
const TOLERANCES: [Held; 14] = [
    Held::new("Fig. 2a: average", share(0.015), "Mbit/s"),
    Held::new("Fig. 2a: from reset to reset", by(0.3), "s"),
    Held::new("Fig. 2b: average", share(0.02), "Mbit/s"),
    Held::new("Fig. 2b: from reset to reset", by(1.0), "s"),
    Held::new("Fig. 2b: loss by PE = 50 ms", by(2.0), "%"),
    Held::new("Fig. 2b: the same on Linux", by(4.0), "%"),
    Held::new("Table I: 5, 10 and 20 ms", by(6.0), "%"),
    Held::new("Table I: 15 and 25 ms", by(25.0), "%"),
    Held::new(
        "Table I: cells in which the multiplexed flow loses",
        at_least(20.0),
        "of 20",
    ),
    Held::new("Table I: greatest loss at 5 ms", at_most(6.0), "%"),
    Held::new(
        "Table I: greatest and least loss at 10 ms",
        table1::AT_10_MS,
        "%",
    ),
    Held::new(
        "Table I: variants with 15 ms > 20 ms < 25 ms",
        at_least(4.0),
        "of 4",
    ),
    Held::new(
        "Table I: periods in which Reno is worst",
        at_least(5.0),
        "of 5",
    ),
    Held::new("100 flows: ACKs in a bundle", real::IN_A_BUNDLE, ""),
];
