/* Method `macro`: macro-item greedy under the multipliers of the relaxation, then a bounded exact search. */
#ifndef FORELAY_SELECT_MACRO_H
#define FORELAY_SELECT_MACRO_H

#include "select/selector.h"

extern const struct selector_ops selector_macro;

#endif
