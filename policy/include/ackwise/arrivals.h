/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The smoothed gap between data segments, from which some policies predict when the
 * next one is due.
 */
#ifndef ACKWISE_ARRIVALS_H
#define ACKWISE_ARRIVALS_H

#include "types.h"

#define AW_ARRIVALS_MAX_GAP_US 500000 /* a longer gap is a pause */

/**
 * struct aw_arrivals - the pace at which data arrive
 * @last_us: when the last segment arrived, while @running
 * @gap_us: smoothed gap between two segments; 0 if it is not known yet
 * @running: 0 if the gap before the next segment does not count
 */
struct aw_arrivals {
	aw_u32 last_us;
	aw_u32 gap_us;
	aw_u32 running;
};

/* Takes a data segment. A gap caused by a loss, a repair or a pause does not count. */
AW_FN void aw_arrivals_data(struct aw_arrivals *a, const struct aw_event *e)
{
	aw_u32 now = (aw_u32)e->now_us, gap = now - a->last_us;

	if (e->flags & (AW_D_OUT_OF_ORDER | AW_D_FILLS_GAP)) {
		a->running = 0;
		return;
	}
	if (a->running && gap <= AW_ARRIVALS_MAX_GAP_US) {
		gap = aw_max(aw_div32(gap, aw_max(e->segments, 1)), 1);
		/* A gain of 1/4: alpha = 0.75 of de Oliveira and Braun. */
		a->gap_us = a->gap_us ? aw_max((3 * a->gap_us + gap) >> 2, 1) : gap;
	}
	a->last_us = now;
	a->running = 1;
}

/* Excludes the next gap, which says nothing about the sender's pace. */
AW_FN void aw_arrivals_pause(struct aw_arrivals *a)
{
	a->running = 0;
}

/* The time in which `segments`, and `tenths` of one more, should come; at most hold_us. */
AW_FN aw_u32 aw_arrivals_wait(const struct aw_arrivals *a, aw_u32 segments, aw_u32 tenths,
			      aw_u32 hold_us)
{
	aw_u64 us = (aw_u64)a->gap_us * (10ULL * segments + tenths);

	us = aw_div64(us, 10);
	return !us || us > hold_us ? hold_us : (aw_u32)us;
}

#endif
