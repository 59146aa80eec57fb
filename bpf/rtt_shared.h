/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the program that times round trips shares with its loader. */
#ifndef AW_RTT_SHARED_H
#define AW_RTT_SHARED_H

#include <linux/types.h>

/* Written before the programs are loaded. */
struct aw_rtt_options {
	__u32 l3_off; /* bytes before the IP header */
};

/* On each CPU, since the loader last looked, which sets both to 0. */
struct aw_rtt_samples {
	__u64 count;
	__u64 min_us; /* beyond the minimum of its connection; only if count is not 0 */
};

#endif
