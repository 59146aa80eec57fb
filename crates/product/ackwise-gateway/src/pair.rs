//! Two programs at an interface: one where packets leave, behind the gateway's own, and
//! one where they come in.

use ackwise_netdev::Interface;
use ackwise_policy::LinkKind;
use aya::programs::links::LinkOrder;
use aya::programs::tc::{NlOptions, SchedClassifierLinkId, TcAttachOptions};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType, tc};
use aya::{Ebpf, EbpfLoader};

use crate::{Attach, Error};

/// Behind the gateway's own filter, which takes the priority that the kernel gives to
/// the first one (0xc000).
const CLSACT_PRIORITY: u16 = 0xc001;
const ETHERNET: u32 = 14;

/// What is loaded.
pub(crate) struct Source {
    pub object: &'static [u8],
    /// A `__u32`: bytes before the IP header.
    pub l3_off: &'static str,
    /// At egress, and at ingress.
    pub programs: [&'static str; 2],
}

/// Programs that are hooked in, until this is dropped.
pub(crate) struct Pair {
    pub bpf: Ebpf,
    links: Vec<(&'static str, SchedClassifierLinkId)>,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

impl Pair {
    /// Not hooked in yet.
    pub fn load(source: &Source, interface: &Interface) -> Result<Self, Error> {
        let fail = |why: &dyn std::error::Error| program_error(interface, why);
        let l3_off = if interface.kind == LinkKind::Ethernet {
            ETHERNET
        } else {
            0
        };
        let mut bpf = EbpfLoader::new()
            .override_global(source.l3_off, &l3_off, true)
            .load(source.object)
            .map_err(|e| fail(&e))?;
        for name in source.programs {
            program(&mut bpf, name)
                .and_then(SchedClassifier::load)
                .map_err(|e| fail(&e))?;
        }
        let links = Vec::new();
        Ok(Self { bpf, links })
    }

    /// `attach` is how the gateway's own program is hooked in, before this.
    pub fn install(source: &Source, interface: &Interface, attach: Attach) -> Result<Self, Error> {
        let mut pair = Self::load(source, interface)?;
        let fail = |why: &dyn std::error::Error| program_error(interface, why);
        let directions = [TcAttachType::Egress, TcAttachType::Ingress];
        for (name, direction) in source.programs.into_iter().zip(directions) {
            let program = program(&mut pair.bpf, name).map_err(|e| fail(&e))?;
            let how = if attach == Attach::Clsact {
                let _ = tc::qdisc_detach_program(&interface.name, direction, name);
                TcAttachOptions::Netlink(NlOptions {
                    priority: CLSACT_PRIORITY,
                    ..NlOptions::default()
                })
            } else {
                TcAttachOptions::TcxOrder(LinkOrder::default())
            };
            let link = program
                .attach_with_options(&interface.name, direction, how)
                .map_err(|e| fail(&e))?;
            pair.links.push((name, link));
        }
        Ok(pair)
    }

    /// Unhooks them. Maps can still be read.
    pub fn remove(&mut self) {
        for (name, link) in self.links.drain(..) {
            if let Ok(program) = program(&mut self.bpf, name)
                && let Err(error) = program.detach(link)
            {
                tracing::debug!("unhooking {name}: {error}");
            }
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.remove();
    }
}

fn program_error(interface: &Interface, error: &dyn std::error::Error) -> Error {
    ackwise_netdev::Error::program(&interface.name, error).into()
}

fn program<'a>(bpf: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier, ProgramError> {
    bpf.program_mut(name)
        .ok_or(ProgramError::NotLoaded)?
        .try_into()
}
