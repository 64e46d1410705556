#include "demand/scorecard.h"

#include "base/number.h"

void scorecard_add(struct scorecard *card, double p, bool has_come) {
  p = number_clamp(p, 0, 1, 0);
  uint32_t bin = (uint32_t)(p * CALIBRATION_BINS);
  if (bin >= CALIBRATION_BINS) bin = CALIBRATION_BINS - 1;
  double truth = has_come ? 1 : 0;
  card->squares += (p - truth) * (p - truth);
  card->forecast[bin] += p;
  card->come[bin] += truth;
  card->count[bin]++;
}

void scorecard_join(struct scorecard *card, const struct scorecard *other) {
  card->squares += other->squares;
  for (uint32_t i = 0; i < CALIBRATION_BINS; i++) {
    card->forecast[i] += other->forecast[i];
    card->come[i] += other->come[i];
    card->count[i] += other->count[i];
  }
}

void scorecard_read(const struct scorecard *card, struct calibration *ret) {
  struct calibration out = {0};
  double come = 0, off = 0;
  for (uint32_t i = 0; i < CALIBRATION_BINS; i++) {
    if (card->count[i] == 0) continue;
    double count = (double)card->count[i], gap = card->forecast[i] - card->come[i];
    out.scored += card->count[i];
    out.count[i] = card->count[i];
    out.forecast[i] = card->forecast[i] / count;
    out.observed[i] = card->come[i] / count;
    come += card->come[i];
    off += gap < 0 ? -gap : gap;
  }
  if (out.scored) {
    double n = (double)out.scored, base = come / n;
    out.brier = card->squares / n;
    out.brier_base = base * (1 - base);
    out.error = off / n;
  }
  *ret = out;
}
