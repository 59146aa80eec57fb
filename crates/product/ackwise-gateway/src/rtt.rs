//! The programs that time round trips behind the interface: see `bpf/rtt.bpf.c`.

use ackwise_bpf::rtt as sys;
use ackwise_netdev::Interface;
use aya::maps::{PerCpuArray, PerCpuValues};

use crate::pair::{Pair, Source};
use crate::{Attach, Error};

const SOURCE: Source = Source {
    object: sys::OBJECT,
    l3_off: "rtt_options",
    programs: ["ackwise_rtt_out", "ackwise_rtt_in"],
};

/// The programs at work.
#[derive(Debug)]
pub(crate) struct Rtt(Pair);

impl Rtt {
    /// Behind the gateway's own program, which is hooked in as `attach` says.
    pub fn install(interface: &Interface, attach: Attach) -> Result<Self, Error> {
        Pair::install(&SOURCE, interface, attach).map(Self)
    }

    /// How many round trips were timed since this was last asked, and the least that one
    /// took beyond the least of its connection, µs; `None` if none was. One that ends
    /// meanwhile may be lost.
    pub fn timed(&mut self) -> Result<Option<(u64, u32)>, Error> {
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
        let timed = values.iter().filter(|one| one.count > 0);
        let count = timed.clone().map(|one| one.count).sum();
        let least = timed.map(|one| one.min_us).min();
        Ok(least.map(|us| (count, u32::try_from(us).unwrap_or(u32::MAX))))
    }
}
