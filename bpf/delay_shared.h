/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the program that times the path behind a queue shares with its loader. */
#ifndef AW_DELAY_SHARED_H
#define AW_DELAY_SHARED_H

#include <linux/types.h>

/* Written before the program is loaded. */
struct aw_delay_options {
	__s32 overhead; /* bytes that each packet costs in addition to what the program sees */
};

/* What has left since the program was loaded. */
struct aw_delay_sent {
	__u64 bytes; /* with the overhead */
	/* The sum over all bytes of the length of a byte's packet, or of its segments if
	 * the device cuts it up. Divided by `bytes`, it is the mean length of the packet
	 * that a byte is in. */
	__u64 lengths;
};

/* Of the round trips that ended since the loader last looked; the loader sets all to 0. */
struct aw_delay_sample {
	__u64 count;
	/* If count is not 0: the sample that waited least, from data if there was any. */
	__u64 left_ns; /* when the packet left, by CLOCK_MONOTONIC */
	__u64 bytes;   /* aw_delay_sent.bytes when it had left */
	__u64 waited_us;
	__u64 is_data; /* from data rather than an ACK */
};

#endif
