// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Times round trips that begin and end behind the gateway's interface: a segment
 * leaves with a time stamp, and one comes in that echoes it (RFC 7323). What one
 * takes beyond the least of its connection is what waited on the way.
 *
 * - One probe a connection is on its way. It is forgotten after a while: it, or its
 *   echo, was lost.
 * - A stamp may be on several segments; the first one counts. So a probe begins only
 *   with a stamp that is newer than the last, and no sample is too short.
 * - An echo may be late, because its sender had nothing to send or waited with an ACK.
 *   Samples are too long then; the least of many is not.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "connection.h"
#include "rtt_shared.h"

#define PASS TC_ACT_UNSPEC /* go on to the next program */
#define LOST_NS 2000000000ULL

const volatile struct aw_rtt_options rtt_options = {};

struct timed {
	__u64 since_ns; /* when the probe left; 0: none is on its way */
	__u32 stamp;	/* of the probe, or of the last one */
	__u32 least_us; /* ~0: not known */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct connection);
	__type(value, struct timed);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct aw_rtt_samples);
} samples SEC(".maps");

/* Where every stack of today puts it: first of the options, behind two NOPs. */
static __always_inline int stamps(struct __sk_buff *skb, const struct packet *p, __u32 *value,
				  __u32 *echo)
{
	__u32 o[3];

	if (bpf_skb_load_bytes(skb, p->l4_off + 20, o, sizeof(o)) || o[0] != bpf_htonl(0x0101080a))
		return 0;
	*value = bpf_ntohl(o[1]);
	*echo = bpf_ntohl(o[2]);
	return 1;
}

SEC("classifier")
int ackwise_rtt_out(struct __sk_buff *skb)
{
	struct timed *t, fresh = { .least_us = ~0U };
	__u32 value, echo;
	struct packet p;
	__u64 now;

	if (!read_packet(skb, &p, rtt_options.l3_off, 1) || p.flags & (AW_TCP_SYN | AW_TCP_RST) ||
	    p.header < 32 || !stamps(skb, &p, &value, &echo))
		return PASS;
	now = bpf_ktime_get_ns();
	t = bpf_map_lookup_elem(&connections, &p.of);
	if (!t) {
		fresh.since_ns = now;
		fresh.stamp = value;
		bpf_map_update_elem(&connections, &p.of, &fresh, BPF_NOEXIST);
		return PASS;
	}
	if ((t->since_ns && now - t->since_ns < LOST_NS) || !aw_after(value, t->stamp))
		return PASS;
	t->stamp = value;
	t->since_ns = now;
	return PASS;
}

SEC("classifier")
int ackwise_rtt_in(struct __sk_buff *skb)
{
	struct aw_rtt_samples *s;
	__u32 value, echo, us, zero = 0;
	struct packet p;
	struct timed *t;

	if (!read_packet(skb, &p, rtt_options.l3_off, 0) || p.flags & (AW_TCP_SYN | AW_TCP_RST) ||
	    p.header < 32 || !stamps(skb, &p, &value, &echo))
		return PASS;
	t = bpf_map_lookup_elem(&connections, &p.of);
	s = bpf_map_lookup_elem(&samples, &zero);
	if (!t || !s || !t->since_ns || !aw_after_eq(echo, t->stamp))
		return PASS;
	us = (bpf_ktime_get_ns() - t->since_ns) / 1000;
	t->since_ns = 0;
	if (us < t->least_us)
		t->least_us = us;
	us -= t->least_us;
	if (!s->count || us < s->least_us)
		s->least_us = us;
	s->count++;
	return PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
