/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The flow of flow.h with a policy of the caller's: each step calls back. The contract around the
 * step is compiled from the same source as for the policies of policies.def; only the policy
 * differs.
 */
#include "ackwise/policy.h"

/* In this file two policies of the list stand for the caller's, with the needs that it has. */
#define HOSTED AW_POLICY_NONE
#define HOSTED_WITH_TIME AW_POLICY_EVERY_N
#undef AW_NONE_NEEDS
#undef AW_EVERY_N_NEEDS
#define AW_NONE_NEEDS (AW_CAP_HOLD | AW_CAP_SEE_DATA)
#define AW_EVERY_N_NEEDS (AW_CAP_HOLD | AW_CAP_SEE_DATA | AW_READS_TIME)

#define aw_policy_step hosted_step
static inline struct aw_verdict hosted_step(union aw_policy_state *s, const struct aw_cfg *c,
					    const struct aw_event *e);

#include "ackwise/flow.h"
#include "shim.h"

/* The configuration for flow.h, and the caller's policy. */
struct hosted {
	struct aw_flow_cfg cfg;
	aw_host_step step;
	void *host;
};

AW_ASSERT(__builtin_offsetof(struct hosted, cfg.policy) == 0, "hosted_step() gets the policy");

static inline struct aw_verdict hosted_step(union aw_policy_state *s, const struct aw_cfg *c,
					    const struct aw_event *e)
{
	const struct hosted *h = (const struct hosted *)c;
	struct aw_verdict v = aw_send();

	(void)s;
	h->step(h->host, e, &v);
	return v;
}

static struct hosted hosted(const struct aw_flow_cfg *c, aw_host_step step, void *host,
			    int reads_time)
{
	struct hosted h = { *c, step, host };

	h.cfg.policy.policy = reads_time ? HOSTED_WITH_TIME : HOSTED;
	return h;
}

void aw_shim_hosted_on_data(struct aw_flow *f, const struct aw_flow_cfg *c, aw_host_step step,
			    void *host, int reads_time, const struct aw_seg *s, aw_u32 segments,
			    aw_u64 now_us)
{
	struct hosted h = hosted(c, step, host, reads_time);

	aw_flow_on_data(f, &h.cfg, s, segments, now_us);
}

void aw_shim_hosted_on_ack(struct aw_flow *f, const struct aw_flow_cfg *c, aw_host_step step,
			   void *host, int reads_time, const struct aw_seg *s, aw_u64 now_us,
			   struct aw_decision *d)
{
	struct hosted h = hosted(c, step, host, reads_time);

	aw_flow_on_ack(f, &h.cfg, s, now_us, d);
}

void aw_shim_hosted_on_sent(struct aw_flow *f, const struct aw_flow_cfg *c, aw_host_step step,
			    void *host, int reads_time, const struct aw_seg *s, aw_u64 now_us)
{
	struct hosted h = hosted(c, step, host, reads_time);

	aw_flow_on_sent(f, &h.cfg, s, now_us);
}
