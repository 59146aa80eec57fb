// @generated from bpf/echo_shared.h by scripts/bindings; do not edit.

pub type __u32 = ::core::ffi::c_uint;
pub type __u64 = ::core::ffi::c_ulonglong;
#[doc = " Written before the programs are loaded."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_echo_options {
    #[doc = " bytes before the IP header"]
    pub l3_off: __u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_echo_options"][::core::mem::size_of::<aw_echo_options>() - 4usize];
    ["Alignment of aw_echo_options"][::core::mem::align_of::<aw_echo_options>() - 4usize];
    ["Offset of field: aw_echo_options::l3_off"]
        [::core::mem::offset_of!(aw_echo_options, l3_off) - 0usize];
};
#[doc = " Per CPU."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_echo_counters {
    #[doc = " connections that began without ECN"]
    pub plain: __u64,
    #[doc = " connections that began with it: not touched"]
    pub other: __u64,
    #[doc = " ACKs sent that could have been marked"]
    pub capable: __u64,
    #[doc = " ACKs that were marked"]
    pub marks: __u64,
    #[doc = " data that carried an echo"]
    pub echoes: __u64,
    #[doc = " marked ACKs of connections that began before the program"]
    pub unknown: __u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_echo_counters"][::core::mem::size_of::<aw_echo_counters>() - 48usize];
    ["Alignment of aw_echo_counters"][::core::mem::align_of::<aw_echo_counters>() - 8usize];
    ["Offset of field: aw_echo_counters::plain"]
        [::core::mem::offset_of!(aw_echo_counters, plain) - 0usize];
    ["Offset of field: aw_echo_counters::other"]
        [::core::mem::offset_of!(aw_echo_counters, other) - 8usize];
    ["Offset of field: aw_echo_counters::capable"]
        [::core::mem::offset_of!(aw_echo_counters, capable) - 16usize];
    ["Offset of field: aw_echo_counters::marks"]
        [::core::mem::offset_of!(aw_echo_counters, marks) - 24usize];
    ["Offset of field: aw_echo_counters::echoes"]
        [::core::mem::offset_of!(aw_echo_counters, echoes) - 32usize];
    ["Offset of field: aw_echo_counters::unknown"]
        [::core::mem::offset_of!(aw_echo_counters, unknown) - 40usize];
};
