/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the probe for silent drops and its loader share. */
#ifndef AW_SILENCE_SHARED_H
#define AW_SILENCE_SHARED_H

#include <linux/types.h>

/* Written before the program is loaded. */
struct aw_silence_options {
	__u32 verdict; /* a TC_ACT_* instead of the silent drop, for tests; 0: the silent drop */
};

#endif
