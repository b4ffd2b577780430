/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The in-kernel decisions as ordinary functions, for callers that are not C: see lib.rs. */
#define CORUN_DECISION
#include "decisions.h"
