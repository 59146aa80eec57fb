/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs for tests share with their loader, beside what the datapath shares. */
#ifndef ACKWISE_SELFTEST_SHARED_H
#define ACKWISE_SELFTEST_SHARED_H

#include "../policy/include/ackwise/flow.h"

/* Written before the programs are loaded. */
struct aw_selftest_options {
	/* Bytes that each ACK acknowledges beyond the one before, and data are always in
	 * order; 0: segments are taken as they are. */
	aw_u32 ack_step;
	aw_u32 clone_fails; /* not 0: a clone fails as if memory were short */
	aw_u32 scripted;    /* not 0: the time is what the test says (clock.h) */
};

/*
 * With a script, cb[0] of a packet is a tag that the programs find beside it: its TCI, its
 * type (0x8100, or 0x88a8 with the flag), and that there is one.
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

/* A box that pure ACKs pass, as a test tells it to be. */
struct aw_ack_box {
	aw_u32 drop_every; /* drops each so-manyth; 0: none */
	aw_u32 clear;	   /* not 0: clears AW_TCP_ACK_SKIPPED */
	aw_u64 acks;	   /* that came */
	aw_u64 dropped;
	aw_u64 skipped; /* that came with the bit */
};

#endif
