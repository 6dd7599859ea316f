#pragma once
// MemoryBudget: one ledger of the process's memory: what is taken once at start (weights, KV cache) and what
// grows with client activity (responses in flight, request bodies, text being read, connections). It only
// counts bytes and allocates nothing: callers reserve before they allocate, and a refusal is an ordinary
// answer.
// An account has a promised size, which other accounts cannot use, and a limit, which is at least the
// promise. Invariants: no account uses more than its limit; the sum over all accounts of max(used, promised)
// never exceeds the total limit.
// Units: bytes. Errors: add_account: invalid_argument. Threads: every call is safe from any thread, but a
// reservation has one user at a time. Owner: whoever assembles the program; must outlive accounts and
// reservations.
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace pagoda {

class MemoryBudget;

// Bytes reserved from one account; returned to the account on destruction.
class MemoryReservation {
 public:
  MemoryReservation() = default;
  MemoryReservation(MemoryReservation&& other) noexcept { *this = std::move(other); }
  MemoryReservation& operator=(MemoryReservation&& other) noexcept;
  ~MemoryReservation() { reset(); }

  std::int64_t bytes() const { return bytes_; }
  // Changes the size. False, with nothing changed, if there is not enough memory; shrinking always succeeds.
  // Must not be called on an empty reservation.
  [[nodiscard]] bool try_resize(std::int64_t bytes);
  void reset();    // returns the bytes now; the reservation is then empty
  void keep() &&;  // never returns the bytes: they stay reserved for the lifetime of the ledger

 private:
  friend class MemoryBudget;
  MemoryReservation(MemoryBudget* budget, std::size_t account, std::int64_t bytes)
      : budget_(budget), account_(account), bytes_(bytes) {}
  MemoryBudget* budget_ = nullptr;
  std::size_t account_ = 0;
  std::int64_t bytes_ = 0;
};

class MemoryBudget {
 public:
  struct Account {
    std::string name;
    std::int64_t promised = 0, used = 0, limit = 0;
  };
  enum class AccountId : std::size_t {};

  explicit MemoryBudget(std::int64_t limit) : limit_(limit) {}

  // invalid_argument if the limit is below the promise, less than `promised` is left, or the name is taken.
  Result<AccountId> add_account(std::string name, std::int64_t promised, std::int64_t limit);
  // nullopt if it would exceed the account's limit, or take memory that other accounts use or were promised.
  std::optional<MemoryReservation> try_reserve(AccountId account, std::int64_t bytes);

  std::int64_t limit() const { return limit_; }
  std::int64_t used() const;
  std::int64_t left() const;  // neither used nor promised: available to new accounts
  Account account(AccountId id) const;
  std::vector<Account> accounts() const;  // a copy, in the order they were added

  // A consistent view of all values.
  struct Snapshot {
    std::int64_t used = 0, left = 0;
    std::vector<Account> accounts;
  };
  Snapshot snapshot() const;

 private:
  friend class MemoryReservation;
  [[nodiscard]] bool change(std::size_t account, std::int64_t by);

  const std::int64_t limit_;
  mutable std::mutex mutex_;
  std::deque<Account> accounts_;
};

}  // namespace pagoda
