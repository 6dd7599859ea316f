#pragma once
// The ranks of a tensor-parallel group, from flags: who starts them, and a model runner on all of them.
//   --tensor-parallel-size N alone   this process forks the others (distributed/local_ranks.h)
//   mpirun -n N                      mpirun, on one machine or several (distributed/mpi.h)
// The process that goes on from join_ranks() is rank 0.
#include <functional>
#include <memory>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "model_runner/distributed_model_runner.h"

namespace pagoda {

// Null: one process is enough. In a rank other than 0 it does not return: the rank serves, and its process
// ends. Call it before any thread exists.
Result<std::unique_ptr<Communicator>> join_ranks(const EngineFlags& flags);

// Compute threads of each rank on this machine: --threads, or its share of the usable cores.
int threads_per_rank(const EngineFlags& flags);

// A model runner that is alone, or rank 0 of a group.
class LoadedRunner {
 public:
  // Loads the model. Borrows `communicator`, which may be null.
  static Result<LoadedRunner> create(std::shared_ptr<const ModelSource> source, RunnerOptions options,
                                     const EngineFlags& flags, Communicator* communicator);

  ModelRunner& runner() { return group_ ? static_cast<ModelRunner&>(*group_) : *alone_; }
  std::unique_ptr<ModelRunner> take();
  const LocalModelRunner& local() const { return group_ ? group_->local() : *alone_; }  // rank 0's part
  Status allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks);
  // On every rank; `layout` and `shape` are rank 0's.
  Status allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape, std::int64_t num_blocks,
                             std::int64_t num_swap_blocks);
  // Commits pages [first, first + count) on every rank, between steps. Valid as long as the runner is.
  std::function<Status(std::int64_t first, std::int64_t count)> page_creator();
  RankTotals totals() const;                                            // of all ranks
  const DistributedModelRunner* group() const { return group_.get(); }  // null: alone, or taken

 private:
  std::unique_ptr<LocalModelRunner> alone_;
  std::unique_ptr<DistributedModelRunner> group_;
};

}  // namespace pagoda
