/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a flow is told about this host. User space provides it beside its heartbeat: who
 * fills the link behind the interface (egress.h), and which CPUs are short of time for
 * packets.
 */
#ifndef ACKWISE_HOST_H
#define ACKWISE_HOST_H

#include "maps.h"

/* Whether this CPU is short of time, as user space last saw it. */
static __always_inline __u32 cpu_is_busy(const struct aw_control *a)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (cpu >= 32 * AW_BUSY_CPUS)
		return 0;
	return a->busy_cpus[cpu / 32] >> cpu % 32 & 1;
}

/* Under the flow's lock: tells the flow what is known now of the link and of this CPU. */
static __always_inline void tell_host(struct aw_entry *f, __u64 about)
{
	int busy = aw_flow_reads_busy(flow_cfg());
	struct aw_control *a;
	__u32 k = 0;

	if (!options.uplink && !busy)
		return;
	a = bpf_map_lookup_elem(&control, &k);
	if (options.uplink)
		f->flow.shared = a && about < a->shared_until_ns ? a->shared_us : 0;
	if (busy)
		f->flow.busy = a ? cpu_is_busy(a) : 0;
}

#endif
