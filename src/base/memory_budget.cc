#include "base/memory_budget.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"

namespace pagoda {

MemoryReservation& MemoryReservation::operator=(MemoryReservation&& other) noexcept {
  if (this == &other) return *this;
  reset();
  budget_ = std::exchange(other.budget_, nullptr);
  account_ = other.account_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

bool MemoryReservation::try_resize(std::int64_t bytes) {
  CHECK(budget_ != nullptr && bytes >= 0);
  if (!budget_->change(account_, bytes - bytes_)) return false;
  bytes_ = bytes;
  return true;
}

void MemoryReservation::reset() {
  if (budget_ != nullptr) CHECK(budget_->change(account_, -bytes_));
  budget_ = nullptr;
  bytes_ = 0;
}

void MemoryReservation::keep() && {
  budget_ = nullptr;
  bytes_ = 0;
}

Result<MemoryBudget::AccountId> MemoryBudget::add_account(std::string name, std::int64_t promised,
                                                          std::int64_t limit) {
  std::lock_guard lock(mutex_);
  if (promised < 0 || limit < promised)
    return invalid_argument(concat("memory account ", name, ": its limit is below its guaranteed size"));
  std::int64_t left = limit_;
  for (const Account& account : accounts_) {
    left -= std::max(account.promised, account.used);
    if (account.name == name) return invalid_argument(concat("there is already a memory account ", name));
  }
  if (promised > left)
    return invalid_argument(concat("memory account ", name, ": ", promised, " bytes are guaranteed, ",
                                   std::max<std::int64_t>(0, left), " are left"));
  accounts_.push_back({.name = std::move(name), .promised = promised, .used = 0, .limit = limit});
  return AccountId{accounts_.size() - 1};
}

std::optional<MemoryReservation> MemoryBudget::try_reserve(AccountId account, std::int64_t bytes) {
  CHECK(bytes >= 0);
  const auto index = static_cast<std::size_t>(account);
  if (!change(index, bytes)) return std::nullopt;
  return MemoryReservation(this, index, bytes);
}

bool MemoryBudget::change(std::size_t account, std::int64_t by) {
  std::lock_guard lock(mutex_);
  CHECK(account < accounts_.size());
  Account& own = accounts_[account];
  if (by > 0) {
    // Subtractions only, so that no sum can overflow.
    if (by > own.limit - own.used) return false;
    std::int64_t left = limit_ - own.used;
    for (const Account& other : accounts_)
      if (&other != &own) left -= std::max(other.promised, other.used);
    if (by > left) return false;
  }
  own.used += by;
  CHECK(own.used >= 0);
  return true;
}

std::int64_t MemoryBudget::used() const { return snapshot().used; }

std::int64_t MemoryBudget::left() const { return snapshot().left; }

MemoryBudget::Snapshot MemoryBudget::snapshot() const {
  Snapshot out{.left = limit_, .accounts = accounts()};
  for (const Account& account : out.accounts) {
    out.used += account.used;
    out.left -= std::max(account.promised, account.used);
  }
  return out;
}

MemoryBudget::Account MemoryBudget::account(AccountId id) const {
  std::lock_guard lock(mutex_);
  CHECK(static_cast<std::size_t>(id) < accounts_.size());
  return accounts_[static_cast<std::size_t>(id)];
}

std::vector<MemoryBudget::Account> MemoryBudget::accounts() const {
  std::lock_guard lock(mutex_);
  return {accounts_.begin(), accounts_.end()};
}

}  // namespace pagoda
