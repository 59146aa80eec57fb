// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP ACK Rate Request on the sockets of a cgroup (draft-ietf-tcpm-ack-rate-request). The
 * option is that of ../policy/options/ack_rate_request.h.
 *
 *   SYN, and the SYN-ACK that answers one with the option    "capable"
 *   data, if the peer has said the same                      "one ACK for R segments"
 *
 * R follows the congestion window, and never exceeds it. A request is on every data packet
 * until one that carried it is acknowledged, so a loss costs nothing. Then the kernel is
 * told to stop asking for options, so that segments are as large as before. From then on a
 * connection costs one call per RTT sample; a connection without the option costs nothing.
 *
 * It fails open: if there is no room in the header or no memory in the map, or if a
 * middlebox removed the option, the connection works as if this program did not exist.
 *
 * With ACK congestion control, the handshake has another option ("ACK congestion control
 * permitted") instead of "capable", R is derived from lost ACKs, a second program examines
 * ACKs (ack_control.h), and each data packet costs a call. A SYN with "capable" is answered
 * as without ACK congestion control, and its sender is asked for nothing.
 *
 * A listener is set up to answer when it starts to listen. Listeners that already exist
 * answer without the option.
 */
#define AW_IP_ONLY
#include "headers.h"
#include "../policy/options/ack_rate_request.h"
#include "ack_rate_shared.h"

#define SYN 0x02
#define ACK 0x10

const volatile struct aw_ack_rate_options ack_rate_options = {};

/* A connection whose peer supports the option. */
struct asking {
	__u32 mark;  /* SND.NXT when the request was first written */
	__u8 asked;  /* R of the newest request; 0: none */
	__u8 open;   /* it is not yet acknowledged */
	__u8 marked; /* mark is known */
	__u8 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64); /* the socket's cookie */
	__type(value, struct asking);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct aw_ack_rate_counters);
} counters SEC(".maps");

static __always_inline struct aw_ack_rate_counters *counters_here(void)
{
	__u32 k = 0;

	return bpf_map_lookup_elem(&counters, &k);
}

#define COUNT(what) \
	do { \
		struct aw_ack_rate_counters *c_ = counters_here(); \
		if (c_) \
			c_->what++; \
	} while (0)

#include "ack_control.h"

static __always_inline int asks(void)
{
	return ack_rate_options.segments || ack_rate_options.per_window;
}

/* Turns callbacks of this socket on and off; the others stay as they are. */
static __always_inline void callbacks(struct bpf_sock_ops *ops, __u32 on, __u32 off)
{
	__u32 was = ops->bpf_sock_ops_cb_flags, now = (was & ~off) | on;

	if (now != was)
		bpf_sock_ops_cb_flags_set(ops, now);
}

/* Whether the current segment, or with BPF_LOAD_HDR_OPT_TCP_SYN the SYN, has this option. */
static __always_inline int has_option(struct bpf_sock_ops *ops, __u32 exid, __u64 flags)
{
	/* Kind, 2 + the bytes to look for, and those bytes; the option found replaces them. */
	__u8 option[AW_ACK_RATE_REQUEST_LEN + 3] = { AW_ACK_RATE_KIND, 4, exid >> 8, exid & 0xff };
	long len = bpf_load_hdr_opt(ops, option, sizeof(option), flags);

	return len == AW_ACK_RATE_CAPABLE_LEN;
}

static __always_inline int is_capable(struct bpf_sock_ops *ops, __u64 flags)
{
	return has_option(ops, AW_ACK_RATE_EXID, flags);
}

/* The R to request now; 0: none is worth an option. See ackwise-sim's tcp/ack_rate.rs. */
static __always_inline __u32 wish(const struct asking *a, __u32 cwnd)
{
	__u32 aim = ack_rate_options.segments, asked = a->asked, r, apart;
	__u32 fixed = aim != 0;

	if (!aim)
		aim = cwnd / (ack_rate_options.per_window ? ack_rate_options.per_window : 1);
	r = aw_min(aim, cwnd);
	fixed = fixed && r == aim;
	r = aw_min(aw_max(r, 1), AW_ACK_RATE_MAX);
	if (!asked)
		return r > 2 || (fixed && r == 1) ? r : 0;
	apart = r > asked ? r - asked : asked - r;
	return r != asked && (fixed || 4 * apart >= asked) ? r : 0;
}

/* Makes a new request if the window has changed enough. */
static __always_inline void ask(struct bpf_sock_ops *ops, struct asking *a)
{
	__u32 r = wish(a, ops->snd_cwnd);

	if (!r)
		return;
	a->asked = r;
	a->open = 1;
	a->marked = 0;
	callbacks(ops, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG, 0);
	COUNT(asked);
}

static __always_inline struct asking *connection_of(struct bpf_sock_ops *ops)
{
	__u64 cookie = bpf_get_socket_cookie(ops);

	return bpf_map_lookup_elem(&connections, &cookie);
}

/*
 * The handshake is complete, with ACK congestion control. Other programs of the cgroup have
 * callbacks on the same socket, so callbacks that this one did not enable stay as they are.
 */
static __always_inline void control_established(struct bpf_sock_ops *ops, __u64 flags)
{
	__u32 on = BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_RETRANS_CB_FLAG |
		   BPF_SOCK_OPS_RTO_CB_FLAG;

	if (!has_option(ops, AW_ACK_CONTROL_EXID, flags) || !control_begin(ops, flags)) {
		callbacks(ops, 0, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
		return;
	}
	COUNT(agreed);
	callbacks(ops, on, 0);
}

/* The handshake is complete. */
static __always_inline void established(struct bpf_sock_ops *ops, __u64 flags)
{
	__u64 cookie = bpf_get_socket_cookie(ops);
	struct asking fresh = {}, *a;

	if (ack_rate_options.control) {
		control_established(ops, flags);
		return;
	}
	if (!is_capable(ops, flags)) {
		callbacks(ops, 0, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
		return;
	}
	COUNT(agreed);
	if (!asks() || bpf_map_update_elem(&connections, &cookie, &fresh, BPF_ANY)) {
		callbacks(ops, 0, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
		return;
	}
	callbacks(ops, BPF_SOCK_OPS_RTT_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG,
		  BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	a = bpf_map_lookup_elem(&connections, &cookie);
	if (a)
		ask(ops, a);
}

/* An RTT sample: ACKs are arriving. */
static __always_inline void round_trip(struct bpf_sock_ops *ops)
{
	struct asking *a = connection_of(ops);

	if (!a)
		return;
	if (a->open && a->marked && aw_after(ops->snd_una, a->mark)) {
		a->open = 0;
		callbacks(ops, 0, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	}
	ask(ops, a);
}

/* What the current SYN or SYN-ACK is to say. */
static __always_inline __u32 syn_says(struct bpf_sock_ops *ops, int answers)
{
	if (ack_rate_options.control &&
	    (!answers || has_option(ops, AW_ACK_CONTROL_EXID, BPF_LOAD_HDR_OPT_TCP_SYN)))
		return AW_ACK_CONTROL_PERMITTED;
	if (answers && !is_capable(ops, BPF_LOAD_HDR_OPT_TCP_SYN))
		return AW_ACK_RATE_SILENT;
	return AW_ACK_RATE_CAPABLE;
}

/* What the current segment is to say: enum aw_ack_rate_said. */
static __always_inline __u32 says(struct bpf_sock_ops *ops)
{
	__u32 flags = ops->skb_tcp_flags;
	struct ack_control *c;
	struct asking *a;

	if (flags & SYN)
		return syn_says(ops, flags & ACK);
	if (ack_rate_options.control) {
		/* R is decided when it is written; here it only matters whether there is one. */
		c = control_of(ops, 0);
		return c && c->open ? AW_ACK_RATE_ASKS + AW_ACK_RATIO_LEAST : AW_ACK_RATE_SILENT;
	}
	a = connection_of(ops);
	return a && a->open ? AW_ACK_RATE_ASKS + a->asked : AW_ACK_RATE_SILENT;
}

static __always_inline int is_of_handshake(__u32 said)
{
	return said == AW_ACK_RATE_CAPABLE || said == AW_ACK_CONTROL_PERMITTED;
}

/* The number of option bytes to reserve. The kernel also asks to find the segment size. */
static __always_inline void reserve(struct bpf_sock_ops *ops)
{
	int for_mss = ops->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS;
	__u32 said;

	if (for_mss && ack_rate_options.control)
		control_settle(ops);
	/* A pure ACK carries no request. */
	if (!for_mss && !(ops->skb_tcp_flags & SYN) && !ops->skb_len)
		return;
	said = says(ops);
	if (is_of_handshake(said))
		bpf_reserve_hdr_opt(ops, AW_ACK_RATE_CAPABLE_LEN, 0);
	else if (said != AW_ACK_RATE_SILENT)
		bpf_reserve_hdr_opt(ops, AW_ACK_RATE_REQUEST_LEN, 0);
}

/* Writes the R derived from lost ACKs. If there is none, the kernel pads the reserved bytes. */
static __always_inline void control_write(struct bpf_sock_ops *ops)
{
	__u8 option[AW_ACK_RATE_REQUEST_LEN + 3] = {};
	struct ack_control *c = control_of(ops, 0);
	int first;
	__u32 r;

	if (!c || !c->open)
		return;
	r = control_tell(ops, c, &first);
	if (!r || r > AW_ACK_RATE_MAX)
		return;
	aw_ack_rate_write(option, AW_ACK_RATE_ASKS + r);
	if (bpf_store_hdr_opt(ops, option, AW_ACK_RATE_REQUEST_LEN, 0))
		return;
	COUNT(segments);
	if (first)
		COUNT(asked);
}

static __always_inline void write(struct bpf_sock_ops *ops)
{
	__u8 option[AW_ACK_RATE_REQUEST_LEN + 3] = {};
	__u32 said, len;
	struct asking *a;

	if (ack_rate_options.control && !(ops->skb_tcp_flags & SYN)) {
		control_write(ops);
		return;
	}
	said = says(ops);
	len = aw_ack_rate_write(option, said);
	if (is_of_handshake(said)) {
		if (!bpf_store_hdr_opt(ops, option, AW_ACK_RATE_CAPABLE_LEN, 0))
			COUNT(offered);
		return;
	}
	if (!len || bpf_store_hdr_opt(ops, option, AW_ACK_RATE_REQUEST_LEN, 0))
		return;
	COUNT(segments);
	a = connection_of(ops);
	if (a && !a->marked) {
		a->mark = ops->snd_nxt;
		a->marked = 1;
	}
}

SEC("sockops") int ackwise_ask(struct bpf_sock_ops *ops)
{
	__u64 cookie;
	int one = 1;

	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		/* The SYN is read again when the connection is established. */
		if (!bpf_setsockopt(ops, IPPROTO_TCP, 27 /* TCP_SAVE_SYN */, &one, sizeof(one)))
			callbacks(ops, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG, 0);
		break;
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		callbacks(ops, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG, 0);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		established(ops, 0);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		established(ops, BPF_LOAD_HDR_OPT_TCP_SYN);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		reserve(ops);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		write(ops);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		round_trip(ops);
		break;
	case BPF_SOCK_OPS_RETRANS_CB:
		if (ack_rate_options.control)
			control_repair(ops);
		break;
	case BPF_SOCK_OPS_RTO_CB:
		if (ack_rate_options.control)
			control_timeout(ops);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		if (ops->args[1] == 7 /* TCP_CLOSE */) {
			cookie = bpf_get_socket_cookie(ops);
			bpf_map_delete_elem(&connections, &cookie);
		}
		break;
	}
	return 1;
}

SEC("cgroup_skb/ingress") int ackwise_ask_acks(struct __sk_buff *skb)
{
	control_on_packet(skb);
	return 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
