/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The time, ns. The shipped datapath reads the kernel's clocks. The object for tests may be
 * loaded with a clock that the test sets (selftest.scripted): the programs then behave the
 * same each time, the timer is not started, and the test calls what it would run.
 */
#ifndef ACKWISE_CLOCK_H
#define ACKWISE_CLOCK_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#ifdef AW_SELFTEST

#include "selftest_shared.h"

const volatile struct aw_selftest_options selftest = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} scripted_time SEC(".maps");

static __always_inline int clock_is_scripted(void)
{
	return selftest.scripted;
}

static __noinline __u64 clock_scripted(void)
{
	__u32 k = 0;
	__u64 *now = bpf_map_lookup_elem(&scripted_time, &k);

	return now ? *now : 0;
}

#else

static __always_inline int clock_is_scripted(void)
{
	return 0;
}

static __always_inline __u64 clock_scripted(void)
{
	return 0;
}

#endif

static __always_inline __u64 clock_ns(void)
{
	return clock_is_scripted() ? clock_scripted() : bpf_ktime_get_ns();
}

/* Accurate to a kernel tick, some milliseconds; much cheaper. */
static __always_inline __u64 clock_coarse_ns(void)
{
	return clock_is_scripted() ? clock_scripted() : bpf_ktime_get_coarse_ns();
}

/* The tick number, which changes when the coarse clock does. It costs next to nothing. */
static __always_inline __u64 clock_tick(void)
{
	return clock_is_scripted() ? clock_scripted() : bpf_jiffies64();
}

#endif
