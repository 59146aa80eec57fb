//! The parts of bpf(2) that the loader library lacks: replacing links and constants while programs
//! run.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use aya::maps::{MapData, MapType};

use crate::Direction;

// include/uapi/linux/bpf.h
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_FREEZE: libc::c_int = 22;
const LINK_CREATE: libc::c_int = 28;
const LINK_UPDATE: libc::c_int = 29;
const MAP_TYPE_ARRAY: u32 = 2;
const F_RDONLY_PROG: u32 = 1 << 7;
const F_BEFORE: u32 = 1 << 3;
const F_AFTER: u32 = 1 << 4;
const F_ID: u32 = 1 << 5;
const TCX_INGRESS: u32 = 46;
const TCX_EGRESS: u32 = 47;

/// The position of a tcx link among those of its interface and direction.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LinkPosition {
    First,
    Last,
    /// After the program with this id.
    After(u32),
}

/// The leading fields of `union bpf_attr` that are used here. The rest counts as 0.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

#[repr(C)]
struct MapElement {
    map_fd: u32,
    reserved: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct MapFreeze {
    map_fd: u32,
}

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
    relative_id: u32,
    reserved: u32,
    expected_revision: u64,
}

#[repr(C)]
struct LinkUpdate {
    link_fd: u32,
    new_prog_fd: u32,
    flags: u32,
    old_prog_fd: u32,
}

/// Calls bpf(2).
///
/// # Safety
/// `T` must be the leading part of `union bpf_attr` for this command. What it points to must
/// outlive the call, and be as long as the kernel reads or writes there.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    let attributes = std::ptr::from_ref(attributes);
    // SAFETY: `size_of::<T>()` readable bytes; the caller guarantees the rest.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(answer as libc::c_int)
}

fn number(descriptor: BorrowedFd<'_>) -> u32 {
    descriptor.as_raw_fd().cast_unsigned()
}

/// Attaches a program by a link that lives as long as its descriptors.
pub(crate) fn create_tcx_link(
    program: BorrowedFd<'_>,
    index: u32,
    direction: Direction,
    place: LinkPosition,
) -> io::Result<OwnedFd> {
    let (flags, relative_id) = match place {
        LinkPosition::First => (F_BEFORE, 0),
        LinkPosition::Last => (F_AFTER, 0),
        LinkPosition::After(program) => (F_AFTER | F_ID, program),
    };
    let attributes = LinkCreate {
        prog_fd: number(program),
        target_ifindex: index,
        attach_type: match direction {
            Direction::Ingress => TCX_INGRESS,
            Direction::Egress => TCX_EGRESS,
        },
        flags,
        relative_id,
        reserved: 0,
        expected_revision: 0,
    };
    // SAFETY: the attributes of this command, without pointers.
    let link = unsafe { bpf(LINK_CREATE, &attributes) }?;
    // SAFETY: the kernel has just created it for the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

/// Replaces the program of a link atomically: each packet sees the old one or the new one.
pub(crate) fn update_link(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let attributes = LinkUpdate {
        link_fd: number(link),
        new_prog_fd: number(program),
        flags: 0,
        old_prog_fd: 0,
    };
    // SAFETY: the attributes of this command, without pointers.
    unsafe { bpf(LINK_UPDATE, &attributes) }.map(drop)
}

/// Creates a frozen map with one value, which the verifier treats as a constant.
///
/// # Errors
/// If the kernel refuses, for instance because a capability is missing.
pub fn constant_map(value: &[u8]) -> io::Result<OwnedFd> {
    let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let attributes = MapCreate {
        map_type: MAP_TYPE_ARRAY,
        key_size: 4,
        value_size: u32::try_from(value.len()).map_err(too_long)?,
        max_entries: 1,
        map_flags: F_RDONLY_PROG,
    };
    // SAFETY: the attributes of this command, without pointers.
    let map = unsafe { bpf(MAP_CREATE, &attributes) }?;
    // SAFETY: the kernel has just created it for the caller.
    let map = unsafe { OwnedFd::from_raw_fd(map) };
    let map_fd = number(map.as_fd());
    let key = 0_u32;
    let element = MapElement {
        map_fd,
        reserved: 0,
        key: std::ptr::from_ref(&key) as u64,
        value: value.as_ptr() as u64,
        flags: 0,
    };
    // SAFETY: the attributes of this command; the map was created for keys and values of these
    // lengths.
    unsafe { bpf(MAP_UPDATE_ELEM, &element) }?;
    // SAFETY: the attributes of this command, without pointers.
    unsafe { bpf(MAP_FREEZE, &MapFreeze { map_fd }) }?;
    Ok(map)
}

/// Returns the first value of an array.
///
/// # Errors
/// If the map is not an array, or the kernel refuses.
pub fn first_value(map: &MapData) -> io::Result<Vec<u8>> {
    let about = map.info().map_err(io::Error::other)?;
    // For a per-CPU map the kernel would write a value for each CPU.
    if !matches!(about.map_type(), Ok(MapType::Array)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut value = vec![0_u8; about.value_size() as usize];
    let key = 0_u32;
    let element = MapElement {
        map_fd: number(map.fd().as_fd()),
        reserved: 0,
        key: std::ptr::from_ref(&key) as u64,
        value: value.as_mut_ptr() as u64,
        flags: 0,
    };
    // SAFETY: the attributes of this command; an array has keys of four bytes, and reports the
    // length of its values.
    unsafe { bpf(MAP_LOOKUP_ELEM, &element) }?;
    Ok(value)
}
