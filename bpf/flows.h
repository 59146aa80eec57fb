/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From packet to flow: parsing, keys, handshakes, creation, matches. */
#ifndef ACKWISE_FLOWS_H
#define ACKWISE_FLOWS_H

#include "echo.h"
#include "maps.h"

static const struct aw_entry blank;

#define PULL_MAX (22 + 60 + 60)

/* Its second half, verified with any offsets instead of along each way to one. */
__attribute__((noinline)) int parse_slow_tcp(struct __sk_buff *skb, struct aw_seg *seg)
{
	if (!seg)
		return AW_PARSE_MALFORMED;
	return aw_general_tcp((const __u8 *)(long)skb->data, (const __u8 *)(long)skb->data_end,
			      seg);
}

/*
 * The general reader: a global subprogram is verified once.
 * Headers that are not linear are pulled once; both callers load their packet
 * pointers after it.
 */
__attribute__((noinline)) int parse_slow(struct __sk_buff *skb, struct aw_seg *seg)
{
	__u32 want = skb->len < PULL_MAX ? skb->len : PULL_MAX;

	if (!seg)
		return AW_PARSE_MALFORMED;
	if ((__u32)(skb->data_end - skb->data) < want && bpf_skb_pull_data(skb, want))
		return AW_PARSE_TRUNCATED;
	want = aw_general_ip((const __u8 *)(long)skb->data, (const __u8 *)(long)skb->data_end,
			     options.link, skb->len, seg);
	return want == AW_PARSE_OK ? parse_slow_tcp(skb, seg) : want;
}

/* Seen at a glance, so that the slow reader is not asked about every UDP packet. */
static __always_inline int surely_not_tcp(const struct __sk_buff *skb)
{
	const __u8 *d = (const __u8 *)(long)skb->data, *end = (const __u8 *)(long)skb->data_end;
	const __u8 *ip = d + (options.link == AW_LINK_ETHERNET ? 14 : 0);
	__u16 type = 0;

	if (ip + 40 > end)
		return 0;
	if (options.link == AW_LINK_ETHERNET) {
		type = *(const __u16 *)(d + 12);
		if (type != bpf_htons(0x0800) && type != bpf_htons(0x86dd))
			return type != bpf_htons(0x8100) && type != bpf_htons(0x88a8);
	}
	if (ip[0] >> 4 == 4 && type != bpf_htons(0x86dd))
		return ip[0] == 0x45 && ip[9] != 6;
	if (ip[0] >> 4 == 6 && type != bpf_htons(0x0800))
		return ip[6] == 17 /* UDP */ || ip[6] == 58 /* ICMPv6 */;
	return 0;
}

/*
 * The usual shape is read into seg, whose fields then can live in registers; only
 * what parse_slow() has read is copied, from the CPU's own room.
 */
static __always_inline int parse(struct __sk_buff *skb, struct aw_percpu *here, struct aw_seg *seg,
				 struct aw_counters *c)
{
	int status;

	c->packets++;
	c->bytes += skb->len;
	if (AW_LIKELY(aw_parse_fast((const __u8 *)(long)skb->data,
				    (const __u8 *)(long)skb->data_end, options.link, skb->len,
				    seg)))
		return AW_PARSE_OK;
	status = surely_not_tcp(skb) ? AW_PARSE_NOT_TCP : parse_slow(skb, &here->seg);
	if (status == AW_PARSE_NOT_TCP)
		c->not_tcp++;
	else if (status == AW_PARSE_FRAGMENT)
		c->fragments++;
	else if (status != AW_PARSE_OK)
		c->unparsable++;
	else if (seg != &here->seg)
		*seg = here->seg;
	return status;
}

static __always_inline int side_matches(int side, const struct aw_addr *a, __u16 port,
					__u32 version)
{
	const volatile struct aw_match *m = &options.match;
	__u32 i;

	if (port < m->port_lo[side] || port > m->port_hi[side])
		return 0;
	if (!m->version[side])
		return 1;
	if (m->version[side] != version)
		return 0;
	for (i = 0; i < 4; i++)
		if ((a->w[i] ^ m->addr[side].w[i]) & m->mask[side].w[i])
			return 0;
	return 1;
}

/* Asked when a flow would be created, so it costs nothing per packet. */
static __always_inline int matches(const struct aw_key *k, __u32 version)
{
	if (!options.match.used)
		return 1;
	return side_matches(AW_SIDE_ACKS, &k->acks, bpf_ntohs(k->acks_port), version) &&
	       side_matches(AW_SIDE_DATA, &k->data, bpf_ntohs(k->data_port), version);
}

/*
 * A SYN or SYN-ACK, or the first segment after them of a flow that is not kept
 * yet. A new connection must not inherit an old one's flow. `acks` is a constant
 * in each of the two copies: it indexes, and the verifier wants to see how far.
 */
static __always_inline int handshake(const struct aw_key *key, const struct aw_seg *seg, int acks,
				     __u64 now)
{
	struct aw_handshake *h = bpf_map_lookup_elem(&handshakes, key);

	if ((seg->flags & (AW_TCP_SYN | AW_TCP_ACK)) == AW_TCP_SYN)
		bpf_map_delete_elem(&flows, key);
	if (!h && (seg->flags & AW_TCP_SYN)) {
		struct aw_handshake fresh = {};

		aw_handshake_on_segment(&fresh, seg, acks, now / NSEC_PER_USEC);
		echo_handshake(&fresh, seg);
		bpf_map_update_elem(&handshakes, key, &fresh, BPF_NOEXIST);
	} else if (h) {
		aw_handshake_on_segment(h, seg, acks, now / NSEC_PER_USEC);
		echo_handshake(h, seg);
	}
	return 0;
}

static __noinline int handshake_acks(const struct aw_key *key, const struct aw_seg *seg, __u64 now)
{
	return handshake(key, seg, 1, now);
}

static __noinline int handshake_data(const struct aw_key *key, const struct aw_seg *seg, __u64 now)
{
	return handshake(key, seg, 0, now);
}

/* A pure ACK of an unknown flow: keep it from now on. */
static __noinline struct aw_entry *flow_create(const struct aw_key *key, const struct aw_seg *seg,
					       __u64 now)
{
	struct aw_handshake *h = bpf_map_lookup_elem(&handshakes, key);
	struct aw_entry *f;

	/* An entry is more than a stack frame may be. Until it is filled in, another
	 * CPU finds a flow without a first ACK, whose ACKs pass. */
	bpf_map_update_elem(&flows, key, &blank, BPF_NOEXIST);
	f = bpf_map_lookup_elem(&flows, key);
	if (!f)
		return 0;
	f->lock = bpf_get_prandom_u32();
	f->count.first_ns = now;
	if (h)
		aw_handshake_on_segment(h, seg, 1, now / NSEC_PER_USEC);
	aw_flow_init(&f->flow, h, now / NSEC_PER_USEC);
	return f;
}

#endif
