/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A re-emitted frame at the hook. User space sends an ACK that was held until its deadline,
 * and marks it with a cookie that names the slot. The frame is ours only if the slot's
 * state, key and ACK number match, so that a user's own mark is never mistaken for it. Then
 * the slot waits no more, and the frame gets its mark, priority and hash back. A tag that was
 * beside the frame is inside it now, even in a frame for which no slot waits any more.
 *
 * The frame leaves unless a newer ACK of its flow has left since.
 */
#ifndef ACKWISE_RETURN_H
#define ACKWISE_RETURN_H

#include "echo.h"
#include "hold.h"
#include "maps.h"
#include "obey.h"

enum returned {
	RETURNED_NOT_OURS,
	RETURNED_CURRENT, /* it leaves */
	RETURNED_STALE,	  /* a newer ACK has left: it is dropped */
};

/* What a held frame had beside its bytes, and what is counted of its hold. */
struct held_meta {
	__u64 deadline, since;
	__u32 mark, priority, hash;
	__u32 owed;
};

static __always_inline int has_cookie(const struct __sk_buff *skb)
{
	return (skb->mark & ~AW_COOKIE_SLOT) == AW_COOKIE_MAGIC;
}

static __always_inline void held_meta_read(struct held_meta *m, const struct aw_slot *s)
{
	m->deadline = s->deadline_ns;
	m->since = s->since_ns;
	m->mark = s->mark;
	m->priority = s->priority;
	m->hash = s->hash;
	m->owed = s->owed;
}

static __always_inline void note_late(struct aw_counters *c, __u64 late_ns)
{
	__u64 us = late_ns / NSEC_PER_USEC;
	__u32 b = AW_LATE_BUCKETS - 1;

	if (us < 16 * AW_LATE_FINE)
		b = us / 16;
	else if (us < 16 * AW_LATE_FINE + 256 * AW_LATE_COARSE)
		b = AW_LATE_FINE + (us - 16 * AW_LATE_FINE) / 256;
	c->late[b & (AW_LATE_BUCKETS - 1)]++;
	if (us > c->late_max_us)
		c->late_max_us = us;
}

static __always_inline int slot_awaits(const struct aw_slot *s, const struct aw_key *key, __u32 ack)
{
	return (s->state == SLOT_EMITTED || s->state == SLOT_STALE) && s->ack == ack &&
	       key_equal(&s->key, key);
}

/*
 * The lock could not be taken within the bounded spin. While a slot is EMITTED, nothing
 * else in it changes, and the exchange finds out whether it still is, in the same
 * generation: if so, what was read before is correct. The timer frees the slot. See
 * docs/decisions/0021-past-a-lock.md.
 */
static __noinline int claim_past_lock(struct aw_slot *s, const struct aw_key *key, __u32 ack,
				      struct held_meta *m)
{
	union aw_slot_word was, gone;

	if (!s || !key || !m)
		return RETURNED_NOT_OURS;
	was.both = *(volatile __u64 *)&s->word.both;
	if (!slot_awaits(s, key, ack))
		return RETURNED_NOT_OURS;
	if (was.state == SLOT_STALE)
		return RETURNED_STALE;
	if (was.state != SLOT_EMITTED)
		return RETURNED_NOT_OURS;
	held_meta_read(m, s);
	gone = was;
	gone.state = SLOT_GONE;
	if (__sync_val_compare_and_swap(&s->word.both, was.both, gone.both) == was.both)
		return RETURNED_CURRENT;
	gone.state = SLOT_STALE; /* a newer ACK has just left, or the slot was given up */
	return *(volatile __u64 *)&s->word.both == gone.both ? RETURNED_STALE : RETURNED_NOT_OURS;
}

/* Whether this frame is the one that the slot waits for. If so, the slot waits no more. */
static __always_inline int claim_return(struct aw_slot *s, __u32 slot, const struct aw_key *key,
					__u32 ack, struct held_meta *m, int *past_lock)
{
	__u32 lock = s->lock;
	struct aw_lock *l = lock_at(lock);
	int what = RETURNED_NOT_OURS;

	if (!l)
		return RETURNED_NOT_OURS;
	if (AW_UNLIKELY(!lock_take(l, lock))) {
		*past_lock = 1;
		return claim_past_lock(s, key, ack, m);
	}
	if (slot_awaits(s, key, ack) && *(volatile __u32 *)&s->lock == lock) {
		what = s->state == SLOT_EMITTED ? RETURNED_CURRENT : RETURNED_STALE;
		held_meta_read(m, s);
		slot_free(s, slot);
	}
	lock_drop(l);
	return what;
}

/* Restores the frame's metadata, and counts its hold. */
static __always_inline void restore(struct __sk_buff *skb, const struct held_meta *m,
				    const struct aw_seg *seg, struct aw_counters *c, __u64 now)
{
	c->reemitted++;
	c->reemitted_bytes += seg->len;
	note_late(c, now > m->deadline ? now - m->deadline : 0);
	note_hold(c, m->since, now);
	skb->mark = m->mark;
	skb->priority = m->priority;
	/*
	 * Sockets choose a random hash, and devices may give one. Without it fq_codel and cake would
	 * put the frame into another flow: it would fall behind newer ACKs, and cake's filter would
	 * not find it.
	 */
	if (m->hash)
		bpf_set_hash(skb, m->hash);
}

/* Whether an ACK that says as much has already left. */
static __always_inline int has_left(const struct aw_flow *f, __u32 ack, __u32 owed)
{
	if (owed == OWED_ALWAYS)
		return 0;
	return owed ? aw_after(f->acks.sent_ack, ack) : !aw_after(ack, f->acks.sent_ack);
}

/* A frame with our cookie. Returns an enum returned. */
static __noinline int on_return(struct __sk_buff *skb, const struct aw_key *key, struct aw_seg *seg)
{
	__u32 slot = skb->mark & AW_COOKIE_SLOT;
	struct aw_counters *c = counters_here();
	struct aw_slot *s = slot_at(slot);
	struct held_meta m = {};
	struct aw_entry *f;
	struct aw_lock *l;
	int what, past_lock = 0;
	__u32 number, skipped = 0;
	__u64 now = clock_ns();

	if (!c || !s)
		return RETURNED_NOT_OURS;
	what = claim_return(s, slot, key, seg->ack, &m, &past_lock);
	if (what == RETURNED_NOT_OURS)
		return what;

	f = bpf_map_lookup_elem(&flows, key);
	/* If the entry now belongs to another flow, or to a newer connection with the
	 * same ports, the frame does not concern it. If it is new because the flow was
	 * evicted, it is not told either, and thins less. */
	if (f && (!key_equal(&f->key, key) || f->count.first_ns > m.since))
		f = 0;
	number = f ? *(volatile __u32 *)&f->lock : 0;
	l = f ? lock_at(number) : 0;
	if (f && l && !past_lock && lock_take(l, number)) {
		if (what == RETURNED_CURRENT && has_left(&f->flow, seg->ack, m.owed))
			what = RETURNED_STALE;
		if (what == RETURNED_CURRENT) {
			skipped = obey_skipped(f, seg->ack);
			aw_flow_on_sent(&f->flow, flow_cfg(), seg, now / NSEC_PER_USEC);
			f->count.reemitted++;
			f->count.reemitted_bytes += seg->len;
		}
		lock_drop(l);
	} else if (f && what == RETURNED_CURRENT) {
		/* The flow is not told: its next ACK counts as the first. */
		f->missed = 1;
		skipped = obey_counts_acks(f);
		f->count.reemitted++;
		f->count.reemitted_bytes += seg->len;
		c->unlocked++;
	}
	if (what == RETURNED_STALE) {
		c->reemit_stale++;
		return what;
	}
	restore(skb, &m, seg, c, now);
	if (f && echo_wanted(&f->flow))
		echo_mark_capable(skb, seg);
	if (skipped)
		obey_say_skipped(skb, seg->l4_off);
	return RETURNED_CURRENT;
}

#endif
