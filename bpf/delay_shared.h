/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the program that times the way behind a queue shares with its loader. */
#ifndef AW_DELAY_SHARED_H
#define AW_DELAY_SHARED_H

#include <linux/types.h>

/* Written before the program is loaded. */
struct aw_delay_options {
	__s32 overhead; /* bytes that each packet costs beyond what the program sees of it */
};

/* What has left since the program was loaded. */
struct aw_delay_sent {
	__u64 bytes; /* with the overhead */
	/* Of each byte the length of its packet, up to which one that the device cuts up counts: over
	 * `bytes`, what a byte finds before it on the mean. */
	__u64 lengths;
};

/* Of the round trips that ended since the loader last looked, which sets all to 0. */
struct aw_delay_sample {
	__u64 count;
	/* Of the one that waited least, of data if there was any, if count is not 0: */
	__u64 left_ns; /* when the packet left, by CLOCK_MONOTONIC */
	__u64 bytes;   /* aw_delay_sent.bytes when it had left */
	__u64 waited_us;
	__u64 is_data; /* and not an ACK */
};

#endif
