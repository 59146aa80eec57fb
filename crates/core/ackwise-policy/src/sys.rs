// @generated from policy/src/shim.h by scripts/bindings; do not edit.

pub const AW_PARAMS: u32 = 12;
pub const AW_POLICY_STATE: u32 = 64;
pub const AW_SACK_BLOCKS: u32 = 4;
pub const AW_OFF_MAX: u32 = 16383;
pub const AW_OPT_BYTES: u32 = 40;
pub const AW_START_SEGMENTS: u32 = 10;
pub const AW_BEHIND_BYTES: u32 = 16777216;
pub const AW_ACE_SAFE_SEGMENTS: u32 = 4;
pub const AW_RESTART_US: u32 = 200000;
pub const AW_NEAR_ZERO_SEGMENTS: u32 = 2;
pub const AW_LIMITED_SHARE_SHIFT: u32 = 5;
pub const AW_LIMITED_FREE_SHIFT: u32 = 3;
pub const AW_MSS_DEFAULT: u32 = 536;
pub const AW_NONE_NEEDS: u32 = 0;
pub const AW_ADAPTIVE_GROWTH_SHIFT: u32 = 2;
pub const AW_ADAPTIVE_ROUND_MIN_US: u32 = 2000;
pub const AW_ADAPTIVE_PAUSE_RTTS: u32 = 4;
pub const AW_ADAPTIVE_RTT_MAX_US: u32 = 4000000;
pub const AW_ADAPTIVE_SHARED_US: u32 = 30000000;
pub const AW_ADAPTIVE_STARTUP_MIN_SEGMENTS: u32 = 64;
pub const AW_ADAPTIVE_STARTUP_QUEUE_US: u32 = 25000;
pub const AW_ADAPTIVE_STARTUP_THIN_US: u32 = 2000;
pub const AW_ADAPTIVE_STARTUP_SEGMENTS: u32 = 8;
pub const AW_ADAPTIVE_QUEUE_SHIFT: u32 = 3;
pub const AW_ADAPTIVE_BUSY_WINDOW_SHIFT: u32 = 2;
pub const AW_ADAPTIVE_RTT_UNKNOWN_US: u32 = 4000;
pub const AW_RATE_LIMIT_W_UNKNOWN: u32 = 45;
pub const AW_RATE_LIMIT_W_MAX: u32 = 65000;
pub const AW_RATE_LIMIT_LITERAL_W_UNKNOWN: u32 = 45;
pub const AW_RATE_LIMIT_LITERAL_W_MAX: u32 = 65000;
pub const AW_RATE_LIMIT_LITERAL_MAX: u32 = 64;
pub const AW_POLICE_SECOND_US: u32 = 1000000;
pub const AW_WINDOWED_MIN_NONE: u32 = 4294967295;
pub const AW_ACC_SHARE: u32 = 2;
pub const AW_ARRIVALS_MAX_GAP_US: u32 = 500000;
pub const AW_HOP_UNKNOWN: u32 = 10;
pub const AW_RTT_UNKNOWN_US: u32 = 4000;
pub const AW_RTT_WINDOW_US: u32 = 120000000;
pub const AW_RTT_SAMPLE_SPAN: u32 = 4;
pub const AW_UPLINK_LOOK_US: u32 = 100000;
pub const AW_UPLINK_MEAN_SHIFT: u32 = 4;
pub const AW_UPLINK_WINDOW: u32 = 300;
pub const AW_UPLINK_SHARE_SHIFT: u32 = 3;
pub const AW_UPLINK_STAYS: u32 = 20;
pub const AW_UPLINK_PACKETS_BYTES: u32 = 3028;
pub const AW_UPLINK_FULL_BYTES: u32 = 1000;
pub const AW_HOLD_MAX_US: u32 = 25000;
pub const AW_HOLD_MIN_US: u32 = 1000;
pub const AW_HOLD_RTT_SHIFT: u32 = 2;
pub const AW_ACK_RATE_KIND: u32 = 254;
pub const AW_ACK_RATE_EXID: u32 = 172;
pub const AW_ACK_RATE_CAPABLE_LEN: u32 = 4;
pub const AW_ACK_RATE_REQUEST_LEN: u32 = 5;
pub const AW_ACK_RATE_MAX: u32 = 127;
pub const AW_ACK_RATE_NOW: u32 = 0;
pub const AW_ACK_CONTROL_EXID: u32 = 5690;
pub const AW_TCP_ACK_REQUEST: u32 = 2048;
pub const AW_TCP_ACK_SKIPPED: u32 = 2048;
pub const AW_ACK_RATIO_LEAST: u32 = 2;
pub const AW_ACK_RATIO_SHARE: u32 = 2;
pub const AW_ACK_RATIO_REORDERED: u32 = 3;
pub type aw_u8 = ::core::ffi::c_uchar;
pub type aw_u16 = ::core::ffi::c_ushort;
pub type aw_u32 = ::core::ffi::c_uint;
pub type aw_u64 = ::core::ffi::c_ulonglong;
pub type aw_s32 = ::core::ffi::c_int;
pub const AW_CAP_SEE_DATA: aw_capability = 1;
pub const AW_CAP_HOLD: aw_capability = 2;
pub const AW_CAP_MAKE_ACKS: aw_capability = 4;
pub const AW_CAP_OWN_QUEUE: aw_capability = 8;
pub const AW_READS_TIME: aw_capability = 65536;
pub const AW_READS_BUSY: aw_capability = 131072;
pub type aw_capability = ::core::ffi::c_uint;
pub const AW_EV_DATA: aw_event_kind = 0;
pub const AW_EV_ACK: aw_event_kind = 1;
pub const AW_EV_DEADLINE: aw_event_kind = 2;
pub const AW_EV_KINDS: aw_event_kind = 3;
pub type aw_event_kind = ::core::ffi::c_uint;
pub const AW_D_OUT_OF_ORDER: aw_event_flag = 1;
pub const AW_D_FILLS_GAP: aw_event_flag = 2;
pub const AW_D_CE: aw_event_flag = 4;
pub const AW_D_PSH: aw_event_flag = 8;
pub const AW_D_ACK_CE_ECHO: aw_event_flag = 16;
pub const AW_A_MUST_SEND: aw_event_flag = 256;
pub const AW_A_RECOVERY: aw_event_flag = 512;
pub const AW_A_HOLDING: aw_event_flag = 1024;
pub const AW_A_OTHERS: aw_event_flag = 2048;
pub const AW_A_SHARED: aw_event_flag = 4096;
pub const AW_A_BUSY: aw_event_flag = 8192;
pub type aw_event_flag = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_event {
    pub now_us: aw_u64,
    pub kind: aw_u32,
    pub flags: aw_u32,
    pub bytes: aw_u32,
    pub segments: aw_u32,
    pub len: aw_u32,
    pub hops: aw_u32,
    pub peer_wnd: aw_u32,
    pub mss: aw_u32,
    pub rcv_wnd: aw_u32,
    pub srtt_us: aw_u32,
    pub min_rtt_us: aw_u32,
    pub hold_us: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_event"][::core::mem::size_of::<aw_event>() - 56usize];
    ["Alignment of aw_event"][::core::mem::align_of::<aw_event>() - 8usize];
    ["Offset of field: aw_event::now_us"][::core::mem::offset_of!(aw_event, now_us) - 0usize];
    ["Offset of field: aw_event::kind"][::core::mem::offset_of!(aw_event, kind) - 8usize];
    ["Offset of field: aw_event::flags"][::core::mem::offset_of!(aw_event, flags) - 12usize];
    ["Offset of field: aw_event::bytes"][::core::mem::offset_of!(aw_event, bytes) - 16usize];
    ["Offset of field: aw_event::segments"][::core::mem::offset_of!(aw_event, segments) - 20usize];
    ["Offset of field: aw_event::len"][::core::mem::offset_of!(aw_event, len) - 24usize];
    ["Offset of field: aw_event::hops"][::core::mem::offset_of!(aw_event, hops) - 28usize];
    ["Offset of field: aw_event::peer_wnd"][::core::mem::offset_of!(aw_event, peer_wnd) - 32usize];
    ["Offset of field: aw_event::mss"][::core::mem::offset_of!(aw_event, mss) - 36usize];
    ["Offset of field: aw_event::rcv_wnd"][::core::mem::offset_of!(aw_event, rcv_wnd) - 40usize];
    ["Offset of field: aw_event::srtt_us"][::core::mem::offset_of!(aw_event, srtt_us) - 44usize];
    ["Offset of field: aw_event::min_rtt_us"]
        [::core::mem::offset_of!(aw_event, min_rtt_us) - 48usize];
    ["Offset of field: aw_event::hold_us"][::core::mem::offset_of!(aw_event, hold_us) - 52usize];
};
pub const AW_SEND: aw_verdict_kind = 0;
pub const AW_HOLD: aw_verdict_kind = 1;
pub const AW_DROP: aw_verdict_kind = 2;
pub const AW_VERDICTS: aw_verdict_kind = 3;
pub type aw_verdict_kind = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_verdict {
    pub kind: aw_u32,
    pub hold_us: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_verdict"][::core::mem::size_of::<aw_verdict>() - 8usize];
    ["Alignment of aw_verdict"][::core::mem::align_of::<aw_verdict>() - 4usize];
    ["Offset of field: aw_verdict::kind"][::core::mem::offset_of!(aw_verdict, kind) - 0usize];
    ["Offset of field: aw_verdict::hold_us"][::core::mem::offset_of!(aw_verdict, hold_us) - 4usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_cfg {
    pub policy: aw_u32,
    pub reserved: aw_u32,
    pub param: [aw_u32; 12usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_cfg"][::core::mem::size_of::<aw_cfg>() - 56usize];
    ["Alignment of aw_cfg"][::core::mem::align_of::<aw_cfg>() - 4usize];
    ["Offset of field: aw_cfg::policy"][::core::mem::offset_of!(aw_cfg, policy) - 0usize];
    ["Offset of field: aw_cfg::reserved"][::core::mem::offset_of!(aw_cfg, reserved) - 4usize];
    ["Offset of field: aw_cfg::param"][::core::mem::offset_of!(aw_cfg, param) - 8usize];
};
pub const AW_TCP_FIN: aw_tcp_flag = 1;
pub const AW_TCP_SYN: aw_tcp_flag = 2;
pub const AW_TCP_RST: aw_tcp_flag = 4;
pub const AW_TCP_PSH: aw_tcp_flag = 8;
pub const AW_TCP_ACK: aw_tcp_flag = 16;
pub const AW_TCP_URG: aw_tcp_flag = 32;
pub const AW_TCP_ECE: aw_tcp_flag = 64;
pub const AW_TCP_CWR: aw_tcp_flag = 128;
pub const AW_TCP_AE: aw_tcp_flag = 256;
pub const AW_TCP_RESERVED: aw_tcp_flag = 3584;
pub type aw_tcp_flag = ::core::ffi::c_uint;
pub const AW_OPT_MSS: aw_tcp_opt = 1;
pub const AW_OPT_WSCALE: aw_tcp_opt = 2;
pub const AW_OPT_SACK_OK: aw_tcp_opt = 4;
pub const AW_OPT_SACK: aw_tcp_opt = 8;
pub const AW_OPT_TS: aw_tcp_opt = 16;
pub const AW_OPT_ACCECN: aw_tcp_opt = 32;
pub const AW_OPT_UNKNOWN: aw_tcp_opt = 64;
pub type aw_tcp_opt = ::core::ffi::c_uint;
pub const AW_PARSE_OK: aw_parse_status = 0;
pub const AW_PARSE_NOT_TCP: aw_parse_status = 1;
pub const AW_PARSE_FRAGMENT: aw_parse_status = 2;
pub const AW_PARSE_TRUNCATED: aw_parse_status = 3;
pub const AW_PARSE_MALFORMED: aw_parse_status = 4;
pub const AW_PARSE_STATUSES: aw_parse_status = 5;
pub type aw_parse_status = ::core::ffi::c_uint;
pub const AW_LINK_ETHERNET: aw_link = 0;
pub const AW_LINK_IP: aw_link = 1;
pub const AW_LINKS: aw_link = 2;
pub type aw_link = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_addr {
    pub w: [aw_u32; 4usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_addr"][::core::mem::size_of::<aw_addr>() - 16usize];
    ["Alignment of aw_addr"][::core::mem::align_of::<aw_addr>() - 4usize];
    ["Offset of field: aw_addr::w"][::core::mem::offset_of!(aw_addr, w) - 0usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_seg {
    pub src: aw_addr,
    pub dst: aw_addr,
    pub sport: aw_u16,
    pub dport: aw_u16,
    pub ip_version: aw_u8,
    pub ip_ecn: aw_u8,
    pub ttl: aw_u8,
    pub wscale: aw_u8,
    pub seq: aw_u32,
    pub ack: aw_u32,
    pub payload: aw_u32,
    pub len: aw_u32,
    pub flags: aw_u16,
    pub window: aw_u16,
    pub mss: aw_u16,
    pub opts: aw_u16,
    pub tsval: aw_u32,
    pub tsecr: aw_u32,
    pub ce_bytes: aw_u32,
    pub e0_bytes: aw_u32,
    pub e1_bytes: aw_u32,
    pub n_sack: aw_u32,
    pub sack: [aw_u32; 8usize],
    pub l3_off: aw_u16,
    pub l4_off: aw_u16,
    pub l4_len: aw_u16,
    pub reserved: aw_u16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_seg"][::core::mem::size_of::<aw_seg>() - 128usize];
    ["Alignment of aw_seg"][::core::mem::align_of::<aw_seg>() - 4usize];
    ["Offset of field: aw_seg::src"][::core::mem::offset_of!(aw_seg, src) - 0usize];
    ["Offset of field: aw_seg::dst"][::core::mem::offset_of!(aw_seg, dst) - 16usize];
    ["Offset of field: aw_seg::sport"][::core::mem::offset_of!(aw_seg, sport) - 32usize];
    ["Offset of field: aw_seg::dport"][::core::mem::offset_of!(aw_seg, dport) - 34usize];
    ["Offset of field: aw_seg::ip_version"][::core::mem::offset_of!(aw_seg, ip_version) - 36usize];
    ["Offset of field: aw_seg::ip_ecn"][::core::mem::offset_of!(aw_seg, ip_ecn) - 37usize];
    ["Offset of field: aw_seg::ttl"][::core::mem::offset_of!(aw_seg, ttl) - 38usize];
    ["Offset of field: aw_seg::wscale"][::core::mem::offset_of!(aw_seg, wscale) - 39usize];
    ["Offset of field: aw_seg::seq"][::core::mem::offset_of!(aw_seg, seq) - 40usize];
    ["Offset of field: aw_seg::ack"][::core::mem::offset_of!(aw_seg, ack) - 44usize];
    ["Offset of field: aw_seg::payload"][::core::mem::offset_of!(aw_seg, payload) - 48usize];
    ["Offset of field: aw_seg::len"][::core::mem::offset_of!(aw_seg, len) - 52usize];
    ["Offset of field: aw_seg::flags"][::core::mem::offset_of!(aw_seg, flags) - 56usize];
    ["Offset of field: aw_seg::window"][::core::mem::offset_of!(aw_seg, window) - 58usize];
    ["Offset of field: aw_seg::mss"][::core::mem::offset_of!(aw_seg, mss) - 60usize];
    ["Offset of field: aw_seg::opts"][::core::mem::offset_of!(aw_seg, opts) - 62usize];
    ["Offset of field: aw_seg::tsval"][::core::mem::offset_of!(aw_seg, tsval) - 64usize];
    ["Offset of field: aw_seg::tsecr"][::core::mem::offset_of!(aw_seg, tsecr) - 68usize];
    ["Offset of field: aw_seg::ce_bytes"][::core::mem::offset_of!(aw_seg, ce_bytes) - 72usize];
    ["Offset of field: aw_seg::e0_bytes"][::core::mem::offset_of!(aw_seg, e0_bytes) - 76usize];
    ["Offset of field: aw_seg::e1_bytes"][::core::mem::offset_of!(aw_seg, e1_bytes) - 80usize];
    ["Offset of field: aw_seg::n_sack"][::core::mem::offset_of!(aw_seg, n_sack) - 84usize];
    ["Offset of field: aw_seg::sack"][::core::mem::offset_of!(aw_seg, sack) - 88usize];
    ["Offset of field: aw_seg::l3_off"][::core::mem::offset_of!(aw_seg, l3_off) - 120usize];
    ["Offset of field: aw_seg::l4_off"][::core::mem::offset_of!(aw_seg, l4_off) - 122usize];
    ["Offset of field: aw_seg::l4_len"][::core::mem::offset_of!(aw_seg, l4_len) - 124usize];
    ["Offset of field: aw_seg::reserved"][::core::mem::offset_of!(aw_seg, reserved) - 126usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aw_opt_buf {
    pub b: [aw_u8; 80usize],
    pub at: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_opt_buf"][::core::mem::size_of::<aw_opt_buf>() - 84usize];
    ["Alignment of aw_opt_buf"][::core::mem::align_of::<aw_opt_buf>() - 4usize];
    ["Offset of field: aw_opt_buf::b"][::core::mem::offset_of!(aw_opt_buf, b) - 0usize];
    ["Offset of field: aw_opt_buf::at"][::core::mem::offset_of!(aw_opt_buf, at) - 80usize];
};
impl Default for aw_opt_buf {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const AW_HS_SYN_DATA: aw_handshake_flag = 1;
pub const AW_HS_SYN_ACKS: aw_handshake_flag = 2;
pub const AW_HS_WSCALE_DATA: aw_handshake_flag = 4;
pub const AW_HS_WSCALE_ACKS: aw_handshake_flag = 8;
pub const AW_HS_ACCECN: aw_handshake_flag = 16;
pub const AW_HS_DONE: aw_handshake_flag = 32;
pub const AW_HS_ASKS_ACCECN: aw_handshake_flag = 64;
pub const AW_HS_FROM_ACKS: aw_handshake_flag = 128;
pub type aw_handshake_flag = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_handshake {
    pub syn_us: aw_u32,
    pub synack_us: aw_u32,
    pub rtt_us: aw_u32,
    pub mss: aw_u16,
    pub wscale: [aw_u8; 2usize],
    pub flags: aw_u16,
    pub reserved: aw_u16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_handshake"][::core::mem::size_of::<aw_handshake>() - 20usize];
    ["Alignment of aw_handshake"][::core::mem::align_of::<aw_handshake>() - 4usize];
    ["Offset of field: aw_handshake::syn_us"]
        [::core::mem::offset_of!(aw_handshake, syn_us) - 0usize];
    ["Offset of field: aw_handshake::synack_us"]
        [::core::mem::offset_of!(aw_handshake, synack_us) - 4usize];
    ["Offset of field: aw_handshake::rtt_us"]
        [::core::mem::offset_of!(aw_handshake, rtt_us) - 8usize];
    ["Offset of field: aw_handshake::mss"][::core::mem::offset_of!(aw_handshake, mss) - 12usize];
    ["Offset of field: aw_handshake::wscale"]
        [::core::mem::offset_of!(aw_handshake, wscale) - 14usize];
    ["Offset of field: aw_handshake::flags"]
        [::core::mem::offset_of!(aw_handshake, flags) - 16usize];
    ["Offset of field: aw_handshake::reserved"]
        [::core::mem::offset_of!(aw_handshake, reserved) - 18usize];
};
pub const AW_R_HELD: aw_reason = 0;
pub const AW_R_DROPPED: aw_reason = 1;
pub const AW_R_POLICY: aw_reason = 2;
pub const AW_R_NOT_ACK: aw_reason = 3;
pub const AW_R_PAYLOAD: aw_reason = 4;
pub const AW_R_FLAGS: aw_reason = 5;
pub const AW_R_OPTION: aw_reason = 6;
pub const AW_R_FIRST: aw_reason = 7;
pub const AW_R_START: aw_reason = 8;
pub const AW_R_DUPLICATE: aw_reason = 9;
pub const AW_R_WINDOW_UPDATE: aw_reason = 10;
pub const AW_R_OLD: aw_reason = 11;
pub const AW_R_SACK: aw_reason = 12;
pub const AW_R_RECOVERY: aw_reason = 13;
pub const AW_R_ECN: aw_reason = 14;
pub const AW_R_ACE_WRAP: aw_reason = 15;
pub const AW_R_SHRINK: aw_reason = 16;
pub const AW_R_OPEN: aw_reason = 17;
pub const AW_R_TIMESTAMP: aw_reason = 18;
pub const AW_R_NO_HOLD: aw_reason = 19;
pub const AW_R_UNACCEPTABLE: aw_reason = 20;
pub const AW_REASON_COUNT: aw_reason = 21;
pub type aw_reason = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_ack_state {
    pub rcvd_ack: aw_u32,
    pub sent_ack: aw_u32,
    pub rcvd_right_edge: aw_u32,
    pub sent_right_edge: aw_u32,
    pub rcvd_wnd: aw_u32,
    pub sent_wnd: aw_u32,
    pub tsval: aw_u32,
    pub ce_bytes: aw_u32,
    pub e0_bytes: aw_u32,
    pub e1_bytes: aw_u32,
    pub started: aw_u8,
    pub sack_flags: aw_u8,
    pub accecn: aw_u8,
    pub moved: aw_u8,
    pub recover: aw_u32,
    pub advanced: aw_u32,
    pub probe_edge: aw_u32,
    pub end: aw_u32,
    pub ecn: aw_u16,
    pub n_sack: aw_u8,
    pub flags: aw_u8,
    pub sack: [aw_u32; 8usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_ack_state"][::core::mem::size_of::<aw_ack_state>() - 96usize];
    ["Alignment of aw_ack_state"][::core::mem::align_of::<aw_ack_state>() - 4usize];
    ["Offset of field: aw_ack_state::rcvd_ack"]
        [::core::mem::offset_of!(aw_ack_state, rcvd_ack) - 0usize];
    ["Offset of field: aw_ack_state::sent_ack"]
        [::core::mem::offset_of!(aw_ack_state, sent_ack) - 4usize];
    ["Offset of field: aw_ack_state::rcvd_right_edge"]
        [::core::mem::offset_of!(aw_ack_state, rcvd_right_edge) - 8usize];
    ["Offset of field: aw_ack_state::sent_right_edge"]
        [::core::mem::offset_of!(aw_ack_state, sent_right_edge) - 12usize];
    ["Offset of field: aw_ack_state::rcvd_wnd"]
        [::core::mem::offset_of!(aw_ack_state, rcvd_wnd) - 16usize];
    ["Offset of field: aw_ack_state::sent_wnd"]
        [::core::mem::offset_of!(aw_ack_state, sent_wnd) - 20usize];
    ["Offset of field: aw_ack_state::tsval"]
        [::core::mem::offset_of!(aw_ack_state, tsval) - 24usize];
    ["Offset of field: aw_ack_state::ce_bytes"]
        [::core::mem::offset_of!(aw_ack_state, ce_bytes) - 28usize];
    ["Offset of field: aw_ack_state::e0_bytes"]
        [::core::mem::offset_of!(aw_ack_state, e0_bytes) - 32usize];
    ["Offset of field: aw_ack_state::e1_bytes"]
        [::core::mem::offset_of!(aw_ack_state, e1_bytes) - 36usize];
    ["Offset of field: aw_ack_state::started"]
        [::core::mem::offset_of!(aw_ack_state, started) - 40usize];
    ["Offset of field: aw_ack_state::sack_flags"]
        [::core::mem::offset_of!(aw_ack_state, sack_flags) - 41usize];
    ["Offset of field: aw_ack_state::accecn"]
        [::core::mem::offset_of!(aw_ack_state, accecn) - 42usize];
    ["Offset of field: aw_ack_state::moved"]
        [::core::mem::offset_of!(aw_ack_state, moved) - 43usize];
    ["Offset of field: aw_ack_state::recover"]
        [::core::mem::offset_of!(aw_ack_state, recover) - 44usize];
    ["Offset of field: aw_ack_state::advanced"]
        [::core::mem::offset_of!(aw_ack_state, advanced) - 48usize];
    ["Offset of field: aw_ack_state::probe_edge"]
        [::core::mem::offset_of!(aw_ack_state, probe_edge) - 52usize];
    ["Offset of field: aw_ack_state::end"][::core::mem::offset_of!(aw_ack_state, end) - 56usize];
    ["Offset of field: aw_ack_state::ecn"][::core::mem::offset_of!(aw_ack_state, ecn) - 60usize];
    ["Offset of field: aw_ack_state::n_sack"]
        [::core::mem::offset_of!(aw_ack_state, n_sack) - 62usize];
    ["Offset of field: aw_ack_state::flags"]
        [::core::mem::offset_of!(aw_ack_state, flags) - 63usize];
    ["Offset of field: aw_ack_state::sack"][::core::mem::offset_of!(aw_ack_state, sack) - 64usize];
};
pub const AW_ACK_VALID: aw_ack_flag = 1;
pub const AW_ACK_TS: aw_ack_flag = 2;
pub const AW_ACK_HOLDING: aw_ack_flag = 4;
pub const AW_ACK_ACCECN: aw_ack_flag = 8;
pub const AW_ACK_RECOVERING: aw_ack_flag = 16;
pub type aw_ack_flag = ::core::ffi::c_uint;
pub const AW_SACK_WAITS: aw_sack_flag = 1;
pub const AW_SACK_UNSENT: aw_sack_flag = 2;
pub const AW_SACK_UNSENT_MASK: aw_sack_flag = 14;
pub const AW_SACK_DUPLICATE: aw_sack_flag = 16;
pub const AW_SACK_REPAIRS: aw_sack_flag = 64;
pub type aw_sack_flag = ::core::ffi::c_uint;
pub const AW_TOKEN_NEAR: aw_token = 32;
pub const AW_TOKEN_FAR: aw_token = 64;
pub const AW_TOKEN_LOSS: aw_token = 128;
pub type aw_token = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_data_state {
    pub high: aw_u32,
    pub recover: aw_u32,
    pub mss: aw_u32,
    pub wnd: aw_u32,
    pub valid: aw_u8,
    pub flags: aw_u8,
    pub limited: aw_u8,
    pub reserved: aw_u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_data_state"][::core::mem::size_of::<aw_data_state>() - 20usize];
    ["Alignment of aw_data_state"][::core::mem::align_of::<aw_data_state>() - 4usize];
    ["Offset of field: aw_data_state::high"][::core::mem::offset_of!(aw_data_state, high) - 0usize];
    ["Offset of field: aw_data_state::recover"]
        [::core::mem::offset_of!(aw_data_state, recover) - 4usize];
    ["Offset of field: aw_data_state::mss"][::core::mem::offset_of!(aw_data_state, mss) - 8usize];
    ["Offset of field: aw_data_state::wnd"][::core::mem::offset_of!(aw_data_state, wnd) - 12usize];
    ["Offset of field: aw_data_state::valid"]
        [::core::mem::offset_of!(aw_data_state, valid) - 16usize];
    ["Offset of field: aw_data_state::flags"]
        [::core::mem::offset_of!(aw_data_state, flags) - 17usize];
    ["Offset of field: aw_data_state::limited"]
        [::core::mem::offset_of!(aw_data_state, limited) - 18usize];
    ["Offset of field: aw_data_state::reserved"]
        [::core::mem::offset_of!(aw_data_state, reserved) - 19usize];
};
pub const AW_ACCECN_CE: aw_accecn_field = 1;
pub const AW_ACCECN_E0: aw_accecn_field = 2;
pub const AW_ACCECN_E1: aw_accecn_field = 4;
pub const AW_ACCECN_OPTION: aw_accecn_field = 8;
pub type aw_accecn_field = ::core::ffi::c_uint;
pub const AW_SACK_SAME: aw_sack_change = 0;
pub const AW_SACK_CHANGED: aw_sack_change = 1;
pub const AW_SACK_DSACK: aw_sack_change = 2;
pub type aw_sack_change = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_none_state {
    pub unused: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_none_state"][::core::mem::size_of::<aw_none_state>() - 4usize];
    ["Alignment of aw_none_state"][::core::mem::align_of::<aw_none_state>() - 4usize];
    ["Offset of field: aw_none_state::unused"]
        [::core::mem::offset_of!(aw_none_state, unused) - 0usize];
};
pub const AW_EVERY_N_n: aw_every_n_param = 0;
pub const AW_EVERY_N_warm: aw_every_n_param = 1;
pub type aw_every_n_param = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_every_n_state {
    pub seen: aw_u32,
    pub pending: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_every_n_state"][::core::mem::size_of::<aw_every_n_state>() - 8usize];
    ["Alignment of aw_every_n_state"][::core::mem::align_of::<aw_every_n_state>() - 4usize];
    ["Offset of field: aw_every_n_state::seen"]
        [::core::mem::offset_of!(aw_every_n_state, seen) - 0usize];
    ["Offset of field: aw_every_n_state::pending"]
        [::core::mem::offset_of!(aw_every_n_state, pending) - 4usize];
};
pub const AW_ADAPTIVE_acks_per_rtt: aw_adaptive_param = 0;
pub const AW_ADAPTIVE_max_segments: aw_adaptive_param = 1;
pub const AW_ADAPTIVE_plateau: aw_adaptive_param = 2;
pub const AW_ADAPTIVE_start_segments: aw_adaptive_param = 3;
pub const AW_ADAPTIVE_window_share: aw_adaptive_param = 4;
pub const AW_ADAPTIVE_idle_us: aw_adaptive_param = 5;
pub const AW_ADAPTIVE_after_loss_rtts: aw_adaptive_param = 6;
pub const AW_ADAPTIVE_busy_us: aw_adaptive_param = 7;
pub type aw_adaptive_param = ::core::ffi::c_uint;
pub const AW_ADAPTIVE_STARTUP: aw_adaptive_phase = 0;
pub const AW_ADAPTIVE_SHARED: aw_adaptive_phase = 1;
pub const AW_ADAPTIVE_STEADY: aw_adaptive_phase = 2;
pub const AW_ADAPTIVE_BUFFERBLOAT: aw_adaptive_phase = 3;
pub const AW_ADAPTIVE_LOSS_RECOVERY: aw_adaptive_phase = 4;
pub const AW_ADAPTIVE_RANDOM_LOSS: aw_adaptive_phase = 5;
pub type aw_adaptive_phase = ::core::ffi::c_uint;
pub const AW_ADAPTIVE_LOSS_NONE: aw_adaptive_loss = 0;
pub const AW_ADAPTIVE_LOSS_RANDOM: aw_adaptive_loss = 1;
pub const AW_ADAPTIVE_LOSS_OVERFLOW: aw_adaptive_loss = 2;
pub type aw_adaptive_loss = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_adaptive_state {
    pub sent_us: aw_u32,
    pub rcvd_us: aw_u32,
    pub loss_us: aw_u32,
    pub round_us: aw_u32,
    pub round_bytes: aw_u32,
    pub pending: aw_u32,
    pub peak: aw_u32,
    pub started: aw_u32,
    pub filled: aw_u8,
    pub flat: aw_u8,
    pub valid: aw_u8,
    pub loss: aw_u8,
    pub shared_us: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_adaptive_state"][::core::mem::size_of::<aw_adaptive_state>() - 40usize];
    ["Alignment of aw_adaptive_state"][::core::mem::align_of::<aw_adaptive_state>() - 4usize];
    ["Offset of field: aw_adaptive_state::sent_us"]
        [::core::mem::offset_of!(aw_adaptive_state, sent_us) - 0usize];
    ["Offset of field: aw_adaptive_state::rcvd_us"]
        [::core::mem::offset_of!(aw_adaptive_state, rcvd_us) - 4usize];
    ["Offset of field: aw_adaptive_state::loss_us"]
        [::core::mem::offset_of!(aw_adaptive_state, loss_us) - 8usize];
    ["Offset of field: aw_adaptive_state::round_us"]
        [::core::mem::offset_of!(aw_adaptive_state, round_us) - 12usize];
    ["Offset of field: aw_adaptive_state::round_bytes"]
        [::core::mem::offset_of!(aw_adaptive_state, round_bytes) - 16usize];
    ["Offset of field: aw_adaptive_state::pending"]
        [::core::mem::offset_of!(aw_adaptive_state, pending) - 20usize];
    ["Offset of field: aw_adaptive_state::peak"]
        [::core::mem::offset_of!(aw_adaptive_state, peak) - 24usize];
    ["Offset of field: aw_adaptive_state::started"]
        [::core::mem::offset_of!(aw_adaptive_state, started) - 28usize];
    ["Offset of field: aw_adaptive_state::filled"]
        [::core::mem::offset_of!(aw_adaptive_state, filled) - 32usize];
    ["Offset of field: aw_adaptive_state::flat"]
        [::core::mem::offset_of!(aw_adaptive_state, flat) - 33usize];
    ["Offset of field: aw_adaptive_state::valid"]
        [::core::mem::offset_of!(aw_adaptive_state, valid) - 34usize];
    ["Offset of field: aw_adaptive_state::loss"]
        [::core::mem::offset_of!(aw_adaptive_state, loss) - 35usize];
    ["Offset of field: aw_adaptive_state::shared_us"]
        [::core::mem::offset_of!(aw_adaptive_state, shared_us) - 36usize];
};
pub const AW_RATE_LIMIT_start: aw_rate_limit_param = 0;
pub const AW_RATE_LIMIT_window: aw_rate_limit_param = 1;
pub const AW_RATE_LIMIT_r_max: aw_rate_limit_param = 2;
pub const AW_RATE_LIMIT_r_min: aw_rate_limit_param = 3;
pub const AW_RATE_LIMIT_hold: aw_rate_limit_param = 4;
pub const AW_RATE_LIMIT_slack: aw_rate_limit_param = 5;
pub type aw_rate_limit_param = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_rate_limit_state {
    pub start: aw_u32,
    pub seen: aw_u32,
    pub count: aw_u32,
    pub begin_us: aw_u32,
    pub best_us: aw_u32,
    pub r: aw_u32,
    pub hold: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_rate_limit_state"][::core::mem::size_of::<aw_rate_limit_state>() - 28usize];
    ["Alignment of aw_rate_limit_state"][::core::mem::align_of::<aw_rate_limit_state>() - 4usize];
    ["Offset of field: aw_rate_limit_state::start"]
        [::core::mem::offset_of!(aw_rate_limit_state, start) - 0usize];
    ["Offset of field: aw_rate_limit_state::seen"]
        [::core::mem::offset_of!(aw_rate_limit_state, seen) - 4usize];
    ["Offset of field: aw_rate_limit_state::count"]
        [::core::mem::offset_of!(aw_rate_limit_state, count) - 8usize];
    ["Offset of field: aw_rate_limit_state::begin_us"]
        [::core::mem::offset_of!(aw_rate_limit_state, begin_us) - 12usize];
    ["Offset of field: aw_rate_limit_state::best_us"]
        [::core::mem::offset_of!(aw_rate_limit_state, best_us) - 16usize];
    ["Offset of field: aw_rate_limit_state::r"]
        [::core::mem::offset_of!(aw_rate_limit_state, r) - 20usize];
    ["Offset of field: aw_rate_limit_state::hold"]
        [::core::mem::offset_of!(aw_rate_limit_state, hold) - 24usize];
};
pub const AW_RATE_LIMIT_LITERAL_start: aw_rate_limit_literal_param = 0;
pub const AW_RATE_LIMIT_LITERAL_jiffy: aw_rate_limit_literal_param = 1;
pub type aw_rate_limit_literal_param = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_rate_limit_literal_state {
    pub start_ack_lmt: aw_u32,
    pub init_pkt_cnt: aw_u32,
    pub ack_pkt_cnt: aw_u32,
    pub r: aw_u32,
    pub r_max: aw_u32,
    pub reserved: aw_u32,
    pub ack_time_t1: aw_u64,
    pub ack_time_delta: aw_u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_rate_limit_literal_state"]
        [::core::mem::size_of::<aw_rate_limit_literal_state>() - 40usize];
    ["Alignment of aw_rate_limit_literal_state"]
        [::core::mem::align_of::<aw_rate_limit_literal_state>() - 8usize];
    ["Offset of field: aw_rate_limit_literal_state::start_ack_lmt"]
        [::core::mem::offset_of!(aw_rate_limit_literal_state, start_ack_lmt) - 0usize];
    ["Offset of field: aw_rate_limit_literal_state::init_pkt_cnt"]
        [::core::mem::offset_of!(aw_rate_limit_literal_state, init_pkt_cnt) - 4usize];
    ["Offset of field: aw_rate_limit_literal_state::ack_pkt_cnt"]
        [::core::mem::offset_of!(aw_rate_limit_literal_state, ack_pkt_cnt) - 8usize];
    ["Offset of field: aw_rate_limit_literal_state::r"]
        [::core::mem::offset_of!(aw_rate_limit_literal_state, r) - 12usize];
    ["Offset of field: aw_rate_limit_literal_state::r_max"]
        [::core::mem::offset_of!(aw_rate_limit_literal_state, r_max) - 16usize];
    ["Offset of field: aw_rate_limit_literal_state::reserved"]
        [::core::mem::offset_of!(aw_rate_limit_literal_state, reserved) - 20usize];
    ["Offset of field: aw_rate_limit_literal_state::ack_time_t1"]
        [::core::mem::offset_of!(aw_rate_limit_literal_state, ack_time_t1) - 24usize];
    ["Offset of field: aw_rate_limit_literal_state::ack_time_delta"]
        [::core::mem::offset_of!(aw_rate_limit_literal_state, ack_time_delta) - 32usize];
};
pub const AW_POLICE_cir: aw_police_param = 0;
pub const AW_POLICE_cbs: aw_police_param = 1;
pub const AW_POLICE_overhead: aw_police_param = 2;
pub type aw_police_param = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_police_state {
    pub tokens: aw_u32,
    pub part: aw_u32,
    pub last_us: aw_u32,
    pub valid: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_police_state"][::core::mem::size_of::<aw_police_state>() - 16usize];
    ["Alignment of aw_police_state"][::core::mem::align_of::<aw_police_state>() - 4usize];
    ["Offset of field: aw_police_state::tokens"]
        [::core::mem::offset_of!(aw_police_state, tokens) - 0usize];
    ["Offset of field: aw_police_state::part"]
        [::core::mem::offset_of!(aw_police_state, part) - 4usize];
    ["Offset of field: aw_police_state::last_us"]
        [::core::mem::offset_of!(aw_police_state, last_us) - 8usize];
    ["Offset of field: aw_police_state::valid"]
        [::core::mem::offset_of!(aw_police_state, valid) - 12usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_windowed_min {
    pub min: aw_u32,
    pub next: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_windowed_min"][::core::mem::size_of::<aw_windowed_min>() - 8usize];
    ["Alignment of aw_windowed_min"][::core::mem::align_of::<aw_windowed_min>() - 4usize];
    ["Offset of field: aw_windowed_min::min"]
        [::core::mem::offset_of!(aw_windowed_min, min) - 0usize];
    ["Offset of field: aw_windowed_min::next"]
        [::core::mem::offset_of!(aw_windowed_min, next) - 4usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_windowed_max {
    pub max: aw_u32,
    pub next: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_windowed_max"][::core::mem::size_of::<aw_windowed_max>() - 8usize];
    ["Alignment of aw_windowed_max"][::core::mem::align_of::<aw_windowed_max>() - 4usize];
    ["Offset of field: aw_windowed_max::max"]
        [::core::mem::offset_of!(aw_windowed_max, max) - 0usize];
    ["Offset of field: aw_windowed_max::next"]
        [::core::mem::offset_of!(aw_windowed_max, next) - 4usize];
};
pub const AW_TACK_L: aw_tack_param = 0;
pub const AW_TACK_beta: aw_tack_param = 1;
pub const AW_TACK_theta: aw_tack_param = 2;
pub type aw_tack_param = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_tack_state {
    pub sent_us: aw_u32,
    pub pending: aw_u32,
    pub since_us: aw_u32,
    pub bytes: aw_u32,
    pub rate: aw_windowed_max,
    pub window_us: aw_u32,
    pub valid: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_tack_state"][::core::mem::size_of::<aw_tack_state>() - 32usize];
    ["Alignment of aw_tack_state"][::core::mem::align_of::<aw_tack_state>() - 4usize];
    ["Offset of field: aw_tack_state::sent_us"]
        [::core::mem::offset_of!(aw_tack_state, sent_us) - 0usize];
    ["Offset of field: aw_tack_state::pending"]
        [::core::mem::offset_of!(aw_tack_state, pending) - 4usize];
    ["Offset of field: aw_tack_state::since_us"]
        [::core::mem::offset_of!(aw_tack_state, since_us) - 8usize];
    ["Offset of field: aw_tack_state::bytes"]
        [::core::mem::offset_of!(aw_tack_state, bytes) - 12usize];
    ["Offset of field: aw_tack_state::rate"]
        [::core::mem::offset_of!(aw_tack_state, rate) - 16usize];
    ["Offset of field: aw_tack_state::window_us"]
        [::core::mem::offset_of!(aw_tack_state, window_us) - 24usize];
    ["Offset of field: aw_tack_state::valid"]
        [::core::mem::offset_of!(aw_tack_state, valid) - 28usize];
};
pub const AW_ACC_d_max: aw_acc_param = 0;
pub const AW_ACC_up: aw_acc_param = 1;
pub const AW_ACC_down: aw_acc_param = 2;
pub const AW_ACC_interval: aw_acc_param = 3;
pub const AW_ACC_rtt_us: aw_acc_param = 4;
pub type aw_acc_param = ::core::ffi::c_uint;
pub const AW_ACC_VALID: aw_acc_flag = 1;
pub const AW_ACC_RAISED: aw_acc_flag = 2;
pub type aw_acc_flag = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_acc_state {
    pub d: aw_u32,
    pub up_us: aw_u32,
    pub down_us: aw_u32,
    pub round_us: aw_u32,
    pub round: aw_u32,
    pub flight: aw_u32,
    pub pending: aw_u32,
    pub flags: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_acc_state"][::core::mem::size_of::<aw_acc_state>() - 32usize];
    ["Alignment of aw_acc_state"][::core::mem::align_of::<aw_acc_state>() - 4usize];
    ["Offset of field: aw_acc_state::d"][::core::mem::offset_of!(aw_acc_state, d) - 0usize];
    ["Offset of field: aw_acc_state::up_us"][::core::mem::offset_of!(aw_acc_state, up_us) - 4usize];
    ["Offset of field: aw_acc_state::down_us"]
        [::core::mem::offset_of!(aw_acc_state, down_us) - 8usize];
    ["Offset of field: aw_acc_state::round_us"]
        [::core::mem::offset_of!(aw_acc_state, round_us) - 12usize];
    ["Offset of field: aw_acc_state::round"]
        [::core::mem::offset_of!(aw_acc_state, round) - 16usize];
    ["Offset of field: aw_acc_state::flight"]
        [::core::mem::offset_of!(aw_acc_state, flight) - 20usize];
    ["Offset of field: aw_acc_state::pending"]
        [::core::mem::offset_of!(aw_acc_state, pending) - 24usize];
    ["Offset of field: aw_acc_state::flags"]
        [::core::mem::offset_of!(aw_acc_state, flags) - 28usize];
};
pub const AW_DDA_l1: aw_dda_param = 0;
pub const AW_DDA_l2: aw_dda_param = 1;
pub const AW_DDA_l3: aw_dda_param = 2;
pub const AW_DDA_timeout: aw_dda_param = 3;
pub const AW_DDA_restart: aw_dda_param = 4;
pub type aw_dda_param = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_dda_state {
    pub seen: aw_u32,
    pub pending: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_dda_state"][::core::mem::size_of::<aw_dda_state>() - 8usize];
    ["Alignment of aw_dda_state"][::core::mem::align_of::<aw_dda_state>() - 4usize];
    ["Offset of field: aw_dda_state::seen"][::core::mem::offset_of!(aw_dda_state, seen) - 0usize];
    ["Offset of field: aw_dda_state::pending"]
        [::core::mem::offset_of!(aw_dda_state, pending) - 4usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_arrivals {
    pub last_us: aw_u32,
    pub gap_us: aw_u32,
    pub running: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_arrivals"][::core::mem::size_of::<aw_arrivals>() - 12usize];
    ["Alignment of aw_arrivals"][::core::mem::align_of::<aw_arrivals>() - 4usize];
    ["Offset of field: aw_arrivals::last_us"]
        [::core::mem::offset_of!(aw_arrivals, last_us) - 0usize];
    ["Offset of field: aw_arrivals::gap_us"][::core::mem::offset_of!(aw_arrivals, gap_us) - 4usize];
    ["Offset of field: aw_arrivals::running"]
        [::core::mem::offset_of!(aw_arrivals, running) - 8usize];
};
pub const AW_DAA_dwin_max: aw_daa_param = 0;
pub const AW_DAA_mu: aw_daa_param = 1;
pub const AW_DAA_kappa: aw_daa_param = 2;
pub const AW_DAA_reset: aw_daa_param = 3;
pub const AW_DAA_first: aw_daa_param = 4;
pub type aw_daa_param = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_daa_state {
    pub arrivals: aw_arrivals,
    pub dwin: aw_u32,
    pub maxed: aw_u32,
    pub pending: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_daa_state"][::core::mem::size_of::<aw_daa_state>() - 24usize];
    ["Alignment of aw_daa_state"][::core::mem::align_of::<aw_daa_state>() - 4usize];
    ["Offset of field: aw_daa_state::arrivals"]
        [::core::mem::offset_of!(aw_daa_state, arrivals) - 0usize];
    ["Offset of field: aw_daa_state::dwin"][::core::mem::offset_of!(aw_daa_state, dwin) - 12usize];
    ["Offset of field: aw_daa_state::maxed"]
        [::core::mem::offset_of!(aw_daa_state, maxed) - 16usize];
    ["Offset of field: aw_daa_state::pending"]
        [::core::mem::offset_of!(aw_daa_state, pending) - 20usize];
};
pub const AW_DCA_near: aw_dca_param = 0;
pub const AW_DCA_far: aw_dca_param = 1;
pub const AW_DCA_mid: aw_dca_param = 2;
pub const AW_DCA_last: aw_dca_param = 3;
pub const AW_DCA_max_segments: aw_dca_param = 4;
pub const AW_DCA_kappa: aw_dca_param = 5;
pub const AW_DCA_first: aw_dca_param = 6;
pub type aw_dca_param = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_dca_state {
    pub arrivals: aw_arrivals,
    pub hops: aw_u32,
    pub pending: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_dca_state"][::core::mem::size_of::<aw_dca_state>() - 20usize];
    ["Alignment of aw_dca_state"][::core::mem::align_of::<aw_dca_state>() - 4usize];
    ["Offset of field: aw_dca_state::arrivals"]
        [::core::mem::offset_of!(aw_dca_state, arrivals) - 0usize];
    ["Offset of field: aw_dca_state::hops"][::core::mem::offset_of!(aw_dca_state, hops) - 12usize];
    ["Offset of field: aw_dca_state::pending"]
        [::core::mem::offset_of!(aw_dca_state, pending) - 16usize];
};
pub const AW_TDA_timeout: aw_tda_param = 0;
pub const AW_TDA_window: aw_tda_param = 1;
pub const AW_TDA_small: aw_tda_param = 2;
pub type aw_tda_param = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_tda_state {
    pub pending: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_tda_state"][::core::mem::size_of::<aw_tda_state>() - 4usize];
    ["Alignment of aw_tda_state"][::core::mem::align_of::<aw_tda_state>() - 4usize];
    ["Offset of field: aw_tda_state::pending"]
        [::core::mem::offset_of!(aw_tda_state, pending) - 0usize];
};
pub const AW_HOP_patience: aw_hop_param = 0;
pub const AW_HOP_min_patience: aw_hop_param = 1;
pub const AW_HOP_max_patience: aw_hop_param = 2;
pub const AW_HOP_max_window: aw_hop_param = 3;
pub const AW_HOP_per_hop: aw_hop_param = 4;
pub const AW_HOP_first: aw_hop_param = 5;
pub const AW_HOP_probe: aw_hop_param = 6;
pub type aw_hop_param = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_hop_state {
    pub arrivals: aw_arrivals,
    pub hops: aw_u32,
    pub pending: aw_u32,
    pub patience: aw_u32,
    pub guess: aw_u32,
    pub whole: aw_u32,
    pub flags: aw_u16,
    pub gave_up: aw_u16,
    pub gave_up_us: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_hop_state"][::core::mem::size_of::<aw_hop_state>() - 40usize];
    ["Alignment of aw_hop_state"][::core::mem::align_of::<aw_hop_state>() - 4usize];
    ["Offset of field: aw_hop_state::arrivals"]
        [::core::mem::offset_of!(aw_hop_state, arrivals) - 0usize];
    ["Offset of field: aw_hop_state::hops"][::core::mem::offset_of!(aw_hop_state, hops) - 12usize];
    ["Offset of field: aw_hop_state::pending"]
        [::core::mem::offset_of!(aw_hop_state, pending) - 16usize];
    ["Offset of field: aw_hop_state::patience"]
        [::core::mem::offset_of!(aw_hop_state, patience) - 20usize];
    ["Offset of field: aw_hop_state::guess"]
        [::core::mem::offset_of!(aw_hop_state, guess) - 24usize];
    ["Offset of field: aw_hop_state::whole"]
        [::core::mem::offset_of!(aw_hop_state, whole) - 28usize];
    ["Offset of field: aw_hop_state::flags"]
        [::core::mem::offset_of!(aw_hop_state, flags) - 32usize];
    ["Offset of field: aw_hop_state::gave_up"]
        [::core::mem::offset_of!(aw_hop_state, gave_up) - 34usize];
    ["Offset of field: aw_hop_state::gave_up_us"]
        [::core::mem::offset_of!(aw_hop_state, gave_up_us) - 36usize];
};
pub const AW_HOP_TOLD: aw_hop_flag = 1;
pub const AW_HOP_PUSH: aw_hop_flag = 2;
pub const AW_HOP_LOSS: aw_hop_flag = 4;
pub type aw_hop_flag = ::core::ffi::c_uint;
pub const AW_POLICY_NONE: aw_policy = 0;
pub const AW_POLICY_EVERY_N: aw_policy = 1;
pub const AW_POLICY_ADAPTIVE: aw_policy = 2;
pub const AW_POLICY_RATE_LIMIT: aw_policy = 3;
pub const AW_POLICY_RATE_LIMIT_LITERAL: aw_policy = 4;
pub const AW_POLICY_POLICE: aw_policy = 5;
pub const AW_POLICY_TACK: aw_policy = 6;
pub const AW_POLICY_ACC: aw_policy = 7;
pub const AW_POLICY_DDA: aw_policy = 8;
pub const AW_POLICY_DAA: aw_policy = 9;
pub const AW_POLICY_DCA: aw_policy = 10;
pub const AW_POLICY_TDA: aw_policy = 11;
pub const AW_POLICY_HOP: aw_policy = 12;
pub const AW_POLICIES: aw_policy = 13;
pub type aw_policy = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub union aw_policy_state {
    pub none: aw_none_state,
    pub every_n: aw_every_n_state,
    pub adaptive: aw_adaptive_state,
    pub rate_limit: aw_rate_limit_state,
    pub rate_limit_literal: aw_rate_limit_literal_state,
    pub police: aw_police_state,
    pub tack: aw_tack_state,
    pub acc: aw_acc_state,
    pub dda: aw_dda_state,
    pub daa: aw_daa_state,
    pub dca: aw_dca_state,
    pub tda: aw_tda_state,
    pub hop: aw_hop_state,
    pub raw: [aw_u64; 8usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_policy_state"][::core::mem::size_of::<aw_policy_state>() - 64usize];
    ["Alignment of aw_policy_state"][::core::mem::align_of::<aw_policy_state>() - 8usize];
    ["Offset of field: aw_policy_state::none"]
        [::core::mem::offset_of!(aw_policy_state, none) - 0usize];
    ["Offset of field: aw_policy_state::every_n"]
        [::core::mem::offset_of!(aw_policy_state, every_n) - 0usize];
    ["Offset of field: aw_policy_state::adaptive"]
        [::core::mem::offset_of!(aw_policy_state, adaptive) - 0usize];
    ["Offset of field: aw_policy_state::rate_limit"]
        [::core::mem::offset_of!(aw_policy_state, rate_limit) - 0usize];
    ["Offset of field: aw_policy_state::rate_limit_literal"]
        [::core::mem::offset_of!(aw_policy_state, rate_limit_literal) - 0usize];
    ["Offset of field: aw_policy_state::police"]
        [::core::mem::offset_of!(aw_policy_state, police) - 0usize];
    ["Offset of field: aw_policy_state::tack"]
        [::core::mem::offset_of!(aw_policy_state, tack) - 0usize];
    ["Offset of field: aw_policy_state::acc"]
        [::core::mem::offset_of!(aw_policy_state, acc) - 0usize];
    ["Offset of field: aw_policy_state::dda"]
        [::core::mem::offset_of!(aw_policy_state, dda) - 0usize];
    ["Offset of field: aw_policy_state::daa"]
        [::core::mem::offset_of!(aw_policy_state, daa) - 0usize];
    ["Offset of field: aw_policy_state::dca"]
        [::core::mem::offset_of!(aw_policy_state, dca) - 0usize];
    ["Offset of field: aw_policy_state::tda"]
        [::core::mem::offset_of!(aw_policy_state, tda) - 0usize];
    ["Offset of field: aw_policy_state::hop"]
        [::core::mem::offset_of!(aw_policy_state, hop) - 0usize];
    ["Offset of field: aw_policy_state::raw"]
        [::core::mem::offset_of!(aw_policy_state, raw) - 0usize];
};
impl Default for aw_policy_state {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_rtt {
    pub near: aw_u64,
    pub far: aw_u64,
    pub near_srtt: aw_u32,
    pub near_min: aw_windowed_min,
    pub far_min: aw_windowed_min,
    pub window_us: aw_u32,
    pub near_sure: aw_u32,
    pub reserved: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_rtt"][::core::mem::size_of::<aw_rtt>() - 48usize];
    ["Alignment of aw_rtt"][::core::mem::align_of::<aw_rtt>() - 8usize];
    ["Offset of field: aw_rtt::near"][::core::mem::offset_of!(aw_rtt, near) - 0usize];
    ["Offset of field: aw_rtt::far"][::core::mem::offset_of!(aw_rtt, far) - 8usize];
    ["Offset of field: aw_rtt::near_srtt"][::core::mem::offset_of!(aw_rtt, near_srtt) - 16usize];
    ["Offset of field: aw_rtt::near_min"][::core::mem::offset_of!(aw_rtt, near_min) - 20usize];
    ["Offset of field: aw_rtt::far_min"][::core::mem::offset_of!(aw_rtt, far_min) - 28usize];
    ["Offset of field: aw_rtt::window_us"][::core::mem::offset_of!(aw_rtt, window_us) - 36usize];
    ["Offset of field: aw_rtt::near_sure"][::core::mem::offset_of!(aw_rtt, near_sure) - 40usize];
    ["Offset of field: aw_rtt::reserved"][::core::mem::offset_of!(aw_rtt, reserved) - 44usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_uplink {
    pub rest: aw_u64,
    pub others: aw_u64,
    pub rest_rate: aw_u64,
    pub others_rate: aw_u64,
    pub largest: aw_windowed_max,
    pub looks: aw_u32,
    pub stays: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_uplink"][::core::mem::size_of::<aw_uplink>() - 48usize];
    ["Alignment of aw_uplink"][::core::mem::align_of::<aw_uplink>() - 8usize];
    ["Offset of field: aw_uplink::rest"][::core::mem::offset_of!(aw_uplink, rest) - 0usize];
    ["Offset of field: aw_uplink::others"][::core::mem::offset_of!(aw_uplink, others) - 8usize];
    ["Offset of field: aw_uplink::rest_rate"]
        [::core::mem::offset_of!(aw_uplink, rest_rate) - 16usize];
    ["Offset of field: aw_uplink::others_rate"]
        [::core::mem::offset_of!(aw_uplink, others_rate) - 24usize];
    ["Offset of field: aw_uplink::largest"][::core::mem::offset_of!(aw_uplink, largest) - 32usize];
    ["Offset of field: aw_uplink::looks"][::core::mem::offset_of!(aw_uplink, looks) - 40usize];
    ["Offset of field: aw_uplink::stays"][::core::mem::offset_of!(aw_uplink, stays) - 44usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_flow_cfg {
    pub policy: aw_cfg,
    pub hold_max_us: aw_u32,
    pub hold_min_us: aw_u32,
    pub hold_rtt_shift: aw_u32,
    pub reserved: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_flow_cfg"][::core::mem::size_of::<aw_flow_cfg>() - 72usize];
    ["Alignment of aw_flow_cfg"][::core::mem::align_of::<aw_flow_cfg>() - 4usize];
    ["Offset of field: aw_flow_cfg::policy"][::core::mem::offset_of!(aw_flow_cfg, policy) - 0usize];
    ["Offset of field: aw_flow_cfg::hold_max_us"]
        [::core::mem::offset_of!(aw_flow_cfg, hold_max_us) - 56usize];
    ["Offset of field: aw_flow_cfg::hold_min_us"]
        [::core::mem::offset_of!(aw_flow_cfg, hold_min_us) - 60usize];
    ["Offset of field: aw_flow_cfg::hold_rtt_shift"]
        [::core::mem::offset_of!(aw_flow_cfg, hold_rtt_shift) - 64usize];
    ["Offset of field: aw_flow_cfg::reserved"]
        [::core::mem::offset_of!(aw_flow_cfg, reserved) - 68usize];
};
pub const AW_DEC_SUPERSEDES: aw_decision_flag = 1;
pub const AW_DEC_TWICE: aw_decision_flag = 2;
pub type aw_decision_flag = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_decision {
    pub kind: aw_u32,
    pub reason: aw_u32,
    pub hold_us: aw_u32,
    pub flags: aw_u32,
    pub event: aw_event,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_decision"][::core::mem::size_of::<aw_decision>() - 72usize];
    ["Alignment of aw_decision"][::core::mem::align_of::<aw_decision>() - 8usize];
    ["Offset of field: aw_decision::kind"][::core::mem::offset_of!(aw_decision, kind) - 0usize];
    ["Offset of field: aw_decision::reason"][::core::mem::offset_of!(aw_decision, reason) - 4usize];
    ["Offset of field: aw_decision::hold_us"]
        [::core::mem::offset_of!(aw_decision, hold_us) - 8usize];
    ["Offset of field: aw_decision::flags"][::core::mem::offset_of!(aw_decision, flags) - 12usize];
    ["Offset of field: aw_decision::event"][::core::mem::offset_of!(aw_decision, event) - 16usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct aw_flow {
    pub policy: aw_policy_state,
    pub hs: aw_handshake,
    pub data: aw_data_state,
    pub acks: aw_ack_state,
    pub shared: aw_u32,
    pub busy: aw_u32,
    pub rtt: aw_rtt,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_flow"][::core::mem::size_of::<aw_flow>() - 256usize];
    ["Alignment of aw_flow"][::core::mem::align_of::<aw_flow>() - 8usize];
    ["Offset of field: aw_flow::policy"][::core::mem::offset_of!(aw_flow, policy) - 0usize];
    ["Offset of field: aw_flow::hs"][::core::mem::offset_of!(aw_flow, hs) - 64usize];
    ["Offset of field: aw_flow::data"][::core::mem::offset_of!(aw_flow, data) - 84usize];
    ["Offset of field: aw_flow::acks"][::core::mem::offset_of!(aw_flow, acks) - 104usize];
    ["Offset of field: aw_flow::shared"][::core::mem::offset_of!(aw_flow, shared) - 200usize];
    ["Offset of field: aw_flow::busy"][::core::mem::offset_of!(aw_flow, busy) - 204usize];
    ["Offset of field: aw_flow::rtt"][::core::mem::offset_of!(aw_flow, rtt) - 208usize];
};
impl Default for aw_flow {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const AW_ACK_RATE_SILENT: aw_ack_rate_said = 0;
pub const AW_ACK_RATE_CAPABLE: aw_ack_rate_said = 1;
pub const AW_ACK_RATE_ASKS: aw_ack_rate_said = 2;
pub const AW_ACK_CONTROL_PERMITTED: aw_ack_rate_said = 130;
pub type aw_ack_rate_said = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aw_ack_rate_search {
    pub b: [aw_u8; 48usize],
    pub n: aw_u32,
    pub at: aw_u32,
    pub said: aw_u32,
    pub end: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_ack_rate_search"][::core::mem::size_of::<aw_ack_rate_search>() - 64usize];
    ["Alignment of aw_ack_rate_search"][::core::mem::align_of::<aw_ack_rate_search>() - 4usize];
    ["Offset of field: aw_ack_rate_search::b"]
        [::core::mem::offset_of!(aw_ack_rate_search, b) - 0usize];
    ["Offset of field: aw_ack_rate_search::n"]
        [::core::mem::offset_of!(aw_ack_rate_search, n) - 48usize];
    ["Offset of field: aw_ack_rate_search::at"]
        [::core::mem::offset_of!(aw_ack_rate_search, at) - 52usize];
    ["Offset of field: aw_ack_rate_search::said"]
        [::core::mem::offset_of!(aw_ack_rate_search, said) - 56usize];
    ["Offset of field: aw_ack_rate_search::end"]
        [::core::mem::offset_of!(aw_ack_rate_search, end) - 60usize];
};
impl Default for aw_ack_rate_search {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_ack_rate {
    pub end: aw_u32,
    pub r: aw_u8,
    pub now: aw_u8,
    pub reserved: aw_u16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_ack_rate"][::core::mem::size_of::<aw_ack_rate>() - 8usize];
    ["Alignment of aw_ack_rate"][::core::mem::align_of::<aw_ack_rate>() - 4usize];
    ["Offset of field: aw_ack_rate::end"][::core::mem::offset_of!(aw_ack_rate, end) - 0usize];
    ["Offset of field: aw_ack_rate::r"][::core::mem::offset_of!(aw_ack_rate, r) - 4usize];
    ["Offset of field: aw_ack_rate::now"][::core::mem::offset_of!(aw_ack_rate, now) - 5usize];
    ["Offset of field: aw_ack_rate::reserved"]
        [::core::mem::offset_of!(aw_ack_rate, reserved) - 6usize];
};
pub const AW_TOLD_YES: aw_ack_ratio_told = 0;
pub const AW_TOLD_NOT_YET: aw_ack_ratio_told = 1;
pub const AW_TOLD_UNTIL_END: aw_ack_ratio_told = 2;
pub type aw_ack_ratio_told = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_ack_ratio {
    pub told_end: aw_u64,
    pub window_end: aw_u64,
    pub repair_end: aw_u64,
    pub gap_from: aw_u64,
    pub gap_to: aw_u64,
    pub quiet: aw_u64,
    pub quiet_aim: aw_u64,
    pub lost: aw_u64,
    pub most: aw_u8,
    pub ratio: aw_u8,
    pub in_use: aw_u8,
    pub told: aw_u8,
    pub hole: aw_u8,
    pub gap: aw_u8,
    pub later: aw_u8,
    pub reserved: aw_u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_ack_ratio"][::core::mem::size_of::<aw_ack_ratio>() - 72usize];
    ["Alignment of aw_ack_ratio"][::core::mem::align_of::<aw_ack_ratio>() - 8usize];
    ["Offset of field: aw_ack_ratio::told_end"]
        [::core::mem::offset_of!(aw_ack_ratio, told_end) - 0usize];
    ["Offset of field: aw_ack_ratio::window_end"]
        [::core::mem::offset_of!(aw_ack_ratio, window_end) - 8usize];
    ["Offset of field: aw_ack_ratio::repair_end"]
        [::core::mem::offset_of!(aw_ack_ratio, repair_end) - 16usize];
    ["Offset of field: aw_ack_ratio::gap_from"]
        [::core::mem::offset_of!(aw_ack_ratio, gap_from) - 24usize];
    ["Offset of field: aw_ack_ratio::gap_to"]
        [::core::mem::offset_of!(aw_ack_ratio, gap_to) - 32usize];
    ["Offset of field: aw_ack_ratio::quiet"]
        [::core::mem::offset_of!(aw_ack_ratio, quiet) - 40usize];
    ["Offset of field: aw_ack_ratio::quiet_aim"]
        [::core::mem::offset_of!(aw_ack_ratio, quiet_aim) - 48usize];
    ["Offset of field: aw_ack_ratio::lost"][::core::mem::offset_of!(aw_ack_ratio, lost) - 56usize];
    ["Offset of field: aw_ack_ratio::most"][::core::mem::offset_of!(aw_ack_ratio, most) - 64usize];
    ["Offset of field: aw_ack_ratio::ratio"]
        [::core::mem::offset_of!(aw_ack_ratio, ratio) - 65usize];
    ["Offset of field: aw_ack_ratio::in_use"]
        [::core::mem::offset_of!(aw_ack_ratio, in_use) - 66usize];
    ["Offset of field: aw_ack_ratio::told"][::core::mem::offset_of!(aw_ack_ratio, told) - 67usize];
    ["Offset of field: aw_ack_ratio::hole"][::core::mem::offset_of!(aw_ack_ratio, hole) - 68usize];
    ["Offset of field: aw_ack_ratio::gap"][::core::mem::offset_of!(aw_ack_ratio, gap) - 69usize];
    ["Offset of field: aw_ack_ratio::later"]
        [::core::mem::offset_of!(aw_ack_ratio, later) - 70usize];
    ["Offset of field: aw_ack_ratio::reserved"]
        [::core::mem::offset_of!(aw_ack_ratio, reserved) - 71usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct aw_ack_seen {
    pub ack: aw_u64,
    pub una: aw_u64,
    pub max: aw_u64,
    pub window: aw_u32,
    pub mss: aw_u32,
    pub out_of_order: aw_u32,
    pub explained: aw_u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of aw_ack_seen"][::core::mem::size_of::<aw_ack_seen>() - 40usize];
    ["Alignment of aw_ack_seen"][::core::mem::align_of::<aw_ack_seen>() - 8usize];
    ["Offset of field: aw_ack_seen::ack"][::core::mem::offset_of!(aw_ack_seen, ack) - 0usize];
    ["Offset of field: aw_ack_seen::una"][::core::mem::offset_of!(aw_ack_seen, una) - 8usize];
    ["Offset of field: aw_ack_seen::max"][::core::mem::offset_of!(aw_ack_seen, max) - 16usize];
    ["Offset of field: aw_ack_seen::window"]
        [::core::mem::offset_of!(aw_ack_seen, window) - 24usize];
    ["Offset of field: aw_ack_seen::mss"][::core::mem::offset_of!(aw_ack_seen, mss) - 28usize];
    ["Offset of field: aw_ack_seen::out_of_order"]
        [::core::mem::offset_of!(aw_ack_seen, out_of_order) - 32usize];
    ["Offset of field: aw_ack_seen::explained"]
        [::core::mem::offset_of!(aw_ack_seen, explained) - 36usize];
};
pub type aw_host_step = ::core::option::Option<
    unsafe extern "C" fn(host: *mut ::core::ffi::c_void, e: *const aw_event, v: *mut aw_verdict),
>;
#[repr(C)]
pub struct aw_param_meta {
    pub name: *const ::core::ffi::c_char,
    pub unit: *const ::core::ffi::c_char,
    pub what: *const ::core::ffi::c_char,
    pub index: aw_u32,
    pub def: aw_u32,
    pub min: aw_u32,
    pub max: aw_u32,
}
#[repr(C)]
pub struct aw_policy_meta {
    pub name: *const ::core::ffi::c_char,
    pub summary: *const ::core::ffi::c_char,
    pub source: *const ::core::ffi::c_char,
    pub params: *const aw_param_meta,
    pub n_params: aw_u32,
    pub needs: aw_u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aw_reason_meta {
    pub name: *const ::core::ffi::c_char,
    pub what: *const ::core::ffi::c_char,
}
unsafe extern "C" {
    pub fn aw_shim_policy(policy: aw_u32) -> *const aw_policy_meta;
}
unsafe extern "C" {
    pub fn aw_shim_reason(reason: aw_u32) -> *const aw_reason_meta;
}
unsafe extern "C" {
    pub fn aw_shim_parse(
        data: *const aw_u8,
        n: aw_u32,
        link: aw_u32,
        total_len: aw_u32,
        seg: *mut aw_seg,
    ) -> aw_u32;
}
unsafe extern "C" {
    pub fn aw_shim_step(
        s: *mut aw_policy_state,
        c: *const aw_cfg,
        e: *const aw_event,
        v: *mut aw_verdict,
    );
}
unsafe extern "C" {
    pub fn aw_shim_handshake(
        h: *mut aw_handshake,
        s: *const aw_seg,
        acks: ::core::ffi::c_int,
        now_us: aw_u64,
    );
}
unsafe extern "C" {
    pub fn aw_shim_flow_init(f: *mut aw_flow, h: *const aw_handshake, now_us: aw_u64);
}
unsafe extern "C" {
    pub fn aw_shim_flow_on_data(
        f: *mut aw_flow,
        c: *const aw_flow_cfg,
        s: *const aw_seg,
        segments: aw_u32,
        now_us: aw_u64,
    );
}
unsafe extern "C" {
    pub fn aw_shim_flow_on_ack(
        f: *mut aw_flow,
        c: *const aw_flow_cfg,
        s: *const aw_seg,
        now_us: aw_u64,
        d: *mut aw_decision,
    );
}
unsafe extern "C" {
    pub fn aw_shim_flow_counts(f: *const aw_flow, s: *const aw_seg) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn aw_shim_flow_releases(f: *const aw_flow, s: *const aw_seg) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn aw_shim_flow_on_sent(
        f: *mut aw_flow,
        c: *const aw_flow_cfg,
        s: *const aw_seg,
        now_us: aw_u64,
    );
}
unsafe extern "C" {
    pub fn aw_shim_flow_hold_us(f: *const aw_flow, c: *const aw_flow_cfg) -> aw_u32;
}
unsafe extern "C" {
    pub fn aw_shim_hold_length(us: aw_u32) -> aw_u32;
}
unsafe extern "C" {
    pub fn aw_shim_flow_srtt(f: *const aw_flow) -> aw_u32;
}
unsafe extern "C" {
    pub fn aw_shim_flow_min_rtt(f: *const aw_flow) -> aw_u32;
}
unsafe extern "C" {
    pub fn aw_shim_uplink_others(bytes: aw_u32, is_tcp: aw_u32) -> aw_u32;
}
unsafe extern "C" {
    pub fn aw_shim_uplink_look(u: *mut aw_uplink, rest: aw_u64, others: aw_u64) -> aw_u32;
}
unsafe extern "C" {
    pub fn aw_shim_ack_rate_write(to: *mut aw_u8, said: aw_u32) -> aw_u32;
}
unsafe extern "C" {
    pub fn aw_shim_ack_rate_find(options: *const aw_u8, n: aw_u32) -> aw_u32;
}
unsafe extern "C" {
    pub fn aw_shim_ack_rate_on_data(
        a: *mut aw_ack_rate,
        f: *const aw_flow,
        s: *const aw_seg,
        said: aw_u32,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn aw_shim_ack_rate_on_bit(
        a: *mut aw_ack_rate,
        f: *const aw_flow,
        s: *const aw_seg,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn aw_shim_ack_rate_cfg(
        a: *const aw_ack_rate,
        f: *const aw_flow,
        s: *const aw_seg,
        c: *mut aw_flow_cfg,
    );
}
unsafe extern "C" {
    pub fn aw_shim_ack_ratio_init(a: *mut aw_ack_ratio, most: aw_u32);
}
unsafe extern "C" {
    pub fn aw_shim_ack_ratio_on_ack(a: *mut aw_ack_ratio, s: *const aw_ack_seen);
}
unsafe extern "C" {
    pub fn aw_shim_ack_ratio_on_segment(
        a: *mut aw_ack_ratio,
        end: aw_u64,
        window: aw_u32,
        mss: aw_u32,
    ) -> aw_u32;
}
unsafe extern "C" {
    pub fn aw_shim_ack_ratio_on_retransmission(a: *mut aw_ack_ratio, max: aw_u64);
}
unsafe extern "C" {
    pub fn aw_shim_hosted_on_data(
        f: *mut aw_flow,
        c: *const aw_flow_cfg,
        step: aw_host_step,
        host: *mut ::core::ffi::c_void,
        reads_time: ::core::ffi::c_int,
        s: *const aw_seg,
        segments: aw_u32,
        now_us: aw_u64,
    );
}
unsafe extern "C" {
    pub fn aw_shim_hosted_on_ack(
        f: *mut aw_flow,
        c: *const aw_flow_cfg,
        step: aw_host_step,
        host: *mut ::core::ffi::c_void,
        reads_time: ::core::ffi::c_int,
        s: *const aw_seg,
        now_us: aw_u64,
        d: *mut aw_decision,
    );
}
unsafe extern "C" {
    pub fn aw_shim_hosted_on_sent(
        f: *mut aw_flow,
        c: *const aw_flow_cfg,
        step: aw_host_step,
        host: *mut ::core::ffi::c_void,
        reads_time: ::core::ffi::c_int,
        s: *const aw_seg,
        now_us: aw_u64,
    );
}
