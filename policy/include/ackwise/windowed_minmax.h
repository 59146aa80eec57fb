/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The minimum or maximum of the recent past, in two buckets: the current window and
 * the one before it. A sample counts for at least one window and at most two. Linux's
 * lib/win_minmax.c is nearly exact and keeps three samples with their times; two words
 * are enough where the window is a guess anyway. The caller has the clock, and says
 * when a window ends.
 */
#ifndef ACKWISE_WINDOWED_MINMAX_H
#define ACKWISE_WINDOWED_MINMAX_H

#include "platform.h"

#define AW_WINDOWED_MIN_NONE 0xffffffffu

/**
 * struct aw_windowed_min - the smallest of recent samples
 * @min: the smallest of this window and the last; AW_WINDOWED_MIN_NONE before the first
 * @next: the smallest of this window alone; AW_WINDOWED_MIN_NONE if it has none
 */
struct aw_windowed_min {
	aw_u32 min;
	aw_u32 next;
};

/**
 * struct aw_windowed_max - the largest of recent samples
 * @max: the largest of this window and the last; 0 before the first
 * @next: the largest of this window alone; 0 if it has none
 */
struct aw_windowed_max {
	aw_u32 max;
	aw_u32 next;
};

AW_FN void aw_windowed_min_init(struct aw_windowed_min *m)
{
	m->min = m->next = AW_WINDOWED_MIN_NONE;
}

AW_FN int aw_windowed_min_known(const struct aw_windowed_min *m)
{
	return m->min != AW_WINDOWED_MIN_NONE;
}

AW_FN void aw_windowed_min_add(struct aw_windowed_min *m, aw_u32 sample)
{
	m->min = aw_min(m->min, sample);
	m->next = aw_min(m->next, sample);
}

/* Ends a window. If it had no sample, the older minimum stays. */
AW_FN void aw_windowed_min_rotate(struct aw_windowed_min *m)
{
	if (m->next != AW_WINDOWED_MIN_NONE)
		m->min = m->next;
	m->next = AW_WINDOWED_MIN_NONE;
}

AW_FN void aw_windowed_max_add(struct aw_windowed_max *m, aw_u32 sample)
{
	m->max = aw_max(m->max, sample);
	m->next = aw_max(m->next, sample);
}

/* Ends a window. stale: another whole one has passed without a sample, so forget all. */
AW_FN void aw_windowed_max_rotate(struct aw_windowed_max *m, int stale)
{
	m->max = stale ? 0 : m->next;
	m->next = 0;
}

#endif
