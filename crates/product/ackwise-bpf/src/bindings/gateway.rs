// @generated from bpf/gateway_shared.h by scripts/bindings; do not edit.

pub type __u32 = ::core::ffi::c_uint;
pub type __u64 = ::core::ffi::c_ulonglong;
#[doc = " Written before the program is loaded."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_gateway_options {
    #[doc = " index of the device by which packets reach the gateway"]
    pub tun_ifindex: __u32,
    #[doc = " mark of the packets from the gateway"]
    pub cookie: __u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_gateway_options"][::core::mem::size_of::<aw_gateway_options>() - 8usize];
    ["Alignment of aw_gateway_options"][::core::mem::align_of::<aw_gateway_options>() - 4usize];
    ["Offset of field: aw_gateway_options::tun_ifindex"]
        [::core::mem::offset_of!(aw_gateway_options, tun_ifindex) - 0usize];
    ["Offset of field: aw_gateway_options::cookie"]
        [::core::mem::offset_of!(aw_gateway_options, cookie) - 4usize];
};
#[doc = " A single entry; the gateway writes it as long as it works."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_gateway_control {
    #[doc = " CLOCK_MONOTONIC"]
    pub alive_until_ns: __u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_gateway_control"][::core::mem::size_of::<aw_gateway_control>() - 8usize];
    ["Alignment of aw_gateway_control"][::core::mem::align_of::<aw_gateway_control>() - 8usize];
    ["Offset of field: aw_gateway_control::alive_until_ns"]
        [::core::mem::offset_of!(aw_gateway_control, alive_until_ns) - 0usize];
};
#[doc = " Per CPU."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_gateway_counters {
    #[doc = " redirected to the gateway; an aggregate counts as one"]
    pub taken: __u64,
    #[doc = " redirected to the gateway; an aggregate counts as one"]
    pub taken_bytes: __u64,
    #[doc = " from the gateway"]
    pub returned: __u64,
    #[doc = " passed: neither IP nor a tunnel of it, or PPP control"]
    pub other: __u64,
    #[doc = " passed: IPv6 neighbour discovery"]
    pub neighbour: __u64,
    #[doc = " passed: the gateway gave no sign of life"]
    pub unattended: __u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_gateway_counters"][::core::mem::size_of::<aw_gateway_counters>() - 48usize];
    ["Alignment of aw_gateway_counters"][::core::mem::align_of::<aw_gateway_counters>() - 8usize];
    ["Offset of field: aw_gateway_counters::taken"]
        [::core::mem::offset_of!(aw_gateway_counters, taken) - 0usize];
    ["Offset of field: aw_gateway_counters::taken_bytes"]
        [::core::mem::offset_of!(aw_gateway_counters, taken_bytes) - 8usize];
    ["Offset of field: aw_gateway_counters::returned"]
        [::core::mem::offset_of!(aw_gateway_counters, returned) - 16usize];
    ["Offset of field: aw_gateway_counters::other"]
        [::core::mem::offset_of!(aw_gateway_counters, other) - 24usize];
    ["Offset of field: aw_gateway_counters::neighbour"]
        [::core::mem::offset_of!(aw_gateway_counters, neighbour) - 32usize];
    ["Offset of field: aw_gateway_counters::unattended"]
        [::core::mem::offset_of!(aw_gateway_counters, unattended) - 40usize];
};
