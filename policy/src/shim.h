/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The headers' inline functions with symbols, and their X-macros as tables, for
 * environments that link instead of including. The bindings of the Rust crate are
 * generated from this file, so that no layout and no list is written down twice.
 */
#ifndef ACKWISE_SHIM_H
#define ACKWISE_SHIM_H

#include "ackwise/flow.h"
#include "../options/ack_rate_request.h"
#include "../options/ack_ratio.h"

struct aw_param_meta {
	const char *name, *unit, *what;
	aw_u32 index, def, min, max;
};

struct aw_policy_meta {
	const char *name, *summary, *source;
	const struct aw_param_meta *params;
	aw_u32 n_params;
	aw_u32 needs; /* enum aw_capability */
};

struct aw_reason_meta {
	const char *name, *what;
};

/* In the order of enum aw_policy, AW_POLICIES of them. */
const struct aw_policy_meta *aw_shim_policy(aw_u32 policy);
/* In the order of enum aw_reason, AW_REASON_COUNT of them. */
const struct aw_reason_meta *aw_shim_reason(aw_u32 reason);

/* Returns enum aw_parse_status; seg is always written. */
aw_u32 aw_shim_parse(const aw_u8 *data, aw_u32 n, aw_u32 link, aw_u32 total_len,
		     struct aw_seg *seg);
void aw_shim_step(union aw_policy_state *s, const struct aw_cfg *c, const struct aw_event *e,
		  struct aw_verdict *v);
void aw_shim_handshake(struct aw_handshake *h, const struct aw_seg *s, int acks, aw_u64 now_us);
void aw_shim_flow_init(struct aw_flow *f, const struct aw_handshake *h, aw_u64 now_us);
void aw_shim_flow_on_data(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
			  aw_u32 segments, aw_u64 now_us);
void aw_shim_flow_on_ack(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
			 aw_u64 now_us, struct aw_decision *d);
int aw_shim_flow_counts(const struct aw_flow *f, const struct aw_seg *s);
int aw_shim_flow_releases(const struct aw_flow *f, const struct aw_seg *s);
void aw_shim_flow_on_sent(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
			  aw_u64 now_us);
aw_u32 aw_shim_flow_hold_us(const struct aw_flow *f, const struct aw_flow_cfg *c);
aw_u32 aw_shim_hold_length(aw_u32 us);
aw_u32 aw_shim_flow_srtt(const struct aw_flow *f);
aw_u32 aw_shim_flow_min_rtt(const struct aw_flow *f);
aw_u32 aw_shim_uplink_others(aw_u32 bytes, aw_u32 is_tcp);
aw_u32 aw_shim_uplink_look(struct aw_uplink *u, aw_u64 rest, aw_u64 others);

/* ../options/ack_rate_request.h; options of n bytes: more than AW_OPT_BYTES say nothing. */
aw_u32 aw_shim_ack_rate_write(aw_u8 *to, aw_u32 said);
aw_u32 aw_shim_ack_rate_find(const aw_u8 *options, aw_u32 n);
int aw_shim_ack_rate_on_data(struct aw_ack_rate *a, const struct aw_flow *f, const struct aw_seg *s,
			     aw_u32 said);
int aw_shim_ack_rate_on_bit(struct aw_ack_rate *a, const struct aw_flow *f, const struct aw_seg *s);
/* Sets n in c to what is asked for, if its policy is every-n. */
void aw_shim_ack_rate_cfg(const struct aw_ack_rate *a, const struct aw_flow *f,
			  const struct aw_seg *s, struct aw_flow_cfg *c);

/* ../options/ack_ratio.h */
void aw_shim_ack_ratio_init(struct aw_ack_ratio *a, aw_u32 most);
void aw_shim_ack_ratio_on_ack(struct aw_ack_ratio *a, const struct aw_ack_seen *s);
aw_u32 aw_shim_ack_ratio_on_segment(struct aw_ack_ratio *a, aw_u64 end, aw_u32 window, aw_u32 mss);
void aw_shim_ack_ratio_on_retransmission(struct aw_ack_ratio *a, aw_u64 max);

/*
 * The flow with a policy of the caller's: step is called with host instead of the policy of c,
 * and the hold bounds of c apply. The policy sees data, and with reads_time it reads the time.
 */
typedef void (*aw_host_step)(void *host, const struct aw_event *e, struct aw_verdict *v);
void aw_shim_hosted_on_data(struct aw_flow *f, const struct aw_flow_cfg *c, aw_host_step step,
			    void *host, int reads_time, const struct aw_seg *s, aw_u32 segments,
			    aw_u64 now_us);
void aw_shim_hosted_on_ack(struct aw_flow *f, const struct aw_flow_cfg *c, aw_host_step step,
			   void *host, int reads_time, const struct aw_seg *s, aw_u64 now_us,
			   struct aw_decision *d);
void aw_shim_hosted_on_sent(struct aw_flow *f, const struct aw_flow_cfg *c, aw_host_step step,
			    void *host, int reads_time, const struct aw_seg *s, aw_u64 now_us);

#endif
