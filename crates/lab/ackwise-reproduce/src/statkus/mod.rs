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

use crate::{Engine, Error, Lab, Paper, Reproduced};

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
