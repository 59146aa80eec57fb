/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The only differences of the datapath in the object for tests. In the shipped object these
 * functions are empty. See selftest.bpf.c.
 */
#ifndef ACKWISE_SELFTEST_H
#define ACKWISE_SELFTEST_H

#include "maps.h"

#ifdef AW_SELFTEST

#include "verdict.h"

/* A benchmark runs one packet again and again. To a flow, each run is the next packet. */
static __always_inline void selftest_advance_ack(struct aw_entry *f, struct aw_seg *seg)
{
	if (!selftest.ack_step)
		return;
	seg->ack = f->flow.acks.rcvd_ack + selftest.ack_step;
	/* The data that it acknowledges count as sent. */
	if (aw_after(seg->ack, f->flow.data.high))
		f->flow.data.high = seg->ack;
}

static __always_inline void selftest_advance_data(const struct aw_entry *f, struct aw_seg *seg)
{
	if (selftest.ack_step)
		seg->seq = f->flow.data.high;
}

/* A test run cannot be given a packet with a tag beside it. */
static __always_inline void selftest_tag(struct __sk_buff *skb)
{
	__u32 tag = skb->cb[0];

	if (!selftest.scripted || !(tag & AW_SELFTEST_TAG))
		return;
	bpf_skb_vlan_push(skb, bpf_htons(tag & AW_SELFTEST_TAG_AD ? 0x88a8 : 0x8100), tag & 0xffff);
}

/* The interface that a clone goes to. */
static __always_inline __u32 selftest_clone_to(__u32 ifindex)
{
	return selftest.clone_fails ? AW_NO_IFINDEX : ifindex;
}

/* In a test run the clone leaves by an interface without this program. */
static __always_inline int selftest_clone_is_unseen(void)
{
	return selftest.scripted && !selftest.clone_fails;
}

#else

static __always_inline int selftest_clone_is_unseen(void)
{
	return 0;
}

static __always_inline void selftest_tag(struct __sk_buff *skb)
{
}

static __always_inline void selftest_advance_ack(struct aw_entry *f, struct aw_seg *seg)
{
}

static __always_inline void selftest_advance_data(const struct aw_entry *f, struct aw_seg *seg)
{
}

static __always_inline __u32 selftest_clone_to(__u32 ifindex)
{
	return ifindex;
}

#endif

#endif
