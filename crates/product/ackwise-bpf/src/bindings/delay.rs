// @generated from bpf/delay_shared.h by scripts/bindings; do not edit.

pub type __s32 = ::core::ffi::c_int;
pub type __u64 = ::core::ffi::c_ulonglong;
#[doc = " Written before the program is loaded."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_delay_options {
    #[doc = " bytes that each packet costs in addition to what the program sees"]
    pub overhead: __s32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_delay_options"][::core::mem::size_of::<aw_delay_options>() - 4usize];
    ["Alignment of aw_delay_options"][::core::mem::align_of::<aw_delay_options>() - 4usize];
    ["Offset of field: aw_delay_options::overhead"]
        [::core::mem::offset_of!(aw_delay_options, overhead) - 0usize];
};
#[doc = " What has left since the program was loaded."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_delay_sent {
    #[doc = " with the overhead"]
    pub bytes: __u64,
    #[doc = " The sum over all bytes of the length of a byte's packet, or of its segments if\n the device cuts it up. Divided by `bytes`, it is the mean length of the packet\n that a byte is in."]
    pub lengths: __u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_delay_sent"][::core::mem::size_of::<aw_delay_sent>() - 16usize];
    ["Alignment of aw_delay_sent"][::core::mem::align_of::<aw_delay_sent>() - 8usize];
    ["Offset of field: aw_delay_sent::bytes"]
        [::core::mem::offset_of!(aw_delay_sent, bytes) - 0usize];
    ["Offset of field: aw_delay_sent::lengths"]
        [::core::mem::offset_of!(aw_delay_sent, lengths) - 8usize];
};
#[doc = " Of the round trips that ended since the loader last looked; the loader sets all to 0."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_delay_sample {
    pub count: __u64,
    #[doc = " when the packet left, by CLOCK_MONOTONIC"]
    pub left_ns: __u64,
    #[doc = " aw_delay_sent.bytes when it had left"]
    pub bytes: __u64,
    pub waited_us: __u64,
    #[doc = " from data rather than an ACK"]
    pub is_data: __u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_delay_sample"][::core::mem::size_of::<aw_delay_sample>() - 40usize];
    ["Alignment of aw_delay_sample"][::core::mem::align_of::<aw_delay_sample>() - 8usize];
    ["Offset of field: aw_delay_sample::count"]
        [::core::mem::offset_of!(aw_delay_sample, count) - 0usize];
    ["Offset of field: aw_delay_sample::left_ns"]
        [::core::mem::offset_of!(aw_delay_sample, left_ns) - 8usize];
    ["Offset of field: aw_delay_sample::bytes"]
        [::core::mem::offset_of!(aw_delay_sample, bytes) - 16usize];
    ["Offset of field: aw_delay_sample::waited_us"]
        [::core::mem::offset_of!(aw_delay_sample, waited_us) - 24usize];
    ["Offset of field: aw_delay_sample::is_data"]
        [::core::mem::offset_of!(aw_delay_sample, is_data) - 32usize];
};
