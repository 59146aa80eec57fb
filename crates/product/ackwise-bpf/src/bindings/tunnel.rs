// @generated from bpf/tunnel_shared.h by scripts/bindings; do not edit.

pub const AW_TUNNEL_PEERS: u32 = 32;
pub const AW_TUNNEL_RING: u32 = 1048576;
pub type __u8 = ::core::ffi::c_uchar;
pub type __u16 = ::core::ffi::c_ushort;
pub type __u32 = ::core::ffi::c_uint;
pub type __u64 = ::core::ffi::c_ulonglong;
#[doc = " Written before the program is loaded."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_tunnel_options {
    #[doc = " how long redirected packets may wait to be read"]
    pub grace_ns: __u64,
    #[doc = " index of the device by which packets reach the tunnel"]
    pub tun_ifindex: __u32,
    #[doc = " index of the device by which restored packets come back"]
    pub restored_ifindex: __u32,
    #[doc = " mark of packets that the tunnel sends by the ordinary path"]
    pub cookie: __u32,
    #[doc = " of its datagrams, and of packets routed to it that pass"]
    pub mark: __u32,
    #[doc = " bytes of an IP packet that is not a pure ACK; 0: it passes"]
    pub max_other_len: __u32,
    pub reserved: __u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_tunnel_options"][::core::mem::size_of::<aw_tunnel_options>() - 32usize];
    ["Alignment of aw_tunnel_options"][::core::mem::align_of::<aw_tunnel_options>() - 8usize];
    ["Offset of field: aw_tunnel_options::grace_ns"]
        [::core::mem::offset_of!(aw_tunnel_options, grace_ns) - 0usize];
    ["Offset of field: aw_tunnel_options::tun_ifindex"]
        [::core::mem::offset_of!(aw_tunnel_options, tun_ifindex) - 8usize];
    ["Offset of field: aw_tunnel_options::restored_ifindex"]
        [::core::mem::offset_of!(aw_tunnel_options, restored_ifindex) - 12usize];
    ["Offset of field: aw_tunnel_options::cookie"]
        [::core::mem::offset_of!(aw_tunnel_options, cookie) - 16usize];
    ["Offset of field: aw_tunnel_options::mark"]
        [::core::mem::offset_of!(aw_tunnel_options, mark) - 20usize];
    ["Offset of field: aw_tunnel_options::max_other_len"]
        [::core::mem::offset_of!(aw_tunnel_options, max_other_len) - 24usize];
    ["Offset of field: aw_tunnel_options::reserved"]
        [::core::mem::offset_of!(aw_tunnel_options, reserved) - 28usize];
};
#[doc = " A range of a peer's allowed_ips; an IPv4 address is in the first four bytes."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_tunnel_prefix {
    #[doc = " bits: 32 for the family, and those of the address"]
    pub len: __u32,
    #[doc = " 4 or 6"]
    pub family: __u32,
    pub address: [__u8; 16usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_tunnel_prefix"][::core::mem::size_of::<aw_tunnel_prefix>() - 24usize];
    ["Alignment of aw_tunnel_prefix"][::core::mem::align_of::<aw_tunnel_prefix>() - 4usize];
    ["Offset of field: aw_tunnel_prefix::len"]
        [::core::mem::offset_of!(aw_tunnel_prefix, len) - 0usize];
    ["Offset of field: aw_tunnel_prefix::family"]
        [::core::mem::offset_of!(aw_tunnel_prefix, family) - 4usize];
    ["Offset of field: aw_tunnel_prefix::address"]
        [::core::mem::offset_of!(aw_tunnel_prefix, address) - 8usize];
};
#[doc = " A copy of an ACK that was taken, with its link header, as it would have left."]
#[repr(C)]
#[derive(Copy, Clone)]
pub struct aw_tunnel_ack {
    pub len: __u16,
    #[doc = " a power of two; longer ones, IPv4 with options, go by the device"]
    pub bytes: [__u8; 128usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_tunnel_ack"][::core::mem::size_of::<aw_tunnel_ack>() - 130usize];
    ["Alignment of aw_tunnel_ack"][::core::mem::align_of::<aw_tunnel_ack>() - 2usize];
    ["Offset of field: aw_tunnel_ack::len"][::core::mem::offset_of!(aw_tunnel_ack, len) - 0usize];
    ["Offset of field: aw_tunnel_ack::bytes"]
        [::core::mem::offset_of!(aw_tunnel_ack, bytes) - 2usize];
};
impl Default for aw_tunnel_ack {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[doc = " A single entry, mapped by the tunnel."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_tunnel_state {
    #[doc = " CLOCK_MONOTONIC: nothing was read since then; 0: all is read"]
    pub waiting_since: __u64,
    #[doc = " sent to the tunnel"]
    pub taken: __u64,
    #[doc = " from the tunnel"]
    pub returned: __u64,
    #[doc = " passed: the tunnel does not read"]
    pub unattended: __u64,
    pub up: [__u32; 32usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_tunnel_state"][::core::mem::size_of::<aw_tunnel_state>() - 160usize];
    ["Alignment of aw_tunnel_state"][::core::mem::align_of::<aw_tunnel_state>() - 8usize];
    ["Offset of field: aw_tunnel_state::waiting_since"]
        [::core::mem::offset_of!(aw_tunnel_state, waiting_since) - 0usize];
    ["Offset of field: aw_tunnel_state::taken"]
        [::core::mem::offset_of!(aw_tunnel_state, taken) - 8usize];
    ["Offset of field: aw_tunnel_state::returned"]
        [::core::mem::offset_of!(aw_tunnel_state, returned) - 16usize];
    ["Offset of field: aw_tunnel_state::unattended"]
        [::core::mem::offset_of!(aw_tunnel_state, unattended) - 24usize];
    ["Offset of field: aw_tunnel_state::up"]
        [::core::mem::offset_of!(aw_tunnel_state, up) - 32usize];
};
