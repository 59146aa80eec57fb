// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The other half of ACC on the wire (echo.h is the receiver's): whoever owns the
 * queue that marks ACKs tells the data receiver, in the place of the data sender.
 *
 *   receiver                   gateway                             sender
 *   ACK, ECT(0) ────► queue: CE ──► echo_acks: noted, not-ECT ──► ACK
 *   data, ECE ◄──────────────────── echo_data: sets ECE ◄──────── data
 *
 * - A sender that is an unmodified Linux does not look at CE on pure ACKs, so that
 *   somebody else must echo; and the gateway sees both directions.
 * - Past the gateway nobody would echo a mark. So an ACK leaves as it would have
 *   left without ACC, not capable of ECN, whether it was marked or not.
 * - One mark or several are one segment with ECE. Nobody repeats it: the next mark
 *   is not far.
 * - A connection is kept from its SYN-ACK on. With an ECN flag on that, ECN or
 *   AccECN may be in force, and nothing of the connection is touched.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "connection.h"
#include "echo_shared.h"
#include "ecn.h"

#define PASS TC_ACT_UNSPEC /* go on to the next program */

const volatile struct aw_echo_options echo_options = {};

struct echo {
	__u32 with_ecn; /* it may be in force: hands off */
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

/* A SYN ends what was known, a SYN-ACK says what holds. */
static __always_inline int handshake(const struct packet *p)
{
	struct aw_echo_counters *c = count();
	struct echo *known, fresh = { .with_ecn = !!(p->flags & ECN_FLAGS) };

	if (!(p->flags & AW_TCP_ACK)) {
		bpf_map_delete_elem(&connections, &p->of);
		return PASS;
	}
	known = bpf_map_lookup_elem(&connections, &p->of);
	if (known) {
		/* Said in two ways: whom the client has heard is not known. */
		known->with_ecn |= fresh.with_ecn;
		return PASS;
	}
	if (!bpf_map_update_elem(&connections, &p->of, &fresh, BPF_NOEXIST) && c) {
		c->plain += !fresh.with_ecn;
		c->other += fresh.with_ecn;
	}
	return PASS;
}

/* Behind the queue. */
SEC("classifier")
int ackwise_echo_acks(struct __sk_buff *skb)
{
	struct aw_echo_counters *c = count();
	struct packet p;
	struct echo *e;

	if (!c || !read_packet(skb, &p, echo_options.l3_off, 1))
		return PASS;
	if (p.flags & AW_TCP_SYN)
		return handshake(&p);
	if (p.ecn == NOT_ECT || p.payload || !(p.flags & AW_TCP_ACK) ||
	    p.flags & (AW_TCP_FIN | AW_TCP_RST))
		return PASS;
	e = bpf_map_lookup_elem(&connections, &p.of);
	if (!e || e->with_ecn) {
		c->unknown += !e && p.ecn == CE;
		return PASS;
	}
	c->capable++;
	if (p.ecn == CE) {
		c->marks++;
		e->marked = 1;
	}
	set_ecn(skb, echo_options.l3_off, p.version, NOT_ECT);
	return PASS;
}

/* Where the data come in. */
SEC("classifier")
int ackwise_echo_data(struct __sk_buff *skb)
{
	struct aw_echo_counters *c = count();
	struct packet p;
	struct echo *e;

	if (!c || !read_packet(skb, &p, echo_options.l3_off, 0))
		return PASS;
	if (p.flags & AW_TCP_SYN)
		return handshake(&p);
	if (!p.payload)
		return PASS;
	e = bpf_map_lookup_elem(&connections, &p.of);
	if (!e || e->with_ecn || !e->marked)
		return PASS;
	/* A mark between the two is as good as told. */
	e->marked = 0;
	if (!set_ece(skb, p.l4_off, 1))
		c->echoes++;
	return PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
