/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ACKWISE_CONTRACT_H
#define ACKWISE_CONTRACT_H
#include "tcp.h"
#endif
