/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Slots: an ACK is stored, and a newer one replaces or supersedes it.
 *
 * A slot belongs to the flow whose handle names it in its present generation, and is
 * protected by that flow's lock, whose number it stores. One critical section decides about
 * an ACK, stores it in the slot, and puts the slot's deadline into a FIFO: other ACKs leave
 * before or after, but not in between. These also access a slot:
 *
 * - The timer, or a re-emission, which reads the lock's number before locking. A slot
 *   changes hands only by way of FREE, and is freed, with a new generation, under its old
 *   lock. So the holder of a lock that is no longer the slot's finds a generation other
 *   than the one it came for; on_return(), which came for a state and a key, checks the
 *   lock's number again.
 * - Whoever takes it from the free list: nobody else touches a free slot.
 * - A flow that was evicted and created again: its handle is new, only the FIFO still names
 *   the old slot's generation, and its ACK leaves at the deadline.
 * - A program whose flow's entry the LRU map gives to another flow meanwhile: that flow's
 *   handle names a slot with another key, which is left alone.
 * - Whoever does not get the lock (on a virtual machine its holder may be off the CPU for
 *   milliseconds): an ACK passes, and the next one counts as the first of its flow, because
 *   something left that was not noted; the timer comes again soon; a re-emission also
 *   leaves, and notes it by one exchange of the slot's state.
 */
#ifndef ACKWISE_HOLD_H
#define ACKWISE_HOLD_H

#include "maps.h"
#include "metadata.h"
#include "timer.h"

/* Copies in words, as packets allow: an Ethernet header leaves IP at 2 mod 4, and the
 * stack aligns that. A plain memcpy would become byte loads. */
#define COPY32(dst, src, n) \
	_Pragma("unroll") for (int _i = 0; _i < (n); \
			       _i++)((__u32 *)(dst))[_i] = ((const __u32 *)(src))[_i]

/* Copies words `from` to `to`, which the packet must contain. */
#define COPY_L3(from, to) \
	do { \
		if (p + 4 * (to) > end) \
			return 0; \
		COPY32(s->l3 + 4 * (from), p + 4 * (from), (to) - (from)); \
	} while (0)

/* IPv4 with TCP timestamps at once, the rest word by word. 1 if everything was copied. */
static __always_inline int copy_l3(struct aw_slot *s, const __u8 *p, const __u8 *end, __u32 len)
{
	int i;

	if (len < 40 || len > AW_FRAME_L3 || len & 3)
		return 0;
	COPY_L3(0, 10);
	if (AW_LIKELY(len == 52)) {
		COPY_L3(10, 13);
		return 1;
	}
	for (i = 10; i < AW_FRAME_L3 / 4; i++) {
		if (4 * i >= len)
			break;
		if (p + 4 * i + 4 > end)
			return 0;
		((__u32 *)s->l3)[i] = *(const __u32 *)(p + 4 * i);
	}
	return 1;
}

/* The link header: 14 bytes, more with tags inside the frame, or none. */
static __always_inline int copy_l2(struct aw_slot *s, const __u8 *d, const __u8 *end, __u32 len)
{
	if (!len)
		return 1;
	if (d + 14 > end)
		return 0;
	_Pragma("unroll") for (int i = 0; i < 7; i++)((__u16 *)s->l2)[i] = ((const __u16 *)d)[i];
	if (AW_LIKELY(len == 14))
		return 1;
	if (len > 22 || d + 22 > end)
		return 0;
	_Pragma("unroll") for (int i = 7; i < 11; i++)((__u16 *)s->l2)[i] = ((const __u16 *)d)[i];
	return 1;
}

static __always_inline void slot_meta(struct aw_slot *s, struct __sk_buff *skb,
				      const struct aw_seg *seg)
{
	s->ack = seg->ack;
	s->mark = skb->mark;
	s->priority = skb->priority;
	/* A packet without a hash needs none: queues calculate it from the bytes. One that does
	 * not cover the ports is calculated anew, as queues do. */
	s->hash = skb->hash ? bpf_get_hash_recalc(skb) : 0;
	s->l2_len = seg->l3_off;
	s->l3_len = seg->len;
	s->protocol = seg->ip_version == 4 ? bpf_htons(0x0800) : bpf_htons(0x86dd);
	s->vlan_tci = skb->vlan_tci;
	s->vlan_proto = skb->vlan_present ? skb->vlan_proto : 0;
}

/* Whether there is metadata that no slot keeps. A function of its own, as the stack is full. */
static __noinline int has_metadata(struct __sk_buff *skb)
{
	if (has_tunnel_key(skb))
		return 1;
	return options.ipsec && has_security_path(skb);
}

/* Under the flow's lock, like everything below. */
static __always_inline int slot_store(struct aw_slot *s, struct __sk_buff *skb,
				      const struct aw_seg *seg)
{
	const __u8 *data = (const __u8 *)(long)skb->data;
	const __u8 *end = (const __u8 *)(long)skb->data_end;
	__u64 off = seg->l3_off & 31;

	if (AW_UNLIKELY(has_metadata(skb)))
		return 0;
	if (!copy_l2(s, data, end, off) || !copy_l3(s, data + off, end, seg->len))
		return 0;
	/* It would return with three tags inside, more than the parser reads. */
	if (AW_UNLIKELY(off == 22 && skb->vlan_present))
		return 0;
	slot_meta(s, skb, seg);
	return 1;
}

/* The slot that a flow's handle names, if it belongs to the flow; else 0. */
static __always_inline struct aw_slot *slot_of(const struct aw_entry *f, const struct aw_key *key)
{
	__u64 handle = f->handle;
	struct aw_slot *s = slot_at(handle >> 32);

	if (!s || s->generation != (__u32)handle || !key_equal(&s->key, key))
		return 0;
	return s;
}

/*
 * Whether the newest ACK of the flow, which is about to be held, has unsent SACK blocks. If
 * so, it leaves even if its number has already been sent.
 */
static __always_inline int has_unsent_sack(const struct aw_entry *f)
{
	return !!aw_sack_unsent(&f->flow.acks);
}

/* Whether a held ACK leaves although the flow counts its number as sent. */
enum owed {
	OWED_NOT,
	OWED_BESIDE_EQUAL, /* unless one with a higher number has left */
	OWED_ALWAYS,	   /* what has left or will leave does not say all that it says */
};

enum hold_result {
	HOLD_NEW,
	HOLD_REPLACED,
	HOLD_SILENT, /* from here on the ACK passes: user space does not answer */
	HOLD_NO_SLOT,
	HOLD_QUEUE_FULL,
	HOLD_NO_TIMER,
	HOLD_SHORT,
	HOLD_FRAME,
	HOLD_OLDER, /* another is held that must not be replaced, which the flow does not know */
};

/*
 * Starts a run of holds: takes a slot, notes its deadline, and makes sure that the timer
 * fires. It is a subprogram because it is less frequent and the caller's stack is full.
 */
static __noinline int hold_new(struct __sk_buff *skb, const struct aw_seg *seg, struct aw_entry *f,
			       __u32 hold_us, __u64 now)
{
	struct aw_percpu *here = percpu_here();
	struct aw_deadline d;
	struct aw_ticker *t;
	struct aw_slot *s;
	__u32 k = 0, slot, class = 0, step;
	int r;

	if (!f || !seg || !here)
		return HOLD_NO_SLOT;
	now = clock(now);
	/*
	 * Finds the last class that is not longer, using sign bits, because the verifier
	 * would follow every branch. The compiler knows the range of the index, but the
	 * verifier of 6.1 does not, and must see the bounds.
	 */
	for (step = AW_CLASS_TABLE / 2; step; step /= 2) {
		__u32 i = class + step;

		barrier_var(i);
		i &= AW_CLASS_TABLE - 1;
		class += step * (1 - ((hold_us - options.class_us[i]) >> 31));
	}
	barrier_var(class);
	if (!class || class > AW_CLASSES)
		return HOLD_SHORT;
	t = bpf_map_lookup_elem(&ticker, &k);
	if (!t)
		return HOLD_NO_TIMER;

	/* A hot flow keeps its slot between runs. */
	slot = f->handle >> 32;
	s = slot_of(f, &here->key);
	if (!s || s->state != SLOT_SUPERSEDED || s->lock != here->lock) {
		if (bpf_map_pop_elem(&free_slots, &slot))
			return HOLD_NO_SLOT;
		s = slot_at(slot);
		if (!s)
			return HOLD_NO_SLOT;
		s->lock = here->lock;
		s->key = here->key;
	}
	s->generation++;
	s->tries = 0;
	s->owed = has_unsent_sack(f);
	s->since_ns = now;
	s->deadline_ns = now + options.class_us[class] * NSEC_PER_USEC;
	s->state = SLOT_HELD;
	d.deadline_ns = s->deadline_ns;
	d.slot = slot;
	d.generation = s->generation;
	r = HOLD_NEW;
	if (!slot_store(s, skb, seg))
		r = HOLD_FRAME;
	else if (queue_push(class, &d))
		r = HOLD_QUEUE_FULL;
	else if (ticker_arm(t, d.deadline_ns, now))
		r = HOLD_NO_TIMER;
	if (AW_UNLIKELY(r != HOLD_NEW)) {
		slot_free(s, slot);
		return r;
	}
	f->handle = (__u64)slot << 32 | d.generation;
	return HOLD_NEW;
}

/* Withholds this ACK. A run that is in progress keeps its first deadline. */
static __always_inline enum hold_result hold(struct __sk_buff *skb, const struct aw_percpu *here,
					     const struct aw_seg *seg, struct aw_entry *f,
					     __u32 hold_us, __u64 now)
{
	struct aw_slot *s = slot_of(f, &here->key);

	if (!s || s->state != SLOT_HELD || s->lock != here->lock)
		return hold_new(skb, seg, f, hold_us, now);
	/* If it has the same number, it has SACK blocks that the held one lacks. */
	if (aw_after(s->ack, seg->ack) || s->owed == OWED_ALWAYS)
		return HOLD_OLDER;
	if (AW_LIKELY(slot_store(s, skb, seg))) {
		s->owed = has_unsent_sack(f);
		return HOLD_REPLACED;
	}
	/* A partial frame cannot be sent: this ACK leaves, and says everything. */
	s->state = SLOT_SUPERSEDED;
	return HOLD_FRAME;
}

/* Records how long a hold lasted, however it ended. */
static __always_inline void note_hold(struct aw_counters *c, __u64 since_ns, __u64 now)
{
	__u64 ns = now > since_ns ? now - since_ns : 0, b = ns >> AW_HOLD_BUCKET_SHIFT;

	c->held_ns += ns;
	if (b >= AW_HOLD_BUCKETS)
		b = AW_HOLD_BUCKETS - 1;
	c->held[b & (AW_HOLD_BUCKETS - 1)]++; /* the mask is for the verifier */
}

/* An ACK with this number leaves: a held ACK up to this number need not. */
static __always_inline void supersede(const struct aw_entry *f, __u32 ack, struct aw_percpu *here,
				      __u64 now)
{
	struct aw_slot *s = slot_of(f, &here->key);
	struct aw_counters *c = &here->counters;

	if (!s || aw_after(s->ack, ack) || s->owed == OWED_ALWAYS)
		return;
	if (s->state == SLOT_HELD)
		s->state = SLOT_SUPERSEDED;
	else if (__sync_val_compare_and_swap(&s->state, SLOT_EMITTED, SLOT_STALE) != SLOT_EMITTED)
		return;
	c->superseded++;
	note_hold(c, s->since_ns, clock(now));
}

/* The held ACK leaves at its deadline, although one with the same number has left. */
static __always_inline void owe(const struct aw_entry *f, __u32 ack, const struct aw_percpu *here)
{
	struct aw_slot *s = slot_of(f, &here->key);

	if (s && s->ack == ack)
		s->owed = OWED_BESIDE_EQUAL;
}

#endif
