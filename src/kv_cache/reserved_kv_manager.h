#pragma once
// ReservedKvManager: the memory manager of the systems before PagedAttention: every sequence has one
// contiguous region from a buddy allocator, reserved whole before it starts. Nothing is shared: a fork
// copies. To the model runner a region is a block table of consecutive ids. A sequence must be reserve()d
// before it grows, which only schedulers that admit whole reservations do (scheduler/orca_scheduler.h). A
// sequence and its forks are a family: fork() takes one of the regions reserved for it. With Forks::often the
// family keeps regions released by its members until the last one has ended. Invariants: regions do not
// overlap; a sequence never outgrows its region. Source: PagedAttention (SOSP'23) §3.1, Fig. 2, §6.1 (Oracle,
// Pow2, Max). Threads: the engine thread.
#include <unordered_map>

#include "kv_cache/buddy_allocator.h"
#include "kv_cache/kv_manager.h"

namespace pagoda {

enum class Reservation : std::uint8_t {
  oracle,  // prompt + true output
  pow2,    // prompt + the next power of two of the output: at most twice the need
  max,     // the maximum length that the model allows
};

struct ReservedKvConfig {
  std::int32_t block_size = 16;
  std::int32_t num_blocks = 0;     // > 0
  std::int32_t max_model_len = 0;  // tokens of one sequence
  Reservation reservation = Reservation::oracle;
};

class ReservedKvManager final : public KvSharing, public KvInspection, public KvManager {
 public:
  explicit ReservedKvManager(const ReservedKvConfig& config);

  enum class Forks : std::uint8_t {
    once,   // each sequence is forked at most once; its region is freed when it ends
    often,  // the family keeps its regions, and a fork copies the whole region, as the paper's Orca did for
            // beams
  };
  // Reserves a region for `id` and `num_forks` more for fork(). Returns false, with nothing changed, if there
  // is no room. The sequence's prompt has `num_prompt` tokens, and it will reach `num_tokens`.
  [[nodiscard]] bool reserve(SequenceId id, std::int32_t num_prompt, std::int32_t num_tokens,
                             std::int32_t num_forks, Forks forks = Forks::once);
  // True if reserve() would succeed in an empty pool. Safe from any thread.
  bool can_ever_reserve(std::int32_t num_prompt, std::int32_t num_tokens, std::int32_t num_forks) const;
  // Marks the sequence as ended; it keeps its region.
  void retire(SequenceId id);

  std::string_view name() const override { return "reserved"; }
  std::int64_t num_blocks() const override { return config_.num_blocks; }
  std::int64_t num_free_blocks() const override { return buddies_.num_free(); }
  // A region holds everything that the sequence will ever need.
  bool promise(SequenceId, std::int32_t, std::int32_t) override { return true; }
  std::int64_t pages_to_promise(SequenceId, std::int32_t, std::int32_t) const override { return 0; }
  std::int32_t add_sequence(SequenceId id, std::span<const TokenId> tokens, const CacheUse& use,
                            bool allow_cache) override;
  [[nodiscard]] bool grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) override;
  void computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) override;
  void fork(SequenceId parent, SequenceId child) override;
  void free(SequenceId id) override;
  KvTables tables(SequenceId id) const override;
  KvTable pages_of(SequenceId id, std::size_t) const override { return {.blocks = tables(id).blocks}; }
  std::int64_t blocks_to_grow(SequenceId, std::int32_t) const override { return 0; }
  std::int64_t blocks_owned_by(std::span<const SequenceId> ids) const override;
  KvUsage usage() const override;
  void check_invariants() const override;

 private:
  struct Region {
    std::vector<BlockId> blocks;  // the reserved ones; the rest up to a power of two is unused
    std::int32_t num_tokens = 0;  // requested length
    std::int32_t num_computed = 0;
    std::int32_t num_expected = 0;  // tokens that it will reach
    bool retired = false;
    SequenceId family{};  // id of the family's first sequence
  };
  struct Family {
    std::size_t num_blocks = 0;     // blocks of each region
    std::int32_t num_expected = 0;  // tokens in each
    std::int32_t num_members = 0;   // sequences
    Forks forks = Forks::once;
    std::vector<std::int32_t> spare;  // first blocks of regions for future forks
  };
  void free_spare(Family& family);
  Region& at(SequenceId id);
  const Region& at(SequenceId id) const;
  std::int32_t blocks_for(std::int32_t num_tokens) const;
  std::int32_t blocks_to_reserve(std::int32_t num_prompt, std::int32_t num_tokens) const;
  static std::vector<BlockId> consecutive(std::int32_t first, std::size_t count);

  const ReservedKvConfig config_;
  KvSwap no_swap_;
  KvTiering no_tiers_;
  BuddyAllocator buddies_;
  std::unordered_map<SequenceId, Region> regions_;
  std::unordered_map<SequenceId, Family> families_;  // by the first sequence, which reserved
  // Copies for forks since the last step; they run before the next step writes anything.
  std::vector<BlockCopy> fork_copies_;
  bool refused_ = false;  // the latest reservation failed: the free space is unusable
};

}  // namespace pagoda
