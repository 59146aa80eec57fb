/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the tunnel's program and its loader share. */
#ifndef AW_TUNNEL_SHARED_H
#define AW_TUNNEL_SHARED_H

#include <linux/types.h>

#define AW_TUNNEL_PEERS 32
#define AW_TUNNEL_RING (1 << 20) /* bytes: 7281 ACKs */

/* Written before the program is loaded. */
struct aw_tunnel_options {
	__u64 grace_ns;		/* how long redirected packets may wait to be read */
	__u32 tun_ifindex;	/* index of the device by which packets reach the tunnel */
	__u32 restored_ifindex; /* index of the device by which restored packets come back */
	__u32 cookie;		/* mark of packets that the tunnel sends by the ordinary path */
	__u32 mark;		/* of its datagrams, and of packets routed to it that pass */
	__u32 max_other_len;	/* bytes of an IP packet that is not a pure ACK; 0: it passes */
	__u32 reserved;
};

/* A range of a peer's allowed_ips; an IPv4 address is in the first four bytes. */
struct aw_tunnel_prefix {
	__u32 len;    /* bits: 32 for the family, and those of the address */
	__u32 family; /* 4 or 6 */
	__u8 address[16];
};

/* A copy of an ACK that was taken, with its link header, as it would have left. */
struct aw_tunnel_ack {
	__u16 len;
	__u8 bytes[128]; /* a power of two; longer ones, IPv4 with options, go by the device */
};

/* A single entry, mapped by the tunnel. */
struct aw_tunnel_state {
	__u64 waiting_since; /* CLOCK_MONOTONIC: nothing was read since then; 0: all is read */
	__u64 taken;	     /* sent to the tunnel */
	__u64 returned;	     /* from the tunnel */
	__u64 unattended;    /* passed: the tunnel does not read */
	__u32 up[AW_TUNNEL_PEERS];
};

#endif
