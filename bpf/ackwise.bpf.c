// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ackwise: ACK thinning at the tc hook.
 *
 * Two programs see one interface: `acks` the direction in which ACKs pass (egress
 * at a receiver or router, ingress at a sender), `data` the other one. What may
 * be withheld is decided by ../policy, the same code that the simulator and the
 * kernel patch run. This file is the home: it finds the flow, keeps the newest
 * withheld ACK, and sees that it leaves in time.
 *
 *                              ┌──────────── flows (LRU) ────────────┐
 *   data ──► parse ──► key ──► │ aw_flow, counters, handle of a slot │
 *   acks ──► parse ──► key ──► └──────────────────┬──────────────────┘
 *                               SEND │            │ HOLD
 *                     supersede the  │            ▼
 *                     slot, pass     │    slot {generation, state, newest frame}
 *                                    ▼            │ deadline, slot, generation
 *                                   out           ▼
 *                                    ▲    FIFO of the hold-time class
 *                                    │            │ the one timer, armed lazily
 *     acks: cookie in the mark, slot │            ▼ still held?
 *     EMITTED, same ACK: pass once   └── AF_PACKET or TAP ◄── ring buffer
 *
 * Why it is so:
 *
 * - No helper transmits a frame from a timer, so user space does, through the
 *   very hook that the ACK was taken from. The cookie (SO_MARK) names the slot;
 *   the slot's state, key and ACK number must agree too, so that a mark of the
 *   user's own is never mistaken. The frame's own mark and priority come back.
 *
 * - A withheld ACK is never lost to a race. It is in a slot with a deadline in a
 *   FIFO before it is swallowed, and only an ACK of the same flow with at least
 *   its number, on its way out, marks the slot superseded. See hold.h.
 *
 * - One FIFO per class of hold time, because D differs between flows (it scales
 *   with RTT) and a FIFO must be in the order of its deadlines. Hold times are
 *   rounded down to a class: early is always allowed. See timer.h.
 *
 * - One timer in all: an entry of an LRU map loses its timer at eviction, and a
 *   bpf_timer per flow fails to allocate under load.
 *
 * - A slot goes FREE → HELD → SUPERSEDED → HELD … while its flow is hot (no trip
 *   to the free list), and back to FREE when a deadline finds it superseded. An
 *   entry of a FIFO is valid only for the generation that it names.
 *
 * - Swallowing must not look like a local drop: Linux TCP would shrink the
 *   socket's window. tcx ignores STOLEN, so there the packet is redirected to an
 *   interface that does not exist; under clsact it is STOLEN. At ingress, where
 *   no local sender is hurt, it is SHOT.
 *
 * - A look at the clock costs a third of what withholding does. A packet has a time
 *   only if something asks for one: clock() reads it then. What need not be exact
 *   (is user space alive, when was the flow last seen) takes the coarse clock.
 *
 * - Everything that fails, fails open: no slot, a full FIFO, a timer that does
 *   not start, a frame that does not fit, user space silent for half a second.
 *   The ACK passes, the flow is told that it left, a counter says why.
 *
 * - Flows are created by pure ACKs only and handshakes live in a map of their
 *   own, so a SYN flood evicts neither flows nor holds.
 *
 * Only UAPI headers: nothing here needs the kernel's BTF.
 */
#define AW_BPF 1
#define AW_SUBPROG __attribute__((noinline))
#define AW_REPEAT(n, step, context) bpf_loop(n, step, context, 0)
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "ackwise_shared.h"
#include "maps.h"
#include "timer.h"
#include "hold.h"
#include "flows.h"
#include "tell.h"

/* aya wants classifier sections; libbpf would have "tc". */
#ifndef AW_SEC
#define AW_SEC(name) SEC("classifier")
#endif

/* Go on to the next program; the same number for tcx and direct action. */
#define PASS TC_ACT_UNSPEC
#define NOWHERE 0x7fffffff /* no interface has this index */

static __always_inline int swallow(void)
{
	if (options.position == AW_AT_SENDER)
		return TC_ACT_SHOT;
	return options.clsact ? TC_ACT_STOLEN : bpf_redirect(NOWHERE, 0);
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

enum returned {
	NOT_OURS,
	FRESH,
	STALE
};

/* What a held frame had beside its bytes, and what is counted of its hold. */
struct comeback {
	__u64 deadline, since;
	__u32 mark, priority;
	__u16 vlan_tci, vlan_proto;
	__u8 vlan;
};

static __always_inline void comeback_read(struct comeback *b, const struct aw_slot *s)
{
	b->deadline = s->deadline_ns;
	b->since = s->since_ns;
	b->mark = s->mark;
	b->priority = s->priority;
	b->vlan = s->vlan_present;
	b->vlan_tci = s->vlan_tci;
	b->vlan_proto = s->vlan_proto;
}

static __always_inline int slot_awaits(const struct aw_slot *s, const struct aw_key *key, __u32 ack)
{
	return (s->state == SLOT_EMITTED || s->state == SLOT_STALE) && s->ack == ack &&
	       key_equal(&s->key, key);
}

/*
 * Somebody has the lock for longer than one may wait. While a slot is EMITTED nothing
 * else in it changes, and the exchange finds whether it still is, in the same
 * generation: then what was read before it is right. The timer frees the slot. See
 * docs/decisions/0021-past-a-lock.md.
 */
static __noinline int return_past_lock(struct aw_slot *s, const struct aw_key *key, __u32 ack,
				       struct comeback *b)
{
	union aw_slot_word was, gone;

	if (!s || !key || !b)
		return NOT_OURS;
	was.both = *(volatile __u64 *)&s->word.both;
	if (!slot_awaits(s, key, ack))
		return NOT_OURS;
	if (was.state == SLOT_STALE)
		return STALE;
	if (was.state != SLOT_EMITTED)
		return NOT_OURS;
	comeback_read(b, s);
	gone = was;
	gone.state = SLOT_GONE;
	if (__sync_val_compare_and_swap(&s->word.both, was.both, gone.both) == was.both)
		return FRESH;
	gone.state = SLOT_STALE; /* a newer ACK has just left, or the slot was given up */
	return *(volatile __u64 *)&s->word.both == gone.both ? STALE : NOT_OURS;
}

/* Whether the slot agrees that this frame is what it waits for. Then it waits no more. */
static __always_inline int claim_return(struct aw_slot *s, __u32 slot, const struct aw_key *key,
					__u32 ack, struct comeback *b, int *past_lock)
{
	__u32 lock = s->lock;
	struct aw_lock *l = lock_at(lock);
	int what = NOT_OURS;

	if (!l)
		return NOT_OURS;
	if (AW_UNLIKELY(!lock_take(l, lock))) {
		*past_lock = 1;
		return return_past_lock(s, key, ack, b);
	}
	if (slot_awaits(s, key, ack) && *(volatile __u32 *)&s->lock == lock) {
		what = s->state == SLOT_EMITTED ? FRESH : STALE;
		comeback_read(b, s);
		slot_free(s, slot);
	}
	lock_drop(l);
	return what;
}

/*
 * A frame with our cookie. Ours only if the slot agrees; it may leave only if no
 * newer ACK of its flow has left since.
 */
static __noinline int on_return(struct __sk_buff *skb, const struct aw_key *key, struct aw_seg *seg)
{
	__u32 slot = skb->mark & AW_COOKIE_SLOT;
	struct aw_counters *c = counters_here();
	struct aw_slot *s = slot_at(slot);
	struct comeback b = {};
	struct aw_entry *f;
	struct aw_lock *l;
	int what, past_lock = 0;
	__u64 now = bpf_ktime_get_ns();

	if (!c || !s)
		return NOT_OURS;
	what = claim_return(s, slot, key, seg->ack, &b, &past_lock);
	if (what == NOT_OURS)
		return NOT_OURS;

	f = bpf_map_lookup_elem(&flows, key);
	l = f ? lock_at(f->lock) : 0;
	if (f && l && !past_lock && lock_take(l, f->lock)) {
		if (what == FRESH && !aw_after(seg->ack, f->flow.acks.sent_ack))
			what = STALE;
		if (what == FRESH) {
			aw_flow_on_sent(&f->flow, flow_cfg(), seg, now / NSEC_PER_USEC);
			f->count.reemitted++;
			f->count.reemitted_bytes += seg->len;
		}
		lock_drop(l);
	} else if (f && what == FRESH) {
		/* The flow cannot be told. Its count may miss one for the same reason. */
		f->missed = 1;
		f->count.reemitted++;
		f->count.reemitted_bytes += seg->len;
		c->unlocked++;
	}
	if (what == STALE) {
		c->reemit_stale++;
		return STALE;
	}
	c->reemitted++;
	c->reemitted_bytes += seg->len;
	note_late(c, now > b.deadline ? now - b.deadline : 0);
	note_hold(c, b.since, now);
	skb->mark = b.mark;
	skb->priority = b.priority;
	if (f && echo_wanted(&f->flow))
		echo_capable(skb, seg);
	if (b.vlan)
		bpf_skb_vlan_push(skb, b.vlan_proto, b.vlan_tci);
	return FRESH;
}

/*
 * Nothing is withheld, but the flow believes so until a deadline of its own. A
 * subprogram, for the sake of the caller's stack.
 */
static __noinline int dry_expire(struct aw_entry *f, struct aw_counters *c, __u64 now)
{
	struct aw_seg s;

	if (!f || !c || !f->dry_until_ns || now < f->dry_until_ns)
		return 0;
	__builtin_memset(&s, 0, sizeof(s));
	s.ack = f->dry_ack;
	s.tsval = f->dry_tsval;
	s.window = f->dry_window;
	s.opts = f->dry_opts;
	s.len = f->dry_len;
	aw_flow_on_sent(&f->flow, flow_cfg(), &s, f->dry_until_ns / NSEC_PER_USEC);
	f->dry_until_ns = 0;
	f->count.reemitted++;
	f->count.reemitted_bytes += f->dry_len;
	c->reemitted++;
	c->reemitted_bytes += f->dry_len;
	return 0;
}

static __always_inline void dry_decide(struct aw_entry *f, const struct aw_seg *s,
				       const struct aw_decision *d, struct aw_counters *c,
				       __u64 now)
{
	if (d->kind != AW_SEND) {
		c->withheld_bytes += s->len;
		f->count.withheld++;
		f->count.withheld_bytes += s->len;
		if (f->dry_until_ns)
			c->replaced++;
		else
			f->dry_until_ns = now + d->hold_us * NSEC_PER_USEC;
		f->dry_ack = s->ack;
		f->dry_tsval = s->tsval;
		f->dry_window = s->window;
		f->dry_opts = s->opts;
		f->dry_len = s->len;
		return;
	}
	if ((d->flags & AW_DEC_SUPERSEDES) && f->dry_until_ns) {
		c->superseded++;
		f->dry_until_ns = 0;
	}
	if (d->flags & AW_DEC_TWICE)
		c->cloned++;
}

static __always_inline void note_open(struct aw_counters *c, enum hold_result r)
{
	switch (r) {
	case HOLD_SILENT:
		c->open_stale_heartbeat++;
		break;
	case HOLD_NO_SLOT:
		c->open_no_slot++;
		break;
	case HOLD_QUEUE_FULL:
		c->open_queue_full++;
		break;
	case HOLD_NO_TIMER:
		c->open_timer++;
		break;
	case HOLD_SHORT:
		c->open_too_short++;
		break;
	default:
		c->open_frame++;
	}
}

static __always_inline int user_space_alive(__u64 about)
{
	__u32 k = 0;
	struct aw_control *a = bpf_map_lookup_elem(&control, &k);

	return a && about < a->alive_until_ns;
}

/* Under the lock: it should be held and cannot be, so it leaves, and the flow knows. */
static __noinline int fail_open(struct aw_entry *f, const struct aw_seg *seg, __u32 why)
{
	struct aw_counters *c = counters_here();
	__u64 now = bpf_ktime_get_ns();

	if (!f || !seg || !c)
		return 0;
	note_open(c, why);
	aw_flow_on_sent(&f->flow, flow_cfg(), seg, now / NSEC_PER_USEC);
	supersede(f, seg->ack, c, now);
	return 0;
}

/* A segment of the ACK direction of no flow that is kept. */
static __noinline struct aw_entry *flow_first(const struct aw_key *key, const struct aw_seg *seg)
{
	struct aw_counters *c = counters_here();
	__u64 now = bpf_ktime_get_ns();
	struct aw_entry *f;

	if (!c || !seg || !key)
		return 0;
	if (seg->payload || (seg->flags & (AW_TCP_ACK | AW_TCP_FIN | AW_TCP_RST)) != AW_TCP_ACK) {
		c->no_flow++;
		handshake_acks(key, seg, now);
		return 0;
	}
	if (!matches(key, seg->ip_version)) {
		c->unmatched++;
		return 0;
	}
	f = flow_create(key, seg, now);
	if (f)
		c->flows_created++;
	else
		c->flows_failed++;
	return f;
}

AW_SEC("acks") int ackwise_acks(struct __sk_buff *skb)
{
	struct aw_percpu *here = percpu_here();
	enum hold_result r;
	struct aw_counters *c;
	struct aw_decision *d;
	struct aw_entry *f;
	struct aw_lock *l;
	struct aw_seg *seg;
	struct aw_key key;
	__u64 now = 0, about;

	if (!here)
		return PASS;
	c = &here->counters;
	seg = &here->seg;
	d = &here->decision;
	if (parse(skb, here, seg, c) != AW_PARSE_OK)
		return PASS;
	make_key(&key, seg, 1);

	if (AW_UNLIKELY((skb->mark & ~AW_COOKIE_SLOT) == AW_COOKIE_MAGIC)) {
		int what = on_return(skb, &key, seg);

		if (what != NOT_OURS)
			return what == FRESH ? PASS : swallow();
	}
	if (AW_UNLIKELY(seg->flags & AW_TCP_SYN)) {
		c->syns++;
		handshake_acks(&key, seg, bpf_ktime_get_ns());
		return PASS;
	}
	f = bpf_map_lookup_elem(&flows, &key);
	if (AW_UNLIKELY(!f)) {
		f = flow_first(&key, seg);
		if (!f)
			return PASS;
	}
	l = lock_at(f->lock);
	if (!l)
		return PASS;
	if (AW_UNLIKELY(!lock_take(l, f->lock))) {
		f->missed = 1;
		c->open_busy++;
		return PASS;
	}
	if (AW_UNLIKELY(f->missed)) {
		f->missed = 0;
		f->flow.acks.flags &= ~AW_ACK_VALID;
	}
	if (options.bench_step)
		seg->ack = f->flow.acks.rcvd_ack + options.bench_step;
	if (options.dry_run || aw_flow_ack_wants_clock(&f->flow, flow_cfg(), seg))
		now = bpf_ktime_get_ns();
	about = now ? now : bpf_ktime_get_coarse_ns();
	if (options.dry_run)
		dry_expire(f, c, now);
	if (tell_is_on() && seg->payload)
		f->heard_ns = clock(now);
	aw_flow_on_ack(&f->flow, flow_cfg(), seg, now / NSEC_PER_USEC, d);
	/* The verifier knows nothing of what is in a map: here all its paths meet. */
	__asm__ volatile("" ::: "memory");
	f->count.acks++;
	f->count.last_ns = about;
	c->ack_bytes += seg->len;
	if (options.dry_run) {
		dry_decide(f, seg, d, c, now);
		d->kind = AW_SEND;
		d->flags = 0;
	}
	if (d->kind != AW_SEND) {
		r = HOLD_SILENT;
		if (AW_LIKELY(user_space_alive(about)))
			r = hold(skb, seg, f, d->hold_us, now);
		if (AW_LIKELY(r < HOLD_SILENT)) {
			f->count.withheld++;
			f->count.withheld_bytes += seg->len;
			lock_drop(l);
			c->withheld_bytes += seg->len;
			c->replaced += r != HOLD_NEW;
			if (d->reason < AW_REASON_COUNT)
				c->reason[d->reason]++;
			return swallow();
		}
		fail_open(f, seg, r);
		d->reason = AW_R_NO_HOLD;
		d->flags = 0;
	}
	if (d->flags & AW_DEC_SUPERSEDES)
		supersede(f, seg->ack, c, now);
	lock_drop(l);
	if (d->reason < AW_REASON_COUNT)
		c->reason[d->reason]++;
	if (echo_wanted(&f->flow))
		echo_capable(skb, seg);
	if (AW_UNLIKELY(d->flags & AW_DEC_TWICE)) {
		/* The flow knows that the original has left: the clone just passes. */
		c->cloned++;
		bpf_clone_redirect(skb, skb->ifindex,
				   options.position == AW_AT_SENDER ? BPF_F_INGRESS : 0);
	}
	return PASS;
}

/* A data direction's segment of no flow that is kept, or a SYN: rare. */
static __noinline int data_apart(const struct aw_key *key, const struct aw_seg *seg)
{
	return handshake_data(key, seg, bpf_ktime_get_ns());
}

AW_SEC("data") int ackwise_data(struct __sk_buff *skb)
{
	struct aw_percpu *here = percpu_here();
	const struct aw_flow_cfg *cfg = flow_cfg();
	struct aw_counters *c;
	struct aw_entry *f;
	struct aw_lock *l = 0;
	struct aw_seg seg;
	struct aw_key key;
	__u32 segments = 1, echo = 0;
	__u64 now_us = 0;

	if (!here)
		return PASS;
	c = &here->counters;
	if (parse(skb, here, &seg, c) != AW_PARSE_OK)
		return PASS;
	make_key(&key, &seg, 0);
	f = AW_UNLIKELY(seg.flags & AW_TCP_SYN) ? 0 : bpf_map_lookup_elem(&flows, &key);
	if (AW_UNLIKELY(!f)) {
		c->syns += !!(seg.flags & AW_TCP_SYN);
		here->seg = seg;
		data_apart(&key, &here->seg);
		return PASS;
	}
	if (options.bench_step)
		seg.seq = f->flow.data.high;
	if (skb->gso_size)
		segments = aw_div32(seg.payload + skb->gso_size - 1, skb->gso_size);
	c->data_segments += segments;
	c->data_bytes += seg.payload;
	if (AW_UNLIKELY(aw_flow_data_wants_clock(&f->flow, cfg, &seg)))
		now_us = bpf_ktime_get_ns() / NSEC_PER_USEC;

	if (tell_is_on() && seg.payload)
		c->told += tell(skb, f, &seg) ? segments : 0;
	if (options.flow.policy.policy == AW_POLICY_ACC && (seg.flags & AW_TCP_ECE)) {
		echo = echo_wanted(&f->flow);
		if (!echo)
			seg.flags &= ~AW_TCP_ECE; /* means something else, or nothing */
	}
	if (!aw_flow_data_alone(cfg)) {
		/* Data that nobody noted looks like a gap afterwards: ACKs pass. */
		l = lock_at(f->lock);
		if (!l || !lock_take(l, f->lock))
			return PASS;
		aw_flow_on_data(&f->flow, cfg, &seg, segments, now_us);
		lock_drop(l);
	} else {
		aw_flow_on_data(&f->flow, cfg, &seg, segments, now_us);
	}
	/* Not atomic: two CPUs in one direction of one flow may lose a count. */
	f->count.data_segments += segments;
	f->count.data_bytes += seg.payload;
	if (AW_UNLIKELY(echo))
		echo_taken(skb, seg.l4_off);
	return PASS;
}

/* On the loader's TAP, at a sender: a re-emission goes back to where it came in. */
AW_SEC("reinject") int ackwise_back(struct __sk_buff *skb)
{
	__u32 cookie;

	/* The frame is preceded by nothing; the cookie is its last four bytes. */
	if (skb->len < 18 || bpf_skb_load_bytes(skb, skb->len - 4, &cookie, 4))
		return TC_ACT_SHOT;
	if ((cookie & ~AW_COOKIE_SLOT) != AW_COOKIE_MAGIC)
		return TC_ACT_SHOT; /* the host's own chatter on that interface */
	if (bpf_skb_change_tail(skb, skb->len - 4, 0))
		return TC_ACT_SHOT;
	skb->mark = cookie;
	return bpf_redirect(options.ifindex, BPF_F_INGRESS);
}

/*
 * By BPF_PROG_TEST_RUN, before anything is attached. The kernel may be short of
 * memory for a timer at that very moment: the loader tries again.
 */
AW_SEC("setup") int ackwise_setup(struct __sk_buff *skb)
{
	__u32 k = 0;
	struct aw_ticker *t = bpf_map_lookup_elem(&ticker, &k);
	long err;

	if (!t)
		return 1;
	err = bpf_timer_init(&t->timer, &ticker, 1 /* CLOCK_MONOTONIC */);
	if (err && err != -16 /* EBUSY: done before */)
		return 2;
	if (bpf_timer_set_callback(&t->timer, on_tick))
		return 3;
	t->next_ns = AW_IDLE;
	return 0;
}

/* What a packet costs before this file does anything: the benchmark's zero. */
AW_SEC("empty") int ackwise_empty(struct __sk_buff *skb)
{
	return PASS;
}

#define JAM_NS 150000 /* three times as long as one waits for a lock */

static long jam_take(__u32 i, void *none)
{
	struct aw_lock *l = lock_at(i);

	if (l && !__sync_lock_test_and_set(&l->busy, 1))
		l->jammed = 1;
	return 0;
}

static long jam_wait(__u32 i, const __u64 *until)
{
	return bpf_ktime_get_ns() >= *until;
}

static long jam_drop(__u32 i, void *none)
{
	struct aw_lock *l = lock_at(i);

	if (l && l->jammed) {
		l->jammed = 0;
		lock_drop(l);
	}
	return 0;
}

/*
 * For tests, one at a time: has the locks of all flows for longer than anybody waits,
 * like a program whose virtual CPU is taken away.
 */
AW_SEC("jam") int ackwise_jam(struct __sk_buff *skb)
{
	__u64 until;

	bpf_loop(AW_LOCKS, jam_take, 0, 0);
	until = bpf_ktime_get_ns() + JAM_NS;
	bpf_loop(1 << 20, jam_wait, &until, 0);
	bpf_loop(AW_LOCKS, jam_drop, 0, 0);
	return 0;
}

/* One step of the policy alone: the packet is a struct aw_event. */
AW_SEC("replay") int ackwise_replay(struct __sk_buff *skb)
{
	struct aw_event e;
	struct aw_replay *r;
	__u32 k = 0;

	r = bpf_map_lookup_elem(&replays, &k);
	if (!r || bpf_skb_load_bytes(skb, 0, &e, sizeof(e)))
		return -1;
	r->verdict = aw_policy_step(&r->state, &flow_cfg()->policy, &e);
	return r->verdict.kind;
}

char _license[] SEC("license") = "Dual BSD/GPL";
