#pragma once
// DeviceModelRunner: executes ScheduledBatches on a Device: swaps, block copies, the model's forward pass by
// the ops of kernels/device/, sampling. Owns the device, weights, KV bytes and swap space. KV groups and the
// pooling of hidden states are the CPU's. As one of several ranks, each with its own device, it owns that
// rank's part; ranks exchange parts of rows (rank_carrier.h), and only rank 0 samples. Invariant: a
// sequence's results depend only on its own tokens and parameters, to the bit. Streams: one for work, and one
// for swaps, for whose last event the work waits. Between steps only copies of tiers run (tier_copies.h), on
// their own threads and streams. With run_ahead(), a step is enqueued while the previous one runs, whose
// tokens are filled in on the device; if it needs them on the host, or changes memory that the other may use
// (may_follow), it waits for the other first. A device error ends the engine (StepResult::status). Threads:
// one caller, the engine thread.
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "device/device_array.h"
#include "device/step_arena.h"
#include "device_runner/device_pages.h"
#include "device_runner/device_sampler.h"
#include "device_runner/rank_carrier.h"
#include "device_runner/step_graphs.h"
#include "device_runner/tier_copies.h"
#include "kernels/device/device_adapters.h"
#include "kernels/device/device_ops.h"
#include "model_runner/held_adapters.h"
#include "model_runner/held_batch.h"
#include "model_runner/local_model_runner.h"
#include "model_runner/page_mapper.h"
#include "model_runner/step_layout.h"
#include "model_runner/step_views.h"
#include "model_runner/tier_steps.h"
#include "model_runner/vector_pooler.h"
#include "models/decoder/decoder.h"

namespace pagoda::device_runner {

// How ranks exchange their parts (rank_carrier.h).
enum class RankParts : std::uint8_t { windows, library };

// The choice of the device's kernels, and whether steps are replayed and measured (step_clock.h).
struct DeviceKernels {
  AttentionKernels attention = AttentionKernels::automatic;
  MatrixProducts products = MatrixProducts::automatic;
  GraphUse graphs = GraphUse::automatic;
  RankParts rank_parts = RankParts::windows;
  bool measure_idle = false;  // StepResult::idle_seconds
};

class DeviceModelRunner final : public RankRunner {
 public:
  // Options used: dtype (auto is bfloat16), kv_cache_dtype (auto is dtype; int8 and fp8 are also supported),
  // block_size, kv_windows, max_context, max_num_batched_tokens, max_num_seqs, max_draft_tokens, pooling,
  // parallel and the numbers of blocks. unimplemented: the device lacks something.
  static Result<std::unique_ptr<DeviceModelRunner>> create(std::shared_ptr<const ModelSource> source,
                                                           const RunnerOptions& options,
                                                           std::unique_ptr<device::Device> device,
                                                           const DeviceKernels& kernels = {});
  ~DeviceModelRunner() override;

  Status allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks = 0) override;
  // A virtual cache: the same kernels with other strides.
  Status allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape, std::int64_t num_blocks,
                             std::int64_t num_swap_blocks) override;
  Status create_kv_pages(std::int64_t first, std::int64_t count) override;

  Status set_tiers(std::vector<std::shared_ptr<KvTier>> tiers,
                   std::unique_ptr<KvRowServer> server = nullptr) override;
  std::size_t kv_block_bytes() const override { return static_cast<std::size_t>(block_bytes_); }
  bool has_tier_news() const override { return tiers_.has_news(); }
  void on_tier_news(std::function<void()> wake) override { tiers_.on_news(std::move(wake)); }
  void erase_tiers(TierRows which) override { tiers_.erase(which); }
  void erase_from_tiers(TierErase what, std::function<void(Status)> done) override {
    tiers_.erase_these(std::move(what), std::move(done));
  }

  KvLayout kv_page_layout() const override { return layout_; }
  std::int64_t page_granule() const override { return static_cast<std::int64_t>(device_->granule()); }
  Status connect() override;

  bool pools() const override { return options_.pooling.has_value(); }
  std::int32_t vector_size() const override { return pooler_ ? pooler_->size() : 0; }

  StepResult run(const ScheduledBatch& batch) override;
  void submit(const ScheduledBatch& batch) override;
  StepResult wait() override;
  std::int32_t max_in_flight() const override { return runs_ahead_ ? 2 : 1; }
  // Not supported as one of several ranks, nor for vectors.
  bool run_ahead() override;
  // Frees weights, activations and scratch, and the pages of a paged cache if none of its content is kept;
  // the pages of a virtual cache stay.
  Status release_memory(KvContent content) override;
  Status load_weights() override;
  // Detects a device that is lost while nothing runs.
  std::chrono::milliseconds heartbeat_interval() const override { return std::chrono::seconds(1); }
  Status heartbeat() override { return device_->lost(); }
  RotationRule rotation_rule() const override { return rotation_rule_of(config()); }

  const DecoderConfig& config() const override { return model_->config(); }
  const KvGroupPlan& kv_plan() const override { return kv_plan_; }
  std::int64_t device_free_bytes() const override { return static_cast<std::int64_t>(device_->free_bytes()); }
  MemoryPlan memory_plan() const override;
  bool bits_depend_on_batch() const override {
    return ops_options_.products == MatrixProducts::library ||
           ops_options_.products == MatrixProducts::fastest;
  }
  std::int64_t embedding_bytes() const override;
  const std::vector<std::string>& ignored_tensors() const override {
    return model_->weights().ignored_tensors;
  }
  const device::Device& device() const { return *device_; }
  // Decode steps that were captured and replayed; zero if all steps are eager.
  const StepGraphs::Stats& graph_stats() const { return graphs_->stats(); }

 private:
  explicit DeviceModelRunner(std::unique_ptr<device::Device> device) : device_(std::move(device)) {}
  Status ask_for_bits(device::Element cache);
  Status load_model(const ModelSource& source);
  Status create_cache();
  void plan_kv(const KvLayout& layout);
  Status reserve_scratch();
  // A submitted batch.
  struct Step {
    StepResult result;
    std::vector<DrawnRow> rows;  // drawn from while the step runs
    bool planned = false;        // the rows' draws are one launch, whose arguments are in the arena
    bool runs = false;           // enqueued, and not yet finished
    std::vector<TokenId> drawn;  // the draws of such a step, by sequence
  };
  std::size_t slot_of(std::int64_t number) const { return static_cast<std::size_t>(number % 2); }
  bool may_follow(const ScheduledBatch& batch) const;
  void carry_out(const ScheduledBatch& batch, std::size_t slot);
  void finish(std::size_t slot);
  void settle();  // waits until no step runs
  // Lays out a batch and copies it to the device.
  Status bring(const ScheduledBatch& batch, std::size_t slot);
  Status fill_in_tokens(const std::int32_t* image, std::size_t slot);
  Status forward();
  Status logits(std::int64_t first, std::int64_t count);
  WrittenMemory written() const;
  std::int32_t max_context() const;
  Status make_step_layout();
  StepIds ids() const;
  Status step(const ScheduledBatch& batch, std::size_t slot);
  Status swap(const ScheduledBatch& batch, StepResult& result);
  Status copy_blocks(std::span<const BlockCopy> copies);
  Status start_tier_moves(const ScheduledBatch& batch);
  Status sample(const ScheduledBatch& batch, std::size_t slot);
  Status plan_draws(const ScheduledBatch& batch, std::size_t slot);
  Status start_draws(std::size_t slot);
  Status prepare_sampling();
  bool samples() const { return options_.parallel.rank() == 0; }
  // Number of rows of logits that all ranks compute at a time.
  std::int64_t drawn_rows_at_once() const;
  Status create_carrier(RankParts by);
  Status prepare_pooling(const ModelSource& source);
  Status pool(const ScheduledBatch& batch, StepResult& result);
  bool keeps_nothing() const { return kv_plan_.groups.empty(); }
  std::size_t step_bytes() const;

  RunnerOptions options_;
  DeviceOps::Options ops_options_;
  std::string identity_;                    // identifies the source from which it was loaded
  bool released_ = false;                   // the weights are freed
  std::unique_ptr<device::Device> device_;  // destroyed after all its memory
  device::StreamId stream_{}, swap_stream_{};
  device::EventId swapped_{};
  std::optional<device::StepArena> arena_;
  std::optional<DeviceAdapters> adapters_;  // null: requests cannot choose adapters
  HeldAdapters held_adapters_;
  std::unique_ptr<DeviceOps> ops_;
  std::unique_ptr<DecoderModel> model_;
  std::vector<KvLayout> layer_layouts_;
  KvLayout layout_;                       // that of a page
  std::vector<LayerInPage> layer_pages_;  // locations of layers in pages
  StepViews views_;
  KvGroupPlan kv_plan_;
  std::int64_t num_blocks_ = 0, num_swap_blocks_ = 0;  // for copies
  std::int64_t num_table_ids_ = 0;                     // for block tables
  device::DeviceArray<std::byte> cache_;               // or, for a virtual cache:
  std::unique_ptr<PageMapperOf<DevicePages>> mapper_;
  std::byte* blocks_of_tables_ = nullptr;
  // The blocks for copies and states, contiguous.
  std::byte* blocks_ = nullptr;
  std::int64_t block_bytes_ = 0;
  device::PinnedArray<std::byte> swap_space_;
  std::unique_ptr<RankCarrier> carrier_;  // null: a single rank
  bool measures_idle_ = false;
  std::unique_ptr<StepClock> clock_;        // rank 0, if it measures
  std::unique_ptr<DeviceSampler> sampler_;  // rank 0
  // Instead of the sampler; and hidden states for it.
  std::optional<VectorPooler> pooler_;
  KernelContext host_;
  device::DeviceArray<float> hidden_;
  device::PinnedArray<float> hidden_here_;
  bool runs_ahead_ = false;
  std::array<Step, 2> steps_;  // step number n, from 0 on, is at n % 2
  std::array<device::EventId, 2> done_{};
  std::int64_t num_submitted_ = 0, num_waited_ = 0;
  HeldBatch held_;
  StepLayout step_;
  std::optional<StepBucket> bucket_;         // the current step's; null: it is eager
  std::optional<StepGraphs> graphs_;         // refers to memory of all members above
  std::unique_ptr<TierCopies> tier_copies_;  // null: no tiers
  TierSteps tiers_;                          // last: its threads copy to and from the cache
};

}  // namespace pagoda::device_runner
