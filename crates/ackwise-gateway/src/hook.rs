//! The program at the interface's egress: see `bpf/gateway.bpf.c`.

use std::os::fd::AsFd;
use std::time::Duration;

use aya::maps::{Array, Map, MapData, PerCpuArray};
use aya::programs::links::LinkOrder;
use aya::programs::tc::{NlOptions, SchedClassifierLinkId, TcAttachOptions};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType, tc};
use aya::{Ebpf, EbpfLoader};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::clock::monotonic_ns;
use crate::door::Interface;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/gateway.bpf.o"));
const PROGRAM: &str = "ackwise_gateway";

/// The types that the program and its loader share.
#[allow(missing_docs, non_camel_case_types, non_snake_case, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod sys {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

    // SAFETY: C structs of integers; every bit pattern is a value.
    unsafe impl aya::Pod for aw_gateway_options {}
    // SAFETY: as above.
    unsafe impl aya::Pod for aw_gateway_control {}
    // SAFETY: as above.
    unsafe impl aya::Pod for aw_gateway_counters {}
}

/// How the program hangs on the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attach {
    /// tcx where the kernel has it, clsact otherwise.
    #[default]
    Auto,
    /// A tcx link (Linux 6.6): it is gone with this process, however that ends.
    Tcx,
    /// A filter of a clsact queue: after `kill -9` it stays, and lets all pass.
    Clsact,
}

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
    link: Option<SchedClassifierLinkId>,
    pub attach: Attach,
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook")
            .field("attach", &self.attach)
            .finish_non_exhaustive()
    }
}

impl Hook {
    /// Loads the program; it takes nothing before [`Heart::beat`].
    pub fn install(
        interface: &Interface,
        door: u32,
        cookie: u32,
        attach: Attach,
    ) -> Result<Self, Error> {
        match attach {
            Attach::Auto => match Self::install_by(interface, door, cookie, Attach::Tcx) {
                Err((_, true)) => Self::install_by(interface, door, cookie, Attach::Clsact),
                other => other,
            },
            chosen => Self::install_by(interface, door, cookie, chosen),
        }
        .map_err(|(error, _)| error)
    }

    /// The error comes with whether the kernel has no tcx.
    fn install_by(
        interface: &Interface,
        door: u32,
        cookie: u32,
        attach: Attach,
    ) -> Result<Self, (Error, bool)> {
        let fail = |why: &dyn std::error::Error| (program_error(interface, why), false);
        let options = sys::aw_gateway_options { door, cookie };
        let mut bpf = EbpfLoader::new()
            .override_global("gateway_options", &options, true)
            .load(OBJECT)
            .map_err(|e| fail(&e))?;
        let program = program(&mut bpf).map_err(|e| fail(&e))?;
        program.load().map_err(|e| fail(&e))?;
        let how = if attach == Attach::Clsact {
            // Left by a process that was killed; and it is there already if not.
            let _ = tc::qdisc_detach_program(&interface.name, TcAttachType::Egress, PROGRAM);
            let _ = tc::qdisc_add_clsact(&interface.name);
            TcAttachOptions::Netlink(NlOptions::default())
        } else {
            // Before what looks at packets one by one, which else would see each twice.
            TcAttachOptions::TcxOrder(LinkOrder::first())
        };
        let link = program
            .attach_with_options(&interface.name, TcAttachType::Egress, how)
            .map_err(|e| (program_error(interface, &e), lacks_tcx(&e)))?;
        Ok(Self {
            bpf,
            link: Some(link),
            attach,
        })
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
        if let (Some(link), Ok(program)) = (self.link.take(), program(&mut self.bpf)) {
            // Of an interface that is gone, the hook went with it.
            if let Err(error) = program.detach(link) {
                tracing::debug!("unhooking: {error}");
            }
        }
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

fn program(bpf: &mut Ebpf) -> Result<&mut SchedClassifier, ProgramError> {
    bpf.program_mut(PROGRAM)
        .ok_or(ProgramError::NotLoaded)?
        .try_into()
}

pub(crate) fn unusable(map: &str) -> Error {
    Error::Program {
        interface: map.to_owned(),
        why: "its map cannot be used: rebuild ackwise".to_owned(),
    }
}

pub(crate) fn program_error(interface: &Interface, error: &dyn std::error::Error) -> Error {
    let mut causes = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(one) = cause {
        let denied = one
            .downcast_ref::<std::io::Error>()
            .is_some_and(|e| matches!(e.raw_os_error(), Some(libc::EPERM | libc::EACCES)));
        if denied {
            return Error::Permission {
                what: "load a BPF program and attach it",
            };
        }
        causes.push(one.to_string());
        cause = one.source();
    }
    causes.dedup();
    Error::Program {
        interface: interface.name.clone(),
        why: causes.join(": "),
    }
}

fn lacks_tcx(error: &ProgramError) -> bool {
    matches!(error, ProgramError::SyscallError(e)
        if e.call == "bpf_mprog_attach"
            && matches!(e.io_error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)))
}
