/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs for tests share with their loader, in addition to the datapath's. */
#ifndef ACKWISE_SELFTEST_SHARED_H
#define ACKWISE_SELFTEST_SHARED_H

#include "../policy/include/ackwise/flow.h"

/* Written before the programs are loaded. */
struct aw_selftest_options {
	/* Bytes that each ACK acknowledges beyond the previous one; data are then always
	 * in order. 0: segments are used as they are. */
	aw_u32 ack_step;
	aw_u32 clone_fails; /* not 0: cloning fails as if memory were short */
	aw_u32 scripted;    /* not 0: the test sets the time (clock.h) */
};

/*
 * With a script, cb[0] of a packet is a tag that the programs find beside it: its TCI, its
 * type (0x8100, or 0x88a8 with the flag), and whether there is one.
 */
enum aw_selftest_tag {
	AW_SELFTEST_TAG = 1 << 16,
	AW_SELFTEST_TAG_AD = 1 << 17,
};

/* The state of one policy, stepped by ackwise_replay. */
struct aw_replay {
	union aw_policy_state state;
	struct aw_verdict verdict;
};

/* A middlebox that pure ACKs pass, as configured by a test. */
struct aw_ack_box {
	aw_u32 drop_every; /* drops every n-th; 0: none */
	aw_u32 clear;	   /* not 0: clears AW_TCP_ACK_SKIPPED */
	aw_u64 acks;	   /* received */
	aw_u64 dropped;
	aw_u64 skipped; /* received with the bit */
};

#endif
