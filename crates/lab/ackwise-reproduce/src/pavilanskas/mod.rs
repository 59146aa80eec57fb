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
mod window;

use crate::{Claim, Engine, Error, Lab, Paper, Reproduced};

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
         share, over windows and with and without HyStart, since the paper prints neither; two \
         sessions, one of them filtered; and the same rates with ACKs held instead of dropped."
    }

    fn engines(&self) -> &'static [Engine] {
        &[Engine::Sim, Engine::Live, Engine::Virtual]
    }

    fn claims(&self) -> &'static [Claim] {
        &CLAIMS
    }

    fn reproduce(&self, lab: &Lab<'_>) -> Result<Reproduced, Error> {
        let mut all = Reproduced::default();
        if lab.engine() != Engine::Sim {
            live::run(lab, &mut all)?;
            return Ok(all);
        }
        limit::run(lab, &mut all)?;
        window::run(lab, &mut all)?;
        sessions::run(lab, &mut all)?;
        all.notes.extend(NOTES.map(str::to_owned));
        Ok(all)
    }
}

const NOTES: [&str; 3] = [
    "Shares are of the 3779 ACKs/s that 93 Mbit/s of full frames make with an ACK for two; an ACK \
     is a 64-byte frame to the policer, its burst is 5 kB.",
    "The paper does not print the sender's window. What is counted has none but the queue before \
     the line, and HyStart, as Linux 2.6.32 comes; everything else is one of several settings. \
     With d segments an ACK and W in flight, a policer that passes every 1/(1 − X)th ACK starves the \
     window once d/(1 − X) > W.",
    "Linux 2.6.32 had no tail-loss probe; with one, the collapse is milder.",
];

const ROUTER: &str = "a simulated router has no load; `--on virtual` counts its instructions, `--on \
                      live` its time";
const CLAIMS: [Claim; 9] = [
    Claim {
        id: "fig4",
        part: "Fig. 4",
        says: "0 … 80 % of the ACKs dropped: the curves coincide and end at 41 to 42 s",
        rows: &[
            "pavilanskas/fig4/",
            "pavilanskas/virtual/16 KiB/took",
            "pavilanskas/live/16 KiB/rate",
        ],
        missing: "only runs of whole transfers show it",
    },
    Claim {
        id: "fig5",
        part: "Fig. 5",
        says: "nothing is sent again up to 80 %",
        rows: &[
            "pavilanskas/fig5/",
            "pavilanskas/virtual/16 KiB/retransmits",
            "pavilanskas/live/16 KiB/retransmits",
        ],
        missing: "only runs of transfers show it",
    },
    Claim {
        id: "limit",
        part: "§ on the limit",
        says: "above 85 % the rate falls fatally",
        rows: &[
            "pavilanskas/limit/",
            "pavilanskas/virtual/16 KiB/dropped",
            "pavilanskas/live/16 KiB/dropped",
        ],
        missing: "only runs of transfers show it",
    },
    Claim {
        id: "criterion",
        part: "§ on the limit",
        says: "the limit is fewer than one ACK a retransmission timeout",
        rows: &["pavilanskas/criterion/"],
        missing: "it is arithmetic, shown with the simulated runs",
    },
    Claim {
        id: "fig6",
        part: "Fig. 6",
        says: "the router's load is linear in the rate, and lower with 80 % dropped",
        rows: &["pavilanskas/slow/linear", "pavilanskas/live/linear"],
        missing: ROUTER,
    },
    Claim {
        id: "fig7-25",
        part: "Fig. 7",
        says: "30 % of the load saved at a load of 25 %",
        rows: &["pavilanskas/slow/gain", "pavilanskas/live/load"],
        missing: ROUTER,
    },
    Claim {
        id: "fig7-60",
        part: "Fig. 7",
        says: "32 % of the load saved at loads of 60 % and more",
        rows: &["pavilanskas/slow/gain-60"],
        missing: "no run loads the router to 60 %: sender, bridge and receiver share its CPU",
    },
    Claim {
        id: "fig8",
        part: "Figs. 8, 9",
        says: "two sessions with 80 % dropped have 44 and 49 Mbit/s, and end at 78 and 81 s",
        rows: &[
            "pavilanskas/fig8/",
            "pavilanskas/virtual/live-sessions/",
            "pavilanskas/live/live-sessions/",
        ],
        missing: "only runs of two transfers show it",
    },
    Claim {
        id: "fig10",
        part: "Fig. 10",
        says: "one of two sessions with 80 % dropped: nearly equal shares",
        rows: &[
            "pavilanskas/fig10/",
            "pavilanskas/virtual/live-one/",
            "pavilanskas/live/live-one/",
        ],
        missing: "only runs of two transfers show it",
    },
];
