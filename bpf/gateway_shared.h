/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the gateway's program and its loader share. */
#ifndef AW_GATEWAY_SHARED_H
#define AW_GATEWAY_SHARED_H

#include <linux/types.h>

/* Written before the program is loaded. */
struct aw_gateway_options {
	__u32 tun_ifindex; /* index of the device by which packets reach the gateway */
	__u32 cookie;	   /* mark of the packets from the gateway */
};

/* A single entry; the gateway writes it as long as it works. */
struct aw_gateway_control {
	__u64 alive_until_ns; /* CLOCK_MONOTONIC */
};

/* Per CPU. */
struct aw_gateway_counters {
	__u64 taken, taken_bytes; /* redirected to the gateway; an aggregate counts as one */
	__u64 returned;		  /* from the gateway */
	__u64 other;		  /* passed: neither IP nor a tunnel of it, or PPP control */
	__u64 neighbour;	  /* passed: IPv6 neighbour discovery */
	__u64 unattended;	  /* passed: the gateway gave no sign of life */
};

#endif
