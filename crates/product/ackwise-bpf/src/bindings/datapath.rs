// @generated from bpf/ackwise_shared.h by scripts/bindings; do not edit.

use ackwise_policy::sys::*;

pub const AW_CLASSES: u32 = 36;
pub const AW_CLASS_TABLE: u32 = 64;
pub const AW_CLASS_UNUSED: u32 = 2147483647;
pub const AW_RETRY_CLASS: u32 = 0;
pub const AW_RETRY_NS: u32 = 20000000;
pub const AW_RETRIES: u32 = 6;
pub const AW_BUSY_CPUS: u32 = 32;
pub const AW_LOCKS: u32 = 1024;
pub const AW_COOKIE_MAGIC: u32 = 2890924032;
pub const AW_COOKIE_SLOT: u32 = 1048575;
pub const AW_SLOTS_MAX: u32 = 1048576;
pub const AW_FRAME_L2: u32 = 24;
pub const AW_FRAME_L3: u32 = 120;
pub const AW_LATE_FINE: u32 = 64;
pub const AW_LATE_COARSE: u32 = 63;
pub const AW_LATE_BUCKETS: u32 = 128;
pub const AW_HOLD_BUCKET_SHIFT: u32 = 19;
pub const AW_HOLD_BUCKETS: u32 = 64;
#[doc = " or at a router: ACKs leave by egress"]
pub const AW_AT_RECEIVER: aw_position = 0;
#[doc = " ACKs arrive by ingress"]
pub const AW_AT_SENDER: aw_position = 1;
pub type aw_position = ::core::ffi::c_uint;
#[doc = " the ACK sender, which is the data receiver"]
pub const AW_SIDE_ACKS: aw_side = 0;
pub const AW_SIDE_DATA: aw_side = 1;
#[doc = " The side of a flow that a match refers to."]
pub type aw_side = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_match {
    #[doc = " by enum aw_side"]
    pub addr: [aw_addr; 2usize],
    #[doc = " by enum aw_side"]
    pub mask: [aw_addr; 2usize],
    #[doc = " host order; 0..65535 is any"]
    pub port_lo: [aw_u16; 2usize],
    #[doc = " host order; 0..65535 is any"]
    pub port_hi: [aw_u16; 2usize],
    #[doc = " of addr; 0: any address"]
    pub version: [aw_u8; 2usize],
    #[doc = " 0: everything matches"]
    pub used: aw_u8,
    pub reserved: aw_u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_match"][::core::mem::size_of::<aw_match>() - 76usize];
    ["Alignment of aw_match"][::core::mem::align_of::<aw_match>() - 4usize];
    ["Offset of field: aw_match::addr"][::core::mem::offset_of!(aw_match, addr) - 0usize];
    ["Offset of field: aw_match::mask"][::core::mem::offset_of!(aw_match, mask) - 32usize];
    ["Offset of field: aw_match::port_lo"][::core::mem::offset_of!(aw_match, port_lo) - 64usize];
    ["Offset of field: aw_match::port_hi"][::core::mem::offset_of!(aw_match, port_hi) - 68usize];
    ["Offset of field: aw_match::version"][::core::mem::offset_of!(aw_match, version) - 72usize];
    ["Offset of field: aw_match::used"][::core::mem::offset_of!(aw_match, used) - 74usize];
    ["Offset of field: aw_match::reserved"][::core::mem::offset_of!(aw_match, reserved) - 75usize];
};
#[doc = " Constant once loaded, so the verifier removes code that is not needed."]
#[repr(C)]
#[derive(Copy, Clone)]
pub struct aw_options {
    pub flow: aw_flow_cfg,
    pub match_: aw_match,
    #[doc = " ascending from 0; AW_CLASS_UNUSED from `classes` on"]
    pub class_us: [aw_u32; 64usize],
    #[doc = " classes in use, including FIFO 0"]
    pub classes: aw_u32,
    pub slots: aw_u32,
    #[doc = " enum aw_position"]
    pub position: aw_u32,
    #[doc = " enum aw_link"]
    pub link: aw_u32,
    pub ifindex: aw_u32,
    #[doc = " the queue priority of departing pure ACKs; 0: unchanged"]
    pub ack_priority: aw_u32,
    #[doc = " STOLEN is honoured; tcx knows only PASS, DROP, REDIRECT"]
    pub clsact: aw_u8,
    pub dry_run: aw_u8,
    #[doc = " see cwnd_hint.h"]
    pub cwnd_hint: aw_u8,
    #[doc = " flows learn who fills the link: egress.h"]
    pub uplink: aw_u8,
    #[doc = " see obey.h"]
    pub obey_ack_rate: aw_u8,
    #[doc = " see ack_request.h"]
    pub ack_request: aw_u8,
    #[doc = " frames may come from IPsec, and the kernel tells for each whether it did"]
    pub ipsec: aw_u8,
    pub reserved: aw_u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_options"][::core::mem::size_of::<aw_options>() - 436usize];
    ["Alignment of aw_options"][::core::mem::align_of::<aw_options>() - 4usize];
    ["Offset of field: aw_options::flow"][::core::mem::offset_of!(aw_options, flow) - 0usize];
    ["Offset of field: aw_options::match_"][::core::mem::offset_of!(aw_options, match_) - 72usize];
    ["Offset of field: aw_options::class_us"]
        [::core::mem::offset_of!(aw_options, class_us) - 148usize];
    ["Offset of field: aw_options::classes"]
        [::core::mem::offset_of!(aw_options, classes) - 404usize];
    ["Offset of field: aw_options::slots"][::core::mem::offset_of!(aw_options, slots) - 408usize];
    ["Offset of field: aw_options::position"]
        [::core::mem::offset_of!(aw_options, position) - 412usize];
    ["Offset of field: aw_options::link"][::core::mem::offset_of!(aw_options, link) - 416usize];
    ["Offset of field: aw_options::ifindex"]
        [::core::mem::offset_of!(aw_options, ifindex) - 420usize];
    ["Offset of field: aw_options::ack_priority"]
        [::core::mem::offset_of!(aw_options, ack_priority) - 424usize];
    ["Offset of field: aw_options::clsact"][::core::mem::offset_of!(aw_options, clsact) - 428usize];
    ["Offset of field: aw_options::dry_run"]
        [::core::mem::offset_of!(aw_options, dry_run) - 429usize];
    ["Offset of field: aw_options::cwnd_hint"]
        [::core::mem::offset_of!(aw_options, cwnd_hint) - 430usize];
    ["Offset of field: aw_options::uplink"][::core::mem::offset_of!(aw_options, uplink) - 431usize];
    ["Offset of field: aw_options::obey_ack_rate"]
        [::core::mem::offset_of!(aw_options, obey_ack_rate) - 432usize];
    ["Offset of field: aw_options::ack_request"]
        [::core::mem::offset_of!(aw_options, ack_request) - 433usize];
    ["Offset of field: aw_options::ipsec"][::core::mem::offset_of!(aw_options, ipsec) - 434usize];
    ["Offset of field: aw_options::reserved"]
        [::core::mem::offset_of!(aw_options, reserved) - 435usize];
};
impl Default for aw_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[doc = " A single map entry, which user space rewrites every 100 ms."]
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_control {
    #[doc = " CLOCK_MONOTONIC; nothing is held after it"]
    pub alive_until_ns: aw_u64,
    #[doc = " shared_us is unknown after it"]
    pub shared_until_ns: aw_u64,
    #[doc = " aw_flow.shared"]
    pub shared_us: aw_u32,
    #[doc = " not 0: departing pure ACKs get aw_options.ack_priority"]
    pub use_ack_priority: aw_u32,
    #[doc = " one bit per CPU: aw_flow.busy of what it handles"]
    pub busy_cpus: [aw_u32; 32usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_control"][::core::mem::size_of::<aw_control>() - 152usize];
    ["Alignment of aw_control"][::core::mem::align_of::<aw_control>() - 8usize];
    ["Offset of field: aw_control::alive_until_ns"]
        [::core::mem::offset_of!(aw_control, alive_until_ns) - 0usize];
    ["Offset of field: aw_control::shared_until_ns"]
        [::core::mem::offset_of!(aw_control, shared_until_ns) - 8usize];
    ["Offset of field: aw_control::shared_us"]
        [::core::mem::offset_of!(aw_control, shared_us) - 16usize];
    ["Offset of field: aw_control::use_ack_priority"]
        [::core::mem::offset_of!(aw_control, use_ack_priority) - 20usize];
    ["Offset of field: aw_control::busy_cpus"]
        [::core::mem::offset_of!(aw_control, busy_cpus) - 24usize];
};
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_key {
    #[doc = " addresses of the two sides"]
    pub acks: aw_addr,
    #[doc = " addresses of the two sides"]
    pub data: aw_addr,
    #[doc = " network order"]
    pub acks_port: aw_u16,
    #[doc = " network order"]
    pub data_port: aw_u16,
    #[doc = " VLAN identifiers of 12 bits, the innermost lowest; 0: none"]
    pub vlans: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_key"][::core::mem::size_of::<aw_key>() - 40usize];
    ["Alignment of aw_key"][::core::mem::align_of::<aw_key>() - 4usize];
    ["Offset of field: aw_key::acks"][::core::mem::offset_of!(aw_key, acks) - 0usize];
    ["Offset of field: aw_key::data"][::core::mem::offset_of!(aw_key, data) - 16usize];
    ["Offset of field: aw_key::acks_port"][::core::mem::offset_of!(aw_key, acks_port) - 32usize];
    ["Offset of field: aw_key::data_port"][::core::mem::offset_of!(aw_key, data_port) - 34usize];
    ["Offset of field: aw_key::vlans"][::core::mem::offset_of!(aw_key, vlans) - 36usize];
};
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_flow_counters {
    #[doc = " segments of the ACK direction; those not withheld passed"]
    pub acks: aw_u64,
    pub withheld: aw_u64,
    #[doc = " withheld ones that left at their deadline"]
    pub reemitted: aw_u64,
    pub data_segments: aw_u64,
    pub data_bytes: aw_u64,
    #[doc = " from the IP header on"]
    pub withheld_bytes: aw_u64,
    #[doc = " from the IP header on"]
    pub reemitted_bytes: aw_u64,
    pub first_ns: aw_u64,
    pub last_ns: aw_u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_flow_counters"][::core::mem::size_of::<aw_flow_counters>() - 72usize];
    ["Alignment of aw_flow_counters"][::core::mem::align_of::<aw_flow_counters>() - 8usize];
    ["Offset of field: aw_flow_counters::acks"]
        [::core::mem::offset_of!(aw_flow_counters, acks) - 0usize];
    ["Offset of field: aw_flow_counters::withheld"]
        [::core::mem::offset_of!(aw_flow_counters, withheld) - 8usize];
    ["Offset of field: aw_flow_counters::reemitted"]
        [::core::mem::offset_of!(aw_flow_counters, reemitted) - 16usize];
    ["Offset of field: aw_flow_counters::data_segments"]
        [::core::mem::offset_of!(aw_flow_counters, data_segments) - 24usize];
    ["Offset of field: aw_flow_counters::data_bytes"]
        [::core::mem::offset_of!(aw_flow_counters, data_bytes) - 32usize];
    ["Offset of field: aw_flow_counters::withheld_bytes"]
        [::core::mem::offset_of!(aw_flow_counters, withheld_bytes) - 40usize];
    ["Offset of field: aw_flow_counters::reemitted_bytes"]
        [::core::mem::offset_of!(aw_flow_counters, reemitted_bytes) - 48usize];
    ["Offset of field: aw_flow_counters::first_ns"]
        [::core::mem::offset_of!(aw_flow_counters, first_ns) - 56usize];
    ["Offset of field: aw_flow_counters::last_ns"]
        [::core::mem::offset_of!(aw_flow_counters, last_ns) - 64usize];
};
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct aw_entry {
    #[doc = " the owner of this entry: an LRU map reuses memory"]
    pub key: aw_key,
    pub flow: aw_flow,
    pub count: aw_flow_counters,
    #[doc = " slot << 32 | generation of the newest hold"]
    pub handle: aw_u64,
    pub lock: aw_u32,
    #[doc = " dry run: the ACK that would be held, and its deadline"]
    pub dry_ack: aw_u32,
    #[doc = " dry run: the ACK that would be held, and its deadline"]
    pub dry_tsval: aw_u32,
    pub dry_window: aw_u16,
    pub dry_opts: aw_u16,
    pub dry_len: aw_u32,
    #[doc = " an ACK passed that was not noted"]
    pub missed: aw_u32,
    #[doc = " 0: none"]
    pub dry_until_ns: aw_u64,
    #[doc = " cwnd_hint: when the ACK sender last sent data; 0: never"]
    pub reverse_data_ns: aw_u64,
    #[doc = " obey_ack_rate: written by the data side"]
    pub asked: aw_ack_rate,
    #[doc = " ack_request: the end of the outstanding request, and whether there is one"]
    pub request_end: aw_u32,
    #[doc = " ack_request: the end of the outstanding request, and whether there is one"]
    pub requested: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_entry"][::core::mem::size_of::<aw_entry>() - 432usize];
    ["Alignment of aw_entry"][::core::mem::align_of::<aw_entry>() - 8usize];
    ["Offset of field: aw_entry::key"][::core::mem::offset_of!(aw_entry, key) - 0usize];
    ["Offset of field: aw_entry::flow"][::core::mem::offset_of!(aw_entry, flow) - 40usize];
    ["Offset of field: aw_entry::count"][::core::mem::offset_of!(aw_entry, count) - 296usize];
    ["Offset of field: aw_entry::handle"][::core::mem::offset_of!(aw_entry, handle) - 368usize];
    ["Offset of field: aw_entry::lock"][::core::mem::offset_of!(aw_entry, lock) - 376usize];
    ["Offset of field: aw_entry::dry_ack"][::core::mem::offset_of!(aw_entry, dry_ack) - 380usize];
    ["Offset of field: aw_entry::dry_tsval"]
        [::core::mem::offset_of!(aw_entry, dry_tsval) - 384usize];
    ["Offset of field: aw_entry::dry_window"]
        [::core::mem::offset_of!(aw_entry, dry_window) - 388usize];
    ["Offset of field: aw_entry::dry_opts"][::core::mem::offset_of!(aw_entry, dry_opts) - 390usize];
    ["Offset of field: aw_entry::dry_len"][::core::mem::offset_of!(aw_entry, dry_len) - 392usize];
    ["Offset of field: aw_entry::missed"][::core::mem::offset_of!(aw_entry, missed) - 396usize];
    ["Offset of field: aw_entry::dry_until_ns"]
        [::core::mem::offset_of!(aw_entry, dry_until_ns) - 400usize];
    ["Offset of field: aw_entry::reverse_data_ns"]
        [::core::mem::offset_of!(aw_entry, reverse_data_ns) - 408usize];
    ["Offset of field: aw_entry::asked"][::core::mem::offset_of!(aw_entry, asked) - 416usize];
    ["Offset of field: aw_entry::request_end"]
        [::core::mem::offset_of!(aw_entry, request_end) - 424usize];
    ["Offset of field: aw_entry::requested"]
        [::core::mem::offset_of!(aw_entry, requested) - 428usize];
};
#[doc = " A held ACK on its way out."]
#[repr(C)]
#[derive(Copy, Clone)]
pub struct aw_emit {
    pub deadline_ns: aw_u64,
    pub slot: aw_u32,
    pub generation: aw_u32,
    pub l2_len: aw_u16,
    pub l3_len: aw_u16,
    #[doc = " of the start of l3, network order"]
    pub protocol: aw_u16,
    pub tries: aw_u16,
    #[doc = " of a tag beside the frame, network order; 0: none"]
    pub vlan_proto: aw_u16,
    #[doc = " of that tag, host order"]
    pub vlan_tci: aw_u16,
    pub reserved: aw_u32,
    pub l2: [aw_u8; 24usize],
    pub l3: [aw_u8; 120usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_emit"][::core::mem::size_of::<aw_emit>() - 176usize];
    ["Alignment of aw_emit"][::core::mem::align_of::<aw_emit>() - 8usize];
    ["Offset of field: aw_emit::deadline_ns"]
        [::core::mem::offset_of!(aw_emit, deadline_ns) - 0usize];
    ["Offset of field: aw_emit::slot"][::core::mem::offset_of!(aw_emit, slot) - 8usize];
    ["Offset of field: aw_emit::generation"]
        [::core::mem::offset_of!(aw_emit, generation) - 12usize];
    ["Offset of field: aw_emit::l2_len"][::core::mem::offset_of!(aw_emit, l2_len) - 16usize];
    ["Offset of field: aw_emit::l3_len"][::core::mem::offset_of!(aw_emit, l3_len) - 18usize];
    ["Offset of field: aw_emit::protocol"][::core::mem::offset_of!(aw_emit, protocol) - 20usize];
    ["Offset of field: aw_emit::tries"][::core::mem::offset_of!(aw_emit, tries) - 22usize];
    ["Offset of field: aw_emit::vlan_proto"]
        [::core::mem::offset_of!(aw_emit, vlan_proto) - 24usize];
    ["Offset of field: aw_emit::vlan_tci"][::core::mem::offset_of!(aw_emit, vlan_tci) - 26usize];
    ["Offset of field: aw_emit::reserved"][::core::mem::offset_of!(aw_emit, reserved) - 28usize];
    ["Offset of field: aw_emit::l2"][::core::mem::offset_of!(aw_emit, l2) - 32usize];
    ["Offset of field: aw_emit::l3"][::core::mem::offset_of!(aw_emit, l3) - 56usize];
};
impl Default for aw_emit {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[doc = " Per CPU. The names are those that `ackwise status` prints."]
#[repr(C)]
#[derive(Copy, Clone)]
pub struct aw_counters {
    #[doc = " at both hooks"]
    pub packets: aw_u64,
    #[doc = " at both hooks"]
    pub bytes: aw_u64,
    pub not_tcp: aw_u64,
    pub fragments: aw_u64,
    pub unparsable: aw_u64,
    pub data_segments: aw_u64,
    pub data_bytes: aw_u64,
    #[doc = " ACK direction, of flows that are kept"]
    pub acks: aw_u64,
    #[doc = " ACK direction, of flows that are kept"]
    pub ack_bytes: aw_u64,
    #[doc = " ACK direction: segments of acks with payload, and frames that are not an ACK\n of a kept flow"]
    pub payload_segments: aw_u64,
    #[doc = " ACK direction: segments of acks with payload, and frames that are not an ACK\n of a kept flow"]
    pub payload_bytes: aw_u64,
    #[doc = " ACK direction: segments of acks with payload, and frames that are not an ACK\n of a kept flow"]
    pub other_bytes: aw_u64,
    #[doc = " ACK direction, before the first pure ACK"]
    pub no_flow: aw_u64,
    #[doc = " pure ACKs that do not match"]
    pub unmatched: aw_u64,
    pub syns: aw_u64,
    #[doc = " removed at the hook"]
    pub withheld: aw_u64,
    #[doc = " removed at the hook"]
    pub withheld_bytes: aw_u64,
    #[doc = " runs of holds that a newer ACK ended"]
    pub superseded: aw_u64,
    #[doc = " newer held ACKs that replaced a held one"]
    pub replaced: aw_u64,
    pub reemitted: aw_u64,
    pub reemitted_bytes: aw_u64,
    #[doc = " returned after a newer one had left"]
    pub reemit_stale: aw_u64,
    #[doc = " duplicates sent twice"]
    pub cloned: aw_u64,
    #[doc = " data whose window field holds the congestion window"]
    pub cwnd_hints: aw_u64,
    #[doc = " requests obeyed"]
    pub ack_rate_requests: aw_u64,
    #[doc = " data packets sent with the bit that asks for an ACK"]
    pub ack_requests: aw_u64,
    #[doc = " ACKs sent that say that they cover more than R: see obey.h"]
    pub acks_skipped: aw_u64,
    pub flows_created: aw_u64,
    pub flows_failed: aw_u64,
    #[doc = " fail open"]
    pub open_stale_heartbeat: aw_u64,
    #[doc = " fail open"]
    pub open_no_slot: aw_u64,
    #[doc = " fail open"]
    pub open_queue_full: aw_u64,
    #[doc = " fail open"]
    pub open_timer: aw_u64,
    pub open_too_short: aw_u64,
    pub open_frame: aw_u64,
    #[doc = " not even noted: the lock was taken, or the entry was reused"]
    pub open_busy: aw_u64,
    #[doc = " the way out"]
    pub ticks: aw_u64,
    #[doc = " the way out"]
    pub ring_full: aw_u64,
    #[doc = " the way out"]
    pub retried: aw_u64,
    #[doc = " the way out"]
    pub lost: aw_u64,
    #[doc = " re-emissions that left while the flow's lock was taken"]
    pub unlocked: aw_u64,
    pub reason: [aw_u64; 21usize],
    pub late_max_us: aw_u64,
    pub late: [aw_u64; 128usize],
    #[doc = " sum over all holds"]
    pub held_ns: aw_u64,
    #[doc = " holds by duration"]
    pub held: [aw_u64; 64usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_counters"][::core::mem::size_of::<aw_counters>() - 2048usize];
    ["Alignment of aw_counters"][::core::mem::align_of::<aw_counters>() - 8usize];
    ["Offset of field: aw_counters::packets"]
        [::core::mem::offset_of!(aw_counters, packets) - 0usize];
    ["Offset of field: aw_counters::bytes"][::core::mem::offset_of!(aw_counters, bytes) - 8usize];
    ["Offset of field: aw_counters::not_tcp"]
        [::core::mem::offset_of!(aw_counters, not_tcp) - 16usize];
    ["Offset of field: aw_counters::fragments"]
        [::core::mem::offset_of!(aw_counters, fragments) - 24usize];
    ["Offset of field: aw_counters::unparsable"]
        [::core::mem::offset_of!(aw_counters, unparsable) - 32usize];
    ["Offset of field: aw_counters::data_segments"]
        [::core::mem::offset_of!(aw_counters, data_segments) - 40usize];
    ["Offset of field: aw_counters::data_bytes"]
        [::core::mem::offset_of!(aw_counters, data_bytes) - 48usize];
    ["Offset of field: aw_counters::acks"][::core::mem::offset_of!(aw_counters, acks) - 56usize];
    ["Offset of field: aw_counters::ack_bytes"]
        [::core::mem::offset_of!(aw_counters, ack_bytes) - 64usize];
    ["Offset of field: aw_counters::payload_segments"]
        [::core::mem::offset_of!(aw_counters, payload_segments) - 72usize];
    ["Offset of field: aw_counters::payload_bytes"]
        [::core::mem::offset_of!(aw_counters, payload_bytes) - 80usize];
    ["Offset of field: aw_counters::other_bytes"]
        [::core::mem::offset_of!(aw_counters, other_bytes) - 88usize];
    ["Offset of field: aw_counters::no_flow"]
        [::core::mem::offset_of!(aw_counters, no_flow) - 96usize];
    ["Offset of field: aw_counters::unmatched"]
        [::core::mem::offset_of!(aw_counters, unmatched) - 104usize];
    ["Offset of field: aw_counters::syns"][::core::mem::offset_of!(aw_counters, syns) - 112usize];
    ["Offset of field: aw_counters::withheld"]
        [::core::mem::offset_of!(aw_counters, withheld) - 120usize];
    ["Offset of field: aw_counters::withheld_bytes"]
        [::core::mem::offset_of!(aw_counters, withheld_bytes) - 128usize];
    ["Offset of field: aw_counters::superseded"]
        [::core::mem::offset_of!(aw_counters, superseded) - 136usize];
    ["Offset of field: aw_counters::replaced"]
        [::core::mem::offset_of!(aw_counters, replaced) - 144usize];
    ["Offset of field: aw_counters::reemitted"]
        [::core::mem::offset_of!(aw_counters, reemitted) - 152usize];
    ["Offset of field: aw_counters::reemitted_bytes"]
        [::core::mem::offset_of!(aw_counters, reemitted_bytes) - 160usize];
    ["Offset of field: aw_counters::reemit_stale"]
        [::core::mem::offset_of!(aw_counters, reemit_stale) - 168usize];
    ["Offset of field: aw_counters::cloned"]
        [::core::mem::offset_of!(aw_counters, cloned) - 176usize];
    ["Offset of field: aw_counters::cwnd_hints"]
        [::core::mem::offset_of!(aw_counters, cwnd_hints) - 184usize];
    ["Offset of field: aw_counters::ack_rate_requests"]
        [::core::mem::offset_of!(aw_counters, ack_rate_requests) - 192usize];
    ["Offset of field: aw_counters::ack_requests"]
        [::core::mem::offset_of!(aw_counters, ack_requests) - 200usize];
    ["Offset of field: aw_counters::acks_skipped"]
        [::core::mem::offset_of!(aw_counters, acks_skipped) - 208usize];
    ["Offset of field: aw_counters::flows_created"]
        [::core::mem::offset_of!(aw_counters, flows_created) - 216usize];
    ["Offset of field: aw_counters::flows_failed"]
        [::core::mem::offset_of!(aw_counters, flows_failed) - 224usize];
    ["Offset of field: aw_counters::open_stale_heartbeat"]
        [::core::mem::offset_of!(aw_counters, open_stale_heartbeat) - 232usize];
    ["Offset of field: aw_counters::open_no_slot"]
        [::core::mem::offset_of!(aw_counters, open_no_slot) - 240usize];
    ["Offset of field: aw_counters::open_queue_full"]
        [::core::mem::offset_of!(aw_counters, open_queue_full) - 248usize];
    ["Offset of field: aw_counters::open_timer"]
        [::core::mem::offset_of!(aw_counters, open_timer) - 256usize];
    ["Offset of field: aw_counters::open_too_short"]
        [::core::mem::offset_of!(aw_counters, open_too_short) - 264usize];
    ["Offset of field: aw_counters::open_frame"]
        [::core::mem::offset_of!(aw_counters, open_frame) - 272usize];
    ["Offset of field: aw_counters::open_busy"]
        [::core::mem::offset_of!(aw_counters, open_busy) - 280usize];
    ["Offset of field: aw_counters::ticks"][::core::mem::offset_of!(aw_counters, ticks) - 288usize];
    ["Offset of field: aw_counters::ring_full"]
        [::core::mem::offset_of!(aw_counters, ring_full) - 296usize];
    ["Offset of field: aw_counters::retried"]
        [::core::mem::offset_of!(aw_counters, retried) - 304usize];
    ["Offset of field: aw_counters::lost"][::core::mem::offset_of!(aw_counters, lost) - 312usize];
    ["Offset of field: aw_counters::unlocked"]
        [::core::mem::offset_of!(aw_counters, unlocked) - 320usize];
    ["Offset of field: aw_counters::reason"]
        [::core::mem::offset_of!(aw_counters, reason) - 328usize];
    ["Offset of field: aw_counters::late_max_us"]
        [::core::mem::offset_of!(aw_counters, late_max_us) - 496usize];
    ["Offset of field: aw_counters::late"][::core::mem::offset_of!(aw_counters, late) - 504usize];
    ["Offset of field: aw_counters::held_ns"]
        [::core::mem::offset_of!(aw_counters, held_ns) - 1528usize];
    ["Offset of field: aw_counters::held"][::core::mem::offset_of!(aw_counters, held) - 1536usize];
};
impl Default for aw_counters {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[doc = " A held ACK that leaves before the current packet: see release.h."]
#[repr(C)]
#[derive(Copy, Clone)]
pub struct aw_released {
    pub l3: [aw_u8; 120usize],
    #[doc = " the start of the hold"]
    pub since_ns: aw_u64,
    #[doc = " bytes in l3"]
    pub len: aw_u32,
    pub mark: aw_u32,
    pub priority: aw_u32,
    #[doc = " not 0: the next packet at the hook is the clone that it takes over"]
    pub cloning: aw_u32,
    #[doc = " it covers more than R segments: see obey.h"]
    pub skipped: aw_u32,
    #[doc = " of its slot"]
    pub generation: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_released"][::core::mem::size_of::<aw_released>() - 152usize];
    ["Alignment of aw_released"][::core::mem::align_of::<aw_released>() - 8usize];
    ["Offset of field: aw_released::l3"][::core::mem::offset_of!(aw_released, l3) - 0usize];
    ["Offset of field: aw_released::since_ns"]
        [::core::mem::offset_of!(aw_released, since_ns) - 120usize];
    ["Offset of field: aw_released::len"][::core::mem::offset_of!(aw_released, len) - 128usize];
    ["Offset of field: aw_released::mark"][::core::mem::offset_of!(aw_released, mark) - 132usize];
    ["Offset of field: aw_released::priority"]
        [::core::mem::offset_of!(aw_released, priority) - 136usize];
    ["Offset of field: aw_released::cloning"]
        [::core::mem::offset_of!(aw_released, cloning) - 140usize];
    ["Offset of field: aw_released::skipped"]
        [::core::mem::offset_of!(aw_released, skipped) - 144usize];
    ["Offset of field: aw_released::generation"]
        [::core::mem::offset_of!(aw_released, generation) - 148usize];
};
impl Default for aw_released {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[doc = " A map's value: counters, and memory that a BPF stack of 512 bytes cannot provide."]
#[repr(C)]
#[derive(Copy, Clone)]
pub struct aw_percpu {
    pub counters: aw_counters,
    #[doc = " the current packet: nothing preempts the hook"]
    pub seg: aw_seg,
    #[doc = " of its flow"]
    pub key: aw_key,
    #[doc = " the number of the flow's lock, while it is held"]
    pub lock: aw_u32,
    pub decision: aw_decision,
    #[doc = " of a flow that is about to be created"]
    pub fresh: aw_entry,
    pub released: aw_released,
    #[doc = " of the options of the current packet"]
    pub search: aw_ack_rate_search,
    #[doc = " jiffies when the coarse clock was read"]
    pub coarse_tick: aw_u64,
    #[doc = " the time that was read"]
    pub coarse_ns: aw_u64,
    #[doc = " the time that was read"]
    pub coarse_us: aw_u64,
    #[doc = " the rest of what left, as uplink.h counts"]
    pub left_rest_bytes: aw_u64,
    #[doc = " others"]
    pub left_others_bytes: aw_u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_percpu"][::core::mem::size_of::<aw_percpu>() - 2984usize];
    ["Alignment of aw_percpu"][::core::mem::align_of::<aw_percpu>() - 8usize];
    ["Offset of field: aw_percpu::counters"][::core::mem::offset_of!(aw_percpu, counters) - 0usize];
    ["Offset of field: aw_percpu::seg"][::core::mem::offset_of!(aw_percpu, seg) - 2048usize];
    ["Offset of field: aw_percpu::key"][::core::mem::offset_of!(aw_percpu, key) - 2176usize];
    ["Offset of field: aw_percpu::lock"][::core::mem::offset_of!(aw_percpu, lock) - 2216usize];
    ["Offset of field: aw_percpu::decision"]
        [::core::mem::offset_of!(aw_percpu, decision) - 2224usize];
    ["Offset of field: aw_percpu::fresh"][::core::mem::offset_of!(aw_percpu, fresh) - 2296usize];
    ["Offset of field: aw_percpu::released"]
        [::core::mem::offset_of!(aw_percpu, released) - 2728usize];
    ["Offset of field: aw_percpu::search"][::core::mem::offset_of!(aw_percpu, search) - 2880usize];
    ["Offset of field: aw_percpu::coarse_tick"]
        [::core::mem::offset_of!(aw_percpu, coarse_tick) - 2944usize];
    ["Offset of field: aw_percpu::coarse_ns"]
        [::core::mem::offset_of!(aw_percpu, coarse_ns) - 2952usize];
    ["Offset of field: aw_percpu::coarse_us"]
        [::core::mem::offset_of!(aw_percpu, coarse_us) - 2960usize];
    ["Offset of field: aw_percpu::left_rest_bytes"]
        [::core::mem::offset_of!(aw_percpu, left_rest_bytes) - 2968usize];
    ["Offset of field: aw_percpu::left_others_bytes"]
        [::core::mem::offset_of!(aw_percpu, left_others_bytes) - 2976usize];
};
impl Default for aw_percpu {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
