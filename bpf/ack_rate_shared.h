/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the program that requests ACK rates shares with its loader. scripts/bindings makes
 * the loader's copy from this file.
 */
#ifndef ACKWISE_ACK_RATE_SHARED_H
#define ACKWISE_ACK_RATE_SHARED_H

#include "../policy/include/ackwise/types.h"

/* If all are 0, the host announces that it supports the option, but requests nothing. */
struct aw_ack_rate_options {
	aw_u32 segments;   /* one ACK for this many; 0: by the other options */
	aw_u32 per_window; /* this many ACKs per congestion window; 0: by the other options */
	aw_u32 control;	   /* R derived from lost ACKs (RFC 5690) */
	aw_u32 reserved;
};

struct aw_ack_rate_counters {
	aw_u64 offered;	 /* SYNs and SYN-ACKs with the option */
	aw_u64 agreed;	 /* connections whose peer also supports it */
	aw_u64 asked;	 /* rates that were requested */
	aw_u64 segments; /* data packets with a request, before segmentation */
	/* ACK congestion control, on connections whose peer permits it */
	aw_u64 acks;	/* pure ACKs received */
	aw_u64 skipped; /* those that say that none is missing before them */
	aw_u64 lost;	/* ACKs found to be lost */
};

#endif
