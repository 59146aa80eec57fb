// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The datapath: ACK thinning at the tc hook.
 *
 * Two programs see one interface: `acks` sees the direction of the ACKs (egress at a
 * receiver or router, ingress at a sender), and `data` the other one. ../policy decides
 * whether an ACK may be withheld, with the same code that the simulator and the kernel
 * patch run. This file is its environment: it finds the flow, keeps the newest withheld
 * ACK, and makes sure that it leaves in time.
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
 * An ACK takes four steps: parse; check for a returning frame (return.h); decide, under the
 * flow's lock; act. A held one may have to leave before it (release.h). These are functions
 * of their own: dry run (dry_run.h), what is known of the host (host.h), the bytes that
 * leave (egress.h), ACC's echo (echo.h), the congestion-window hint (cwnd_hint.h), requests
 * for ACKs (ack_request.h), the requested ACK rate and skipped ACKs (obey.h), and the
 * benchmark (selftest.h).
 *
 * Reasons for this design:
 *
 * - No helper transmits a frame from a timer. So user space does, through the same hook
 *   that the ACK was taken from. The cookie (SO_MARK) names the slot; the slot's state, key
 *   and ACK number must match too.
 *
 * - A withheld ACK is never lost to a race. It is in a slot, with a deadline in a FIFO,
 *   before its packet vanishes, and only a departing ACK of the same flow with at least its
 *   number marks the slot superseded. See hold.h.
 *
 * - There is one FIFO per class of hold time, because D differs between flows (it scales
 *   with RTT) and a FIFO must be in the order of its deadlines. Hold times are rounded down
 *   to a class, because an ACK may always leave early. See timer.h.
 *
 * - There is only one timer. An entry of an LRU map loses its timer at eviction, and
 *   allocating a bpf_timer per flow fails under load.
 *
 * - A slot goes FREE → HELD → SUPERSEDED → HELD … while its flow is hot (without the free
 *   list), and back to FREE when its deadline comes and it is superseded. A FIFO entry is
 *   valid only for the generation that it names.
 *
 * - A withheld packet must not look like a local drop: Linux TCP would shrink the socket's
 *   window. tcx ignores STOLEN, so there the packet is redirected to a nonexistent
 *   interface; under clsact it is STOLEN. At ingress, where no local sender is affected, it
 *   is SHOT.
 *
 * - Reading the clock costs a third of what withholding does. A packet has a time only if
 *   something asks for it: clock() reads it then. Times that need not be exact (whether
 *   user space is alive, when the flow was last seen) use the coarse clock.
 *
 * It fails open: if there is no slot, if a FIFO is full, if the timer does not start, if a
 * frame does not fit, if a lock cannot be taken within the bounded spin, or if user space
 * is silent for half a second, the ACK passes, the flow learns that it left, and a counter
 * gives the reason. A packet that cannot be parsed passes. When the process dies, its links
 * and thus the programs disappear with it.
 *
 * Only pure ACKs create flows, and handshakes have their own map, so a SYN flood evicts
 * neither flows nor holds.
 *
 * Only UAPI headers are used, and no kernel type is read. Timers and bpf_loop() still
 * require a kernel with BTF: the verifier looks up their calls there.
 */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "headers.h"
#include "ackwise_shared.h"
#include "maps.h"
#include "timer.h"
#include "hold.h"
#include "flows.h"
#include "ack_request.h"
#include "cwnd_hint.h"
#include "dry_run.h"
#include "egress.h"
#include "host.h"
#include "obey.h"
#include "release.h"
#include "return.h"
#include "selftest.h"
#include "verdict.h"

/* aya wants classifier sections; libbpf wants "tc". */
#ifndef AW_SEC
#define AW_SEC(name) SEC("classifier")
#endif

/* The verdict for a withheld packet. */
static __always_inline int withheld(void)
{
	if (options.position == AW_AT_SENDER)
		return TC_ACT_SHOT;
	return options.clsact ? TC_ACT_STOLEN : aw_vanish();
}

/* ---- Deciding -------------------------------------------------------------- */

/* The first pure ACK of a flow creates it. Any other segment without a flow passes. */
static __noinline struct aw_entry *flow_first(const struct aw_key *key, const struct aw_seg *seg)
{
	struct aw_counters *c = counters_here();
	__u64 now = clock_ns();
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

/* A SYN in the ACK direction: rare. */
static __noinline int syn_of_acks(struct __sk_buff *skb, const struct aw_key *key,
				  const struct aw_seg *seg)
{
	if (!key || !seg)
		return 0;
	handshake_acks(key, seg, clock_ns());
	obey_on_syn(skb, key, seg);
	return 0;
}

/* The flow of a segment in the ACK direction; 0: the segment passes. */
static __always_inline struct aw_entry *flow_of_ack(struct __sk_buff *skb, const struct aw_key *key,
						    const struct aw_seg *seg, struct aw_counters *c)
{
	struct aw_entry *f;

	if (AW_UNLIKELY(seg->flags & AW_TCP_SYN)) {
		c->syns++;
		syn_of_acks(skb, key, seg);
		return 0;
	}
	f = bpf_map_lookup_elem(&flows, key);
	if (AW_UNLIKELY(!f))
		f = flow_first(key, seg);
	return f;
}

/* Takes the flow's lock; 0 if another CPU holds it too long. The ACK then passes unseen,
 * and the next one counts as the flow's first. If the entry now belongs to another flow,
 * which only its key shows, the ACK passes as well. */
static __always_inline struct aw_lock *lock_flow(struct aw_entry *f, struct aw_percpu *here)
{
	__u32 number = *(volatile __u32 *)&f->lock & (AW_LOCKS - 1);
	struct aw_lock *l = lock_at(number);

	if (!l)
		return 0;
	if (AW_UNLIKELY(!lock_take(l, number))) {
		f->missed = 1;
		here->counters.open_busy++;
		return 0;
	}
	if (AW_UNLIKELY(!key_equal(&f->key, &here->key))) {
		lock_drop(l);
		here->counters.open_busy++;
		return 0;
	}
	here->lock = number;
	if (AW_UNLIKELY(f->missed)) {
		f->missed = 0;
		f->flow.acks.flags &= ~AW_ACK_VALID;
	}
	return l;
}

/*
 * Policy and contract, in a global subprogram, so that the verifier checks it once instead
 * of along every path that leads to it.
 */
__attribute__((noinline)) int decide_flow(struct aw_entry *f, struct aw_percpu *here, __u64 now_us)
{
	if (!f || !here)
		return 0;
	if (options.obey_ack_rate)
		return obey_on_ack(f, here, now_us);
	aw_flow_on_ack(&f->flow, flow_cfg(), &here->seg, now_us, &here->decision);
	return 0;
}

/* Under the flow's lock: asks policy and contract. The decision is in here->decision.
 * Returns the time if something asked for it, else 0; about is the time within two
 * ticks. */
static __always_inline __u64 decide(struct aw_entry *f, struct aw_percpu *here, __u64 *about)
{
	struct aw_seg *seg = &here->seg;
	__u64 now = 0, now_us = 0;

	selftest_advance_ack(f, seg);
	if (options.dry_run || aw_flow_ack_wants_clock(&f->flow, flow_cfg(), seg))
		now = clock_ns();
	if (now) {
		*about = now;
		now_us = now / NSEC_PER_USEC; /* also tells the flow the time */
	} else {
		clock_coarse(here);
		*about = here->coarse_ns;
		aw_flow_clock(&f->flow, flow_cfg(), seg, here->coarse_us);
	}
	if (options.dry_run) {
		if (f->dry_until_ns && aw_flow_releases(&f->flow, seg))
			f->dry_until_ns = now;
		dry_expire(f, &here->counters, now);
	}
	cwnd_hint_on_ack(f, seg, now);
	tell_host(f, *about);
	here->decision.kind = AW_SEND;
	here->decision.flags = 0;
	decide_flow(f, here, now_us);
	if (options.dry_run)
		dry_decide(f, seg, &here->decision, &here->counters, now);
	return now;
}

/* ---- Acting ---------------------------------------------------------------- */

static __always_inline void note_reason(struct aw_counters *c, const struct aw_decision *d)
{
	if (d->reason < AW_REASON_COUNT)
		c->reason[d->reason]++;
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

/* Under the lock: an ACK should be held but cannot be. It leaves, and the flow is told. */
static __noinline int fail_open(struct aw_entry *f, const struct aw_seg *seg, __u32 why)
{
	struct aw_percpu *here = percpu_here();
	__u64 now = clock_ns();

	if (!f || !seg || !here)
		return 0;
	note_open(&here->counters, why);
	aw_flow_on_sent(&f->flow, flow_cfg(), seg, now / NSEC_PER_USEC);
	supersede(f, seg->ack, here, now);
	return 0;
}

/*
 * A duplicate leaves for itself and, as a clone, for the original that is held. The flow
 * already counts the original as sent, so the clone just passes. It passes this hook before
 * the helper returns, so the flow's lock is not held meanwhile, and nothing in per-CPU
 * memory survives the call. If cloning fails for want of memory (a negative number), the
 * original stays where it is, and leaves at its deadline.
 */
static __noinline int send_twice(struct __sk_buff *skb, struct aw_entry *f, __u32 ack)
{
	__u64 to = options.position == AW_AT_SENDER ? BPF_F_INGRESS : 0;
	long err = bpf_clone_redirect(skb, selftest_clone_to(skb->ifindex), to);
	struct aw_percpu *here = percpu_here();
	struct aw_lock *l;
	__u32 number;

	if (!here || !f)
		return 0;
	here->counters.cloned += err >= 0;
	number = *(volatile __u32 *)&f->lock;
	l = lock_at(number);
	if (!l || !lock_take(l, number))
		return 0; /* at its deadline it finds that it has already left */
	if (err < 0)
		owe(f, ack, here);
	else
		supersede(f, ack, here, 0);
	lock_drop(l);
	return 0;
}

/* Under the flow's lock, which it drops: acts on the decision. Returns the verdict. */
static __always_inline int act(struct __sk_buff *skb, struct aw_percpu *here, struct aw_entry *f,
			       struct aw_lock *l, __u32 skipped, __u64 now, __u64 about)
{
	struct aw_decision *d = &here->decision;
	struct aw_counters *c = &here->counters;
	struct aw_seg *seg = &here->seg;
	__u32 twice;

	f->count.acks++;
	f->count.last_ns = about;
	c->ack_bytes += seg->len;
	if (AW_UNLIKELY(seg->payload)) {
		c->payload_segments++;
		c->payload_bytes += seg->len;
		other_leaves(here, skb, 1);
	}
	if (d->kind != AW_SEND) {
		enum hold_result r = HOLD_SILENT;

		if (AW_LIKELY(user_space_alive(about)))
			r = hold(skb, here, seg, f, d->hold_us, now);
		if (AW_LIKELY(r < HOLD_SILENT)) {
			f->count.withheld++;
			f->count.withheld_bytes += seg->len;
			lock_drop(l);
			c->withheld_bytes += seg->len;
			c->replaced += r != HOLD_NEW;
			note_reason(c, d);
			return withheld();
		}
		fail_open(f, seg, r);
		d->reason = AW_R_NO_HOLD;
		d->flags = 0;
	}
	twice = d->flags & AW_DEC_TWICE;
	if ((d->flags & AW_DEC_SUPERSEDES) && !twice)
		supersede(f, seg->ack, here, now);
	lock_drop(l);
	note_reason(c, d);
	if (AW_LIKELY(!seg->payload))
		ack_leaves(here, skb);
	if (echo_wanted(&f->flow))
		echo_mark_capable(skb, seg);
	if (skipped && !seg->payload && !(seg->flags & (AW_TCP_FIN | AW_TCP_RST)))
		obey_say_skipped(skb, seg->l4_off);
	if (AW_UNLIKELY(twice))
		send_twice(skb, f, seg->ack);
	return AW_PASS;
}

/* ---- The programs ---------------------------------------------------------- */

/* A segment whose flow's lock could not be taken. */
static __noinline int unseen_leaves(struct aw_percpu *here, struct __sk_buff *skb,
				    const struct aw_entry *f)
{
	if (!here || !f)
		return 0;
	if (here->seg.payload) {
		other_leaves(here, skb, 1);
		return 0;
	}
	ack_leaves(here, skb);
	if (obey_counts_acks(f) && key_equal(&f->key, &here->key))
		obey_say_skipped(skb, here->seg.l4_off);
	return 0;
}

/* The direction of the ACKs. */
AW_SEC("acks") int ackwise_acks(struct __sk_buff *skb)
{
	struct aw_percpu *here = percpu_here();
	struct aw_entry *f;
	struct aw_lock *l;
	__u64 now, about;
	__u32 skipped;
	int status, how;

	selftest_tag(skb);
	if (!here)
		return AW_PASS;
	if (AW_UNLIKELY(here->released.cloning))
		return release_clone(skb);
	status = parse(skb, here, &here->seg, &here->counters);
	if (status != AW_PARSE_OK) {
		other_leaves(here, skb, status != AW_PARSE_NOT_TCP);
		return AW_PASS;
	}
	make_key(&here->key, skb, &here->seg, 1);
	if (AW_UNLIKELY(has_cookie(skb))) {
		int what = on_return(skb, &here->key, &here->seg);

		if (what == RETURNED_CURRENT)
			ack_leaves(here, skb);
		if (what != RETURNED_NOT_OURS)
			return what == RETURNED_CURRENT ? AW_PASS : withheld();
	}
	f = flow_of_ack(skb, &here->key, &here->seg, &here->counters);
	if (!f) {
		other_leaves(here, skb, 1);
		return AW_PASS;
	}
	l = lock_flow(f, here);
	if (!l) {
		unseen_leaves(here, skb, f);
		return AW_PASS;
	}
	if (!options.dry_run && AW_UNLIKELY(aw_flow_releases(&f->flow, &here->seg)) &&
	    release_take(f, clock_ns())) {
		lock_drop(l);
		how = release_send(skb);
		l = lock_flow(f, here);
		release_end(f, how, !!l, clock_ns());
		if (how == RELEASED_INSTEAD || how == RELEASED_BROKEN) {
			if (l)
				lock_drop(l);
			return how == RELEASED_INSTEAD ? AW_PASS : withheld();
		}
		if (!l) {
			unseen_leaves(here, skb, f);
			return AW_PASS;
		}
	}
	skipped = obey_skipped(f, here->seg.ack);
	now = decide(f, here, &about);
	return act(skb, here, f, l, skipped, now, about);
}

/* A SYN, or data without a flow: rare. */
static __noinline int data_without_flow(struct __sk_buff *skb, const struct aw_key *key,
					const struct aw_seg *seg)
{
	if (!key || !seg)
		return 0;
	handshake_data(key, seg, clock_ns());
	obey_on_syn(skb, key, seg);
	return 0;
}

/* Passes a data segment to the flow. Returns 0 if the lock could not be taken: data that
 * were not noted look like a gap afterwards, so ACKs pass. */
static __always_inline int note_data(struct aw_entry *f, const struct aw_key *key,
				     const struct aw_seg *seg, __u32 segments, __u64 now_us)
{
	const struct aw_flow_cfg *cfg = flow_cfg();
	struct aw_lock *l;
	__u32 number;

	if (AW_UNLIKELY(!key_equal(&f->key, key)))
		return 0; /* the entry now belongs to another flow */
	if (aw_flow_data_alone(cfg)) {
		aw_flow_on_data(&f->flow, cfg, seg, segments, now_us);
		return 1;
	}
	number = *(volatile __u32 *)&f->lock;
	l = lock_at(number);
	if (!l || !lock_take(l, number))
		return 0;
	aw_flow_on_data(&f->flow, cfg, seg, segments, now_us);
	lock_drop(l);
	return 1;
}

/* The direction of the data. Data always pass. */
AW_SEC("data") int ackwise_data(struct __sk_buff *skb)
{
	struct aw_percpu *here = percpu_here();
	struct aw_counters *c;
	struct aw_entry *f;
	struct aw_seg seg;
	struct aw_key key;
	__u32 segments = 1, echoed;
	__u64 now_us = 0;

	selftest_tag(skb);
	if (!here)
		return AW_PASS;
	c = &here->counters;
	if (parse(skb, here, &seg, c) != AW_PARSE_OK)
		return AW_PASS;
	make_key(&key, skb, &seg, 0);
	f = AW_UNLIKELY(seg.flags & AW_TCP_SYN) ? 0 : bpf_map_lookup_elem(&flows, &key);
	if (AW_UNLIKELY(!f)) {
		c->syns += !!(seg.flags & AW_TCP_SYN);
		here->seg = seg;
		data_without_flow(skb, &key, &here->seg);
		return AW_PASS;
	}
	selftest_advance_data(f, &seg);
	if (skb->gso_size)
		segments = aw_div32(seg.payload + skb->gso_size - 1, skb->gso_size);
	c->data_segments += segments;
	c->data_bytes += seg.payload;
	if (AW_UNLIKELY(aw_flow_data_wants_clock(&f->flow, flow_cfg(), &seg)))
		now_us = clock_ns() / NSEC_PER_USEC;
	/* The window hint and the ACK request use the entry before note_data() checks its key. */
	if ((cwnd_hint_is_on() || ack_request_is_on()) && AW_UNLIKELY(!key_equal(&f->key, &key)))
		return AW_PASS;
	cwnd_hint_on_data(skb, f, &seg, segments, c);
	ack_request_on_data(skb, f, &seg, c);
	echoed = echo_on_data(f, &seg);
	if (!note_data(f, &key, &seg, segments, now_us))
		return AW_PASS;
	obey_on_data(skb, here, f, &seg);
	/* Not atomic: two CPUs handling one direction of a flow may lose a count. */
	f->count.data_segments += segments;
	f->count.data_bytes += seg.payload;
	if (AW_UNLIKELY(echoed))
		echo_clear(skb, seg.l4_off);
	return AW_PASS;
}

/* On the loader's TAP, at a sender: a re-emission returns to where it came in. */
AW_SEC("reinject") int ackwise_back(struct __sk_buff *skb)
{
	__u32 cookie;

	/* Nothing precedes the frame; the cookie is its last four bytes. */
	if (skb->len < 18 || bpf_skb_load_bytes(skb, skb->len - 4, &cookie, 4))
		return TC_ACT_SHOT;
	if ((cookie & ~AW_COOKIE_SLOT) != AW_COOKIE_MAGIC)
		return TC_ACT_SHOT; /* the host's own traffic on that interface */
	if (bpf_skb_change_tail(skb, skb->len - 4, 0))
		return TC_ACT_SHOT;
	skb->mark = cookie;
	return bpf_redirect(options.ifindex, BPF_F_INGRESS);
}

static long setup_slot(__u32 k, long *err)
{
	*err = bpf_map_push_elem(&free_slots, &k, 0);
	return *err != 0;
}

/*
 * Run once by BPF_PROG_TEST_RUN, before anything is attached. Returns 0 or -errno. The
 * kernel may be short of memory for a timer at that moment: the loader tries again. The
 * slots are freed last, when there is the timer that holds need, so that a second try does
 * not free them twice.
 */
AW_SEC("setup") int ackwise_setup(struct __sk_buff *skb)
{
	__u32 k = 0;
	struct aw_ticker *t = bpf_map_lookup_elem(&ticker, &k);
	long err;

	if (!t)
		return -ENOENT;
	err = bpf_timer_init(&t->timer, &ticker, 1 /* CLOCK_MONOTONIC */);
	if (err && err != -EBUSY) /* busy: already initialised */
		return err;
	err = bpf_timer_set_callback(&t->timer, on_tick);
	if (err)
		return err;
	t->next_ns = AW_IDLE;
	err = 0;
	bpf_loop(options.slots, setup_slot, &err, 0);
	return err;
}

char _license[] SEC("license") = "Dual BSD/GPL";
