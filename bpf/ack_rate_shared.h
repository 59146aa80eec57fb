/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the program that asks for ACK rates and its loader both know. scripts/bindings makes
 * the loader's copy from this file.
 */
#ifndef ACKWISE_ACK_RATE_SHARED_H
#define ACKWISE_ACK_RATE_SHARED_H

#include "../policy/include/ackwise/types.h"

/* With all 0 a host says that it knows the option, and asks for nothing. */
struct aw_ack_rate_options {
	aw_u32 segments;   /* one ACK for so many; 0: as the others say */
	aw_u32 per_window; /* so many ACKs in a congestion window; 0: as the others say */
	aw_u32 control;	   /* as many as lost ACKs tell (RFC 5690) */
	aw_u32 reserved;
};

struct aw_ack_rate_counters {
	aw_u64 offered;	 /* SYNs and SYN-ACKs with the option */
	aw_u64 agreed;	 /* connections whose other side has it, too */
	aw_u64 asked;	 /* rates that were asked for */
	aw_u64 segments; /* data packets that carried a request, before they were cut */
	/* ACK congestion control, of connections whose other side permits it */
	aw_u64 acks;	/* that came */
	aw_u64 skipped; /* those that say that none is missing before them */
	aw_u64 lost;	/* that were found to be lost */
};

#endif
