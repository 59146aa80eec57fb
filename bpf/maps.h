/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps, and what all programs need. The loader sets the sizes marked (*). */
#ifndef ACKWISE_MAPS_H
#define ACKWISE_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "clock.h"
#include "headers.h"

#define NSEC_PER_USEC 1000ULL

/* Constants that the loader writes before the programs are verified. */
const volatile struct aw_options options = {};

/*
 * A flow lock: one word that is exchanged. A bpf_spin_lock costs ten times as much (it
 * disables interrupts, by two calls), and forbids helpers and subprograms while it is held.
 * Nothing that runs here interrupts another of its kind on the same CPU: the hooks and the
 * timer run with softirqs disabled. Still nobody waits forever: if the lock cannot be taken
 * in about 50 us, the packet passes.
 */
struct aw_lock {
	aw_u32 busy;
	aw_u32 reserved[15]; /* a cache line of its own */
};

#define LOCK_TRIES 4096

enum aw_slot_state {
	SLOT_FREE = 0,
	SLOT_HELD,
	SLOT_SUPERSEDED, /* a newer ACK left; the flow may take the slot again */
	SLOT_EMITTED,	 /* handed to user space, not yet seen at the hook */
	SLOT_STALE,	 /* handed to user space, but a newer ACK has left meanwhile */
	SLOT_GONE,	 /* left past a lock held by someone else; freed by the timer */
};

union aw_slot_word {
	struct {
		aw_u32 generation, state;
	};
	aw_u64 both;
};

/*
 * Everything in a slot is written under the lock of the flow that owns it, and the lock's
 * number is written before the generation that belongs to it: see hold.h. The one exception
 * is the change from EMITTED to GONE, hence the single word for state and generation.
 */
struct aw_slot {
	aw_u32 lock; /* which of the flow locks */
	aw_u32 ack;
	union {
		struct {
			aw_u32 generation, state;
		};
		union aw_slot_word word;
	};
	aw_u64 deadline_ns;
	aw_u64 since_ns;       /* when the first ACK of this hold was withheld */
	aw_u64 ring_pos;       /* its position in the ring when handed to user space */
	aw_u32 mark, priority; /* of the newest frame; restored when it leaves */
	aw_u32 hash;	       /* restored as well: queues tell flows apart by it */
	aw_u16 l2_len, l3_len;
	aw_u16 protocol;
	aw_u16 vlan_proto, vlan_tci; /* of a tag beside the frame; vlan_proto 0: none */
	aw_u16 tries;		     /* how often it was handed to user space */
	aw_u16 owed;		     /* enum owed */
	struct aw_key key;
	aw_u8 l2[AW_FRAME_L2];
	aw_u8 l3[AW_FRAME_L3];
};

struct aw_deadline {
	aw_u64 deadline_ns;
	aw_u32 slot, generation;
};

struct aw_ticker {
	struct bpf_timer timer;
	aw_u64 next_ns; /* the time that it is armed for; ~0: idle */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536); /* (*) */
	__type(key, struct aw_key);
	__type(value, struct aw_entry);
} flows SEC(".maps");

/* Separate: a SYN flood evicts handshakes, never flows. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384); /* (*) */
	__type(key, struct aw_key);
	__type(value, struct aw_handshake);
} handshakes SEC(".maps");

/* An LRU map's values cannot hold a lock, so flows share these. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, AW_LOCKS);
	__type(key, __u32);
	__type(value, struct aw_lock);
} locks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096); /* (*) */
	__type(key, __u32);
	__type(value, struct aw_slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 4096); /* (*) */
	__type(value, __u32);
} free_slots SEC(".maps");

#define AW_QUEUE(n) \
	struct { \
		__uint(type, BPF_MAP_TYPE_QUEUE); \
		__uint(max_entries, 8192); /* (*) */ \
		__type(value, struct aw_deadline); \
	} queue_##n SEC(".maps")

AW_QUEUE(0);
AW_QUEUE(1);
AW_QUEUE(2);
AW_QUEUE(3);
AW_QUEUE(4);
AW_QUEUE(5);
AW_QUEUE(6);
AW_QUEUE(7);
AW_QUEUE(8);
AW_QUEUE(9);
AW_QUEUE(10);
AW_QUEUE(11);
AW_QUEUE(12);
AW_QUEUE(13);
AW_QUEUE(14);
AW_QUEUE(15);
AW_QUEUE(16);
AW_QUEUE(17);
AW_QUEUE(18);
AW_QUEUE(19);
AW_QUEUE(20);
AW_QUEUE(21);
AW_QUEUE(22);
AW_QUEUE(23);
AW_QUEUE(24);
AW_QUEUE(25);
AW_QUEUE(26);
AW_QUEUE(27);
AW_QUEUE(28);
AW_QUEUE(29);
AW_QUEUE(30);
AW_QUEUE(31);
AW_QUEUE(32);
AW_QUEUE(33);
AW_QUEUE(34);
AW_QUEUE(35);
AW_QUEUE(36);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct aw_ticker);
} ticker SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct aw_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct aw_percpu);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* (*) */
} emissions SEC(".maps");

/* The compiler must not fold the zeros above; the verifier folds the real values. */
static __always_inline const struct aw_flow_cfg *flow_cfg(void)
{
	const struct aw_flow_cfg *c = (const struct aw_flow_cfg *)&options.flow;

	__asm__ volatile("" : "+r"(c));
	return c;
}

/* The time of this packet, read at most once; 0 means not yet read. */
static __always_inline __u64 clock(__u64 now)
{
	return now ? now : clock_ns();
}

/*
 * Reads the coarse clock, which advances at each tick. The tick number is read inline; the
 * call takes about 16 ns, so each CPU makes it once per tick. A CPU that sees the number
 * just before the clock advances keeps the time of the previous tick.
 */
static __always_inline void clock_coarse(struct aw_percpu *here)
{
	__u64 tick = clock_tick();

	if (AW_LIKELY(here->coarse_tick == tick))
		return;
	here->coarse_tick = tick;
	here->coarse_ns = clock_coarse_ns();
	here->coarse_us = here->coarse_ns / NSEC_PER_USEC;
}

static __always_inline struct aw_percpu *percpu_here(void)
{
	__u32 k = 0;

	return bpf_map_lookup_elem(&counters, &k);
}

static __always_inline struct aw_counters *counters_here(void)
{
	struct aw_percpu *p = percpu_here();

	return p ? &p->counters : 0;
}

static __always_inline struct aw_lock *lock_at(__u32 k)
{
	k &= AW_LOCKS - 1;
	return bpf_map_lookup_elem(&locks, &k);
}

struct lock_wait {
	__u32 lock, got;
};

static long lock_try(__u32 i, struct lock_wait *w)
{
	struct aw_lock *l = lock_at(w->lock);

	if (!l)
		return 1;
	w->got = !__sync_lock_test_and_set(&l->busy, 1);
	return w->got;
}

static __noinline int lock_wait(__u32 lock)
{
	struct lock_wait w = { .lock = lock };

	bpf_loop(LOCK_TRIES, lock_try, &w, 0);
	return w.got;
}

/* 1 if the lock was taken. The exchange orders everything read and written under it. */
static __always_inline int lock_take(struct aw_lock *l, __u32 lock)
{
	if (AW_LIKELY(!__sync_lock_test_and_set(&l->busy, 1)))
		return 1;
	return lock_wait(lock);
}

static __always_inline void lock_drop(struct aw_lock *l)
{
	__sync_lock_test_and_set(&l->busy, 0);
}

static __always_inline struct aw_slot *slot_at(__u32 k)
{
	return bpf_map_lookup_elem(&slots, &k);
}

static __always_inline void slot_release(__u32 k)
{
	bpf_map_push_elem(&free_slots, &k, 0);
}

/* By words, as they were written: a longer load would stall until all of them are in the
 * cache, and if the segment is in registers, no load is needed. */
static __always_inline void copy_addr(struct aw_addr *to, const struct aw_addr *from)
{
	to->w[0] = from->w[0];
	to->w[1] = from->w[1];
	to->w[2] = from->w[2];
	to->w[3] = from->w[3];
}

static __always_inline void make_key(struct aw_key *k, struct __sk_buff *skb,
				     const struct aw_seg *s, int acks)
{
	if (acks) {
		copy_addr(&k->acks, &s->src);
		copy_addr(&k->data, &s->dst);
		k->acks_port = s->sport;
		k->data_port = s->dport;
	} else {
		copy_addr(&k->acks, &s->dst);
		copy_addr(&k->data, &s->src);
		k->acks_port = s->dport;
		k->data_port = s->sport;
	}
	k->vlans = vlans_of(skb, s);
}

static __always_inline int key_equal(const struct aw_key *a, const struct aw_key *b)
{
	const aw_u64 *x = (const aw_u64 *)a, *y = (const aw_u64 *)b;

	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]) | (x[4] ^ y[4]));
}

#endif
