/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the program that receives restored packets and its loader share. */
#ifndef AW_INJECT_SHARED_H
#define AW_INJECT_SHARED_H

#include <linux/types.h>

#define AW_INJECT_SLOTS 512   /* a power of two */
#define AW_INJECT_MAX_LEN 128 /* bytes; a longer packet is written to the device */

/* A single entry, mapped by the tunnel. */
struct aw_inject {
	__u32 next;  /* slots before it were received */
	__u32 count; /* number of filled slots */
	__u16 len[AW_INJECT_SLOTS];
	__u64 packets[AW_INJECT_SLOTS][AW_INJECT_MAX_LEN / 8]; /* from the IP header on */
};

#endif
