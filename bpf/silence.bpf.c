// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Drops every packet in the way the datapath withholds an ACK. Its loader sends one and
 * checks whether the sender is told (docs/decisions/0006-silent-drop.md).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "silence_shared.h"
#include "verdict.h"

const volatile struct aw_silence_options silence_options = {};

SEC("classifier")
int ackwise_silence(struct __sk_buff *skb)
{
	return silence_options.verdict ? (int)silence_options.verdict : aw_vanish();
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
