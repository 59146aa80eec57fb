//! BPF maps that are read and created without the loader. Needs root.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use ackwise_netdev::bpf::{constant_map, first_value};
use aya::maps::MapData;

/// Creates a map with one value of 8 bytes. `kind` is an `enum bpf_map_type`.
fn map_of(kind: u32) -> MapData {
    const BPF_MAP_CREATE: libc::c_int = 0;
    // Type, lengths of key and value, entries, flags.
    let attributes = [kind, 4, 8, 1, 0];
    let size = size_of_val(&attributes);
    // SAFETY: the leading part of `union bpf_attr` for this command, without pointers.
    let made = unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_CREATE, &raw const attributes, size) };
    assert!(made >= 0, "{}", io::Error::last_os_error());
    // SAFETY: the kernel has just created it for the caller.
    let made = unsafe { OwnedFd::from_raw_fd(made as libc::c_int) };
    MapData::from_fd(made).expect("a map")
}

#[test]
fn the_value_of_an_array_is_read_whole_and_no_other_map_is() {
    const BPF_MAP_TYPE_ARRAY: u32 = 2;
    const BPF_MAP_TYPE_PERCPU_ARRAY: u32 = 6;

    let value: Vec<u8> = (0..77).collect();
    let map = constant_map(&value).expect("this test makes BPF maps: run it as root");
    let map = MapData::from_fd(map).expect("a map");
    assert_eq!(first_value(&map).expect("its value"), value);
    assert_eq!(
        first_value(&map_of(BPF_MAP_TYPE_ARRAY)).expect("its value"),
        [0; 8]
    );
    // The kernel would write a value for each CPU.
    let error = first_value(&map_of(BPF_MAP_TYPE_PERCPU_ARRAY)).expect_err("more than one value");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}
