#pragma once
// PagedKvManager: the paper's memory manager. Block tables name blocks anywhere in the pool.
// Source: PagedAttention (SOSP'23) §4.2-4.5. Threads: as kv_manager.h says.
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kv_cache/kv_manager.h"
#include "kv_cache/paged_memory.h"

namespace pagoda {

class PagedKvManager final : public KvManager {
 public:
  explicit PagedKvManager(PagedKvConfig config)
      : PagedKvManager(std::make_unique<PagedMemory>(std::move(config))) {}

  std::int64_t num_blocks() const override { return parts().supply.num_pages(); }
  std::int64_t num_free_blocks() const override { return parts().supply.num_free(); }
  std::int64_t num_available_blocks() const override { return parts().num_available(); }
  std::int32_t add_sequence(SequenceId id, std::span<const TokenId> tokens, const CacheUse& use,
                            bool allow_cache) override {
    return memory_->steps.add_sequence(id, tokens, use, allow_cache);
  }
  [[nodiscard]] bool promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) override {
    return memory_->steps.promise(id, num_tokens, chunk);
  }
  std::int64_t pages_to_promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) const override {
    return memory_->steps.pages_to_promise(id, num_tokens, chunk);
  }
  std::int32_t most_tokens(SequenceId id, std::int32_t num_tokens) override {
    return memory_->steps.most_tokens(id, num_tokens);
  }
  std::int64_t blocks_to_grow(SequenceId id, std::int32_t num_tokens) const override {
    return memory_->steps.blocks_to_grow(id, num_tokens);
  }
  [[nodiscard]] bool grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) override {
    return memory_->steps.grow(id, num_tokens, copies);
  }
  void computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) override {
    memory_->steps.computed(id, tokens, num_computed);
  }
  void shrink(SequenceId id, std::int32_t num_tokens) override { memory_->steps.shrink(id, num_tokens); }
  void free(SequenceId id) override { memory_->parts.free(id); }
  KvTables tables(SequenceId id) const override { return memory_->steps.tables(id); }
  void copy_states(SequenceId id, std::int32_t index, std::int32_t num_tokens,
                   std::vector<StateCopy>& copies) override {
    memory_->steps.copy_states(id, index, num_tokens, copies);
  }

  const PagedParts& parts() const { return memory_->parts; }

 private:
  explicit PagedKvManager(std::unique_ptr<PagedMemory> memory)
      : KvManager(memory->parts.geometry, memory->sharing, memory->swap, memory->inspection,
                  memory->tiering()),
        memory_(std::move(memory)) {}

  const std::unique_ptr<PagedMemory> memory_;  // made before the base class, which refers to it
};

}  // namespace pagoda
