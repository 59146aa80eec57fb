/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Deadlines: one FIFO per class, and one timer for the earliest head.
 *
 * Arming is lazy. next_ns is the deadline that the timer is armed for; anyone with an
 * earlier one lowers it and restarts the timer. Two CPUs may restart it in the wrong order,
 * so each checks again after its own restart: the last one to restart sees the lowest
 * value. The callback first sets next_ns to "idle", so that anything pushed while it runs
 * arms the timer again.
 */
#ifndef ACKWISE_TIMER_H
#define ACKWISE_TIMER_H

#include <linux/errno.h>
#include "maps.h"

#define AW_IDLE (~0ULL)
#define TICK_BATCH 256		/* per class and callback */
#define TICK_AGAIN_NS 250000ULL /* if the ring was full or a batch was cut short */

enum queue_op {
	Q_PUSH,
	Q_POP,
	Q_PEEK
};

#define Q_CASE(n) \
	case n: \
		if (op == Q_PUSH) \
			return bpf_map_push_elem(&queue_##n, d, 0); \
		if (op == Q_POP) \
			return bpf_map_pop_elem(&queue_##n, d); \
		return bpf_map_peek_elem(&queue_##n, d);

/* The map of a helper call must be a constant, hence the switch. */
static __always_inline long queue_do(enum queue_op op, __u32 class, struct aw_deadline *d)
{
	switch (class) {
		/* clang-format off */
	Q_CASE(0) Q_CASE(1) Q_CASE(2) Q_CASE(3) Q_CASE(4) Q_CASE(5)
	Q_CASE(6) Q_CASE(7) Q_CASE(8) Q_CASE(9) Q_CASE(10) Q_CASE(11)
	Q_CASE(12) Q_CASE(13) Q_CASE(14) Q_CASE(15) Q_CASE(16) Q_CASE(17)
	Q_CASE(18) Q_CASE(19) Q_CASE(20) Q_CASE(21) Q_CASE(22) Q_CASE(23)
	Q_CASE(24) Q_CASE(25) Q_CASE(26) Q_CASE(27) Q_CASE(28) Q_CASE(29)
	Q_CASE(30) Q_CASE(31) Q_CASE(32) Q_CASE(33) Q_CASE(34) Q_CASE(35)
	Q_CASE(36)
		/* clang-format on */
	}
	return -1;
}

static __noinline long queue_push(__u32 class, struct aw_deadline *d)
{
	return queue_do(Q_PUSH, class, d);
}

static __noinline long queue_pop(__u32 class, struct aw_deadline *d)
{
	return queue_do(Q_POP, class, d);
}

static __noinline long queue_peek(__u32 class, struct aw_deadline *d)
{
	return queue_do(Q_PEEK, class, d);
}

/* 0 if the timer will fire at the deadline or before. */
static __always_inline long ticker_arm(struct aw_ticker *t, __u64 deadline, __u64 now)
{
	__u64 old = *(volatile __u64 *)&t->next_ns;
	int i;

	if (AW_LIKELY(deadline >= old) || clock_is_scripted())
		return 0;
	for (i = 0; i < 4; i++) {
		__u64 was = __sync_val_compare_and_swap(&t->next_ns, old, deadline);
		long err;

		if (was != old) {
			old = was;
			if (deadline >= old)
				return 0;
			continue;
		}
		err = bpf_timer_start(&t->timer, deadline > now ? deadline - now : 1, 0);
		if (err) {
			t->next_ns = AW_IDLE; /* let the next hold try again */
			return err;
		}
		old = *(volatile __u64 *)&t->next_ns;
		if (old >= deadline)
			return 0;
		/* Someone with an earlier deadline may have started before us: start for them. */
		bpf_timer_start(&t->timer, old > now ? old - now : 1, 0);
		return 0;
	}
	/* Contended: fire soon; the callback sorts it out. */
	return bpf_timer_start(&t->timer, TICK_AGAIN_NS, 0);
}

struct tick {
	__u64 now;
	__u64 next; /* earliest deadline left behind */
	__u32 class;
	__u32 again;
};

static __always_inline void emit_fill(struct aw_emit *e, const struct aw_slot *s, __u32 slot)
{
	e->deadline_ns = s->deadline_ns;
	e->slot = slot;
	e->generation = s->generation;
	e->l2_len = s->l2_len;
	e->l3_len = s->l3_len;
	e->protocol = s->protocol;
	e->tries = s->tries;
	e->vlan_proto = s->vlan_proto;
	e->vlan_tci = s->vlan_tci;
	e->reserved = 0;
	__builtin_memcpy(e->l2, s->l2, sizeof(e->l2));
	__builtin_memcpy(e->l3, s->l3, sizeof(e->l3));
}

/* Under its lock: nothing is left to emit. FIFOs may still name the slot. */
static __always_inline void slot_free(struct aw_slot *s, __u32 slot)
{
	s->state = SLOT_FREE;
	s->generation++;
	slot_release(slot);
}

/*
 * Whether user space has read what it was last handed. User space will send what it has not
 * read yet when it resumes, however long it was stopped: until then the ACK is neither
 * handed out again nor given up. The timer is the only producer of the ring.
 */
static __always_inline int was_read(const struct aw_slot *s)
{
	return bpf_ringbuf_query(&emissions, BPF_RB_CONS_POS) > s->ring_pos;
}

/*
 * Moves the head of a class to the retries, where it is kept until it is seen at the hook.
 * That FIFO has more room than there are slots, but a slot that returns at once leaves its
 * deadline there, so it may be full for a while.
 */
static __always_inline long look_again(struct tick *k, struct aw_deadline *d)
{
	struct aw_deadline again = *d;
	long err;

	again.deadline_ns = k->now + AW_RETRY_NS;
	if (k->class == AW_RETRY_CLASS) /* makes room for itself */
		queue_pop(k->class, d);
	err = queue_push(AW_RETRY_CLASS, &again);
	if (err)
		return err;
	/* This callback has already passed the retries. */
	if (again.deadline_ns < k->next)
		k->next = again.deadline_ns;
	if (k->class != AW_RETRY_CLASS)
		queue_pop(k->class, d);
	return 0;
}

/* The head of one class: 0 to continue, 1 if nothing is left to do. */
static long tick_one(__u32 i, struct tick *k)
{
	struct aw_counters *c = counters_here();
	struct aw_deadline d = {};
	struct aw_slot *s;
	struct aw_lock *l;
	struct aw_emit *e;
	__u32 lock, handed_out;
	__u64 ring_pos;
	long err;

	if (!c)
		return 1;
	err = queue_peek(k->class, &d);
	if (err) {
		if (err != -ENOENT) /* else empty; another CPU holds the queue lock too long */
			k->again = 1;
		return 1;
	}
	if (d.deadline_ns > k->now) {
		if (d.deadline_ns < k->next)
			k->next = d.deadline_ns;
		return 1;
	}
	s = slot_at(d.slot);
	if (!s || s->generation != d.generation) { /* reused by another hold long ago */
		queue_pop(k->class, &d);
		return 0;
	}
	lock = s->lock;
	l = lock_at(lock);
	if (!l || !lock_take(l, lock)) {
		k->again = 1;
		return 1;
	}
	/* If the slot has changed hands since, so has its generation. */
	if (s->generation != d.generation) {
		lock_drop(l);
		queue_pop(k->class, &d);
		return 0;
	}
	handed_out = s->state == SLOT_EMITTED || s->state == SLOT_STALE;
	if (handed_out && !was_read(s)) {
		lock_drop(l);
		look_again(k, &d); /* the callback is the only consumer */
		return 0;
	}
	if ((s->state != SLOT_HELD && !handed_out) || s->tries >= AW_RETRIES) {
		c->lost += s->state == SLOT_EMITTED;
		slot_free(s, d.slot);
		lock_drop(l);
		queue_pop(k->class, &d);
		return 0;
	}
	ring_pos = bpf_ringbuf_query(&emissions, BPF_RB_PROD_POS);
	e = bpf_ringbuf_reserve(&emissions, sizeof(*e), 0);
	if (!e) { /* user space is behind; it stays where it is */
		lock_drop(l);
		c->ring_full++;
		k->again = 1;
		return 1;
	}
	/* Without this, nobody would free the slot of a frame that does not return. */
	if (look_again(k, &d)) {
		lock_drop(l);
		bpf_ringbuf_discard(e, BPF_RB_NO_WAKEUP);
		k->again = 1;
		return 1;
	}
	if (s->state == SLOT_HELD) /* else it may be GONE by now: see claim_past_lock() */
		s->state = SLOT_EMITTED;
	c->retried += s->tries > 0;
	s->tries++;
	s->ring_pos = ring_pos;
	emit_fill(e, s, d.slot);
	lock_drop(l);
	bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* bpf_loop() here too: the verifier checks it once. */
static long tick_class(__u32 class, struct tick *k)
{
	k->class = class;
	if (bpf_loop(TICK_BATCH, tick_one, k, 0) >= TICK_BATCH)
		k->again = 1;
	return 0;
}

static __always_inline int tick_all(struct aw_ticker *t)
{
	struct aw_counters *c = counters_here();
	struct tick k = { .next = AW_IDLE };

	if (c)
		c->ticks++;
	__sync_lock_test_and_set(&t->next_ns, AW_IDLE);
	k.now = clock_ns();
	bpf_loop(options.classes, tick_class, &k, 0);
	if (k.again && k.now + TICK_AGAIN_NS < k.next)
		k.next = k.now + TICK_AGAIN_NS;
	if (k.next != AW_IDLE)
		ticker_arm(t, k.next, k.now);
	return 0;
}

static int on_tick(void *map, __u32 *key, struct aw_ticker *t)
{
	return tick_all(t);
}

#endif
