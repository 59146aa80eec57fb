/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One flow as a home keeps it: what the contract must remember, what a policy
 * may know (MSS, windows, RTT), and the policy's own state. "Data" travels from
 * the data sender to the receiver; "ACKs" the other way. The home says where it
 * saw a segment; this file never knows.
 */
#ifndef ACKWISE_FLOW_H
#define ACKWISE_FLOW_H

#include "contract.h"
#include "policy.h"
#include "tcp.h"

/* Of the whole attachment: the policy and how far the contract lets it go. */
struct aw_flow_cfg {
	struct aw_cfg policy;
	aw_u32 hold_max_us;    /* D: no ACK is held longer; default 25 ms */
	aw_u32 hold_rtt_shift; /* nor longer than RTT >> this; default 2 */
};

/* What the home must do with a segment of the ACK direction. */
struct aw_decision {
	aw_u32 kind;	/* enum aw_verdict_kind, contract applied */
	aw_u32 reason;	/* enum aw_reason */
	aw_u32 hold_us; /* with AW_HOLD */
	aw_u32 flags;	/* enum aw_decision_flag */
};

enum aw_decision_flag {
	AW_DEC_SUPERSEDES = 1 << 0, /* a held ACK of the flow need not leave any more */
	AW_DEC_TWICE = 1 << 1, /* a plain duplicate whose original is still held: it must
				* leave twice, or the sender counts one dupACK too few */
};

/* Handshake facts; kept apart so that a SYN flood cannot evict flows. */
struct aw_handshake {
	aw_u32 syn_us, synack_us;
	aw_u32 rtt_us;	    /* SYN..SYN-ACK, or SYN-ACK..ACK: the leg the home saw */
	aw_u16 mss;	    /* smallest MSS option of the two */
	aw_u8 wscale;	    /* of the ACK sender (the data receiver) */
	aw_u8 data_wscale;  /* of the data sender */
	aw_u32 flags;
};

struct aw_flow {
	struct aw_handshake hs;
	union aw_policy_state policy;
};

#endif
