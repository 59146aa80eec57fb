//! The programs that measure round-trip times behind the interface (see `bpf/rtt.bpf.c`).

use ackwise_bpf::rtt as sys;
use ackwise_netdev::Interface;
use aya::maps::{PerCpuArray, PerCpuValues};

use crate::observer::{Observer, Source};
use crate::{AttachMode, Error};

const SOURCE: Source = Source {
    object: sys::OBJECT,
    l3_off: "rtt_options",
    egress: "ackwise_rtt_out",
    ingress: "ackwise_rtt_in",
};

/// Round-trip times since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttSamples {
    /// How many round trips were measured.
    pub count: u64,
    /// The smallest excess of one over the minimum of its connection, µs.
    pub min_excess_us: u32,
}

/// The programs, which are attached until this is dropped.
#[derive(Debug)]
pub(crate) struct Rtt(Observer);

impl Rtt {
    /// Attaches the programs. `mode` is how the gateway's own program is attached.
    pub fn install(interface: &Interface, mode: AttachMode) -> Result<Self, Error> {
        Observer::install(&SOURCE, interface, mode).map(Self)
    }

    /// Returns the round-trip times that were measured since the last call; `None` if there were
    /// none. A sample that is taken during the call may be lost.
    pub fn samples(&mut self) -> Result<Option<RttSamples>, Error> {
        let unusable = || ackwise_netdev::Error::unusable("samples");
        let map = self.0.bpf.map_mut("samples").ok_or_else(unusable)?;
        let mut map: PerCpuArray<_, sys::aw_rtt_samples> =
            PerCpuArray::try_from(map).map_err(|_| unusable())?;
        let values = map.get(&0, 0).map_err(|_| unusable())?;
        let fresh: Vec<_> = values
            .iter()
            .map(|_| sys::aw_rtt_samples::default())
            .collect();
        let fresh = PerCpuValues::try_from(fresh).map_err(|_| unusable())?;
        map.set(0, fresh, 0).map_err(|_| unusable())?;
        let measured = values.iter().filter(|one| one.count > 0);
        let count = measured.clone().map(|one| one.count).sum();
        let min = measured.map(|one| one.min_us).min();
        Ok(min.map(|us| RttSamples {
            count,
            min_excess_us: u32::try_from(us).unwrap_or(u32::MAX),
        }))
    }
}
