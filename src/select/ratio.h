/* Method `ratio`: benefit per cost of each path, ancestors charged, best first. A baseline. */
#ifndef FORELAY_SELECT_RATIO_H
#define FORELAY_SELECT_RATIO_H

#include "select/selector.h"

extern const struct selector_ops selector_ratio;

#endif
