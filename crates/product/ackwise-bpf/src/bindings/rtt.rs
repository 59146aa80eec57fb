// @generated from bpf/rtt_shared.h by scripts/bindings; do not edit.

pub type __u32 = ::core::ffi::c_uint;
pub type __u64 = ::core::ffi::c_ulonglong;
#[doc = " Written before the programs are loaded."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_rtt_options {
    #[doc = " bytes before the IP header"]
    pub l3_off: __u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_rtt_options"][::core::mem::size_of::<aw_rtt_options>() - 4usize];
    ["Alignment of aw_rtt_options"][::core::mem::align_of::<aw_rtt_options>() - 4usize];
    ["Offset of field: aw_rtt_options::l3_off"]
        [::core::mem::offset_of!(aw_rtt_options, l3_off) - 0usize];
};
#[doc = " On each CPU, since the loader last looked, which sets both to 0."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_rtt_samples {
    pub count: __u64,
    #[doc = " beyond the minimum of its connection; only if count is not 0"]
    pub min_us: __u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_rtt_samples"][::core::mem::size_of::<aw_rtt_samples>() - 16usize];
    ["Alignment of aw_rtt_samples"][::core::mem::align_of::<aw_rtt_samples>() - 8usize];
    ["Offset of field: aw_rtt_samples::count"]
        [::core::mem::offset_of!(aw_rtt_samples, count) - 0usize];
    ["Offset of field: aw_rtt_samples::min_us"]
        [::core::mem::offset_of!(aw_rtt_samples, min_us) - 8usize];
};
