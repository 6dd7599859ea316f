#pragma once
// BodyBudget: limits the bytes of request bodies being read or parsed, over all connections and per peer
// address, within an account of the memory ledger. A peer gets at most three quarters of the account. Small
// bodies have a separate share, so that large ones cannot starve them.
// Units: bytes. Threads: any. Owner: the server.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/memory_budget.h"

namespace pagoda {

class BodyBudget {
 public:
  static constexpr std::int64_t kSmall = std::int64_t{16} << 10;
  // The size of an account that leaves `bytes` for large bodies.
  static std::int64_t with_room_for_small(std::int64_t bytes) { return bytes + bytes / kShareOfSmall; }

  // One body of `largest` bytes always fits.
  BodyBudget(MemoryBudget& memory, MemoryBudget::AccountId account, std::int64_t largest)
      : BodyBudget(*memory.try_reserve(account, 0), memory.account(account).limit, largest) {}

  // `held`: bytes that the connection holds already. Returns false and counts nothing if `bytes` do not fit.
  bool add(const std::string& peer, std::int64_t held, std::int64_t bytes) {
    std::lock_guard lock(mutex_);
    std::int64_t& of_peer = peers_[peer];
    const bool small = held + bytes <= kSmall;
    const std::int64_t limit = small ? limit_ : limit_for_large_;
    const bool fits = all_ + bytes <= limit && of_peer + bytes <= std::max(limit - limit / 4, largest_) &&
                      reserved_.try_resize(all_ + bytes);
    if (!fits) {
      if (of_peer == 0) peers_.erase(peer);
      return false;
    }
    all_ += bytes;
    of_peer += bytes;
    return true;
  }
  void release(const std::string& peer, std::int64_t bytes) {
    if (bytes == 0) return;
    std::lock_guard lock(mutex_);
    all_ -= bytes;
    (void)reserved_.try_resize(all_);
    const auto it = peers_.find(peer);
    it->second -= bytes;
    if (it->second == 0) peers_.erase(it);
  }

 private:
  static constexpr std::int64_t kShareOfSmall = 16;
  BodyBudget(MemoryReservation reserved, std::int64_t limit, std::int64_t largest)
      : limit_(limit),
        largest_(largest),
        limit_for_large_(limit - limit / (kShareOfSmall + 1)),
        reserved_(std::move(reserved)) {}

  const std::int64_t limit_, largest_, limit_for_large_;
  std::mutex mutex_;
  std::int64_t all_ = 0;
  MemoryReservation reserved_;                           // for all_
  std::unordered_map<std::string, std::int64_t> peers_;  // peers that hold bytes
};

}  // namespace pagoda
