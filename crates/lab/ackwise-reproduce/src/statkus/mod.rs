//! Statkus, Paulikas, Krukonis 2021: a receiver whose kernel searches for the lowest ACK rate
//! that its sender stands, on routers whose CPU is the bottleneck.
//!
//! Two engines answer two questions. What limiting does to a *flow* is asked of the real stack
//! in virtual time (`link.rs`, `drop.rs`, scenarios in `scenarios/papers/statkus-2021/`), where CPU
//! costs nothing. What it does to a *CPU* is asked of the same kernel in an emulated machine that
//! counts instructions (`device.rs`, `slow.rs`). `docs/papers/statkus-2021.md` has the set-ups.

mod device;
mod drop;
mod link;
mod slow;

use crate::{Claim, Engine, Error, Lab, Paper, Reproduced};

/// The paper.
pub struct Statkus;

/// Adds what one half of the paper gives.
type Half = fn(&Lab<'_>, &mut Reproduced) -> Result<(), Error>;

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

    fn reproduce(&self, lab: &Lab<'_>) -> Result<Reproduced, Error> {
        let mut all = Reproduced::default();
        // One half needs QEMU and a bzImage, the other User Mode Linux: a machine that lacks
        // one still has the other.
        let halves: [(&str, Half); 3] = [
            ("slow device", slow::run),
            ("virtual time", link::run),
            ("virtual time, a drop", drop::run),
        ];
        for (name, half) in halves {
            match half(lab, &mut all) {
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(error) => all.missing.push(format!("{name}: {error}")),
                Ok(()) => {}
            }
        }
        if all.experiments.is_empty() {
            return Err(Error::Unavailable {
                paper: self.name(),
                why: all.missing.join("; "),
            });
        }
        Ok(all)
    }
}

const SLOW: &str = "needs the slow device: QEMU and the kernel that `kernel/build x86_64` makes";
const VIRTUAL: &str = "needs the kernel of virtual time, which `kernel/build um` makes";
const CLAIMS: [Claim; 14] = [
    Claim {
        id: "fig5-before",
        part: "Figs 5, 6",
        says: "limited and unmodified flow are the same until limiting starts, after 19 to 20 s",
        rows: &["statkus/link-before"],
        missing: VIRTUAL,
    },
    Claim {
        id: "fig5-gain",
        part: "Figs 5, 6",
        says: "up to 60 % more throughput between two routers",
        rows: &["statkus/slow-gain-rate-limit"],
        missing: SLOW,
    },
    Claim {
        id: "fig5-100s",
        part: "Figs 5, 6",
        says: "the course of 100 s with tcp_ack_limit 2000 on a CPU that is the bottleneck",
        rows: &["statkus/slow-100s"],
        missing: "8 s with an eighth of the limit are run instead: 100 s take four minutes of CPU for \
                  each kernel",
    },
    Claim {
        id: "fig6-drop",
        part: "Figs 5, 6",
        says: "limiting leads to drops at 45 s, after which the search starts anew",
        rows: &["statkus/link-own-drops"],
        missing: VIRTUAL,
    },
    Claim {
        id: "fig6-restart",
        part: "Figs 5, 6",
        says: "ACKs are limited again 6 s after the drop",
        rows: &["statkus/drop-restart"],
        missing: VIRTUAL,
    },
    Claim {
        id: "fig7",
        part: "Figs 7, 8",
        says: "between routers the RTT rises once ACKs are limited",
        rows: &["statkus/slow-rtt-ratio-routers"],
        missing: SLOW,
    },
    Claim {
        id: "fig10",
        part: "Fig. 10",
        says: "r rises at 10 s, is highest at 20 to 25 s and falls three times",
        rows: &["statkus/fig10-rises"],
        missing: SLOW,
    },
    Claim {
        id: "fig11",
        part: "Figs 11, 12",
        says: "between virtual machines up to 30 % more throughput, and more uniform",
        rows: &["statkus/slow-gain-vm"],
        missing: SLOW,
    },
    Claim {
        id: "fig13",
        part: "Figs 13 to 16",
        says: "between virtual machines the RTT is almost halved",
        rows: &["statkus/slow-rtt-ratio-rate-limit"],
        missing: SLOW,
    },
    Claim {
        id: "fig17",
        part: "Fig. 17",
        says: "about half as many ACKs",
        rows: &["statkus/slow-ack-rate"],
        missing: SLOW,
    },
    Claim {
        id: "fig17-starved",
        part: "Fig. 17",
        says: "the unmodified router itself sends fewer than one ACK for two segments",
        rows: &["statkus/fig17-starved-acks"],
        missing: SLOW,
    },
    Claim {
        id: "fig18",
        part: "Figs 18, 19",
        says: "after a loss both recover alike; limited, threshold and window are slightly smaller",
        rows: &["statkus/fig18"],
        missing: "no flow loses anything in the runs here, so that there are no recoveries to compare",
    },
    Claim {
        id: "fig20",
        part: "Fig. 20",
        says: "30 % less CPU at a load of 25 %, 32 % from 60 % on",
        rows: &["statkus/fig20-60"],
        missing: SLOW,
    },
    Claim {
        id: "cpu",
        part: "Conclusion",
        says: "up to 50 % less CPU load",
        rows: &["statkus/slow-cpu-rate-limit"],
        missing: SLOW,
    },
];
