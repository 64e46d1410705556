#include "ledger/spending.h"

#include "base/number.h"

void spending_init(struct spending *spending, double grant, double cap) {
  cap = number_clamp(cap, 0, 1e18, 0);
  grant = number_clamp(grant, 0, cap, 0);
  *spending = (struct spending){.balance = grant, .cap = cap, .grant = grant};
}

static void balance_add(struct spending *spending, double amount) {
  spending->balance += amount;
  if (spending->balance > spending->cap) spending->balance = spending->cap;
  if (spending->balance < 0) spending->balance = 0;
}

void spending_earn(struct spending *spending, double amount) {
  if (!number_is_finite(amount) || amount <= 0) return;
  spending->earned += amount;
  balance_add(spending, amount);
}

bool spending_can_commit(const struct spending *spending, double amount) {
  return number_is_finite(amount) && amount >= 0 && amount <= spending->balance;
}

bool spending_commit(struct spending *spending, double amount) {
  if (!spending_can_commit(spending, amount)) return false;
  spending->balance -= amount;
  spending->booked += amount;
  return true;
}

void spending_settle(struct spending *spending, double amount, double net) {
  if (!number_is_finite(amount) || amount < 0) return;
  if (!number_is_finite(net)) net = -amount;
  if (net < -amount) {
    spending->overrun += -amount - net;
    net = -amount;
  }
  spending->booked -= amount;
  if (spending->booked < 0) spending->booked = 0;
  spending->settled += net;
  balance_add(spending, amount + net);
}

void spending_restore(struct spending *spending, double balance) {
  spending->balance = number_clamp(balance, 0, spending->cap, 0);
}
