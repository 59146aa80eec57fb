/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From packet to flow: parsing, keys, handshakes, creation, matches. */
#ifndef ACKWISE_FLOWS_H
#define ACKWISE_FLOWS_H

#include "echo.h"
#include "headers.h"
#include "maps.h"

static const struct aw_entry blank;

/*
 * Parses the segment, and counts the packet. The slow reader writes to per-CPU memory, so
 * that seg's fields can live in registers.
 */
static __always_inline int parse(struct __sk_buff *skb, struct aw_percpu *here, struct aw_seg *seg,
				 struct aw_counters *c)
{
	int status;

	c->packets++;
	c->bytes += skb->len;
	status = read_segment(skb, options.link, seg, &here->seg);
	if (AW_LIKELY(status == AW_PARSE_OK))
		return status;
	if (status == AW_PARSE_NOT_TCP)
		c->not_tcp++;
	else if (status == AW_PARSE_FRAGMENT)
		c->fragments++;
	else
		c->unparsable++;
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

/* Only checked when a flow would be created, so it costs nothing per packet. */
static __always_inline int matches(const struct aw_key *k, __u32 version)
{
	if (!options.match.used)
		return 1;
	return side_matches(AW_SIDE_ACKS, &k->acks, bpf_ntohs(k->acks_port), version) &&
	       side_matches(AW_SIDE_DATA, &k->data, bpf_ntohs(k->data_port), version);
}

/*
 * A SYN or SYN-ACK or, while there is no flow yet, one of the segments that follow, of which the
 * client's first completes the round trip. A new connection must not inherit an old one's flow.
 * `acks` is a constant in each of the two copies: it is used as an index, and the verifier needs
 * to see its range.
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

/* A pure ACK of an unknown flow: create the flow. */
static __noinline struct aw_entry *flow_create(const struct aw_key *key, const struct aw_seg *seg,
					       __u64 now)
{
	struct aw_handshake *h = bpf_map_lookup_elem(&handshakes, key);
	struct aw_percpu *here = percpu_here();
	struct aw_entry *f;

	if (!here)
		return 0;
	/* Complete before another CPU sees it. If another CPU was first, its entry stays. */
	f = &here->fresh;
	*f = blank;
	f->key = *key;
	f->lock = bpf_get_prandom_u32();
	f->count.first_ns = now;
	if (h)
		aw_handshake_on_segment(h, seg, 1, now / NSEC_PER_USEC);
	aw_flow_init(&f->flow, h, now / NSEC_PER_USEC);
	bpf_map_update_elem(&flows, key, f, BPF_NOEXIST);
	return bpf_map_lookup_elem(&flows, key);
}

#endif
