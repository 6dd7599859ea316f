#pragma once
// LoadedRunner: a model on what flags say computes it, until the engine takes it: this process's CPU, a
// device, or rank 0 of a group of either. What it tells is of this rank, without totals(). Threads: one
// caller.
#include <functional>
#include <memory>
#include <string>

#include "cli/flags/engine_flags.h"
#include "model_runner/distributed_model_runner.h"

namespace pagoda {

class LoadedRunner {
 public:
  // Loads the model. Borrows `communicator`, which may be null. Opens the device of --device.
  static Result<LoadedRunner> create(std::shared_ptr<const ModelSource> source, RunnerOptions options,
                                     const EngineFlags& flags, Communicator* communicator);

  ModelRunner& runner();
  bool on_device() const { return on_devices_ && alone_ != nullptr; }  // one, and not a group of them
  // For the engine. `create_pages` commits pages [first, first + count) on every rank while no batch is being
  // run, and is valid as long as the runner is.
  struct Taken {
    std::unique_ptr<ModelRunner> runner;
    std::function<Status(std::int64_t first, std::int64_t count)> create_pages;
  };
  // `async`: takes two batches at once, a device by itself and others as an AsyncModelRunner.
  Taken take(bool async);

  const KvGroupPlan& kv_plan() const;
  MemoryPlan memory_plan() const;
  std::int64_t embedding_bytes() const;
  const std::vector<std::string>& ignored_tensors() const;
  bool head_is_tied() const;         // to the embedding
  std::int32_t vector_size() const;  // 0: it generates
  RankTotals totals() const;         // sums over all ranks
  // Bytes that are there for a KV cache, and so many of them that the rest of the model still takes.
  struct KvHeadroom {
    std::int64_t available = 0, taken = 0;
  };
  KvHeadroom kv_room() const;
  std::string computes_on() const;  // "4 threads, avx512 kernels"
  bool bits_depend_on_batch() const { return local().bits_depend_on_batch(); }

  Status allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks);
  // The layout of a page of kv_plan(); and the granularity of virtual mappings.
  KvLayout kv_page_layout() const;
  std::int64_t page_granule() const;
  // On every rank; `layout` and `shape` are rank 0's.
  Status allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape, std::int64_t num_blocks,
                             std::int64_t num_swap_blocks);
  // Bytes of a block as tiers see it. Where rows of K/V go beside the KV cache, once that is there;
  // unimplemented: this runner has no way to do so.
  std::size_t kv_block_bytes() const;
  Status set_tiers(std::vector<std::shared_ptr<KvTier>> tiers, std::unique_ptr<KvRowServer> server);
  const DistributedModelRunner* group() const { return group_.get(); }  // null: alone, or taken

 private:
  const RankRunner& local() const { return group_ ? group_->local() : *alone_; }

  // One of them.
  std::unique_ptr<RankRunner> alone_;
  std::unique_ptr<DistributedModelRunner> group_;
  bool on_devices_ = false;
  std::string computes_on_;
};

}  // namespace pagoda
