//! The built-in devices of the suite: known filters, and ours.

use std::path::Path;

use ackwise_engines::command;
use ackwise_uml::{KernelChoice, Release};

use crate::capture;
use crate::device::Error;
use crate::in_process::{InProcess, Queue};
use crate::judge::DeviceReport;
use crate::netns::{Setup, Spec};
use crate::schedule::Schedule;
use crate::virt::run;

/// A policer on the port by which ACKs arrive, as in Pavilanskas 2010. It drops ACKs above a rate,
/// whatever they carry.
const POLICE: &str = include_str!("../setups/police.sh");
/// Rules for OpenWrt that drop half, 95 % or 99.5 % of the ACKs above given rates.
const NFT: &str = include_str!("../setups/nft-ack-rate.sh");

/// The kind of a built-in device.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Process(fn() -> Queue),
    Qdisc(Release, &'static str),
    Script(Release, &'static str),
    Datapath(&'static str),
    Gateway(&'static str),
    Tunnel,
    Simplemux,
}

/// A built-in device.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// Its name, also on the command line.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    kind: Kind,
}

/// A policy of the datapath, with parameters that make it withhold ACKs in the suite's flows. By
/// default, some policies let the first hundreds of segments pass.
const fn datapath(name: &'static str, policy: &'static str) -> BuiltIn {
    BuiltIn {
        name,
        about: policy,
        kind: Kind::Datapath(policy),
    }
}

/// All built-in devices, in the order of reports.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "pfifo",
        about: "Linux 6.12, a plain queue (the control)",
        kind: Kind::Qdisc(Release::Linux6_12, "pfifo limit 1000"),
    },
    // With a round trip of 10 s, cake's AQM drops nothing within a case, so that every loss is the
    // filter's.
    BuiltIn {
        name: "cake-no-ack-filter",
        about: "Linux 6.12, cake without a filter (the control)",
        kind: Kind::Qdisc(Release::Linux6_12, "cake no-ack-filter rtt 10s"),
    },
    BuiltIn {
        name: "cake-ack-filter",
        about: "Linux 6.12, cake ack-filter",
        kind: Kind::Qdisc(Release::Linux6_12, "cake ack-filter rtt 10s"),
    },
    BuiltIn {
        name: "cake-ack-filter-aggressive",
        about: "Linux 6.12, cake ack-filter-aggressive",
        kind: Kind::Qdisc(Release::Linux6_12, "cake ack-filter-aggressive rtt 10s"),
    },
    BuiltIn {
        name: "cake-ack-filter-7",
        about: "Linux 7, cake ack-filter",
        kind: Kind::Qdisc(Release::Linux7, "cake ack-filter rtt 10s"),
    },
    BuiltIn {
        name: "cake-ack-filter-aggressive-7",
        about: "Linux 7, cake ack-filter-aggressive",
        kind: Kind::Qdisc(Release::Linux7, "cake ack-filter-aggressive rtt 10s"),
    },
    BuiltIn {
        name: "nft-ack-rate",
        about: "Linux 6.12, nftables rules copied for OpenWrt, which drop ACKs above given rates",
        kind: Kind::Script(Release::Netfilter, NFT),
    },
    BuiltIn {
        name: "tc-police",
        about: "Linux 6.12, a policer on ACKs as in Pavilanskas 2010",
        kind: Kind::Script(Release::Linux6_12, POLICE),
    },
    BuiltIn {
        name: "ns2-filter",
        about: "a model of ns-2's filteracks_, run in this process",
        kind: Kind::Process(Queue::ns2),
    },
    BuiltIn {
        name: "contract-queue",
        about: "the contract as a queue's ACK filter, run in this process",
        kind: Kind::Process(Queue::contract),
    },
    BuiltIn {
        name: "gateway",
        about: "ackwise gateway with ack_filter = \"rfc3449\"",
        kind: Kind::Gateway("rfc3449"),
    },
    BuiltIn {
        name: "gateway-sack",
        about: "ackwise gateway with ack_filter = \"rfc3449-sack\"",
        kind: Kind::Gateway("rfc3449-sack"),
    },
    BuiltIn {
        name: "tunnel",
        about: "ackwise tunnel over a thin link, with its defaults",
        kind: Kind::Tunnel,
    },
    datapath("datapath-none", "none"),
    datapath("datapath-every-n", "every-n:n=32,warm=0"),
    datapath(
        "datapath-adaptive",
        "adaptive:start_segments=10,acks_per_rtt=2",
    ),
    datapath("datapath-tack", "tack:L=16"),
    datapath(
        "datapath-rate-limit",
        "rate-limit:start=20,window=10,r_min=8",
    ),
    datapath("datapath-police", "police:cir=2000,cbs=100"),
    datapath("datapath-acc", "acc"),
    datapath("datapath-dda", "dda:l1=0"),
    datapath("datapath-daa", "daa"),
    datapath("datapath-dca", "dca"),
    datapath("datapath-tda", "tda"),
    datapath("datapath-hop", "hop"),
];

/// An external program, built by `scripts/peers/simplemux` and found in `PATH`.
pub const SIMPLEMUX: BuiltIn = BuiltIn {
    name: "simplemux",
    about: "Simplemux with ROHC over a thin link, bundles every 10 ms (needs simplemux in PATH)",
    kind: Kind::Simplemux,
};

/// Known devices that are not in [`BUILT_IN`], each with the reason.
#[must_use]
pub fn not_run(simplemux_was: bool) -> Vec<(&'static str, &'static str)> {
    let mut all = vec![(
        "kernel-series",
        "kernel/patches runs inside a TCP receiver, not between endpoints; kernel/tests/run wire judges it",
    )];
    if !simplemux_was {
        all.push((
            SIMPLEMUX.name,
            "simplemux is not in PATH; scripts/peers/simplemux builds it from its repository",
        ));
    }
    all
}

/// The device with this name.
///
/// # Errors
/// There is no such device.
pub fn by_name(name: &str) -> Result<BuiltIn, Error> {
    let mut all = BUILT_IN.iter().copied().chain([SIMPLEMUX]);
    all.find(|it| it.name == name)
        .ok_or_else(|| Error::NoSuchDevice(name.to_owned()))
}

/// Where a device runs.
#[derive(Debug)]
pub enum Place {
    /// In this process; this is its report.
    Process(Box<DeviceReport>),
    /// On a kernel.
    Kernel(Spec, KernelChoice),
}

impl BuiltIn {
    /// Runs a device of this process, or returns what to run on a kernel. A device of this process
    /// writes captures of failed cases to a directory named after the device in `captures`.
    ///
    /// # Errors
    /// The device failed, or a capture cannot be written.
    pub fn place(&self, schedule: &Schedule, captures: Option<&Path>) -> Result<Place, Error> {
        let (release, setup) = match self.kind {
            Kind::Process(queue) => {
                let mut device = InProcess::new(self.name, queue());
                let captures = captures.map(|it| capture::directory(it, self.name));
                let report = run(&mut device, schedule, captures.as_deref())?;
                return Ok(Place::Process(Box::new(report)));
            }
            Kind::Qdisc(release, qdisc) => (release, Setup::Qdisc(qdisc.to_owned())),
            Kind::Script(release, script) => (release, Setup::Script(script.to_owned())),
            Kind::Datapath(policy) => (Release::Linux6_12, Setup::Datapath(policy.to_owned())),
            Kind::Gateway(filter) => (Release::Linux6_12, Setup::Gateway(filter.to_owned())),
            Kind::Tunnel => (Release::Linux6_12, Setup::Tunnel),
            Kind::Simplemux => {
                let program = command::find("simplemux").ok_or_else(|| {
                    let why = "simplemux is not in PATH; `PATH=$(scripts/peers/simplemux):$PATH` builds it";
                    Error::Missing(why.to_owned())
                })?;
                (Release::Linux6_12, Setup::Simplemux(program))
            }
        };
        let spec = Spec {
            name: self.name.to_owned(),
            setup,
        };
        Ok(Place::Kernel(spec, KernelChoice::Release(release)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_is_found_by_its_name_and_there_once() {
        let all = BUILT_IN.iter().copied().chain([SIMPLEMUX]);
        let names: Vec<_> = all.map(|it| it.name).collect();
        for (index, name) in names.iter().enumerate() {
            assert_eq!(by_name(name).unwrap().name, *name);
            assert!(!names[..index].contains(name), "{name} is there twice");
        }
    }

    #[test]
    fn simplemux_is_not_run_unless_it_was() {
        let named = |was| not_run(was).iter().any(|(name, _)| *name == SIMPLEMUX.name);
        assert!(named(false) && !named(true));
    }
}
