#pragma once
// HostTier: a KvTier in this process's memory (--kv-offloading-size): a fixed number of pages, reserved at
// once and resident as they are used. The least recently used rows are evicted first.
// Threads: as in kv_tier.h; bytes are copied outside the lock.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "request/kv_tier.h"
#include "tensor/memory.h"

namespace pagoda {

class HostTier final : public KvTier {
 public:
  // Creates a tier of `num_pages` pages; a row takes a whole number of pages. invalid_argument: no pages.
  static Result<std::unique_ptr<HostTier>> create(std::int64_t num_pages, std::size_t page_bytes);

  std::string_view medium() const override { return "CPU"; }
  bool lookup(const TierKey& key) const override;
  [[nodiscard]] bool fetch(const TierRow& row, std::span<std::byte> bytes) override;
  [[nodiscard]] bool store(const TierRow& row, std::span<const std::byte> bytes,
                           std::vector<TierKey>& gone) override;
  void touch(const TierRow& row) override;
  // Holds at most half of the pages.
  void hold(std::span<const TierKey> keys, TimeNs until) override;
  Status erase(const TierErase& what) override;
  void erase_all() override;

 private:
  struct Entry {
    std::vector<TokenId> tokens;
    std::vector<std::int32_t> pages;
    std::uint64_t use = 0;
    int num_readers = 0;
    TimeNs held_until = 0;
  };
  HostTier(Memory memory, std::int32_t num_pages, std::size_t page_bytes);
  // Called with the lock held. Returns false if evicting every row that may be evicted for a row of this use
  // would not free enough pages.
  bool make_space(std::size_t num_pages, std::uint64_t use, std::vector<TierKey>& gone);
  std::byte* page(std::int32_t at) const {
    return memory_.data() + static_cast<std::size_t>(at) * page_bytes_;
  }

  const SteadyClock clock_;
  const std::size_t page_bytes_;
  const std::int32_t num_pages_;
  Memory memory_;
  mutable std::mutex mutex_;
  std::unordered_map<TierKey, Entry, TierKeyHasher> entries_;
  std::map<std::uint64_t, TierKey> by_use_;
  std::vector<std::int32_t> free_;
};

}  // namespace pagoda
