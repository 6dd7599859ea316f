#pragma once
// MemoryBudget: one ledger of the process's memory: what is taken once at start (weights, KV cache), and what
// grows with what clients do: answers on their way, bodies, texts being read, connections. It counts bytes
// and allocates nothing: whoever is about to take memory asks first, and a refusal is an ordinary answer.
// An account has a promise, which the others can never eat into, and a limit of its own, at least that.
// Invariants: no account uses more than its limit; what is used, and of each account at least its promise,
// is never more than the whole.
// Units: bytes. Errors: add_account: invalid_argument. Threads: everything is safe from any thread; a
// reservation has one user at a time. Owner: whoever puts the program together; it outlives accounts and
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

// Bytes of one account, given back when it ends.
class MemoryReservation {
 public:
  MemoryReservation() = default;
  MemoryReservation(MemoryReservation&& other) noexcept { *this = std::move(other); }
  MemoryReservation& operator=(MemoryReservation&& other) noexcept;
  ~MemoryReservation() { reset(); }

  std::int64_t bytes() const { return bytes_; }
  // To another size; false, with nothing changed: there is not enough. Smaller always works. Not of an empty
  // one.
  [[nodiscard]] bool try_resize(std::int64_t bytes);
  void reset();    // gives it back now; empty from here on
  void keep() &&;  // never gives it back: it is taken for as long as the ledger lives

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

  // invalid_argument: a limit below the promise, more promised than there is left, or a name that is taken.
  Result<AccountId> add_account(std::string name, std::int64_t promised, std::int64_t limit);
  // Absent: it would be over the account's limit, or eat into what is used by others or promised to them.
  std::optional<MemoryReservation> try_reserve(AccountId account, std::int64_t bytes);

  std::int64_t limit() const { return limit_; }
  std::int64_t used() const;
  std::int64_t left() const;  // neither used nor promised to anybody; what another account may be promised
  Account account(AccountId id) const;
  std::vector<Account> accounts() const;  // a copy, in order of their adding

  // All of it at one moment.
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
