//! The clsact qdisc of an interface, and the BPF filters on it.
//!
//! Filters are added here rather than with aya. aya names a filter after its program, but omits the
//! name on a kernel without `CONFIG_BPF_EVENTS`: it tests for names with a tracepoint program, and
//! concludes that the kernel does not support them. A filter that outlives its process is found by
//! its name.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::interface::Direction;
use crate::netlink::{
    CLSACT_HANDLE, Netlink, TC_H_CLSACT, TCA_KIND, TCA_OPTIONS, TCMSG, find_attribute,
    push_attribute, push_kind, tcmsg, u32_at,
};

// include/uapi/linux/pkt_cls.h
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
/// The lowest priority that the kernel chooses for a filter which asks for none.
const LOWEST_CHOSEN: u16 = 0x8000;

/// A BPF filter of a clsact qdisc, as the kernel identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The index of the interface.
    pub index: u32,
    /// The direction of the packets that it sees.
    pub direction: Direction,
    /// Its priority and, in network byte order, its protocol: `tcm_info`.
    info: u32,
    handle: u32,
}

impl Filter {
    fn priority(&self) -> u16 {
        (self.info >> 16) as u16
    }
}

/// A filter to be added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewFilter<'a> {
    /// The index of the interface.
    pub index: u32,
    /// The direction of the packets that it sees.
    pub direction: Direction,
    /// The priority; with 0 the kernel chooses one that comes before those that it chose earlier.
    pub priority: u16,
    /// The name by which [`filters`] finds it.
    pub name: &'a str,
    /// The loaded program.
    pub program: BorrowedFd<'a>,
}

impl Direction {
    /// `TC_H_MIN_INGRESS` and `TC_H_MIN_EGRESS` of clsact.
    fn parent(self) -> u32 {
        match self {
            Direction::Ingress => 0xffff_fff2,
            Direction::Egress => 0xffff_fff3,
        }
    }
}

/// Adds a clsact qdisc to the interface with this index. Returns `false` if there was one already.
///
/// # Errors
/// If the kernel refuses.
pub fn add(index: u32) -> io::Result<bool> {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    match Netlink::open()?.acknowledged(libc::RTM_NEWQDISC, flags, &clsact(index)) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether the interface with this index has a clsact qdisc. One for ingress alone has the
/// same handle: the kernel takes filters for egress as well, and asks them at ingress.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn has_egress(index: u32) -> io::Result<bool> {
    Ok(interfaces()?.contains(&index))
}

/// Returns the indices of the interfaces with a clsact qdisc in this network namespace.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn interfaces() -> io::Result<Vec<u32>> {
    let each = |found: &mut Vec<u32>, kind, message: &[u8]| {
        let attributes = message.get(TCMSG..).unwrap_or_default();
        let is_clsact = kind == libc::RTM_NEWQDISC
            && u32_at(message, 12) == Some(TC_H_CLSACT)
            && find_attribute(attributes, TCA_KIND) == Some(b"clsact\0");
        found.extend(u32_at(message, 4).filter(|_| is_clsact));
    };
    Netlink::open()?.dump(libc::RTM_GETQDISC, &tcmsg(0, 0, 0), each)
}

/// Removes the clsact qdisc of the interface with this index, unless it still has filters, or
/// someone else has removed it.
///
/// # Errors
/// If the kernel refuses.
pub fn remove_if_unused(index: u32) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let mut filters = 0;
    for direction in [Direction::Ingress, Direction::Egress] {
        let request = tcmsg(index, 0, direction.parent());
        filters += netlink.count_filters(&request)?;
    }
    if filters > 0 {
        return Ok(());
    }
    match netlink.acknowledged(libc::RTM_DELQDISC, 0, &clsact(index)) {
        // The kernel's answers if there is none: the second one for a name that it does not have.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => Ok(()),
        done => done,
    }
}

/// Adds a filter whose program decides by its return value (`direct-action`).
///
/// # Errors
/// If the kernel refuses, for instance because the interface has no clsact qdisc.
pub(crate) fn add_filter(new: &NewFilter<'_>) -> io::Result<Filter> {
    let mut body = tcmsg(new.index, 0, new.direction.parent());
    set_info(&mut body, info(new.priority));
    push_program(&mut body, new.name, new.program);
    // With NLM_F_ECHO the kernel reports the priority and the handle of the new filter.
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL | libc::NLM_F_ECHO;
    let mut added = None;
    Netlink::open()?.request(libc::RTM_NEWTFILTER, flags, &body, |kind, message| {
        if kind == libc::RTM_NEWTFILTER {
            added = parse(new.index, new.direction, message);
        }
    })?;
    added.ok_or_else(|| io::Error::other("the kernel did not tell the new filter's handle"))
}

/// Replaces the program of a filter, which keeps its position.
///
/// # Errors
/// If the filter is gone, or the kernel refuses.
pub(crate) fn replace_filter(
    filter: &Filter,
    name: &str,
    program: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut body = tcmsg(filter.index, filter.handle, filter.direction.parent());
    set_info(&mut body, filter.info);
    push_program(&mut body, name, program);
    // Without NLM_F_CREATE, so that a filter that is gone is not recreated.
    Netlink::open()?.acknowledged(libc::RTM_NEWTFILTER, libc::NLM_F_REPLACE, &body)
}

fn push_program(body: &mut Vec<u8>, name: &str, program: BorrowedFd<'_>) {
    push_kind(body, "bpf");
    let mut options = Vec::new();
    let program = program.as_raw_fd().cast_unsigned();
    push_attribute(&mut options, TCA_BPF_FD, &program.to_ne_bytes());
    let name = [name.as_bytes(), b"\0"].concat();
    push_attribute(&mut options, TCA_BPF_NAME, &name);
    let flags = TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes();
    push_attribute(&mut options, TCA_BPF_FLAGS, &flags);
    push_attribute(body, TCA_OPTIONS, &options);
}

/// Returns the BPF filters with this name.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn filters(index: u32, direction: Direction, name: &str) -> io::Result<Vec<Filter>> {
    let request = tcmsg(index, 0, direction.parent());
    let each = |found: &mut Vec<_>, kind, message: &[u8]| {
        if kind == libc::RTM_NEWTFILTER && name_of(message) == Some(name.as_bytes()) {
            found.extend(parse(index, direction, message));
        }
    };
    Netlink::open()?.dump(libc::RTM_GETTFILTER, &request, each)
}

/// Returns a priority with which a new filter comes before the existing ones. With 1, which no
/// other precedes, it does so if these are BPF filters, of which the newest is asked first.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn first_priority(index: u32, direction: Direction) -> io::Result<u16> {
    let request = tcmsg(index, 0, direction.parent());
    let each = |found: &mut Vec<u16>, kind, message: &[u8]| {
        if kind == libc::RTM_NEWTFILTER {
            found.extend(parse(index, direction, message).map(|filter| filter.priority()));
        }
    };
    let found: Vec<u16> = Netlink::open()?.dump(libc::RTM_GETTFILTER, &request, each)?;
    let lowest = found.into_iter().min();
    let chosen_by_others = lowest.filter(|priority| *priority < LOWEST_CHOSEN);
    Ok(chosen_by_others.map_or(0, |lowest| lowest.saturating_sub(1).max(1)))
}

/// Returns whether a filter with this name is still there.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn is_there(filter: &Filter, name: &str) -> io::Result<bool> {
    Ok(filters(filter.index, filter.direction, name)?.contains(filter))
}

/// Removes a filter.
///
/// # Errors
/// If the filter is gone already, or the kernel refuses.
pub(crate) fn remove_filter(filter: &Filter) -> io::Result<()> {
    let mut body = tcmsg(filter.index, filter.handle, filter.direction.parent());
    set_info(&mut body, filter.info);
    push_kind(&mut body, "bpf");
    Netlink::open()?.acknowledged(libc::RTM_DELTFILTER, 0, &body)
}

fn clsact(index: u32) -> Vec<u8> {
    let mut body = tcmsg(index, CLSACT_HANDLE, TC_H_CLSACT);
    push_kind(&mut body, "clsact");
    body
}

/// Returns `tcm_info` of a filter for packets of any protocol.
fn info(priority: u16) -> u32 {
    u32::from(priority) << 16 | u32::from((libc::ETH_P_ALL as u16).to_be())
}

fn set_info(message: &mut [u8], info: u32) {
    message[16..TCMSG].copy_from_slice(&info.to_ne_bytes());
}

fn parse(index: u32, direction: Direction, message: &[u8]) -> Option<Filter> {
    Some(Filter {
        index,
        direction,
        handle: u32_at(message, 8)?,
        info: u32_at(message, 16)?,
    })
}

/// Returns the name of a BPF filter, without the NUL at its end.
fn name_of(message: &[u8]) -> Option<&[u8]> {
    let attributes = message.get(TCMSG..)?;
    if find_attribute(attributes, TCA_KIND)? != b"bpf\0" {
        return None;
    }
    let options = find_attribute(attributes, TCA_OPTIONS)?;
    find_attribute(options, TCA_BPF_NAME)?.strip_suffix(b"\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listing of a filter with this name, as the kernel sends it.
    fn listed(kind: &str, name: Option<&[u8]>) -> Vec<u8> {
        let mut message = tcmsg(5, 1, Direction::Egress.parent());
        set_info(&mut message, info(0xc000));
        push_kind(&mut message, kind);
        let mut options = Vec::new();
        push_attribute(&mut options, TCA_BPF_FD, &[0; 4]);
        if let Some(name) = name {
            push_attribute(&mut options, TCA_BPF_NAME, name);
        }
        push_attribute(&mut message, TCA_OPTIONS, &options);
        message
    }

    #[test]
    fn a_filter_has_the_name_that_it_was_given_or_none() {
        let named = listed("bpf", Some(b"ackwise_acks\0"));
        assert_eq!(name_of(&named), Some(&b"ackwise_acks"[..]));
        assert_eq!(name_of(&listed("bpf", None)), None);
        assert_eq!(name_of(&listed("u32", Some(b"ackwise_acks\0"))), None);
        assert_eq!(name_of(&named[..TCMSG - 1]), None);
        let filter = parse(5, Direction::Egress, &named).unwrap();
        assert_eq!((filter.handle, filter.priority()), (1, 0xc000));
    }
}
