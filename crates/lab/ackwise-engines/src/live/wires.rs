//! The running links of a run: emulators, links of qdiscs, and sniffers.

use std::fs;
use std::fs::File;
use std::path::PathBuf;

use ackwise_rng::Rng;
use ackwise_scenario::{App, Duplex, Link, RunSpec, Scenario};

use super::assemble::{FlowPaths, Wired};
use super::{Clock, RunOptions};
use crate::clock::nanos;
use crate::count::{FlowPort, WireCounter};
use crate::emulator::{Emulator, EmulatorConfig};
use crate::error::LabError;
use crate::kernel_link::{KernelLink, LinkSpace, Watching};
use crate::pcap::Pcap;
use crate::police::Policer;
use crate::sniffer::Sniffer;
use crate::topology::{BuiltLink, Topology, emulated};

/// How long an emulator spins before a frame is due, about the wake-up latency of a sleeping
/// thread.
const SPIN_NS: u64 = 20_000;
/// First random number stream for back-offs on Wi-Fi links.
const STREAM_WIFI: u64 = 1 << 41;
/// Bytes of a frame that captures keep.
const CAPTURE_SNAP: usize = 256;

/// The parts of a run that are needed to start its links.
pub(super) struct Setup<'a> {
    pub scenario: &'a Scenario,
    pub spec: &'a RunSpec,
    pub options: &'a RunOptions,
    pub paths: &'a [FlowPaths],
    /// When traffic starts.
    pub start_ns: u64,
    pub clock: Clock,
}

/// Something that counts on a link, with the link's index in the scenario.
pub(super) struct OnLink<T> {
    pub link: usize,
    pub at_work: T,
}

/// The running links of a run.
#[derive(Default)]
pub(super) struct Wires {
    pub emulators: Vec<OnLink<Emulator>>,
    kernel: Vec<OnLink<KernelLink>>,
    sniffers: Vec<OnLink<Sniffer>>,
}

impl Wires {
    /// Starts emulators on links that need one, and sniffers on other links where something is
    /// counted. Takes the links out of the topology.
    ///
    /// # Errors
    /// A device, a thread or a capture file cannot be had.
    pub fn start(setup: &Setup<'_>, topology: &mut Topology) -> Result<Self, LabError> {
        let mut wires = Self::default();
        let built = std::mem::take(&mut topology.links);
        for (index, (link, built)) in setup.scenario.links.iter().zip(built).enumerate() {
            match built {
                BuiltLink::Taps(taps) => wires.emulators.push(OnLink {
                    link: index,
                    at_work: setup.emulator(topology, index, link, taps)?,
                }),
                BuiltLink::Kernel(space) => wires.kernel.push(OnLink {
                    link: index,
                    at_work: setup.kernel_link(topology, index, link, space)?,
                }),
                BuiltLink::Veth => {
                    let sniffer = setup.sniffer(topology, index)?;
                    wires.sniffers.extend(sniffer.map(|at_work| OnLink {
                        link: index,
                        at_work,
                    }));
                }
            }
        }
        Ok(wires)
    }

    /// Ends the links and returns their counts.
    ///
    /// # Errors
    /// A thread panicked.
    pub fn finish(self) -> Result<Vec<Wired>, LabError> {
        let mut wired = Vec::new();
        for OnLink { link, at_work } in self.emulators {
            wired.push(Wired::emulated(link, at_work.finish()?));
        }
        for OnLink { link, at_work } in self.kernel {
            wired.push(Wired::kernel(link, at_work.finish()?));
        }
        for OnLink { link, at_work } in self.sniffers {
            wired.push(Wired::sniffed(link, at_work.finish()?));
        }
        Ok(wired)
    }
}

impl Setup<'_> {
    fn emulator(
        &self,
        topology: &Topology,
        index: usize,
        link: &Link,
        taps: [File; 2],
    ) -> Result<Emulator, LabError> {
        let seed = self.spec.seed;
        Emulator::start(EmulatorConfig {
            name: link.name.clone(),
            taps,
            directions: [
                emulated(&link.forward, seed, 2 * index as u64),
                emulated(&link.reverse, seed, 2 * index as u64 + 1),
            ],
            changes: [link.forward.changes(), link.reverse.changes()],
            half_duplex: link.duplex == Duplex::Half,
            wifi: link.wifi_medium(Rng::stream(seed, STREAM_WIFI + index as u64).next_u64()),
            police: [&link.forward, &link.reverse].map(|direction| {
                let police = direction.police.as_ref()?;
                Some(Policer::new(police, |name| self.port_of(name), seed))
            }),
            mtu: link.mtu,
            counter: self.counter(),
            captures: self.captures(topology, index)?,
            spin_ns: match self.clock {
                Clock::Real => SPIN_NS,
                // In virtual time sleepers wake punctually, and spinning would be expensive.
                Clock::Virtual => 0,
            },
            sample_ns: self.sample_ns(),
            start_ns: self.start_ns,
        })
    }

    fn kernel_link(
        &self,
        topology: &Topology,
        index: usize,
        link: &Link,
        space: LinkSpace,
    ) -> Result<KernelLink, LabError> {
        let watching = Watching {
            name: link.name.clone(),
            counter: self.counter(),
            captures: self.captures(topology, index)?,
            police: [&link.forward, &link.reverse].map(|direction| {
                let police = direction.police.clone()?;
                let flows = police.what.flows.iter();
                let ports = flows.filter_map(|name| self.port_of(name)).collect();
                Some((police, ports))
            }),
            sample_ns: self.sample_ns(),
            start_ns: self.start_ns,
        };
        KernelLink::start(space, watching)
    }

    /// A sniffer on a plain veth, if something is counted or captured there.
    fn sniffer(&self, topology: &Topology, index: usize) -> Result<Option<Sniffer>, LabError> {
        let counted = self.paths.iter().any(|flow| flow.counted_on == index);
        if !counted && !self.scenario.record.capture {
            return Ok(None);
        }
        let end = topology.plan.interface(index, 0);
        let entrance = topology.namespaces[end.node].entrance()?;
        let capture = self.capture(topology, index, 0)?;
        Sniffer::start(entrance, &end.name, self.counter(), capture).map(Some)
    }

    fn sample_ns(&self) -> u64 {
        if self.scenario.record.series {
            nanos(self.scenario.record.interval)
        } else {
            0
        }
    }

    fn counter(&self) -> WireCounter {
        let flows = self.scenario.flows.iter().zip(self.paths);
        let ports = flows.map(|(flow, paths)| FlowPort {
            port: paths.port,
            data_to_port: !matches!(flow.app, App::RequestResponse { .. }),
        });
        let interval = nanos(self.scenario.record.interval);
        WireCounter::new(ports.collect(), self.start_ns, interval)
    }

    /// The listening port of a flow.
    fn port_of(&self, name: &str) -> Option<u16> {
        let mut flows = self.scenario.flows.iter();
        Some(self.paths[flows.position(|flow| flow.name == name)?].port)
    }

    fn captures(&self, topology: &Topology, link: usize) -> Result<[Option<Pcap>; 2], LabError> {
        Ok([
            self.capture(topology, link, 0)?,
            self.capture(topology, link, 1)?,
        ])
    }

    /// The capture file of one end of a link, if the scenario wants any.
    fn capture(
        &self,
        topology: &Topology,
        link: usize,
        end: usize,
    ) -> Result<Option<Pcap>, LabError> {
        if !self.scenario.record.capture {
            return Ok(None);
        }
        let node = &self.scenario.nodes[topology.plan.interface(link, end).node].name;
        let stem: String = format!(
            "{}-{}-{}-{node}",
            self.scenario.name, self.spec.id, self.scenario.links[link].name
        )
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || ".-=_".contains(letter) {
                letter
            } else {
                '-'
            }
        })
        .collect();
        let directory = self.options.capture_dir.clone();
        let directory = directory.unwrap_or_else(|| PathBuf::from("."));
        fs::create_dir_all(&directory).map_err(LabError::os(format!(
            "cannot make the directory {}",
            directory.display()
        )))?;
        Pcap::create(&directory.join(format!("{stem}.pcap")), CAPTURE_SNAP).map(Some)
    }
}
