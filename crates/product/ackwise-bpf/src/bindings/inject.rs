// @generated from bpf/inject_shared.h by scripts/bindings; do not edit.

pub const AW_INJECT_SLOTS: u32 = 512;
pub const AW_INJECT_MAX_LEN: u32 = 128;
pub type __u16 = ::core::ffi::c_ushort;
pub type __u32 = ::core::ffi::c_uint;
pub type __u64 = ::core::ffi::c_ulonglong;
#[doc = " A single entry, mapped by the tunnel."]
#[repr(C)]
#[derive(Copy, Clone)]
pub struct aw_inject {
    #[doc = " slots before it were received"]
    pub next: __u32,
    #[doc = " number of filled slots"]
    pub count: __u32,
    pub len: [__u16; 512usize],
    #[doc = " from the IP header on"]
    pub packets: [[__u64; 16usize]; 512usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_inject"][::core::mem::size_of::<aw_inject>() - 66568usize];
    ["Alignment of aw_inject"][::core::mem::align_of::<aw_inject>() - 8usize];
    ["Offset of field: aw_inject::next"][::core::mem::offset_of!(aw_inject, next) - 0usize];
    ["Offset of field: aw_inject::count"][::core::mem::offset_of!(aw_inject, count) - 4usize];
    ["Offset of field: aw_inject::len"][::core::mem::offset_of!(aw_inject, len) - 8usize];
    ["Offset of field: aw_inject::packets"]
        [::core::mem::offset_of!(aw_inject, packets) - 1032usize];
};
impl Default for aw_inject {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
