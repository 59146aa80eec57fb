//! Saldana, Fernández-Navajas, Ruiz-Mas: a multiplexer holds ACKs for up to a period PE and
//! releases them together. What does that do to a Tahoe flow alone (Fig. 2), and to a flow
//! beside one that is not multiplexed (Table I)?
//!
//! The scenarios are in `scenarios/papers/saldana-2013/`; what the paper leaves open and how it
//! was found is in `docs/papers/saldana-2013.md`.

mod figure2;
mod real;
mod sizes;
mod table1;

use crate::{Engine, Error, Lab, Paper, Reproduced};

/// Of the averages: the last 500 of 1000 s, as the paper has it.
const FROM_S: f64 = 500.0;
const TO_S: f64 = 1000.0;
/// A full segment as an IP packet: the paper's bandwidth counts headers.
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
         undelayed one more, the longer the period; up to 10 ms it calls the loss tolerable. \
         Here: the lone flow, Table I with the set-up that its numbers demand, and what remains \
         of Table I when the details that it does not print are varied. On the other engines: \
         Linux at the ends and the daemons of a real tunnel."
    }

    fn engines(&self) -> &'static [Engine] {
        &[Engine::Sim, Engine::Live, Engine::Virtual]
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
             1500-byte packets and a queue of 50 are the only pair that gives both its 9.24 and \
             its 8.04 Mbit/s; the rest is varied in table1-open.toml."
                .to_owned(),
        );
        Ok(all)
    }
}
