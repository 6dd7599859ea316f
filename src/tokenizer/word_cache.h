#pragma once
// WordCache: the ids of recent short words, in one direct-mapped table per thread (1 MiB, allocated on first
// use), shared by all models used by the thread. Threads: each has its own table.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "request/ids.h"
#include "tokenizer/flat_map.h"

namespace pagoda {

class WordCache {
 public:
  static constexpr std::size_t kMaxBytes = 26, kMaxIds = 6;

  // A unique number for each model.
  static std::uint64_t new_owner() {
    static std::atomic<std::uint64_t> next{1};
    return next.fetch_add(1, std::memory_order_relaxed);
  }

  // The entry for `word`, which may have at most kMaxBytes bytes.
  WordCache(std::uint64_t owner, std::string_view word) : owner_(owner), word_(word), entry_(place(word)) {}

  bool get(std::vector<TokenId>& ids) const {
    if (entry_.owner != owner_ || std::string_view(entry_.bytes, entry_.num_bytes) != word_) return false;
    ids.insert(ids.end(), entry_.ids, entry_.ids + entry_.num_ids);
    return true;
  }
  void put(std::span<const TokenId> ids) const {
    if (ids.size() > kMaxIds) return;
    entry_.owner = owner_;
    entry_.num_bytes = static_cast<std::uint8_t>(word_.size());
    entry_.num_ids = static_cast<std::uint8_t>(ids.size());
    std::memcpy(entry_.bytes, word_.data(), word_.size());
    std::copy(ids.begin(), ids.end(), entry_.ids);
  }

 private:
  struct Entry {
    std::uint64_t owner = 0;  // 0: empty
    std::uint8_t num_bytes = 0, num_ids = 0;
    char bytes[kMaxBytes] = {};
    TokenId ids[kMaxIds] = {};
  };
  static constexpr std::size_t kSize = 16384;
  static Entry& place(std::string_view word) {
    thread_local const auto table = std::make_unique<std::array<Entry, kSize>>();
    return (*table)[hash_bytes(word) % kSize];
  }
  std::uint64_t owner_;
  std::string_view word_;
  Entry& entry_;
};

}  // namespace pagoda
