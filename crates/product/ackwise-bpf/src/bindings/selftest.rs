// @generated from bpf/selftest_shared.h by scripts/bindings; do not edit.

use ackwise_policy::sys::*;

#[doc = " Written before the programs are loaded."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_selftest_options {
    #[doc = " Bytes that each ACK acknowledges beyond the previous one; data are then always\n in order. 0: segments are used as they are."]
    pub ack_step: aw_u32,
    #[doc = " not 0: cloning fails as if memory were short"]
    pub clone_fails: aw_u32,
    #[doc = " not 0: the test sets the time (clock.h)"]
    pub scripted: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_selftest_options"][::core::mem::size_of::<aw_selftest_options>() - 12usize];
    ["Alignment of aw_selftest_options"][::core::mem::align_of::<aw_selftest_options>() - 4usize];
    ["Offset of field: aw_selftest_options::ack_step"]
        [::core::mem::offset_of!(aw_selftest_options, ack_step) - 0usize];
    ["Offset of field: aw_selftest_options::clone_fails"]
        [::core::mem::offset_of!(aw_selftest_options, clone_fails) - 4usize];
    ["Offset of field: aw_selftest_options::scripted"]
        [::core::mem::offset_of!(aw_selftest_options, scripted) - 8usize];
};
pub const AW_SELFTEST_TAG: aw_selftest_tag = 65536;
pub const AW_SELFTEST_TAG_AD: aw_selftest_tag = 131072;
#[doc = " With a script, cb[0] of a packet is a tag that the programs find beside it: its TCI, its\n type (0x8100, or 0x88a8 with the flag), and whether there is one."]
pub type aw_selftest_tag = ::core::ffi::c_uint;
#[doc = " The state of one policy, stepped by ackwise_replay."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_replay {
    pub state: aw_policy_state,
    pub verdict: aw_verdict,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_replay"][::core::mem::size_of::<aw_replay>() - 72usize];
    ["Alignment of aw_replay"][::core::mem::align_of::<aw_replay>() - 8usize];
    ["Offset of field: aw_replay::state"][::core::mem::offset_of!(aw_replay, state) - 0usize];
    ["Offset of field: aw_replay::verdict"][::core::mem::offset_of!(aw_replay, verdict) - 64usize];
};
#[doc = " A middlebox that pure ACKs pass, as configured by a test."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_ack_box {
    #[doc = " drops every n-th; 0: none"]
    pub drop_every: aw_u32,
    #[doc = " not 0: clears AW_TCP_ACK_SKIPPED"]
    pub clear: aw_u32,
    #[doc = " received"]
    pub acks: aw_u64,
    pub dropped: aw_u64,
    #[doc = " received with the bit"]
    pub skipped: aw_u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_ack_box"][::core::mem::size_of::<aw_ack_box>() - 32usize];
    ["Alignment of aw_ack_box"][::core::mem::align_of::<aw_ack_box>() - 8usize];
    ["Offset of field: aw_ack_box::drop_every"]
        [::core::mem::offset_of!(aw_ack_box, drop_every) - 0usize];
    ["Offset of field: aw_ack_box::clear"][::core::mem::offset_of!(aw_ack_box, clear) - 4usize];
    ["Offset of field: aw_ack_box::acks"][::core::mem::offset_of!(aw_ack_box, acks) - 8usize];
    ["Offset of field: aw_ack_box::dropped"]
        [::core::mem::offset_of!(aw_ack_box, dropped) - 16usize];
    ["Offset of field: aw_ack_box::skipped"]
        [::core::mem::offset_of!(aw_ack_box, skipped) - 24usize];
};
