//! The program at the interface's egress: see `bpf/gateway.bpf.c`.

use std::os::fd::AsFd;
use std::time::Duration;

use ackwise_bpf::gateway as sys;
use ackwise_netdev::clock::monotonic_ns;
use ackwise_netdev::{Attach, Attached, Interface, attach};
use aya::maps::{Array, Map, MapData, PerCpuArray};
use aya::programs::SchedClassifier;
use aya::{Ebpf, EbpfLoader};

use crate::Error;

const PROGRAM: &str = "ackwise_gateway";

/// What the program has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub taken: u64,
    pub taken_bytes: u64,
    pub returned: u64,
    pub other: u64,
    pub neighbour: u64,
    pub unattended: u64,
}

/// A program that is hooked in, until this is dropped.
pub(crate) struct Hook {
    bpf: Ebpf,
    attached: Attached,
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook")
            .field("attached", &self.attached)
            .finish_non_exhaustive()
    }
}

impl Hook {
    /// Loads the program; it takes nothing before [`Heart::beat`].
    pub fn install(
        interface: &Interface,
        device: u32,
        cookie: u32,
        how: Attach,
    ) -> Result<Self, Error> {
        let fail =
            |why: &dyn std::error::Error| ackwise_netdev::Error::program(&interface.name, why);
        let options = sys::aw_gateway_options {
            tun_ifindex: device,
            cookie,
        };
        let mut bpf = EbpfLoader::new()
            .override_global("gateway_options", &options, true)
            .load(sys::OBJECT)
            .map_err(|e| fail(&e))?;
        let program = bpf.program_mut(PROGRAM).ok_or_else(|| unusable(PROGRAM))?;
        let program: &mut SchedClassifier = program.try_into().map_err(|e| fail(&e))?;
        program.load().map_err(|e| fail(&e))?;
        let attached = attach(&mut bpf, PROGRAM, interface, how)?;
        Ok(Self { bpf, attached })
    }

    /// How it hangs there.
    pub fn attach(&self) -> Attach {
        self.attached.how
    }

    /// A way to keep the program at work.
    pub fn heart(&mut self) -> Result<Heart, Error> {
        let Some(Map::Array(data)) = self.bpf.map_mut("control") else {
            return Err(unusable("control"));
        };
        let fd = data.fd().as_fd().try_clone_to_owned();
        let fd = fd.map_err(Error::system("duplicating a map's descriptor"))?;
        let map = MapData::from_fd(fd).map_err(|_| unusable("control"))?;
        let map = Array::try_from(Map::Array(map)).map_err(|_| unusable("control"))?;
        Ok(Heart(map))
    }

    pub fn counters(&self) -> Result<Counters, Error> {
        let map = self
            .bpf
            .map("counters")
            .ok_or_else(|| unusable("counters"))?;
        let map: PerCpuArray<_, sys::aw_gateway_counters> =
            PerCpuArray::try_from(map).map_err(|_| unusable("counters"))?;
        let values = map.get(&0, 0).map_err(|_| unusable("counters"))?;
        Ok(values
            .iter()
            .fold(Counters::default(), |sum, one| Counters {
                taken: sum.taken + one.taken,
                taken_bytes: sum.taken_bytes + one.taken_bytes,
                returned: sum.returned + one.returned,
                other: sum.other + one.other,
                neighbour: sum.neighbour + one.neighbour,
                unattended: sum.unattended + one.unattended,
            }))
    }

    /// Unhooks the program: from now on packets pass. Counters can still be read.
    pub fn remove(&mut self) {
        self.attached.remove(&mut self.bpf);
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Says that the gateway works.
pub(crate) struct Heart(Array<MapData, sys::aw_gateway_control>);

impl Heart {
    /// For so long from now on packets are taken.
    pub fn beat(&mut self, span: Duration) -> Result<(), Error> {
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let alive = sys::aw_gateway_control {
            alive_until_ns: monotonic_ns().saturating_add(span),
        };
        self.0.set(0, alive, 0).map_err(|_| unusable("control"))
    }
}

fn unusable(map: &str) -> Error {
    ackwise_netdev::Error::unusable(map).into()
}
