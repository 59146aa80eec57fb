// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Round-trip times behind the gateway's interface: a segment leaves with a timestamp, and
 * a segment comes in that echoes it (RFC 7323). What a round trip takes beyond the minimum
 * of its connection is time that packets waited in queues. `rtt_out` hangs at egress,
 * `rtt_in` at ingress. Both only look.
 *
 * - It keeps one entry for each connection, with one probe in flight. The probe is
 *   forgotten after two seconds: it, or its echo, was lost.
 * - A timestamp may be on several segments, and the first one counts. So a probe begins
 *   only with a timestamp newer than the last, and no sample is too short.
 * - An echo may be late, because its sender had nothing to send or delayed an ACK. Such
 *   samples are too long; the minimum of many is not.
 *
 * Every packet passes unchanged. A connection that the map (an LRU) forgets begins anew.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "headers.h"
#include "rtt_shared.h"
#include "verdict.h"

#define LOST_NS 2000000000ULL

const volatile struct aw_rtt_options rtt_options = {};

struct probe {
	__u64 since_ns; /* when it left; 0: none is in flight */
	__u32 stamp;	/* its timestamp, or that of the last one */
	__u32 min_us;	/* of the connection; ~0: not known */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct connection);
	__type(value, struct probe);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct aw_rtt_samples);
} samples SEC(".maps");

/* Reads a segment with a timestamp and names its connection. Returns 1, or 0. */
static __always_inline int read(struct __sk_buff *skb, int egress, struct aw_seg *seg,
				struct connection *of)
{
	__u32 link = rtt_options.l3_off ? AW_LINK_ETHERNET : AW_LINK_IP;

	__builtin_memset(seg, 0, sizeof(*seg));
	if (read_segment(skb, link, seg, seg) != AW_PARSE_OK ||
	    seg->flags & (AW_TCP_SYN | AW_TCP_RST) || !(seg->opts & AW_OPT_TS))
		return 0;
	connection_of(of, seg, egress);
	return 1;
}

SEC("classifier")
int ackwise_rtt_out(struct __sk_buff *skb)
{
	struct probe *p, fresh = { .min_us = ~0U };
	struct connection of;
	struct aw_seg seg;
	__u64 now;

	if (!read(skb, 1, &seg, &of))
		return AW_PASS;
	now = bpf_ktime_get_ns();
	p = bpf_map_lookup_elem(&connections, &of);
	if (!p) {
		fresh.since_ns = now;
		fresh.stamp = seg.tsval;
		bpf_map_update_elem(&connections, &of, &fresh, BPF_NOEXIST);
		return AW_PASS;
	}
	if ((p->since_ns && now - p->since_ns < LOST_NS) || !aw_after(seg.tsval, p->stamp))
		return AW_PASS;
	p->stamp = seg.tsval;
	p->since_ns = now;
	return AW_PASS;
}

SEC("classifier")
int ackwise_rtt_in(struct __sk_buff *skb)
{
	struct aw_rtt_samples *s;
	struct connection of;
	struct aw_seg seg;
	struct probe *p;
	__u32 us, zero = 0;

	if (!read(skb, 0, &seg, &of))
		return AW_PASS;
	p = bpf_map_lookup_elem(&connections, &of);
	s = bpf_map_lookup_elem(&samples, &zero);
	if (!p || !s || !p->since_ns || !aw_after_eq(seg.tsecr, p->stamp))
		return AW_PASS;
	us = (bpf_ktime_get_ns() - p->since_ns) / 1000;
	p->since_ns = 0;
	if (us < p->min_us)
		p->min_us = us;
	us -= p->min_us;
	if (!s->count || us < s->min_us)
		s->min_us = us;
	s->count++;
	return AW_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
