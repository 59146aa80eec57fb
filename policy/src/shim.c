/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "shim.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* One more entry than parameters: a list may be empty, an array may not. */
#define P(i, n, unit, def, min, max, what) { #n, unit, what, i, def, min, max },
#define AW_POLICY(IDENT, ident, name) \
	static const struct aw_param_meta ident##_params[] = { AW_##IDENT##_PARAMS(P){ \
		0, 0, 0, 0, 0, 0, 0 } }; \
	AW_ASSERT(COUNT(ident##_params) - 1 <= AW_PARAMS, name " has too many parameters");
#include "ackwise/policies.def"
#undef AW_POLICY
#undef P

static const struct aw_policy_meta policies[] = {
#define AW_POLICY(IDENT, ident, name) \
	{ name,		  AW_##IDENT##_SUMMARY,	     AW_##IDENT##_SOURCE, \
	  ident##_params, COUNT(ident##_params) - 1, AW_##IDENT##_NEEDS },
#include "ackwise/policies.def"
#undef AW_POLICY
};

static const struct aw_reason_meta reasons[] = {
#define AW_REASON(IDENT, name, what) { name, what },
	AW_REASONS(AW_REASON)
#undef AW_REASON
};

const struct aw_policy_meta *aw_shim_policy(aw_u32 policy)
{
	return policy < COUNT(policies) ? &policies[policy] : 0;
}

const struct aw_reason_meta *aw_shim_reason(aw_u32 reason)
{
	return reason < COUNT(reasons) ? &reasons[reason] : 0;
}

aw_u32 aw_shim_parse(const aw_u8 *data, aw_u32 n, aw_u32 link, aw_u32 total_len, struct aw_seg *seg)
{
	static const struct aw_seg none;

	*seg = none;
	return (aw_u32)aw_parse(data, data + n, link, total_len, seg);
}

void aw_shim_step(union aw_policy_state *s, const struct aw_cfg *c, const struct aw_event *e,
		  struct aw_verdict *v)
{
	*v = aw_policy_step(s, c, e);
}

void aw_shim_handshake(struct aw_handshake *h, const struct aw_seg *s, int acks, aw_u64 now_us)
{
	aw_handshake_on_segment(h, s, acks, now_us);
}

void aw_shim_flow_init(struct aw_flow *f, const struct aw_handshake *h, aw_u64 now_us)
{
	aw_flow_init(f, h, now_us);
}

void aw_shim_flow_on_data(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
			  aw_u32 segments, aw_u64 now_us)
{
	aw_flow_on_data(f, c, s, segments, now_us);
}

void aw_shim_flow_on_ack(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
			 aw_u64 now_us, struct aw_decision *d)
{
	aw_flow_on_ack(f, c, s, now_us, d);
}

int aw_shim_flow_counts(const struct aw_flow *f, const struct aw_seg *s)
{
	return aw_counts(&f->acks, &f->data, s);
}

int aw_shim_flow_releases(const struct aw_flow *f, const struct aw_seg *s)
{
	return aw_flow_releases(f, s);
}

void aw_shim_flow_on_sent(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
			  aw_u64 now_us)
{
	aw_flow_on_sent(f, c, s, now_us);
}

aw_u32 aw_shim_flow_hold_us(const struct aw_flow *f, const struct aw_flow_cfg *c)
{
	return aw_flow_hold_us(f, c);
}

aw_u32 aw_shim_hold_length(aw_u32 us)
{
	return aw_hold_length(us);
}

aw_u32 aw_shim_flow_srtt(const struct aw_flow *f)
{
	return aw_flow_srtt(f);
}

aw_u32 aw_shim_flow_min_rtt(const struct aw_flow *f)
{
	return aw_flow_min_rtt(f);
}

aw_u32 aw_shim_uplink_others(aw_u32 bytes, aw_u32 is_tcp)
{
	return aw_uplink_others(bytes, is_tcp);
}

aw_u32 aw_shim_uplink_look(struct aw_uplink *u, aw_u64 rest, aw_u64 others)
{
	return aw_uplink_look(u, rest, others);
}

aw_u32 aw_shim_ack_rate_write(aw_u8 *to, aw_u32 said)
{
	return aw_ack_rate_write(to, said);
}

aw_u32 aw_shim_ack_rate_find(const aw_u8 *options, aw_u32 n)
{
	struct aw_ack_rate_search search = { .n = n };

	if (n > AW_OPT_BYTES)
		return AW_ACK_RATE_SILENT;
	__builtin_memcpy(search.b, options, n);
	return (aw_u32)aw_ack_rate_find(&search);
}

int aw_shim_ack_rate_on_data(struct aw_ack_rate *a, const struct aw_flow *f, const struct aw_seg *s,
			     aw_u32 said)
{
	return aw_ack_rate_on_data(a, f, s, said);
}

int aw_shim_ack_rate_on_bit(struct aw_ack_rate *a, const struct aw_flow *f, const struct aw_seg *s)
{
	return aw_ack_rate_on_bit(a, f, s);
}

void aw_shim_ack_rate_cfg(const struct aw_ack_rate *a, const struct aw_flow *f,
			  const struct aw_seg *s, struct aw_flow_cfg *c)
{
	aw_u32 *n = &c->policy.param[AW_EVERY_N_n];

	if (c->policy.policy == AW_POLICY_EVERY_N)
		*n = aw_ack_rate_n(a, f, s, *n);
}

void aw_shim_ack_ratio_init(struct aw_ack_ratio *a, aw_u32 most)
{
	aw_ack_ratio_init(a, most);
}

void aw_shim_ack_ratio_on_ack(struct aw_ack_ratio *a, const struct aw_ack_seen *s)
{
	aw_ack_ratio_on_ack(a, s);
}

aw_u32 aw_shim_ack_ratio_on_segment(struct aw_ack_ratio *a, aw_u64 end, aw_u32 window, aw_u32 mss)
{
	return aw_ack_ratio_on_segment(a, end, window, mss);
}

void aw_shim_ack_ratio_on_retransmission(struct aw_ack_ratio *a, aw_u64 max)
{
	aw_ack_ratio_on_retransmission(a, max);
}
