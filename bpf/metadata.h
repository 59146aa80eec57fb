/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Metadata beside a frame, which is lost when user space sends the frame again. Devices in
 * collect-metadata mode (`ip link add … type vxlan external`, OVS, routes with `encap ip`)
 * drop a frame without the tunnel's addresses, after the hook, unnoticed. A packet that
 * came out of IPsec is dropped by the policy check of its receiver if its security path is
 * missing.
 */
#ifndef ACKWISE_METADATA_H
#define ACKWISE_METADATA_H

#include <linux/bpf.h>
#include <linux/errno.h>
#include <bpf/bpf_helpers.h>

/*
 * Whether the frame has a tunnel's addresses beside it. Anything but -EINVAL means yes:
 * -EPROTO is a tunnel over IPv6. The first 8 bytes of a key are the key of the helper's
 * first version.
 */
static __always_inline int has_tunnel_key(struct __sk_buff *skb)
{
	struct {
		__u32 id, remote_ipv4;
	} key;

	return bpf_skb_get_tunnel_key(skb, (struct bpf_tunnel_key *)&key, sizeof(key), 0) !=
	       -EINVAL;
}

/* Whether it came out of IPsec. Only kernels with IPsec have this helper. */
static __always_inline int has_security_path(struct __sk_buff *skb)
{
	struct bpf_xfrm_state state;

	return bpf_skb_get_xfrm_state(skb, 0, &state, sizeof(state), 0) == 0;
}

#endif
