// @generated from bpf/ack_rate_shared.h by scripts/bindings; do not edit.

use ackwise_policy::sys::*;

#[doc = " If all are 0, the host announces that it supports the option, but requests nothing."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_ack_rate_options {
    #[doc = " one ACK for this many; 0: by the other options"]
    pub segments: aw_u32,
    #[doc = " this many ACKs per congestion window; 0: by the other options"]
    pub per_window: aw_u32,
    #[doc = " R derived from lost ACKs (RFC 5690)"]
    pub control: aw_u32,
    pub reserved: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_ack_rate_options"][::core::mem::size_of::<aw_ack_rate_options>() - 16usize];
    ["Alignment of aw_ack_rate_options"][::core::mem::align_of::<aw_ack_rate_options>() - 4usize];
    ["Offset of field: aw_ack_rate_options::segments"]
        [::core::mem::offset_of!(aw_ack_rate_options, segments) - 0usize];
    ["Offset of field: aw_ack_rate_options::per_window"]
        [::core::mem::offset_of!(aw_ack_rate_options, per_window) - 4usize];
    ["Offset of field: aw_ack_rate_options::control"]
        [::core::mem::offset_of!(aw_ack_rate_options, control) - 8usize];
    ["Offset of field: aw_ack_rate_options::reserved"]
        [::core::mem::offset_of!(aw_ack_rate_options, reserved) - 12usize];
};
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_ack_rate_counters {
    #[doc = " SYNs and SYN-ACKs with the option"]
    pub offered: aw_u64,
    #[doc = " connections whose peer also supports it"]
    pub agreed: aw_u64,
    #[doc = " rates that were requested"]
    pub asked: aw_u64,
    #[doc = " data packets with a request, before segmentation"]
    pub segments: aw_u64,
    #[doc = " pure ACKs received"]
    pub acks: aw_u64,
    #[doc = " those that say that none is missing before them"]
    pub skipped: aw_u64,
    #[doc = " ACKs found to be lost"]
    pub lost: aw_u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_ack_rate_counters"][::core::mem::size_of::<aw_ack_rate_counters>() - 56usize];
    ["Alignment of aw_ack_rate_counters"][::core::mem::align_of::<aw_ack_rate_counters>() - 8usize];
    ["Offset of field: aw_ack_rate_counters::offered"]
        [::core::mem::offset_of!(aw_ack_rate_counters, offered) - 0usize];
    ["Offset of field: aw_ack_rate_counters::agreed"]
        [::core::mem::offset_of!(aw_ack_rate_counters, agreed) - 8usize];
    ["Offset of field: aw_ack_rate_counters::asked"]
        [::core::mem::offset_of!(aw_ack_rate_counters, asked) - 16usize];
    ["Offset of field: aw_ack_rate_counters::segments"]
        [::core::mem::offset_of!(aw_ack_rate_counters, segments) - 24usize];
    ["Offset of field: aw_ack_rate_counters::acks"]
        [::core::mem::offset_of!(aw_ack_rate_counters, acks) - 32usize];
    ["Offset of field: aw_ack_rate_counters::skipped"]
        [::core::mem::offset_of!(aw_ack_rate_counters, skipped) - 40usize];
    ["Offset of field: aw_ack_rate_counters::lost"]
        [::core::mem::offset_of!(aw_ack_rate_counters, lost) - 48usize];
};
