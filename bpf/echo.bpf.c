// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The gateway's echo: the other half of ACC on the wire (echo.h is the receiver's). The
 * owner of the queue that marks ACKs tells the data receiver, instead of the data sender.
 *
 * It sees both directions of the bottleneck's interface: `echo_acks` is at egress, behind
 * the queue, `echo_data` at ingress.
 *
 *   receiver                   gateway                             sender
 *   ACK, ECT(0) ────► queue: CE ──► echo_acks: noted, not-ECT ──► ACK
 *   data, ECE ◄──────────────────── echo_data: sets ECE ◄──────── data
 *
 * - A sender that is an unmodified Linux ignores CE on pure ACKs, so something else must
 *   echo it, and the gateway sees both directions.
 * - Past the gateway nobody would echo a mark. So an ACK leaves as it would have left
 *   without ACC: not-ECT, whether it was marked or not.
 * - One or more marks become one segment with ECE. It is not repeated: the next mark comes
 *   soon.
 * - There is one entry per connection, from its SYN-ACK on. If that has an ECN flag, ECN or
 *   AccECN may be in use, and the connection is left alone.
 *
 * It fails open: a packet that cannot be parsed, or belongs to a connection that is not
 * kept (the map is an LRU), passes unchanged.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "headers.h"
#include "echo_shared.h"
#include "ecn.h"
#include "verdict.h"

const volatile struct aw_echo_options echo_options = {};

struct echo {
	__u32 with_ecn; /* ECN may be in use: leave it alone */
	__u32 marked;	/* since the last segment with ECE */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct connection);
	__type(value, struct echo);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct aw_echo_counters);
} echo_counters SEC(".maps");

static __always_inline struct aw_echo_counters *count(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&echo_counters, &zero);
}

/* Parses a TCP segment and its connection. Returns 1, or 0 for any other packet. */
static __always_inline int read(struct __sk_buff *skb, int egress, struct aw_seg *seg,
				struct connection *of)
{
	__u32 link = echo_options.l3_off ? AW_LINK_ETHERNET : AW_LINK_IP;

	__builtin_memset(seg, 0, sizeof(*seg));
	if (read_segment(skb, link, seg, seg) != AW_PARSE_OK)
		return 0;
	connection_of(of, skb, seg, egress);
	return 1;
}

/* A SYN ends what was known of the connection; a SYN-ACK decides. */
static __always_inline int handshake(const struct connection *of, const struct aw_seg *seg)
{
	struct aw_echo_counters *c = count();
	struct echo *known, fresh = { .with_ecn = !!(seg->flags & ECN_FLAGS) };

	if (!(seg->flags & AW_TCP_ACK)) {
		bpf_map_delete_elem(&connections, of);
		return AW_PASS;
	}
	known = bpf_map_lookup_elem(&connections, of);
	if (known) {
		/* Two different answers: it is unknown which one the client received. */
		known->with_ecn |= fresh.with_ecn;
		return AW_PASS;
	}
	if (!bpf_map_update_elem(&connections, of, &fresh, BPF_NOEXIST) && c) {
		c->plain += !fresh.with_ecn;
		c->other += fresh.with_ecn;
	}
	return AW_PASS;
}

/* At egress, behind the queue. */
SEC("classifier")
int ackwise_echo_acks(struct __sk_buff *skb)
{
	struct aw_echo_counters *c = count();
	struct connection of;
	struct aw_seg seg;
	struct echo *e;

	if (!c || !read(skb, 1, &seg, &of))
		return AW_PASS;
	if (seg.flags & AW_TCP_SYN)
		return handshake(&of, &seg);
	if (seg.ip_ecn == NOT_ECT || seg.payload || !(seg.flags & AW_TCP_ACK) ||
	    seg.flags & (AW_TCP_FIN | AW_TCP_RST))
		return AW_PASS;
	e = bpf_map_lookup_elem(&connections, &of);
	if (!e || e->with_ecn) {
		c->unknown += !e && seg.ip_ecn == CE;
		return AW_PASS;
	}
	c->capable++;
	if (seg.ip_ecn == CE) {
		c->marks++;
		e->marked = 1;
	}
	set_ecn(skb, seg.l3_off, seg.ip_version, NOT_ECT);
	return AW_PASS;
}

/* At ingress, where data arrive. */
SEC("classifier")
int ackwise_echo_data(struct __sk_buff *skb)
{
	struct aw_echo_counters *c = count();
	struct connection of;
	struct aw_seg seg;
	struct echo *e;

	if (!c || !read(skb, 0, &seg, &of))
		return AW_PASS;
	if (seg.flags & AW_TCP_SYN)
		return handshake(&of, &seg);
	if (!seg.payload)
		return AW_PASS;
	e = bpf_map_lookup_elem(&connections, &of);
	if (!e || e->with_ecn || !e->marked)
		return AW_PASS;
	/* A mark that arrives between these two lines is echoed by this segment. */
	e->marked = 0;
	if (set_ece(skb, seg.l4_off, 1) >= 0)
		c->echoes++;
	return AW_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
