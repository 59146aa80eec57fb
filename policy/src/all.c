/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Instantiates everything in include/ and options/ once, with external linkage. check.sh
 * compiles this for every kind of environment, and looks for undefined symbols in it.
 */
#include "ackwise/flow.h"
#include "../options/ack_rate_request.h"
#include "../options/ack_ratio.h"

int aw_all_parse(const aw_u8 *data, const aw_u8 *end, aw_u32 link, aw_u32 total_len,
		 struct aw_seg *s);
int aw_all_fast(const aw_u8 *data, const aw_u8 *end, aw_u32 link, aw_u32 total_len,
		struct aw_seg *s);
int aw_all_step(union aw_policy_state *s, const struct aw_cfg *c, const struct aw_event *e,
		struct aw_verdict *v);
int aw_all_handshake(struct aw_handshake *h, const struct aw_seg *s, int acks, aw_u64 now_us);
int aw_all_init(struct aw_flow *f, const struct aw_handshake *h, aw_u64 now_us);
int aw_all_data(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
		aw_u32 segments, const aw_u64 *now_us);
int aw_all_ack(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
	       const aw_u64 *now_us, struct aw_decision *d);
int aw_all_releases(const struct aw_flow *f, const struct aw_seg *s);
int aw_all_on_sent(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
		   aw_u64 now_us);
int aw_all_ack_rate(struct aw_ack_rate *a, const struct aw_flow *f, const struct aw_seg *s,
		    struct aw_ack_rate_search *search);
int aw_all_ack_rate_bit(struct aw_ack_rate *a, const struct aw_flow *f, const struct aw_seg *s);
aw_u32 aw_all_ack_rate_write(aw_u8 *to, aw_u32 said);
aw_u32 aw_all_ack_rate_n(const struct aw_ack_rate *a, const struct aw_flow *f,
			 const struct aw_seg *s, aw_u32 n);
void aw_all_ack_ratio_init(struct aw_ack_ratio *a, aw_u32 most);
void aw_all_ack_ratio_on_ack(struct aw_ack_ratio *a, const struct aw_ack_seen *s);
aw_u32 aw_all_ack_ratio_on_segment(struct aw_ack_ratio *a, const aw_u64 *end, aw_u32 window,
				   aw_u32 mss);
void aw_all_ack_ratio_on_retransmission(struct aw_ack_ratio *a, const aw_u64 *max);

int aw_all_parse(const aw_u8 *data, const aw_u8 *end, aw_u32 link, aw_u32 total_len,
		 struct aw_seg *s)
{
	return (int)aw_parse(data, end, link, total_len, s);
}

int aw_all_fast(const aw_u8 *data, const aw_u8 *end, aw_u32 link, aw_u32 total_len,
		struct aw_seg *s)
{
	return aw_parse_fast(data, end, link, total_len, s);
}

int aw_all_step(union aw_policy_state *s, const struct aw_cfg *c, const struct aw_event *e,
		struct aw_verdict *v)
{
	*v = aw_policy_step(s, c, e);
	return 0;
}

int aw_all_handshake(struct aw_handshake *h, const struct aw_seg *s, int acks, aw_u64 now_us)
{
	aw_handshake_on_segment(h, s, acks, now_us);
	return 0;
}

int aw_all_init(struct aw_flow *f, const struct aw_handshake *h, aw_u64 now_us)
{
	aw_flow_init(f, h, now_us);
	return 0;
}

int aw_all_data(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
		aw_u32 segments, const aw_u64 *now_us)
{
	aw_flow_on_data(f, c, s, segments, *now_us);
	return 0;
}

int aw_all_ack(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
	       const aw_u64 *now_us, struct aw_decision *d)
{
	aw_flow_on_ack(f, c, s, *now_us, d);
	return 0;
}

int aw_all_releases(const struct aw_flow *f, const struct aw_seg *s)
{
	return aw_flow_releases(f, s);
}

int aw_all_on_sent(struct aw_flow *f, const struct aw_flow_cfg *c, const struct aw_seg *s,
		   aw_u64 now_us)
{
	aw_flow_on_sent(f, c, s, now_us);
	return 0;
}

int aw_all_ack_rate(struct aw_ack_rate *a, const struct aw_flow *f, const struct aw_seg *s,
		    struct aw_ack_rate_search *search)
{
	return aw_ack_rate_on_data(a, f, s, (aw_u32)aw_ack_rate_find(search));
}

int aw_all_ack_rate_bit(struct aw_ack_rate *a, const struct aw_flow *f, const struct aw_seg *s)
{
	return aw_ack_rate_on_bit(a, f, s);
}

aw_u32 aw_all_ack_rate_write(aw_u8 *to, aw_u32 said)
{
	return aw_ack_rate_write(to, said);
}

aw_u32 aw_all_ack_rate_n(const struct aw_ack_rate *a, const struct aw_flow *f,
			 const struct aw_seg *s, aw_u32 n)
{
	return aw_ack_rate_n(a, f, s, n);
}

void aw_all_ack_ratio_init(struct aw_ack_ratio *a, aw_u32 most)
{
	aw_ack_ratio_init(a, most);
}

void aw_all_ack_ratio_on_ack(struct aw_ack_ratio *a, const struct aw_ack_seen *s)
{
	aw_ack_ratio_on_ack(a, s);
}

aw_u32 aw_all_ack_ratio_on_segment(struct aw_ack_ratio *a, const aw_u64 *end, aw_u32 window,
				   aw_u32 mss)
{
	return aw_ack_ratio_on_segment(a, *end, window, mss);
}

void aw_all_ack_ratio_on_retransmission(struct aw_ack_ratio *a, const aw_u64 *max)
{
	aw_ack_ratio_on_retransmission(a, *max);
}
