//! Pavilanskas, Statkus: a bridge drops ACKs above a rate. Up to which share does the transfer
//! not notice, and what happens with two sessions?
//!
//! A simulator can show Figs. 4, 5, 8, 9, 10 and the limit of 85 %. The load of the
//! routers (Figs. 6, 7) needs routers: the slow device and the live engine have them. The
//! scenarios are in `scenarios/papers/pavilanskas-2010/`, and the interpretation of the limit is
//! in `docs/papers/pavilanskas-2010.md`.

mod limit;
mod live;
mod router;
mod sessions;
mod window;

use crate::tolerances::{at_least, by, share};
use crate::{Claim, Engine, Error, Held, Lab, Paper, Reproduced};

const CC: &str = "cubic";
/// Bytes of a full frame on the wire, with preamble and gap.
const FRAME_BYTES: f64 = 1538.0;
/// The sending rate of the paper's server, according to its figures, in bit/s.
const SERVER_BPS: f64 = 93e6;

/// The paper.
pub struct Pavilanskas;

impl Paper for Pavilanskas {
    fn name(&self) -> &'static str {
        "pavilanskas"
    }

    fn title(&self) -> &'static str {
        "TCP patvirtinimo mechanizmo įtakos maršrutizatoriaus našumui nustatymas \
         (Determining the influence of TCP's acknowledgment mechanism on router performance)"
    }

    fn source(&self) -> &'static str {
        "L. Pavilanskas, A. Statkus; Elektronika ir Elektrotechnika 7(103), 2010, pp. 95–100"
    }

    fn about(&self) -> &'static str {
        "A bridge polices the ACKs of a 400 MB transfer over Fast Ethernet. The paper finds the \
         transfer whole up to 80 % of ACKs dropped and fatally degraded above 85 %, where it says \
         that ACKs come less often than the retransmission timer. Here: the transfer at each \
         share, over windows and with and without HyStart, since the paper prints neither, and with \
         both of the bursts that it prints; two sessions, one of them filtered; and the same rates \
         with ACKs held instead of dropped."
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

const NOTES: [&str; 4] = [
    "Shares are of the 4144 ACKs/s that the sender counted as the paper's makes where all pass, an \
     ACK for 1.82 segments. An ACK has timestamps, the default of Linux 2.6.32, and is 52 bytes to its \
     ingress policer, which the listing has. The set-up column has the share that was dropped: where \
     a transfer collapses fewer ACKs are made, and few of them exceed the rate.",
    "The paper prints two bursts: its prose has 5 kB, its listing 102400 bytes. The prose's is \
     counted, since the prose says what it is for; the listing's is a variant, and less favourable \
     to the limit of 85 %.",
    "The paper does not print the sender's window. The runs counted as the paper's have the \
     defaults of Linux 2.6.32: HyStart on, and no window limit but the queue before the line. All \
     others are variants. With d segments an ACK and W in flight, a policer that passes every \
     1/(1 − X)th ACK starves the window once d/(1 − X) > W.",
    "Linux 2.6.32 had no tail-loss probe; with one, the collapse is milder.",
];

const ROUTER: &str = "a simulated router has no load; `--on virtual` counts its instructions, `--on \
                      live` its time";
const DEVICE: &str = "needs the slow device: QEMU and the kernel that `kernel/build x86_64` makes";
const CLAIMS: [Claim; 10] = [
    Claim::new(
        "fig4",
        "Fig. 4",
        "0 … 80 % of the ACKs dropped: the curves coincide and end at 41 to 42 s",
        &[
            "pavilanskas/fig4/",
            "pavilanskas/listing/fig4/",
            "pavilanskas/virtual/16 KiB/took",
            "pavilanskas/live/16 KiB/dropped",
        ],
        "only runs of whole transfers show it",
    ),
    Claim::new(
        "fig5",
        "Fig. 5",
        "nothing is sent again up to 80 %",
        &[
            "pavilanskas/fig5/",
            "pavilanskas/listing/fig5/",
            "pavilanskas/virtual/16 KiB/retransmits",
            "pavilanskas/live/16 KiB/retransmits",
        ],
        "only runs of transfers show it",
    ),
    Claim::new(
        "limit",
        "§ on the limit",
        "above 85 % the rate falls fatally",
        &[
            "pavilanskas/limit/",
            "pavilanskas/listing/limit/",
            "pavilanskas/virtual/16 KiB/dropped",
            "pavilanskas/live/16 KiB/dropped",
        ],
        "only runs of transfers show it",
    ),
    Claim::new(
        "criterion",
        "§ on the limit",
        "the limit is fewer than one ACK a retransmission timeout",
        &["pavilanskas/criterion/"],
        "it is arithmetic, shown with the simulated runs",
    ),
    Claim::new(
        "fig6",
        "Fig. 6",
        "the router's load is linear in the rate, and lower with 80 % dropped",
        &[
            "pavilanskas/slow/linear",
            "pavilanskas/slow/lower",
            "pavilanskas/live/linear",
            "pavilanskas/live/lower",
        ],
        ROUTER,
    )
    .elsewhere(Engine::Virtual, DEVICE),
    Claim::new(
        "fig7-25",
        "Fig. 7",
        "30 % of the load saved at a load of 25 %",
        &["pavilanskas/slow/gain", "pavilanskas/live/load"],
        ROUTER,
    )
    .elsewhere(Engine::Virtual, DEVICE),
    Claim::new(
        "fig7-60",
        "Fig. 7",
        "32 % of the load saved at loads of 60 % and more",
        &["pavilanskas/slow/gain-60"],
        "no run loads the router to 60 %: sender, bridge and receiver share its CPU",
    ),
    Claim::new(
        "fig8",
        "Fig. 8",
        "two sessions with 80 % dropped have 44 and 49 Mbit/s",
        &[
            "pavilanskas/fig8/",
            "pavilanskas/virtual/live-sessions/",
            "pavilanskas/live/live-sessions/",
        ],
        "only runs of two transfers show it",
    ),
    Claim::new(
        "fig9-ends",
        "Fig. 9",
        "the two end at 78 and 81 s",
        &["pavilanskas/fig9/"],
        "two sessions run 8 s on this engine, a tenth of their transfers",
    ),
    Claim::new(
        "fig10",
        "Fig. 10",
        "one of two sessions with 80 % dropped: nearly equal shares",
        &[
            "pavilanskas/fig10/",
            "pavilanskas/virtual/live-one/",
            "pavilanskas/live/live-one/",
        ],
        "only runs of two transfers show it",
    ),
];

/// Tolerances of the rows; `docs/papers/README.md` prints them.
const TOLERANCES: [Held; 16] = [
    Held::new("Fig. 4: the transfer, derived", limit::TOOK, "s"),
    Held::new(
        "Fig. 4: transfer time relative to that with all ACKs",
        by(0.03),
        "",
    ),
    Held::new("Fig. 4 on Linux: rate and time, derived", share(0.03), "s"),
    Held::new("Fig. 5: segments sent again", by(0.1), "%"),
    Held::new("rate left where the paper says whole", limit::WHOLE, "%"),
    Held::new(
        "rate left where the paper says fatal",
        limit::COLLAPSED,
        "%",
    ),
    Held::new("least share that leaves less than half", window::LIMIT, "%"),
    Held::new("Fig. 6: R² of a line", router::LINEAR, ""),
    Held::new(
        "Fig. 6: load with 80 % dropped, of that with all ACKs",
        router::LOWER,
        "",
    ),
    Held::new("Fig. 7: load saved", router::SAVED, "%"),
    Held::new(
        "what an ACK costs, of what a packet of data costs",
        router::AS_MUCH,
        "%",
    ),
    Held::new("Fig. 8: a session's rate", share(0.15), "Mbit/s"),
    Held::new("Fig. 8: both together", share(0.02), "Mbit/s"),
    Held::new("Fig. 8: Jain's index, derived", at_least(0.98), ""),
    Held::new("Fig. 9: the end of a session", by(4.0), "s"),
    Held::new("Fig. 10: Jain's index", sessions::FAIR, ""),
];
