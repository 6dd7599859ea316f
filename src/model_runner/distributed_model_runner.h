#pragma once
// The model on the ranks of a tensor-parallel group. Rank 0 has a DistributedModelRunner, which broadcasts
// each batch (control_message.h), runs its own part and samples. Every other rank runs serve_rank(), which
// carries out messages. A rank computes its part on the CPU, or on a device of its own (rank_runner.h):
//   * load, allocate, create: weights; the KV cache, with rank 0's number of blocks; more virtual pages;
//   * step: rank 0's batch; DecoderModel exchanges sums and logits;
//   * ping: once a second while the engine is idle; release, load: sleep and wake up; stop: the end.
// Invariant: a rank decides nothing; all ranks make the same collective calls in the same order. If a rank is
// dead or late, run() or heartbeat() fails, which ends the engine; serve_rank() returns that error on the
// other ranks.
// Source: PagedAttention (SOSP'23) §4.6. Threads: one caller, the engine thread.
#include <cstdint>
#include <memory>

#include "model_runner/control_message.h"
#include "model_runner/local_model_runner.h"

namespace pagoda {

// Sums over all ranks, for planning and reports.
struct RankTotals {
  std::int64_t weight_bytes = 0, mapped_bytes = 0, kv_block_bytes = 0, activation_bytes = 0;
  std::vector<std::int32_t> kv_heads;  // by rank
  // On devices: bytes of the KV blocks that fit on every rank beside the memory planned for graphs.
  std::int64_t device_bytes = 0;
};

Result<std::unique_ptr<RankRunner>> load_on_cpu(std::shared_ptr<const ModelSource> source,
                                                const RunnerOptions& options);

// Time of all steps so far on rank 0, and the part of that time spent in collective calls, including the wait
// for slower ranks.
struct RankSteps {
  std::int64_t steps = 0, message_bytes = 0;        // control messages
  std::int64_t exchanges = 0, exchanged_bytes = 0;  // sums and gathers; bytes contributed by rank 0
  double seconds = 0, communication_seconds = 0;
};

class DistributedModelRunner final : public ModelRunner {
 public:
  // options.parallel must be rank 0 of a group. Returns when every rank has loaded its part, or with the
  // error of the first rank that failed, naming the rank.
  static Result<std::unique_ptr<DistributedModelRunner>> create(std::shared_ptr<const ModelSource> source,
                                                                const RunnerOptions& options,
                                                                const LoadRank& load = load_on_cpu);
  ~DistributedModelRunner() override;  // tells the other ranks to stop

  Status allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks = 0);
  // See RankRunner; page sizes differ between ranks (virtual_kv_plan.h).
  Status allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape, std::int64_t num_blocks,
                             std::int64_t num_swap_blocks);
  // An error if some rank could not create the pages; the cache is unchanged then.
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

// Worker loop of ranks > 0. Returns ok when rank 0 sends stop. Options that must be equal on all ranks are
// taken from rank 0.
Status serve_rank(std::shared_ptr<const ModelSource> source, RunnerOptions options,
                  const LoadRank& load = load_on_cpu);

}  // namespace pagoda
