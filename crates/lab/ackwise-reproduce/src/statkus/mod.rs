//! Statkus, Paulikas, Krukonis 2021: a receiver whose kernel searches for the lowest ACK rate
//! that its sender tolerates, on routers whose CPU is the bottleneck.
//!
//! Two engines answer two questions. The effect of limiting on a *flow* is measured with the real
//! stack in virtual time (`link.rs`, `drop.rs`, scenarios in `scenarios/papers/statkus-2021/`), where
//! CPU costs nothing. The effect on a *CPU* is measured with the same kernel in an emulated machine
//! that counts instructions (`device.rs`, `slow.rs`, `course.rs`). `docs/papers/statkus-2021.md` has
//! the set-ups.

mod course;
mod device;
mod drop;
mod link;
mod slow;

use ackwise_report::Experiment;

use crate::{Claim, Engine, Error, Held, Lab, Paper, Reproduced};

/// The paper.
pub struct Statkus;

/// A function that adds the results of one part of the paper.
type Part = fn(&Lab<'_>, &mut Reproduced) -> Result<(), Error>;

impl Paper for Statkus {
    fn name(&self) -> &'static str {
        "statkus"
    }

    fn title(&self) -> &'static str {
        "TCP Acknowledgment Optimization in Low Power and Embedded Devices"
    }

    fn source(&self) -> &'static str {
        "A. Statkus, Š. Paulikas, A. Krukonis; Electronics 10:639, 2021"
    }

    fn about(&self) -> &'static str {
        "A Linux receiver sends fewer ACKs, because its kernel raises the number of segments per \
         ACK for as long as data keeps its pace. The paper finds up to 60 % more throughput \
         between two routers, 30 % between two virtual machines, and up to half of the CPU load \
         saved. Here: the same algorithm, mended and as printed, in a kernel of today; the flow \
         in virtual time, and the slow CPU in a machine that counts instructions."
    }

    fn engines(&self) -> &'static [Engine] {
        &[Engine::Virtual]
    }

    fn claims(&self) -> &'static [Claim] {
        &CLAIMS
    }

    fn tolerances(&self) -> Vec<Held> {
        TOLERANCES.to_vec()
    }

    fn reproduce(&self, lab: &Lab<'_>) -> Result<Reproduced, Error> {
        let mut all = Reproduced::default();
        // Some parts need QEMU and a bzImage, the others User Mode Linux: a machine that lacks
        // one still runs the others.
        let parts: [(&str, Part); 4] = [
            ("slow device", slow::run),
            ("slow device, 100 s", course::run),
            ("virtual time", link::run),
            ("virtual time, a drop", drop::run),
        ];
        for (name, part) in parts {
            match part(lab, &mut all) {
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(error) => all.missing.push(format!("{name}: {error}")),
                Ok(()) => {}
            }
        }
        all.experiments = all.experiments.into_iter().map(of_the_listing).collect();
        if all.experiments.is_empty() {
            return Err(Error::Unavailable {
                paper: self.name(),
                why: all.missing.join("; "),
            });
        }
        Ok(all)
    }
}

/// The printed listing contradicts the paper's text, so running it is one of two readings.
fn of_the_listing(row: Experiment) -> Experiment {
    let literal = row.id.ends_with("-rate-limit-literal");
    match row.published {
        Some(_) if literal => row.variant(),
        _ => row,
    }
}

const SLOW: &str = "needs the slow device: QEMU and the kernel that `kernel/build x86_64` makes";
const VIRTUAL: &str = "needs the kernel of virtual time, which `kernel/build um` makes";
/// A drop that a second flow makes is not the paper's, which limiting itself makes: such rows are beside
/// a claim.
const CLAIMS: [Claim; 16] = [
    Claim::new(
        "fig5-before",
        "Figs 5, 6",
        "limited and unmodified flow are the same until limiting starts",
        &["statkus/slow-100s-before", "statkus/link-before"],
        SLOW,
    ),
    Claim::new(
        "fig5-start",
        "Figs 5, 6",
        "limiting starts after 19 to 20 s",
        &["statkus/link-start"],
        VIRTUAL,
    ),
    Claim::new(
        "fig5-gain",
        "Figs 5, 6",
        "up to 60 % more throughput between two routers",
        &["statkus/slow-gain-rate-limit"],
        SLOW,
    ),
    Claim::new(
        "fig5-100s",
        "Figs 5, 6",
        "the course of 100 s with tcp_ack_limit 2000 on a CPU that is the bottleneck",
        &["statkus/slow-100s"],
        SLOW,
    ),
    Claim::new(
        "fig6-drop",
        "Figs 5, 6",
        "limiting leads to drops at 45 s, after which the search starts anew",
        &["statkus/slow-100s-own-drops", "statkus/link-own-drops"],
        SLOW,
    ),
    Claim::new(
        "fig6-restart",
        "Figs 5, 6",
        "ACKs are limited again 6 s after the drop",
        &["statkus/slow-100s-restart"],
        SLOW,
    )
    .beside(&["statkus/drop-restart"]),
    Claim::new(
        "fig7",
        "Figs 7, 8",
        "between routers the RTT rises once ACKs are limited",
        &["statkus/slow-rtt-ratio-routers"],
        SLOW,
    ),
    Claim::new(
        "fig8-after",
        "Fig. 8",
        "after the drop the RTT is the unmodified one's again",
        &[],
        VIRTUAL,
    )
    .beside(&["statkus/fig8-after"]),
    Claim::new(
        "fig10",
        "Fig. 10",
        "r rises at 10 s, is highest at 20 to 25 s and falls three times",
        &["statkus/fig10-"],
        SLOW,
    ),
    Claim::new(
        "fig11",
        "Figs 11, 12",
        "between virtual machines up to 30 % more throughput, and more uniform",
        &[
            "statkus/slow-gain-vm",
            "statkus/slow-uneven",
            "statkus/slow-100s-uneven",
        ],
        SLOW,
    ),
    Claim::new(
        "fig12-dips",
        "Fig. 12",
        "limited throughput dips for short times, at 10 to 20 s",
        &["statkus/fig12-dips"],
        SLOW,
    ),
    Claim::new(
        "fig13",
        "Figs 13 to 16",
        "between virtual machines the RTT is almost halved",
        &[
            "statkus/slow-rtt-ratio-rate-limit",
            "statkus/link-rtt-ratio",
            "statkus/link-mode",
        ],
        SLOW,
    ),
    Claim::new(
        "fig17",
        "Fig. 17",
        "the unmodified router sends fewer than one ACK for two segments, and limiting halves that",
        &["statkus/fig17-starved", "statkus/slow-ack-rate"],
        SLOW,
    ),
    Claim::new(
        "fig18",
        "Figs 18, 19",
        "after a loss both recover alike; limited, the threshold is slightly lower, the window smaller and steadier",
        &[],
        VIRTUAL,
    )
    .beside(&[
        "statkus/fig18-recovery",
        "statkus/fig18-threshold",
        "statkus/fig18-window",
        "statkus/fig18-steadier",
    ]),
    Claim::new(
        "fig20",
        "Fig. 20",
        "30 % less CPU at a load of 25 %, 32 % from 60 % on",
        &["statkus/fig20-25", "statkus/fig20-60"],
        SLOW,
    ),
    Claim::new(
        "cpu",
        "Conclusion",
        "up to 50 % less CPU load",
        &["statkus/slow-cpu-rate-limit"],
        SLOW,
    ),
];

/// Tolerances of the rows; `docs/papers/README.md` prints them.
const TOLERANCES: [Held; 18] = [
    Held::new("Figs 5, 6: gain between routers", slow::GAIN, "%"),
    Held::new(
        "Figs 5, 6: goodput before ACKs are limited, of the unmodified one",
        link::SAME,
        "",
    ),
    Held::new("Fig. 6: segments sent again", link::SOME, ""),
    Held::new(
        "Figs 5, 6: ACK rate once ACKs are limited, of the unmodified one",
        course::FEWER,
        "",
    ),
    Held::new(
        "Figs 7, 8: RTT between routers, of the unmodified one",
        slow::LONGER_RTT,
        "",
    ),
    Held::new(
        "Fig. 8: RTT after a drop, of the unmodified one",
        drop::ALIKE,
        "",
    ),
    Held::new("Fig. 10: how often r falls", slow::FALLS, ""),
    Held::new(
        "Fig. 10: how often r falls before it is highest",
        slow::MONOTONE,
        "",
    ),
    Held::new("Fig. 12: dips of throughput", link::SOME, ""),
    Held::new(
        "Figs 11, 12: gain between virtual machines; Fig. 20, conclusion: CPU",
        slow::FIFTH,
        "%",
    ),
    Held::new(
        "Figs 11, 12: deviation of goodput, of the unmodified one",
        slow::MORE_UNIFORM,
        "",
    ),
    Held::new(
        "Figs 13, 14: RTT between virtual machines, of the unmodified one",
        slow::HALVED_RTT,
        "",
    ),
    Held::new(
        "Fig. 15: lower edge of the most frequent RTT, unmodified",
        link::MODE,
        "ms",
    ),
    Held::new(
        "Fig. 16: lower edge of the most frequent RTT, limited",
        link::MODE_LIMITED,
        "ms",
    ),
    Held::new(
        "Fig. 17: ACK rate, of the unmodified one",
        slow::HALF_THE_ACKS,
        "",
    ),
    Held::new(
        "Fig. 17: segments an ACK of the unmodified router",
        slow::STARVED,
        "",
    ),
    Held::new(
        "Figs 18, 19: time until the window is as before, of the unmodified one",
        drop::ALIKE,
        "",
    ),
    Held::new(
        "Figs 18, 19: threshold, window and its deviation after a loss, of the unmodified one",
        drop::SMALLER,
        "",
    ),
];

#[cfg(test)]
mod tests {
    use ackwise_report::Basis;

    use super::*;

    #[test]
    fn the_listing_as_printed_is_a_variant() {
        let basis = |id: &str| of_the_listing(Experiment::new(id, "x", 1.0).published(2.0)).basis;
        let literal = "statkus/slow-gain-rate-limit-literal";
        assert_eq!(basis(literal), Basis::Variant);
        assert_eq!(basis("statkus/slow-gain-rate-limit"), Basis::Measured);
        let silent = of_the_listing(Experiment::new(literal, "x", 1.0));
        assert_eq!(silent.basis, Basis::Measured);
    }
}
