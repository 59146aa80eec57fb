/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The events that a policy sees and the verdicts that it gives. A policy is a pure
 * step: configuration, state, event -> verdict. Layouts are asserted here and, through
 * bindings generated from this file, in Rust.
 */
#ifndef ACKWISE_TYPES_H
#define ACKWISE_TYPES_H

#include "platform.h"

/* What an environment can do. A policy names what it needs; see policies/. */
enum aw_capability {
	AW_CAP_SEE_DATA = 1 << 0,  /* it sees the data that the ACKs cover */
	AW_CAP_HOLD = 1 << 1,	   /* it can keep an ACK and release it later */
	AW_CAP_MAKE_ACKS = 1 << 2, /* it is the receiver: it decides when to ACK */
	AW_CAP_OWN_QUEUE = 1 << 3, /* it owns the queue in which the ACKs wait */
	/*
	 * It looks at now_us. Every environment can tell the time, but clocks are slow: for a
	 * policy without this, now_us is 0, and no clock is read for its sake.
	 */
	AW_READS_TIME = 1 << 16,
	/* It looks at AW_A_BUSY. Without this, an environment need not watch its CPUs. */
	AW_READS_BUSY = 1 << 17,
};

enum aw_event_kind {
	AW_EV_DATA = 0,	    /* a data segment was seen */
	AW_EV_ACK = 1,	    /* an ACK is a candidate */
	AW_EV_DEADLINE = 2, /* a held ACK has left by itself */
	AW_EV_KINDS
};

enum aw_event_flag {
	/* AW_EV_DATA */
	AW_D_OUT_OF_ORDER = 1 << 0, /* it leaves a hole below it */
	AW_D_FILLS_GAP = 1 << 1,    /* it arrives below the highest byte seen */
	AW_D_CE = 1 << 2,	    /* ECN congestion experienced */
	AW_D_PSH = 1 << 3,
	AW_D_ACK_CE_ECHO = 1 << 4, /* its sender received a marked ACK (RFC 3449 §4.3) */
	/* AW_EV_ACK */
	AW_A_MUST_SEND = 1 << 8, /* the contract lets it out, whatever the verdict */
	AW_A_RECOVERY = 1 << 9,	 /* a loss or reordering is not repaired yet */
	AW_A_HOLDING = 1 << 10,	 /* an older ACK of the flow is being held */
	AW_A_OTHERS = 1 << 11,	 /* others fill the link that the ACKs leave by (uplink.h) */
	AW_A_SHARED = 1 << 12,	 /* and the ACK waits in their queue: aw_flow_shared() */
	AW_A_BUSY = 1 << 13,	 /* the CPU that sends it is short of time, see aw_flow.busy */
};

struct aw_event {
	aw_u64 now_us; /* 0 for a policy without AW_READS_TIME */
	aw_u32 kind;
	aw_u32 flags;
	aw_u32 bytes;	 /* data: payload; ACK: newly acknowledged since the last that left */
	aw_u32 segments; /* the same in segments; data may be aggregated (GRO) */
	aw_u32 len;	 /* ACK: its size from the IP header on */
	aw_u32 hops;	 /* data: hops it took, from the TTL; 0 = not known */
	aw_u32 peer_wnd; /* data: the window the data sender advertises, bytes */
	/* What the environment knows of the flow; 0 = not known. */
	aw_u32 mss;	/* payload bytes of a full segment */
	aw_u32 rcv_wnd; /* the receiver's advertised window, bytes */
	aw_u32 srtt_us;
	aw_u32 min_rtt_us;
	aw_u32 hold_us; /* the longest hold that the contract grants now */
};

enum aw_verdict_kind {
	AW_SEND = 0,
	AW_HOLD = 1, /* keep it for hold_us at most; a newer ACK may replace it */
	AW_DROP = 2, /* a newer ACK is known to follow (only AW_CAP_OWN_QUEUE) */
	AW_VERDICTS
};

struct aw_verdict {
	aw_u32 kind;
	aw_u32 hold_us; /* with AW_HOLD; 0 or above the event's: the event's */
};

AW_FN struct aw_verdict aw_send(void)
{
	struct aw_verdict v = { AW_SEND, 0 };

	return v;
}

AW_FN struct aw_verdict aw_hold(aw_u32 hold_us)
{
	struct aw_verdict v = { AW_HOLD, hold_us };

	return v;
}

#define AW_PARAMS 12	   /* most parameters of one policy */
#define AW_POLICY_STATE 64 /* bytes of state a flow has for its policy */

/* A policy's parameters, in the order of its AW_<NAME>_PARAMS list. */
struct aw_cfg {
	aw_u32 policy; /* enum aw_policy */
	aw_u32 reserved;
	aw_u32 param[AW_PARAMS];
};

AW_ASSERT(sizeof(struct aw_event) == 56, "aw_event");
AW_ASSERT(sizeof(struct aw_verdict) == 8, "aw_verdict");
AW_ASSERT(sizeof(struct aw_cfg) == 56, "aw_cfg");

#endif
