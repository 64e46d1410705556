/* Methods that go by a score the caller brings: `frequency`, `popularity`, `probability`. Baselines; they differ in
 * what the caller counts, not in how the score is used. Without a score the order is that of the index. */
#ifndef FORELAY_SELECT_SCORE_H
#define FORELAY_SELECT_SCORE_H

#include "select/selector.h"

extern const struct selector_ops selector_frequency, selector_popularity, selector_probability;

#endif
