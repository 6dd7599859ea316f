#pragma once
// Two small open-addressing hash tables for tokenizers, which load 10^5 entries in milliseconds: PairMap
// (two token ids -> rank and merged id) and the hash of byte strings. Not general containers: no removal.
// Threads: any number of readers once filled.
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace pagoda {

// A fast hash of short strings. Not for hostile keys, unless a slow load is the only consequence of
// collisions.
inline std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t hash = 0x9E3779B97F4A7C15ull ^ bytes.size();
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  const auto mix = [&](std::uint64_t word) {
    hash ^= word;
    hash *= 0xD6E8FEB86659FD93ull;
    hash ^= hash >> 32;
  };
  while (left >= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    mix(word);
    at += 8, left -= 8;
  }
  if (left > 0) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, left);
    mix(word);
  }
  hash *= 0xD6E8FEB86659FD93ull;
  return hash ^ hash >> 32;
}

class PairMap {
 public:
  struct Merge {
    std::uint32_t rank;
    std::int32_t id;
  };

  void reserve(std::size_t count) { resize(std::bit_ceil(count * 2 + 16)); }

  // For equal pairs the later entry is kept, as in Hugging Face's map.
  void set(std::int32_t left, std::int32_t right, Merge merge) {
    if ((size_ + 1) * 2 > slots_.size()) resize(slots_.empty() ? 16 : slots_.size() * 2);
    Slot& slot = slots_[find_slot(key(left, right))];
    size_ += slot.key == kEmpty;
    slot = {key(left, right), merge};
  }
  const Merge* find(std::int32_t left, std::int32_t right) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[find_slot(key(left, right))];
    return slot.key == kEmpty ? nullptr : &slot.merge;
  }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // ids are never -1
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge{};
  };
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t find_slot(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (key * 0x9E3779B97F4A7C15ull) >> shift_;
    while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask;
    return at;
  }
  void resize(std::size_t capacity) {
    std::vector<Slot> old(capacity);
    old.swap(slots_);
    shift_ = 64 - std::countr_zero(capacity);
    for (const Slot& slot : old)
      if (slot.key != kEmpty) slots_[find_slot(slot.key)] = slot;
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
  int shift_ = 64;
};

}  // namespace pagoda
