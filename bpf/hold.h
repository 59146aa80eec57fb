/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Slots: an ACK goes in, a newer one replaces or supersedes it.
 *
 * A slot belongs to the flow whose handle names it in its present generation, and
 * is protected by that flow's lock, whose number it remembers. So one critical
 * section decides about an ACK and puts it into the slot. Who else comes:
 *
 * - Another CPU with an ACK of the same flow: the same lock.
 * - One whose handle, read before the lock, is out of date: the generation is
 *   another by then, and the slot is left alone. To hold, it takes a second slot,
 *   and both leave; to supersede, it does nothing, and the held one comes back to
 *   the hook, where left_ack tells that it is stale.
 * - The timer, or a re-emission, which read the lock's number before it locks.
 *   A slot changes hands only by way of FREE, and is freed, with a new generation,
 *   under its old lock. So whoever holds a lock that is no longer the slot's finds
 *   a generation that is not the one it came for; on_return(), which came for a
 *   state and a key, looks at the lock's number again.
 * - Who takes it from the free list: nobody else touches a free slot. The queue's
 *   own lock orders what is written here before what the timer then reads.
 * - A flow that was evicted and is kept anew: its handle is new, the old slot's
 *   generation is named by the FIFO alone, and its ACK leaves at the deadline.
 */
#ifndef ACKWISE_HOLD_H
#define ACKWISE_HOLD_H

#include "maps.h"
#include "timer.h"

/* Words, as packets allow them: an Ethernet header leaves IP at 2 mod 4, and the
 * stack aligns that. A plain memcpy would become byte loads. */
#define COPY32(dst, src, n) \
	_Pragma("unroll") for (int _i = 0; _i < (n); \
			       _i++)((__u32 *)(dst))[_i] = ((const __u32 *)(src))[_i]

#define COPY_L3(len) \
	case len: \
		if (p + (len) > end) \
			return 0; \
		COPY32(s->l3, p, (len) / 4); \
		return 1

/* The usual sizes at once, any other word by word. 1 when all of it was copied. */
static __always_inline int copy_l3(struct aw_slot *s, const __u8 *p, const __u8 *end, __u32 len)
{
	int i;

	switch (len) {
		COPY_L3(40);
		COPY_L3(52);
		COPY_L3(60);
		COPY_L3(72);
	}
	if (len > AW_FRAME_L3 || len & 3)
		return 0;
	for (i = 0; i < AW_FRAME_L3 / 4; i++) {
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

static __always_inline void slot_meta(struct aw_slot *s, const struct __sk_buff *skb,
				      const struct aw_seg *seg)
{
	s->ack = seg->ack;
	s->mark = skb->mark;
	s->priority = skb->priority;
	s->l2_len = seg->l3_off;
	s->l3_len = seg->len;
	s->protocol = seg->ip_version == 4 ? bpf_htons(0x0800) : bpf_htons(0x86dd);
	s->vlan_present = !!skb->vlan_present;
	s->vlan_tci = skb->vlan_tci;
	s->vlan_proto = skb->vlan_proto;
}

/* Under the lock, generation and state agreed. */
static __always_inline int slot_store(struct aw_slot *s, const struct __sk_buff *skb,
				      const struct aw_seg *seg)
{
	const __u8 *data = (const __u8 *)(long)skb->data;
	const __u8 *end = (const __u8 *)(long)skb->data_end;
	__u64 off = seg->l3_off & 31;

	if (!copy_l2(s, data, end, off) || !copy_l3(s, data + off, end, seg->len))
		return 0;
	slot_meta(s, skb, seg);
	return 1;
}

enum hold_result {
	HOLD_NEW,
	HOLD_REPLACED,
	HOLD_OLDER,  /* a newer one of the flow is held already: nothing to keep */
	HOLD_CLOSED, /* the flow has no run that is open: hold_new() */
	HOLD_NO_SLOT,
	HOLD_QUEUE_FULL,
	HOLD_NO_TIMER,
	HOLD_SHORT,
	HOLD_FRAME,
};

/*
 * Start a run: take a slot, note its deadline, see that the timer fires. Not under
 * the lock that decided to hold, because helpers are called: what leaves in
 * between makes this one stale, and on_return() sees that.
 */
static __noinline int hold_new(struct __sk_buff *skb, const struct aw_seg *seg, struct aw_entry *f,
			       __u32 hold_us, __u64 now)
{
	struct aw_deadline d;
	struct aw_ticker *t;
	struct aw_slot *s;
	struct aw_lock *l;
	__u64 handle;
	__u32 k = 0, slot, class = AW_CLASSES, i;
	int ready = 0, stored = 0;

	if (!f || !seg)
		return HOLD_NO_SLOT;
	for (i = 0; i < AW_CLASSES; i++)
		if (options.class_us[i] <= hold_us)
			class = i;
	if (class == AW_CLASSES)
		return HOLD_SHORT;
	t = bpf_map_lookup_elem(&ticker, &k);
	l = flow_lock(f);
	if (!t || !l)
		return HOLD_NO_TIMER;
	d.deadline_ns = now + options.class_us[class] * NSEC_PER_USEC;

	/* A hot flow keeps its slot from run to run. */
	handle = f->handle;
	slot = handle >> 32;
	s = slot_at(slot);
	if (s) {
		bpf_spin_lock(&l->lock);
		if (s->generation == (__u32)handle && s->state == SLOT_SUPERSEDED) {
			ready = 1;
			s->generation++;
			s->tries = 0;
			s->deadline_ns = d.deadline_ns;
			stored = slot_store(s, skb, seg);
			if (stored)
				s->state = SLOT_HELD;
			d.generation = s->generation;
			f->handle = (__u64)slot << 32 | d.generation;
		}
		bpf_spin_unlock(&l->lock);
	}
	if (!ready) {
		if (bpf_map_pop_elem(&free_slots, &slot))
			return HOLD_NO_SLOT;
		s = slot_at(slot);
		if (!s)
			return HOLD_NO_SLOT;
		bpf_spin_lock(&l->lock);
		*(volatile __u32 *)&s->lock = f->lock & (AW_LOCKS - 1);
		s->generation++;
		s->tries = 0;
		s->deadline_ns = d.deadline_ns;
		stored = slot_store(s, skb, seg);
		s->state = stored ? SLOT_HELD : SLOT_SUPERSEDED;
		make_key(&s->key, seg, 1);
		d.generation = s->generation;
		f->handle = (__u64)slot << 32 | d.generation;
		bpf_spin_unlock(&l->lock);
	}
	d.slot = slot;
	/* In no queue means not held: given back, and its ACK passes. */
	if (!stored) {
		slot_settle(s, &d);
		return HOLD_FRAME;
	}
	if (queue_push(class, &d)) {
		slot_settle(s, &d);
		return HOLD_QUEUE_FULL;
	}
	if (ticker_arm(t, d.deadline_ns, now)) {
		slot_settle(s, &d);
		return HOLD_NO_TIMER;
	}
	return HOLD_NEW;
}

/* Under the lock: the open run takes this one, and keeps its first deadline. */
static __always_inline enum hold_result
hold_replace(struct aw_slot *s, __u64 handle, const struct __sk_buff *skb, const struct aw_seg *seg)
{
	if (s->generation != (__u32)handle || s->state != SLOT_HELD)
		return HOLD_CLOSED;
	if (!aw_after(seg->ack, s->ack))
		return HOLD_OLDER;
	if (AW_LIKELY(slot_store(s, skb, seg)))
		return HOLD_REPLACED;
	/* Half a frame is no frame: this one leaves and says it all. */
	s->state = SLOT_SUPERSEDED;
	return HOLD_FRAME;
}

/* Under the lock: an ACK with this number leaves, what is held below need not. */
static __always_inline int supersede(struct aw_slot *s, __u64 handle, __u32 ack)
{
	if (s->generation != (__u32)handle || aw_after(s->ack, ack))
		return 0;
	if (s->state == SLOT_HELD)
		s->state = SLOT_SUPERSEDED;
	else if (s->state == SLOT_EMITTED)
		s->state = SLOT_STALE;
	else
		return 0;
	return 1;
}

#endif
