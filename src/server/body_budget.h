#pragma once
// BodyBudget: bytes of request bodies being read or parsed, of all connections together and of each peer
// address. One peer never gets it all: a quarter is left for others. Small bodies always fit, up to the first
// bytes of each connection. Units: bytes. Threads: any. Owner: the server.
#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

namespace pagoda {

class BodyBudget {
 public:
  static constexpr std::size_t kAlwaysFits = std::size_t{16} << 10;

  // One body of `largest` fits in any case.
  BodyBudget(std::size_t limit, std::size_t largest)
      : limit_(std::max(limit, largest)), peer_limit_(std::max(limit_ - limit_ / 4, largest)) {}

  // `held`: what the connection has already. False, and nothing is counted: there is no room.
  bool add(const std::string& peer, std::size_t held, std::size_t bytes) {
    std::lock_guard lock(mutex_);
    std::size_t& of_peer = peers_[peer];
    const bool fits = all_ + bytes <= limit_ && of_peer + bytes <= peer_limit_;
    if (!fits && held + bytes > kAlwaysFits) {
      if (of_peer == 0) peers_.erase(peer);
      return false;
    }
    all_ += bytes;
    of_peer += bytes;
    return true;
  }
  void release(const std::string& peer, std::size_t bytes) {
    if (bytes == 0) return;
    std::lock_guard lock(mutex_);
    all_ -= bytes;
    const auto it = peers_.find(peer);
    it->second -= bytes;
    if (it->second == 0) peers_.erase(it);
  }

 private:
  const std::size_t limit_, peer_limit_;
  std::mutex mutex_;
  std::size_t all_ = 0;
  std::unordered_map<std::string, std::size_t> peers_;  // those that hold something
};

}  // namespace pagoda
