#pragma once
// The model on the ranks of a tensor-parallel group. Rank 0 has a DistributedModelRunner, which broadcasts
// each batch (control_message.h), runs its own part and samples; every other rank is in serve_rank() and
// carries out messages. A rank computes its part on the CPU, or on a device of its own (rank_runner.h):
//   * load, allocate, create: weights; the KV cache, with rank 0's number of blocks; more pages of a virtual
//     cache;
//   * step: rank 0's batch; sums and logits meet inside DecoderModel;
//   * ping: once a second while the engine is idle; release, load: sleep and wake up; stop: the end.
// Invariant: a rank decides nothing; all make the same collective calls in the same order. A rank that is
// dead or late fails run() or heartbeat(), which ends the engine; the other ranks leave serve_rank() with
// that error. Source: PagedAttention (SOSP'23) §4.6. Threads: one caller, the engine thread.
#include <cstdint>
#include <memory>

#include "model_runner/control_message.h"
#include "model_runner/local_model_runner.h"

namespace pagoda {

// Sums over all ranks, for planning and reports.
struct RankTotals {
  std::int64_t weight_bytes = 0, mapped_bytes = 0, kv_block_bytes = 0, activation_bytes = 0;
  std::vector<std::int32_t> kv_heads;  // by rank
  // On devices: bytes for blocks that all ranks have room for, once graphs are there.
  std::int64_t device_bytes = 0;
};

Result<std::unique_ptr<RankRunner>> load_on_cpu(std::shared_ptr<const ModelSource> source,
                                                const RunnerOptions& options);

// Time of the steps so far on rank 0, and the part spent in calls to the group, waiting for slower ranks
// included.
struct RankSteps {
  std::int64_t steps = 0, message_bytes = 0;        // control messages
  std::int64_t exchanges = 0, exchanged_bytes = 0;  // sums and gathers; bytes: what rank 0 brought
  double seconds = 0, communication_seconds = 0;
};

class DistributedModelRunner final : public ModelRunner {
 public:
  // options.parallel is rank 0 of a group. Returns when every rank has loaded its part, or with the first
  // rank's error, naming it.
  static Result<std::unique_ptr<DistributedModelRunner>> create(std::shared_ptr<const ModelSource> source,
                                                                const RunnerOptions& options,
                                                                const LoadRank& load = load_on_cpu);
  ~DistributedModelRunner() override;  // tells the others to stop

  Status allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks = 0);
  // RankRunner's virtual cache; other ranks' pages have their own size (virtual_kv_plan.h).
  Status allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape, std::int64_t num_blocks,
                             std::int64_t num_swap_blocks);
  // Not ok: some rank could not; nothing is lost by it.
  Status create_kv_pages(std::int64_t first, std::int64_t count);
  bool pools() const override { return local().pools(); }
  RotationRule rotation_rule() const override { return local().rotation_rule(); }
  StepResult run(const ScheduledBatch& batch) override;
  void for_each(std::int64_t count, const Body& body) override { local_->for_each(count, body); }
  Status release_memory(KvContent content) override;
  Status load_weights() override;
  std::chrono::milliseconds heartbeat_interval() const override;
  Status heartbeat() override;

  const RankRunner& local() const { return *local_; }  // rank 0's part
  const RankTotals& totals() const { return totals_; }
  const RankSteps& steps() const { return steps_; }

 private:
  DistributedModelRunner() = default;
  Status send(RankTimeout timeout);
  Status change_memory_of_all(ControlKind kind);
  Status finish_allocation(const Status& own);
  Status fail(Status status);

  ParallelContext parallel_;
  std::unique_ptr<RankRunner> local_;
  RankTotals totals_;
  RankSteps steps_;
  std::vector<std::byte> message_;
  bool lost_ = false;
};

// Worker loop of ranks > 0. Returns ok when rank 0 sends stop. Options that have to be the same everywhere
// are rank 0's.
Status serve_rank(std::shared_ptr<const ModelSource> source, RunnerOptions options,
                  const LoadRank& load = load_on_cpu);

}  // namespace pagoda
