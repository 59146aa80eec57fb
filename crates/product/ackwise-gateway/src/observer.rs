//! Two programs that see what passes the interface after the gateway's own: one at egress, one at
//! ingress.

use ackwise_netdev::{AttachMode, AttachOptions, Attachment, Direction, Interface, Order};
use aya::programs::{ProgramError, SchedClassifier};
use aya::{Ebpf, EbpfLoader};

use crate::Error;

/// The object and the names of its programs.
pub(crate) struct Source {
    pub object: &'static [u8],
    /// The name of a `__u32` constant: the offset of the IP header in bytes.
    pub l3_off: &'static str,
    /// The program at egress.
    pub egress: &'static str,
    /// The program at ingress.
    pub ingress: &'static str,
}

/// The two programs, attached until this is dropped.
#[derive(Debug)]
pub(crate) struct Observer {
    pub bpf: Ebpf,
    attachments: Vec<Attachment>,
}

impl Observer {
    /// Loads the programs without attaching them.
    pub fn load(source: &Source, interface: &Interface) -> Result<Self, Error> {
        let fail = |why: &dyn std::error::Error| {
            Error::from(ackwise_netdev::Error::program(&interface.name, why))
        };
        let l3_off = u32::from(interface.header_len());
        let mut bpf = EbpfLoader::new()
            .override_global(source.l3_off, &l3_off, true)
            .load(source.object)
            .map_err(|e| fail(&e))?;
        for name in [source.egress, source.ingress] {
            program(&mut bpf, name)
                .and_then(SchedClassifier::load)
                .map_err(|e| fail(&e))?;
        }
        let attachments = Vec::new();
        Ok(Self { bpf, attachments })
    }

    /// Loads and attaches the programs. `mode` is how the gateway's own program is attached, which
    /// must already be in place.
    pub fn install(
        source: &Source,
        interface: &Interface,
        mode: AttachMode,
    ) -> Result<Self, Error> {
        let mut observer = Self::load(source, interface)?;
        let programs = [
            (source.egress, Direction::Egress),
            (source.ingress, Direction::Ingress),
        ];
        for (name, direction) in programs {
            let options = AttachOptions {
                interface: &interface.name,
                direction,
                mode,
                order: Order::Last,
            };
            let attachment = Attachment::attach(&mut observer.bpf, name, &options)?;
            observer.attachments.push(attachment);
        }
        Ok(observer)
    }

    /// Detaches the programs. Their maps can still be read.
    pub fn detach(&mut self) {
        self.attachments.clear();
    }
}

fn program<'a>(bpf: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier, ProgramError> {
    bpf.program_mut(name)
        .ok_or(ProgramError::NotLoaded)?
        .try_into()
}
