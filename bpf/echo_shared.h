/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the program that echoes marks shares with its loader. */
#ifndef AW_ECHO_SHARED_H
#define AW_ECHO_SHARED_H

#include <linux/types.h>

/* Written before the programs are loaded. */
struct aw_echo_options {
	__u32 l3_off; /* bytes before the IP header */
};

/* Per CPU. */
struct aw_echo_counters {
	__u64 plain;   /* connections that began without ECN */
	__u64 other;   /* connections that began with it: not touched */
	__u64 capable; /* ACKs sent that could have been marked */
	__u64 marks;   /* ACKs that were marked */
	__u64 echoes;  /* data that carried an echo */
	__u64 unknown; /* marked ACKs of connections that began before the program */
};

#endif
