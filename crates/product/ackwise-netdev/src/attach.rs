//! Attaches a BPF program to the ingress or egress of an interface.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use aya::Ebpf;
use aya::maps::MapError;
use aya::programs::{ProgramError, ProgramType, SchedClassifier};
use aya::sys::{BpfHelper, SyscallError, is_helper_supported};
use serde::{Deserialize, Serialize};

use crate::bpf::{self, LinkPosition};
use crate::clsact::{self, Filter, NewFilter};
use crate::{Direction, Error, ifreq, kernel};

/// The oldest kernel on which ackwise has been tested and works.
pub const OLDEST_LINUX: &str = "6.1";

/// The lines at the end of a verifier's log that follow the reason: time, stack depth and
/// instruction count.
const LOG_SUMMARY_LINES: usize = 3;

/// The priority of a clsact filter that is attached last. The kernel gives 0xc000 to the first
/// filter that asks for none, and smaller numbers to those that follow.
const CLSACT_LAST: u16 = 0xc001;

/// The name under which errors report a failed tcx link.
const TCX_LINK: &str = "BPF_LINK_CREATE (tcx)";

/// The kernel's mechanism for attaching a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachMode {
    /// tcx where the kernel has it, otherwise clsact.
    #[default]
    Auto,
    /// A tcx link (Linux 6.6). The kernel removes it with this process, however that ends.
    Tcx,
    /// A filter of a clsact qdisc. After `kill -9` it stays, and lets all packets pass.
    Clsact,
}

/// The position of a program among those of its interface and direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order<'a> {
    /// Before the existing programs. A program that takes packets and sends them back later must be
    /// first: an earlier one would see these packets twice.
    First,
    /// Before the existing programs, but after the first of these, given by the kernel's ids, that
    /// is attached. On clsact this is the same as [`Order::First`].
    FirstAfter(&'a [u32]),
    /// After the existing programs.
    Last,
}

/// How to attach a program.
#[derive(Debug, Clone, Copy)]
pub struct AttachOptions<'a> {
    /// The interface's name, in the calling thread's network namespace.
    pub interface: &'a str,
    /// Which packets the program sees.
    pub direction: Direction,
    /// The mechanism to use.
    pub mode: AttachMode,
    /// The position of the program among others.
    pub order: Order<'a>,
}

/// A program that is attached until this is dropped. Drop it in the network namespace that the
/// program was attached in: clsact filters are removed there.
pub struct Attachment {
    link: Option<Link>,
    mode: AttachMode,
    made_clsact: bool,
    program: u32,
    /// The name of the program and of its filter.
    name: String,
}

/// Ends an attachment when it is dropped.
enum Link {
    /// The kernel detaches it when the descriptor is closed.
    Tcx(OwnedFd),
    Clsact(Filter),
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Link::Clsact(filter) = self {
            // If the interface is gone, the kernel has removed the filter already.
            let _ = clsact::remove_filter(filter);
        }
    }
}

impl std::fmt::Debug for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attachment")
            .field("mode", &self.mode)
            .field("attached", &self.link.is_some())
            .finish_non_exhaustive()
    }
}

impl Attachment {
    /// Attaches a loaded program. In clsact mode this adds the qdisc if it is missing, and replaces
    /// a filter of the same name, which a killed process has left.
    ///
    /// # Errors
    /// [`Error::NoTcx`] if the kernel has no tcx and the mode is [`AttachMode::Tcx`]; otherwise the
    /// kernel's refusal.
    pub fn attach(
        bpf: &mut Ebpf,
        program: &str,
        options: &AttachOptions<'_>,
    ) -> Result<Self, Error> {
        let failed = |error: ProgramError| Error::program(options.interface, &error);
        match options.mode {
            AttachMode::Clsact => attach_clsact(bpf, program, options),
            mode => match attach_tcx(bpf, program, options) {
                Ok(attachment) => Ok(attachment),
                Err(error) if !lacks_tcx(&error) => Err(failed(error)),
                Err(_) if mode == AttachMode::Auto => attach_clsact(bpf, program, options),
                Err(error) => Err(Error::NoTcx {
                    why: with_causes(&error),
                }),
            },
        }
    }

    /// Returns the mechanism that was chosen, which is not [`AttachMode::Auto`].
    #[must_use]
    pub fn mode(&self) -> AttachMode {
        self.mode
    }

    /// Returns the kernel's id of the program.
    #[must_use]
    pub fn program(&self) -> u32 {
        self.program
    }

    /// Returns whether the interface had no clsact qdisc before.
    #[must_use]
    pub fn made_clsact(&self) -> bool {
        self.made_clsact
    }

    /// Returns whether the program is still attached. Only a filter of clsact can be removed by
    /// someone else without notice, as by `tc qdisc del dev IFACE clsact`. If the kernel cannot be
    /// asked, the filter counts as attached.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        match &self.link {
            Some(Link::Tcx(_)) => true,
            Some(Link::Clsact(filter)) => clsact::is_there(filter, &self.name).unwrap_or(true),
            None => false,
        }
    }

    /// Replaces the program atomically: each packet sees the old one or the new one, and the link
    /// or the filter keeps its position.
    ///
    /// # Errors
    /// If the interface is gone or the kernel refuses. The old program then stays.
    pub fn replace(&mut self, program: BorrowedFd<'_>) -> Result<(), Error> {
        let done = match &self.link {
            Some(Link::Tcx(link)) => bpf::update_link(link.as_fd(), program),
            Some(Link::Clsact(filter)) => clsact::replace_filter(filter, &self.name, program),
            None => Err(std::io::ErrorKind::NotConnected.into()),
        };
        done.map_err(Error::system("replace the program of an attachment"))
    }

    /// Detaches the program, and removes the clsact qdisc that was created for it unless somebody
    /// else has a filter there. The program's maps can still be read. Later calls do nothing.
    pub fn detach(&mut self) {
        let index = match &self.link {
            Some(Link::Clsact(filter)) if self.made_clsact => Some(filter.index),
            _ => None,
        };
        drop(self.link.take());
        if let Some(index) = index
            && let Err(error) = clsact::remove_if_unused(index)
            && crate::exists(index)
        {
            tracing::warn!("removing the clsact qdisc: {error}");
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.detach();
    }
}

fn attach_tcx(
    bpf: &mut Ebpf,
    program: &str,
    options: &AttachOptions<'_>,
) -> Result<Attachment, ProgramError> {
    let after: &[u32] = match options.order {
        Order::FirstAfter(programs) => programs,
        Order::First | Order::Last => &[],
    };
    for id in after {
        // Attaching fails if the id is stale.
        match attach_tcx_at(bpf, program, options, LinkPosition::After(*id)) {
            Err(error) if is_not_there(&error) => {}
            done => return done,
        }
    }
    let place = match options.order {
        Order::First | Order::FirstAfter(_) => LinkPosition::First,
        Order::Last => LinkPosition::Last,
    };
    attach_tcx_at(bpf, program, options, place)
}

fn attach_tcx_at(
    bpf: &mut Ebpf,
    name: &str,
    options: &AttachOptions<'_>,
    place: LinkPosition,
) -> Result<Attachment, ProgramError> {
    let program = loaded(bpf, name)?;
    let failed = |io_error| {
        ProgramError::SyscallError(SyscallError {
            call: TCX_LINK,
            io_error,
        })
    };
    let index = ifreq::index_of(options.interface);
    let index = index.ok_or_else(|| failed(std::io::Error::from_raw_os_error(libc::ENODEV)))?;
    let link = bpf::create_tcx_link(program.fd()?.as_fd(), index, options.direction, place);
    Ok(Attachment {
        link: Some(Link::Tcx(link.map_err(failed)?)),
        mode: AttachMode::Tcx,
        made_clsact: false,
        program: program.info()?.id(),
        name: name.to_owned(),
    })
}

fn attach_clsact(
    bpf: &mut Ebpf,
    name: &str,
    options: &AttachOptions<'_>,
) -> Result<Attachment, Error> {
    let interface = options.interface;
    let failed = |error: ProgramError| Error::program(interface, &error);
    let index = ifreq::index_of(interface);
    let index = index.ok_or_else(|| Error::NoInterface(interface.to_owned()))?;
    let program = loaded(bpf, name).map_err(failed)?;
    let id = program.info().map_err(failed)?.id();
    let program = program.fd().map_err(failed)?;
    remove_filters(index, options.direction, name);
    let made_clsact = clsact::add(index).map_err(Error::system("add the clsact qdisc"))?;
    if options.direction == Direction::Egress && !made_clsact {
        let has_egress = clsact::has_egress(index).map_err(Error::system("list the qdiscs"))?;
        if !has_egress {
            return Err(Error::IngressQdisc(interface.to_owned()));
        }
    }
    let add = |priority| {
        clsact::add_filter(&NewFilter {
            index,
            direction: options.direction,
            priority,
            name,
            program: program.as_fd(),
        })
    };
    let added = match options.order {
        Order::First | Order::FirstAfter(_) => {
            let first = clsact::first_priority(index, options.direction);
            first.and_then(|priority| match add(priority) {
                // Another kind of filter has the priority 1.
                Err(error) if priority == 1 && error.raw_os_error() == Some(libc::EINVAL) => {
                    tracing::warn!("on {interface} a filter with priority 1 is before {name}");
                    add(0)
                }
                done => done,
            })
        }
        Order::Last => add(CLSACT_LAST),
    };
    match added {
        Ok(filter) => Ok(Attachment {
            link: Some(Link::Clsact(filter)),
            mode: AttachMode::Clsact,
            made_clsact,
            program: id,
            name: name.to_owned(),
        }),
        Err(error) => {
            if made_clsact {
                let _ = clsact::remove_if_unused(index);
            }
            Err(Error::system("add a filter to the clsact qdisc")(error))
        }
    }
}

fn loaded<'a>(bpf: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier, ProgramError> {
    let program = bpf.program_mut(name).ok_or(ProgramError::NotLoaded)?;
    program.try_into()
}

/// Returns whether an error means that a program is not, or no longer, attached.
fn is_not_there(error: &ProgramError) -> bool {
    matches!(error, ProgramError::SyscallError(e)
        if e.io_error.raw_os_error() == Some(libc::ENOENT))
}

/// Removes clsact filters with these names, which a killed process has left on an interface.
/// Returns whether there were any.
#[must_use]
pub fn remove_stale_filters(interface: &str, programs: &[&str]) -> bool {
    let Some(index) = ifreq::index_of(interface) else {
        return false;
    };
    let mut any = false;
    for direction in [Direction::Ingress, Direction::Egress] {
        for name in programs {
            any |= remove_filters(index, direction, name);
        }
    }
    any
}

/// Returns the interfaces of this network namespace on which killed processes have left clsact
/// filters with these names. `held` returns the indices of the interfaces to which a process is
/// attached, and is asked only if there are such filters.
///
/// # Errors
/// If the kernel refuses, or `held` fails.
pub(crate) fn stale_filters(
    programs: &[&str],
    held: impl FnOnce() -> Result<Vec<u32>, Error>,
) -> Result<Vec<String>, Error> {
    let filtered = || with_filters(programs).map_err(Error::system("list the filters of clsact"));
    let mut found = filtered()?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    // In this order: whoever attaches or detaches meanwhile has left nothing.
    let held = held()?;
    let still = filtered()?;
    found.retain(|index| still.contains(index) && !held.contains(index));
    Ok(found.into_iter().filter_map(ifreq::name_at).collect())
}

/// Returns the indices of the interfaces that have clsact filters with these names.
fn with_filters(programs: &[&str]) -> io::Result<Vec<u32>> {
    let mut found = clsact::interfaces()?;
    let has = |index: u32, direction, name: &str| {
        // An interface or a qdisc that is gone meanwhile has none.
        clsact::filters(index, direction, name).is_ok_and(|filters| !filters.is_empty())
    };
    found.retain(|index| {
        [Direction::Ingress, Direction::Egress]
            .iter()
            .any(|direction| programs.iter().any(|name| has(*index, *direction, name)))
    });
    Ok(found)
}

/// Removes the clsact filters with this name. Returns whether there were any.
fn remove_filters(index: u32, direction: Direction, name: &str) -> bool {
    let filters = clsact::filters(index, direction, name).unwrap_or_default();
    let mut any = false;
    for filter in &filters {
        any |= clsact::remove_filter(filter).is_ok();
    }
    any
}

impl Error {
    /// Converts the loader's error about a program for `interface`. A missing capability becomes
    /// [`Error::Permission`]; a verifier's log is cut to its last lines.
    #[must_use]
    pub fn program(interface: &str, error: &dyn std::error::Error) -> Error {
        if let Some(why) = verifier_reason(&error.to_string()) {
            return Error::Program {
                interface: interface.to_owned(),
                why,
            };
        }
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
            cause = one.source();
        }
        Error::Program {
            interface: interface.to_owned(),
            why: with_causes(error),
        }
    }

    /// The error for a program that the embedded object does not contain.
    #[must_use]
    pub fn no_program(name: &str) -> Error {
        Error::Object(format!("program {name}"))
    }

    /// The error for a map that the embedded object does not contain.
    #[must_use]
    pub fn no_map(name: &str) -> Error {
        Error::Object(format!("map {name}"))
    }

    /// Returns a function for `map_err` that adds the name of the map.
    pub fn map(name: &str) -> impl Fn(MapError) -> Error + '_ {
        move |error| Error::Map {
            map: name.to_owned(),
            why: with_causes(&error),
        }
    }
}

/// Returns an error and its causes in one line. The loader's error names only the call that failed;
/// the cause below it says why.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        let more = one.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = one.source();
    }
    text
}

/// Returns the helper that ackwise's BPF programs need and this kernel lacks, if any. It explains
/// why the verifier refused a program; an old kernel's log does not.
#[must_use]
pub fn missing_helper() -> Option<&'static str> {
    let helper = is_helper_supported(ProgramType::SchedClassifier, BpfHelper::BPF_FUNC_loop);
    matches!(helper, Ok(false)).then_some("the BPF helper bpf_loop()")
}

/// What the verifier says about callbacks if the programs are not JIT-compiled.
const NO_CALLBACKS: &str = "callbacks are not allowed in non-JITed programs";
/// The kernel's settings about networking.
const NET_SYSCTLS: &str = "/proc/sys/net/core";

/// Why a kernel's verifier refuses the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfit {
    /// What is wrong with the kernel, and what to do.
    pub why: &'static str,
    /// Whether it is certain that the kernel cannot run the programs as it is.
    pub is_certain: bool,
}

/// Returns in which way the kernel was built or configured so that its verifier, whose log this is,
/// refuses the programs, and what to do.
#[must_use]
pub fn unfit(log: &str) -> Option<Unfit> {
    if log.contains(NO_CALLBACKS) {
        return Some(Jit::of(Path::new(NET_SYSCTLS)).unfit());
    }
    (kernel::has_types(Path::new(kernel::SYSFS)) == Some(false)).then_some(Unfit {
        why: "has no types of its own (BTF), by which the programs are checked: boot one that was \
              built with CONFIG_DEBUG_INFO_BTF",
        is_certain: true,
    })
}

/// The kernel's JIT for BPF programs, as far as a network namespace shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Jit {
    Off,
    On,
    /// The kernel was built without one.
    Missing,
    /// Only the initial network namespace shows the switch.
    Unknown,
}

impl Jit {
    /// Reads the switch in this directory of settings.
    fn of(sysctls: &Path) -> Self {
        match std::fs::read_to_string(sysctls.join("bpf_jit_enable")) {
            Ok(switch) if switch.trim() == "0" => Self::Off,
            Ok(_) => Self::On,
            // Only the initial namespace shows this one, too, and every kernel has it.
            Err(_) if sysctls.join("netdev_budget").exists() => Self::Missing,
            Err(_) => Self::Unknown,
        }
    }

    /// Why the verifier refuses programs that call back, and what to do.
    fn unfit(self) -> Unfit {
        let why = match self {
            Self::Off => {
                "interprets BPF programs, and so refuses timers: turn its JIT on with `sysctl -w \
                 net.core.bpf_jit_enable=1`"
            }
            Self::On => {
                "interprets BPF programs, and so refuses timers: its JIT compiles no functions, as is so \
                 on 32-bit ARM and on MIPS; take a machine of another kind"
            }
            Self::Missing => {
                "interprets BPF programs, and so refuses timers: boot one that was built with \
                 CONFIG_BPF_JIT"
            }
            Self::Unknown => {
                "interprets BPF programs, and so refuses timers: turn its JIT on in the initial network \
                 namespace with `sysctl -w net.core.bpf_jit_enable=1`; if there is no such setting, boot \
                 one that was built with CONFIG_BPF_JIT"
            }
        };
        Unfit {
            why,
            is_certain: self != Self::Unknown,
        }
    }
}

/// Returns the reason at the end of a verifier's log. The kernel refuses a program with the same
/// error number as for a missing capability, but then there is no log.
fn verifier_reason(error: &str) -> Option<String> {
    let lines: Vec<&str> = error.lines().filter(|line| !line.is_empty()).collect();
    let first = lines
        .len()
        .checked_sub(LOG_SUMMARY_LINES + 1)
        .filter(|at| *at > 0)?;
    if let Some(what) = missing_helper() {
        return Some(format!(
            "this kernel lacks {what}: ackwise works on Linux {OLDEST_LINUX} and newer"
        ));
    }
    if let Some(unfit) = unfit(error) {
        return Some(format!("this kernel {}", unfit.why));
    }
    Some(format!(
        "the kernel's verifier refused it: {}",
        lines[first..].join("; ")
    ))
}

/// Returns whether an error means that the kernel is too old for tcx.
fn lacks_tcx(error: &ProgramError) -> bool {
    matches!(error, ProgramError::SyscallError(e)
        if e.call == TCX_LINK && matches!(e.io_error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the BPF_PROG_LOAD syscall returned {io}. Verifier output: {log}")]
    struct Refused {
        #[source]
        io: io::Error,
        log: &'static str,
    }

    fn shown(number: i32, log: &'static str) -> String {
        let io = io::Error::from_raw_os_error(number);
        Error::program("wan0", &Refused { io, log }).to_string()
    }

    #[test]
    fn a_verifier_that_refuses_is_not_a_missing_right() {
        let log = "0: R1=ctx()\n1: (85) call bpf_skb_load_bytes#26\nR4 invalid zero-sized read\n\
            verification time 9 usec\nstack depth 120\nprocessed 204 insns\n\n";
        let refused = shown(libc::EACCES, log);
        assert!(refused.contains("R4 invalid zero-sized read"), "{refused}");
        assert!(!refused.contains("R1=ctx"), "{refused}");
        for number in [libc::EPERM, libc::EACCES] {
            let missing = shown(number, "");
            assert!(missing.contains("load a BPF program"), "{missing}");
        }
        assert!(shown(libc::EINVAL, "").contains("wan0"));
    }

    #[test]
    fn a_kernel_without_a_jit_says_what_to_do() {
        let log = "0: R1=ctx()\n{NO_CALLBACKS}\nverification time 9 usec\nstack depth 120\n\
            processed 204 insns\n\n"
            .replace("{NO_CALLBACKS}", NO_CALLBACKS);
        let refused = verifier_reason(&log).expect("a reason");
        assert!(refused.contains("this kernel interprets"), "{refused}");
        for (jit, word) in [
            (Jit::Off, "`sysctl -w"),
            (Jit::On, "another kind"),
            (Jit::Missing, "CONFIG_BPF_JIT"),
        ] {
            let unfit = jit.unfit();
            assert!(unfit.why.contains(word) && unfit.is_certain, "{jit:?}");
        }
        let unknown = Jit::Unknown.unfit();
        for word in ["initial network namespace", "`sysctl -w", "CONFIG_BPF_JIT"] {
            assert!(unknown.why.contains(word), "{}", unknown.why);
        }
        assert!(!unknown.is_certain);
    }

    /// Another namespace shows few settings, and not this one, whether the kernel has a JIT or not.
    #[test]
    fn a_switch_that_is_not_shown_is_no_missing_jit() {
        let sysctls = tempfile::tempdir().expect("a directory");
        let jit = || Jit::of(sysctls.path());
        assert_eq!(jit(), Jit::Unknown);
        std::fs::write(sysctls.path().join("netdev_budget"), "300\n").expect("a file");
        assert_eq!(jit(), Jit::Missing);
        for (switch, expected) in [("0\n", Jit::Off), ("1\n", Jit::On), ("2\n", Jit::On)] {
            std::fs::write(sysctls.path().join("bpf_jit_enable"), switch).expect("a file");
            assert_eq!(jit(), expected);
        }
    }

    #[test]
    fn a_map_that_cannot_be_written_says_why() {
        let error = MapError::SyscallError(SyscallError {
            call: "bpf_map_update_elem",
            io_error: io::Error::from_raw_os_error(libc::EPERM),
        });
        let text = Error::map("control")(error).to_string();
        assert!(text.starts_with("the BPF map control: "), "{text}");
        assert!(text.contains("bpf_map_update_elem"), "{text}");
        assert!(text.contains("not permitted"), "{text}");
        // Only a part missing from the object calls for a rebuild.
        assert!(!text.contains("rebuild"), "{text}");
        assert!(Error::no_map("control").to_string().contains("rebuild"));
    }

    #[test]
    fn a_failed_call_says_why_once() {
        let error = ProgramError::SyscallError(SyscallError {
            call: TCX_LINK,
            io_error: io::Error::from_raw_os_error(libc::ENOSPC),
        });
        let text = Error::program("eth0", &error).to_string();
        assert!(text.contains("eth0: "), "{text}");
        assert!(text.contains(TCX_LINK), "{text}");
        assert_eq!(text.matches("No space left").count(), 1, "{text}");
    }
}
