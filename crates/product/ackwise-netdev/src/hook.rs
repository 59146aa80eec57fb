//! How a program hangs on an interface.

use aya::Ebpf;
use aya::programs::links::LinkOrder;
use aya::programs::tc::{NlOptions, SchedClassifierLinkId, TcAttachOptions};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType, tc};
use serde::{Deserialize, Serialize};

use crate::{Error, Interface};

/// Lines that a verifier's log ends with, after the reason: time, depth and count.
const SUMMARY: usize = 3;

/// How a program hangs on an interface.
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

/// A program that is hooked in, until it is [removed](Attached::remove) or its
/// descriptors are closed.
#[derive(Debug)]
pub struct Attached {
    program: &'static str,
    link: Option<SchedClassifierLinkId>,
    /// Not `Auto`.
    pub how: Attach,
}

/// Hangs a loaded program on the egress of an interface, before what looks at packets
/// one by one: that would else see each packet twice that comes back.
///
/// # Errors
/// The kernel would not take it.
pub fn attach(
    bpf: &mut Ebpf,
    program: &'static str,
    interface: &Interface,
    how: Attach,
) -> Result<Attached, Error> {
    let chosen = match how {
        Attach::Auto => Attach::Tcx,
        chosen => chosen,
    };
    match attach_by(bpf, program, interface, chosen) {
        Err(error) if how == Attach::Auto && lacks_tcx(&error) => {
            attach_by(bpf, program, interface, Attach::Clsact)
        }
        done => done,
    }
    .map_err(|error| Error::program(&interface.name, &error))
}

fn attach_by(
    bpf: &mut Ebpf,
    program: &'static str,
    interface: &Interface,
    how: Attach,
) -> Result<Attached, ProgramError> {
    let options = if how == Attach::Clsact {
        // Left by a process that was killed; and it is there already if not.
        let _ = tc::qdisc_detach_program(&interface.name, TcAttachType::Egress, program);
        let _ = tc::qdisc_add_clsact(&interface.name);
        TcAttachOptions::Netlink(NlOptions::default())
    } else {
        TcAttachOptions::TcxOrder(LinkOrder::first())
    };
    let loaded = find(bpf, program)?;
    let link = loaded.attach_with_options(&interface.name, TcAttachType::Egress, options)?;
    Ok(Attached {
        program,
        link: Some(link),
        how,
    })
}

impl Attached {
    /// Unhooks it. Maps can still be read.
    pub fn remove(&mut self, bpf: &mut Ebpf) {
        if let (Some(link), Ok(program)) = (self.link.take(), find(bpf, self.program)) {
            // Of an interface that is gone, the hook went with it.
            if let Err(error) = program.detach(link) {
                tracing::debug!("unhooking: {error}");
            }
        }
    }
}

fn find<'a>(bpf: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier, ProgramError> {
    bpf.program_mut(name)
        .ok_or(ProgramError::NotLoaded)?
        .try_into()
}

impl Error {
    /// What a loader said, with its causes; a missing right by its name, a verifier's refusal
    /// by its last words.
    #[must_use]
    pub fn program(interface: &str, error: &dyn std::error::Error) -> Error {
        if let Some(why) = last_words(&error.to_string()) {
            return Error::Program {
                interface: interface.to_owned(),
                why,
            };
        }
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
            interface: interface.to_owned(),
            why: causes.join(": "),
        }
    }

    /// A map is not what the program was built with.
    #[must_use]
    pub fn unusable(map: &str) -> Error {
        Error::Program {
            interface: map.to_owned(),
            why: "its map cannot be used: rebuild ackwise".to_owned(),
        }
    }
}

/// The end of a verifier's log. It refuses as if a right were missing, but then there is no log.
fn last_words(error: &str) -> Option<String> {
    let lines: Vec<&str> = error.lines().filter(|line| !line.is_empty()).collect();
    let first = lines.len().checked_sub(SUMMARY + 1).filter(|at| *at > 0)?;
    Some(format!(
        "the kernel's verifier refused it: {}",
        lines[first..].join("; ")
    ))
}

/// Whether the kernel is too old for a tcx link.
#[must_use]
pub fn lacks_tcx(error: &ProgramError) -> bool {
    matches!(error, ProgramError::SyscallError(e)
        if e.call == "bpf_mprog_attach"
            && matches!(e.io_error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the BPF_PROG_LOAD syscall returned {io}. Verifier output: {log}")]
    struct Refused {
        #[source]
        io: std::io::Error,
        log: &'static str,
    }

    fn said(number: i32, log: &'static str) -> String {
        let io = std::io::Error::from_raw_os_error(number);
        Error::program("wan0", &Refused { io, log }).to_string()
    }

    #[test]
    fn a_verifier_that_refuses_is_not_a_missing_right() {
        let log = "0: R1=ctx()\n1: (85) call bpf_skb_load_bytes#26\nR4 invalid zero-sized read\n\
            verification time 9 usec\nstack depth 120\nprocessed 204 insns\n\n";
        let refused = said(libc::EACCES, log);
        assert!(refused.contains("R4 invalid zero-sized read"), "{refused}");
        assert!(!refused.contains("R1=ctx"), "{refused}");
        for number in [libc::EPERM, libc::EACCES] {
            let missing = said(number, "");
            assert!(missing.contains("load a BPF program"), "{missing}");
        }
        assert!(said(libc::EINVAL, "").contains("wan0"));
    }
}
