/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A held ACK that leaves before another one, with its own bytes, because the other does not
 * say all that it says (aw_flow_releases). A program cannot create a packet, but it can
 * clone the current one, and write another's headers into one of the two.
 *
 *   egress	the clone passes this hook at once, and takes the held bytes; then the
 *		current packet continues unchanged
 *   ingress	a clone waits in the CPU's backlog. So it stays as it is, is decided on
 *		when it arrives here, and the current packet takes the held bytes
 *
 * Both packets belong to one flow and one interface, so link header and tag are the same.
 * If the checksum of the current packet is left to the device, as in a merged packet, then
 * so is that of the held bytes.
 *
 * If user space has already been told to send the held ACK, it still leaves this way, and
 * the frame from user space is dropped when it arrives: it would come behind the current
 * ACK. If there is no memory for a clone, the current packet goes first, and the held ACK
 * leaves at its deadline. The same happens at ingress if the current packet has data: a
 * clone in the backlog would come behind the data that follow.
 */
#ifndef ACKWISE_RELEASE_H
#define ACKWISE_RELEASE_H

#include "egress.h"
#include "hold.h"
#include "maps.h"
#include "obey.h"
#include "selftest.h"
#include "verdict.h"

enum released {
	RELEASED_NOT,	  /* the current packet continues alone */
	RELEASED_FIRST,	  /* it has left; the current packet is next */
	RELEASED_INSTEAD, /* it is the current packet now; a clone follows */
	RELEASED_BROKEN,  /* the current packet is neither of the two; a clone follows */
};

/* Leaves the checksum of the held bytes to the device, as it was for the packet whose
 * place they took: the field has the sum of the pseudo-header. Not with IPv4 options or
 * IPv6 extension headers. */
static __noinline int release_leave_checksum(struct __sk_buff *skb, __u32 l3_off)
{
	struct aw_percpu *here = percpu_here();
	struct aw_released *r;
	__u32 l4;
	__u64 sum;
	__u16 field;

	if (!here)
		return -1;
	r = &here->released;
	if (r->l3[0] == 0x45) {
		l4 = 20;
		sum = (__u32)bpf_csum_diff(0, 0, (__be32 *)(r->l3 + 12), 8, 0);
	} else if (r->l3[0] >> 4 == 6 && r->l3[6] == IPPROTO_TCP) {
		l4 = 40;
		sum = (__u32)bpf_csum_diff(0, 0, (__be32 *)(r->l3 + 8), 32, 0);
	} else {
		return -1;
	}
	sum += bpf_htons(IPPROTO_TCP) + bpf_htons(r->len - l4);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	field = (__u16)((sum & 0xffff) + (sum >> 16));
	return bpf_skb_store_bytes(skb, l3_off + l4 + 16, &field, 2, 0);
}

/* Turns the packet into the held ACK that was copied. */
static __noinline int release_write(struct __sk_buff *skb, __u32 l3_off)
{
	struct aw_percpu *here = percpu_here();
	struct aw_released *r;
	__u32 len, merged;

	if (!here)
		return -1;
	r = &here->released;
	len = r->len;
	if (len < 40 || len > AW_FRAME_L3)
		return -1;
	merged = skb->gso_size;
	if (bpf_skb_change_tail(skb, l3_off + len, 0) ||
	    bpf_skb_store_bytes(skb, l3_off, r->l3, len, BPF_F_RECOMPUTE_CSUM))
		return -1;
	if (AW_UNLIKELY(merged) && release_leave_checksum(skb, l3_off))
		return -1;
	skb->mark = r->mark;
	skb->priority = r->priority;
	/* Not with IPv4 options or IPv6 extension headers. */
	if (AW_UNLIKELY(r->skipped)) {
		if (r->l3[0] == 0x45)
			obey_say_skipped(skb, l3_off + 20);
		else if (r->l3[0] >> 4 == 6 && r->l3[6] == IPPROTO_TCP)
			obey_say_skipped(skb, l3_off + 40);
	}
	return 0;
}

/* At egress: the clone passes this hook. Returns the verdict. */
static __noinline int release_clone(struct __sk_buff *skb)
{
	struct aw_percpu *here = percpu_here();

	if (!here)
		return AW_PASS;
	/* If writing fails, this still is the current packet itself, which follows anyway. */
	if (release_write(skb, here->seg.l3_off))
		return TC_ACT_SHOT;
	here->released.cloning = 0; /* it leaves */
	ack_leaves(here, skb);
	return AW_PASS;
}

/*
 * Under the flow's lock: takes the held ACK out of its slot and tells the flow that it
 * left. Returns 0 if there is nothing to send, or if it leaves at its deadline.
 */
static __noinline int release_take(struct aw_entry *f, __u64 now)
{
	struct aw_percpu *here = percpu_here();
	const struct aw_handshake *h;
	struct aw_seg held = {};
	struct aw_released *r;
	struct aw_slot *s;

	if (!f || !here)
		return 0;
	r = &here->released;
	s = slot_of(f, &here->key);
	if (!s || s->lock != here->lock)
		return 0;
	if (options.position == AW_AT_SENDER && here->seg.payload) {
		s->owed = OWED_ALWAYS;
		return 0;
	}
	if (AW_LIKELY(s->state == SLOT_HELD))
		s->state = SLOT_SUPERSEDED; /* the flow may reuse it */
	else if (__sync_val_compare_and_swap(&s->state, SLOT_EMITTED, SLOT_STALE) != SLOT_EMITTED)
		return 0;
	/* A stale slot keeps its bytes: it is freed under the lock. */
	__builtin_memcpy(r->l3, s->l3, sizeof(r->l3));
	r->len = s->l3_len;
	r->mark = s->mark;
	r->priority = s->priority;
	r->skipped = obey_skipped(f, s->ack);
	r->since_ns = s->since_ns;
	r->generation = s->generation;

	/* The fields that the flow reads, from the newest ACK that it received. */
	held.ack = f->flow.acks.rcvd_ack;
	h = &f->flow.hs;
	held.window = f->flow.acks.rcvd_wnd >> (aw_wnd_scales(h) ? h->wscale[1] & 15 : 0);
	held.tsval = f->flow.acks.tsval;
	held.opts = f->flow.acks.flags & AW_ACK_TS ? AW_OPT_TS : 0;
	held.len = r->len;
	held.n_sack = f->flow.acks.n_sack;
	__builtin_memcpy(held.sack, f->flow.acks.sack, sizeof(held.sack));
	aw_flow_on_sent(&f->flow, flow_cfg(), &held, now / NSEC_PER_USEC);
	return 1;
}

/* Sends the copied ACK before the current packet. Call without the lock: this same hook
 * sees the clone. Returns an enum released. */
static __noinline int release_send(struct __sk_buff *skb)
{
	struct aw_percpu *here = percpu_here();
	__u32 mark;

	if (!here)
		return RELEASED_NOT;
	if (options.position == AW_AT_SENDER) {
		if (bpf_clone_redirect(skb, selftest_clone_to(skb->ifindex), BPF_F_INGRESS))
			return RELEASED_NOT;
		return release_write(skb, here->seg.l3_off) ? RELEASED_BROKEN : RELEASED_INSTEAD;
	}
	here->released.cloning = 1;
	/* The clone passes all programs of the interface. A gateway or a tunnel, which
	 * come before this one, take nothing with a cookie. */
	mark = skb->mark;
	skb->mark = AW_COOKIE_MAGIC;
	bpf_clone_redirect(skb, selftest_clone_to(skb->ifindex), 0);
	skb->mark = mark;
	if (here->released.cloning && !selftest_clone_is_unseen()) {
		here->released.cloning = 0;
		return RELEASED_NOT;
	}
	here->released.cloning = 0;
	return RELEASED_FIRST;
}

/*
 * Counts the copied ACK, or makes it leave at its deadline if its slot has not been reused
 * meanwhile. The flow's entry is touched only if its lock is held.
 */
static __noinline int release_end(struct aw_entry *f, __u32 how, __u32 locked, __u64 now)
{
	struct aw_percpu *here = percpu_here();
	struct aw_released *r;
	struct aw_slot *s;

	if (!f || !here)
		return 0;
	r = &here->released;
	if (how == RELEASED_FIRST || how == RELEASED_INSTEAD) {
		note_hold(&here->counters, r->since_ns, now);
		here->counters.reemitted++;
		here->counters.reemitted_bytes += r->len;
		f->count.reemitted += locked;
		f->count.reemitted_bytes += locked ? r->len : 0;
		return 0;
	}
	s = locked ? slot_of(f, &here->key) : 0;
	if (!s || s->lock != here->lock || s->generation != r->generation) {
		here->counters.lost++;
		return 0;
	}
	s->owed = OWED_ALWAYS;
	if (s->state == SLOT_SUPERSEDED)
		s->state = SLOT_HELD;
	else
		__sync_val_compare_and_swap(&s->state, SLOT_STALE, SLOT_EMITTED);
	return 0;
}

#endif
