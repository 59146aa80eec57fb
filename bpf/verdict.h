/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The return values of tc programs, the same for tcx and clsact. */
#ifndef ACKWISE_VERDICT_H
#define ACKWISE_VERDICT_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

/* Go on to the next program. tcx (TCX_NEXT) and direct action share the number. */
#define AW_PASS TC_ACT_UNSPEC

/* No interface has this index. */
#define AW_NO_IFINDEX 0x7fffffff

/*
 * Frees the packet without telling its socket, unlike a drop
 * (docs/decisions/0006-silent-drop.md): tcx does not know STOLEN, but a redirect to nowhere
 * is silent.
 */
static __always_inline int aw_vanish(void)
{
	return bpf_redirect(AW_NO_IFINDEX, 0);
}

#endif
