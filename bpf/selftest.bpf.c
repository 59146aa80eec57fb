// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The datapath with programs for tests and benchmarks. It is a separate object, which no
 * released binary contains; the datapath itself is the very source that is shipped.
 *
 * - ackwise_empty does nothing. Its cost is the zero of the benchmark.
 * - ackwise_replay steps one policy by the events of the test vectors, to compare the code
 *   that the kernel runs with the code that all other environments run.
 * - ackwise_contend takes the locks of all flows for longer than anyone waits. On a virtual
 *   machine this happens when the lock holder's CPU is preempted.
 * - ackwise_count_0 to 2 count pure ACKs, and let them pass. They are identical, because
 *   each name can be attached to an interface only once.
 * - ackwise_box drops pure ACKs, or clears one of their bits, as a middlebox may do.
 * - ackwise_tick does what the timer does when it fires, at the time of a script.
 * - The benchmark advances its one packet: see selftest.h.
 *
 * The counters and the box are attached beside the datapath. The others are run by
 * BPF_PROG_TEST_RUN, and attached nowhere.
 */
#define AW_SELFTEST 1
#include "ackwise.bpf.c"
#include <linux/errno.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct aw_replay);
} replays SEC(".maps");

/* The locks that ackwise_contend has taken. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, AW_LOCKS);
	__type(key, __u32);
	__type(value, __u32);
} contended SEC(".maps");

/* Pure ACKs that a counter saw. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} counted SEC(".maps");

AW_SEC("empty") int ackwise_empty(struct __sk_buff *skb)
{
	return AW_PASS;
}

static __always_inline int count_ack(struct __sk_buff *skb)
{
	struct aw_percpu *here = percpu_here();
	__u32 k = 0;
	__u64 *n = bpf_map_lookup_elem(&counted, &k);

	if (here && n && parse(skb, here, &here->seg, &here->counters) == AW_PARSE_OK &&
	    !here->seg.payload)
		__sync_fetch_and_add(n, 1);
	return AW_PASS;
}

AW_SEC("count_0") int ackwise_count_0(struct __sk_buff *skb)
{
	return count_ack(skb);
}

AW_SEC("count_1") int ackwise_count_1(struct __sk_buff *skb)
{
	return count_ack(skb);
}

AW_SEC("count_2") int ackwise_count_2(struct __sk_buff *skb)
{
	return count_ack(skb);
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct aw_ack_box);
} boxes SEC(".maps");

AW_SEC("box") int ackwise_box(struct __sk_buff *skb)
{
	struct aw_percpu *here = percpu_here();
	struct aw_ack_box *b;
	struct aw_seg *seg;
	__u32 k = 0;

	b = bpf_map_lookup_elem(&boxes, &k);
	if (!here || !b || parse(skb, here, &here->seg, &here->counters) != AW_PARSE_OK)
		return AW_PASS;
	seg = &here->seg;
	if (seg->payload ||
	    (seg->flags & (AW_TCP_ACK | AW_TCP_SYN | AW_TCP_FIN | AW_TCP_RST)) != AW_TCP_ACK)
		return AW_PASS;
	b->acks++;
	b->skipped += !!(seg->flags & AW_TCP_ACK_SKIPPED);
	if (b->drop_every && b->acks % b->drop_every == 0) {
		b->dropped++;
		return TC_ACT_SHOT;
	}
	if (b->clear)
		set_tcp_bits(skb, seg->l4_off, AW_TCP_ACK_SKIPPED, 0);
	return AW_PASS;
}

/* One step of the policy alone. The packet is a struct aw_event. */
AW_SEC("replay") int ackwise_replay(struct __sk_buff *skb)
{
	struct aw_event e;
	struct aw_replay *r;
	__u32 k = 0;

	r = bpf_map_lookup_elem(&replays, &k);
	if (!r)
		return -ENOENT;
	if (bpf_skb_load_bytes(skb, 0, &e, sizeof(e)))
		return -EINVAL;
	r->verdict = aw_policy_step(&r->state, &flow_cfg()->policy, &e);
	return r->verdict.kind;
}

/* Does what the timer does. The timer itself does not run while the time is scripted. */
AW_SEC("tick") int ackwise_tick(struct __sk_buff *skb)
{
	__u32 k = 0;
	struct aw_ticker *t = bpf_map_lookup_elem(&ticker, &k);

	return t ? tick_all(t) : -ENOENT;
}

#define CONTEND_NS 150000 /* three times as long as anyone waits for a lock */

static long contend_take(__u32 i, void *none)
{
	struct aw_lock *l = lock_at(i);
	__u32 *mine = bpf_map_lookup_elem(&contended, &i);

	if (l && mine && !__sync_lock_test_and_set(&l->busy, 1))
		*mine = 1;
	return 0;
}

static long contend_wait(__u32 i, const __u64 *until)
{
	return bpf_ktime_get_ns() >= *until;
}

static long contend_drop(__u32 i, void *none)
{
	struct aw_lock *l = lock_at(i);
	__u32 *mine = bpf_map_lookup_elem(&contended, &i);

	if (l && mine && *mine) {
		*mine = 0;
		lock_drop(l);
	}
	return 0;
}

/* Run one at a time. */
AW_SEC("contend") int ackwise_contend(struct __sk_buff *skb)
{
	__u64 until;

	bpf_loop(AW_LOCKS, contend_take, 0, 0);
	until = bpf_ktime_get_ns() + CONTEND_NS;
	bpf_loop(1 << 20, contend_wait, &until, 0);
	bpf_loop(AW_LOCKS, contend_drop, 0, 0);
	return 0;
}
