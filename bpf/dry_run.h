/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Dry run: every ACK passes, and those that would have been withheld are counted. The flow
 * is shown what it would have seen, so the policy decides as in normal operation: for the
 * flow, an ACK that would have been held leaves at its deadline. No timer runs for that;
 * the next segment of the flow finds an expired deadline.
 */
#ifndef ACKWISE_DRY_RUN_H
#define ACKWISE_DRY_RUN_H

#include "maps.h"

/* Lets the ACK that would be held leave if its deadline has passed. It is a subprogram
 * to save stack in the caller. */
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
	if (f->dry_ack == f->flow.acks.rcvd_ack) {
		s.n_sack = f->flow.acks.n_sack;
		__builtin_memcpy(s.sack, f->flow.acks.sack, sizeof(s.sack));
	}
	aw_flow_on_sent(&f->flow, flow_cfg(), &s, f->dry_until_ns / NSEC_PER_USEC);
	f->dry_until_ns = 0;
	f->count.reemitted++;
	f->count.reemitted_bytes += f->dry_len;
	c->reemitted++;
	c->reemitted_bytes += f->dry_len;
	return 0;
}

static __always_inline void dry_withhold(struct aw_entry *f, const struct aw_seg *s, __u32 hold_us,
					 struct aw_counters *c, __u64 now)
{
	c->withheld_bytes += s->len;
	f->count.withheld++;
	f->count.withheld_bytes += s->len;
	if (f->dry_until_ns)
		c->replaced++;
	else
		f->dry_until_ns = now + hold_us * NSEC_PER_USEC;
	f->dry_ack = s->ack;
	f->dry_tsval = s->tsval;
	f->dry_window = s->window;
	f->dry_opts = s->opts;
	f->dry_len = s->len;
}

/* Counts what the decision would have done, and makes it have no effect. */
static __always_inline void dry_decide(struct aw_entry *f, const struct aw_seg *s,
				       struct aw_decision *d, struct aw_counters *c, __u64 now)
{
	if (d->kind != AW_SEND) {
		dry_withhold(f, s, d->hold_us, c, now);
	} else {
		if ((d->flags & AW_DEC_SUPERSEDES) && f->dry_until_ns) {
			c->superseded++;
			f->dry_until_ns = 0;
		}
		if (d->flags & AW_DEC_TWICE)
			c->cloned++;
	}
	d->kind = AW_SEND;
	d->flags = 0;
}

#endif
