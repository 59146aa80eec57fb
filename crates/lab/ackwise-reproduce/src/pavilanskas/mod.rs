//! Pavilanskas, Statkus: a bridge drops ACKs above a rate. Up to which share does the transfer
//! not notice, and what of two sessions?
//!
//! What a simulator can show of it: Figs. 4, 5, 8, 9, 10 and the limit of 85 %. The load of the
//! routers (Figs. 6, 7) needs routers: the slow device and the live engine have them. The scenarios are in
//! `scenarios/papers/pavilanskas-2010/`, the reading of the limit in
//! `docs/papers/pavilanskas-2010.md`.

mod limit;
mod live;
mod router;
mod sessions;

use crate::{Engine, Error, Lab, Paper, Reproduced};

const CC: &str = "cubic";
/// Of a full frame and of an ACK, with preamble and gap.
const FRAME_BYTES: f64 = 1538.0;
/// What the paper's server sent, by its figures, bit/s.
const SERVER_BPS: f64 = 93e6;

/// The paper.
pub struct Pavilanskas;

impl Paper for Pavilanskas {
    fn name(&self) -> &'static str {
        "pavilanskas"
    }

    fn title(&self) -> &'static str {
        "TCP patvirtinimo mechanizmo įtakos maršrutizatoriaus našumui nustatymas (how TCP's \
         acknowledgments weigh on a router)"
    }

    fn source(&self) -> &'static str {
        "L. Pavilanskas, A. Statkus; Elektronika ir Elektrotechnika 7(103), 2010, pp. 95–100"
    }

    fn about(&self) -> &'static str {
        "A bridge polices the ACKs of a 400 MB transfer over Fast Ethernet. The paper finds the \
         transfer whole up to 80 % of ACKs dropped and fatally degraded above 85 %, where it says \
         that ACKs come less often than the retransmission timer. Here: the transfer at each \
         share, two sessions, one of them filtered; the paper's criterion and the one that does \
         explain 85 %; and the same rates with ACKs held instead of dropped."
    }

    fn engines(&self) -> &'static [Engine] {
        &[Engine::Sim, Engine::Live, Engine::Virtual]
    }

    fn reproduce(&self, lab: &Lab<'_>) -> Result<Reproduced, Error> {
        let mut all = Reproduced::default();
        if lab.engine() != Engine::Sim {
            live::run(lab, &mut all)?;
            return Ok(all);
        }
        limit::run(lab, &mut all)?;
        sessions::run(lab, &mut all)?;
        all.notes.extend(NOTES.map(str::to_owned));
        all.missing.push(
            "CPU load of the routers (Figs. 6 and 7): a simulated router has none; `--on virtual` \
             counts its instructions, `--on live` its time."
                .to_owned(),
        );
        Ok(all)
    }
}

const NOTES: [&str; 3] = [
    "Shares are of the 3779 ACKs/s that 93 Mbit/s of full frames make with an ACK for two; an ACK \
     is a 64-byte frame to the policer, its burst is 5 kB.",
    "The sender's window is 13 segments, which the paper does not say: with d segments an ACK \
     and W in flight, a policer that passes every 1/(1 − X)th ACK starves the window once \
     d/(1 − X) > W, and 85 % is W = 13. A 16 KiB send buffer gives 11 to 12 segments.",
    "Linux 2.6.32 had no tail-loss probe; with one, the collapse is milder.",
];
