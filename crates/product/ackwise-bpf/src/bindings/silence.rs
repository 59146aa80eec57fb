// @generated from bpf/silence_shared.h by scripts/bindings; do not edit.

pub type __u32 = ::core::ffi::c_uint;
#[doc = " Written before the program is loaded."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_silence_options {
    #[doc = " a TC_ACT_* instead of the silent drop, for tests; 0: the silent drop"]
    pub verdict: __u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_silence_options"][::core::mem::size_of::<aw_silence_options>() - 4usize];
    ["Alignment of aw_silence_options"][::core::mem::align_of::<aw_silence_options>() - 4usize];
    ["Offset of field: aw_silence_options::verdict"]
        [::core::mem::offset_of!(aw_silence_options, verdict) - 0usize];
};
