#pragma once
// LoadedRunner: owns a loaded model until the engine takes it: on the CPU of this process, on a device, or as
// rank 0 of a group of either, as the flags say. All values except totals() are those of this rank. Threads:
// one caller.
#include <functional>
#include <memory>
#include <string>

#include "cli/flags/engine_flags.h"
#include "model_runner/distributed_model_runner.h"

namespace pagoda {

class LoadedRunner {
 public:
  // Loads the model. Borrows `communicator`, which may be null. Opens the device if --device is given.
  static Result<LoadedRunner> create(std::shared_ptr<const ModelSource> source, RunnerOptions options,
                                     const EngineFlags& flags, Communicator* communicator);

  ModelRunner& runner();
  bool on_device() const { return on_devices_ && alone_ != nullptr; }  // on a single device, not a group
  // The parts for the engine. `create_pages` commits pages [first, first + count) on every rank while no
  // batch runs; it is valid as long as the runner.
  struct Taken {
    std::unique_ptr<ModelRunner> runner;
    std::function<Status(std::int64_t first, std::int64_t count)> create_pages;
  };
  // `async`: the runner accepts two batches at once, natively on a device, otherwise through
  // AsyncModelRunner.
  Taken take(bool async);

  const KvGroupPlan& kv_plan() const;
  MemoryPlan memory_plan() const;
  std::int64_t embedding_bytes() const;
  const std::vector<std::string>& ignored_tensors() const;
  bool head_is_tied() const;         // tied to the embedding
  std::int32_t vector_size() const;  // 0: a generating model
  RankTotals totals() const;         // sums over all ranks
  // Memory available to the KV cache, and the part of it that the rest of the model will still take.
  struct KvHeadroom {
    std::int64_t available = 0, taken = 0;
  };
  KvHeadroom kv_room() const;
  std::string computes_on() const;  // "4 threads, avx512 kernels"
  bool bits_depend_on_batch() const { return local().bits_depend_on_batch(); }

  Status allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks);
  // The layout of a page of kv_plan(), and the granularity of virtual mappings.
  KvLayout kv_page_layout() const;
  std::int64_t page_granule() const;
  // Runs on every rank; `layout` and `shape` are those of rank 0.
  Status allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape, std::int64_t num_blocks,
                             std::int64_t num_swap_blocks);
  // kv_block_bytes(): bytes of a block as seen by tiers. set_tiers(): sets the tiers beside the KV cache;
  // call after the cache is allocated. unimplemented: this runner does not support tiers.
  std::size_t kv_block_bytes() const;
  Status set_tiers(std::vector<std::shared_ptr<KvTier>> tiers, std::unique_ptr<KvRowServer> server);
  // Null if there is no group, or it was taken.
  const DistributedModelRunner* group() const { return group_.get(); }

 private:
  const RankRunner& local() const { return group_ ? group_->local() : *alone_; }

  // At most one of these is set.
  std::unique_ptr<RankRunner> alone_;
  std::unique_ptr<DistributedModelRunner> group_;
  bool on_devices_ = false;
  std::string computes_on_;
};

}  // namespace pagoda
