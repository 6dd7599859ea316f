#pragma once
// LocalModelRunner: carries out ScheduledBatches in this process, on one thread pool: block copies, the
// decoder's forward pass, sampling. Owns the weights, the KV bytes, the swap space and the threads.
// As one rank of several it owns that rank's part of them, all ranks run the same batches
// (distributed_model_runner.h), and only rank 0 samples; the others' results are empty.
// Invariant: what a sequence gets depends on its own tokens and parameters alone, to the bit.
// Threads: one caller, the engine thread.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "distributed/parallel_context.h"
#include "kernels/backend.h"
#include "loader/model_source.h"
#include "model_runner/held_adapters.h"
#include "model_runner/kv_group_plan.h"
#include "model_runner/kv_layout_choice.h"
#include "model_runner/kv_storage.h"
#include "model_runner/rank_runner.h"
#include "model_runner/step_layout.h"
#include "model_runner/step_views.h"
#include "model_runner/tier_steps.h"
#include "model_runner/vector_pooler.h"
#include "models/decoder/decoder.h"
#include "models/weights/adapter_set.h"
#include "sampler/sampler.h"

namespace pagoda {

struct RunnerOptions {
  std::string dtype = "auto";           // auto, float32, bfloat16, float16, int8
  std::string kv_cache_dtype = "auto";  // auto, float32, bfloat16, float16, int8, fp8, fp8_e4m3
  std::int32_t threads = 1;
  std::int32_t block_size = 16;
  // Layers with windows of less than max_context tokens have KV groups of their own; else every layer keeps
  // all.
  bool kv_windows = false;
  std::int32_t max_context = 0;
  std::int32_t max_num_batched_tokens = 512;
  std::int32_t max_num_seqs = 256;
  std::int32_t max_draft_tokens = 0;  // a sequence's, in a step
  std::int64_t num_blocks = 0;        // 0: allocate_kv_cache follows
  std::int64_t num_swap_blocks = 0;
  Backend backend = Backend::cpu;
  std::optional<CpuLevel> cpu_level = {};  // absent: the best this CPU has
  ParallelContext parallel = {};
  std::shared_ptr<const WeightCaching> weight_caching = {};  // null: without a cache, and nothing is told
  std::optional<PoolingModel> pooling = {};                  // absent: it generates
  // Whatever read_model_config() gave of the source; null: it is read.
  std::shared_ptr<const ModelInfo> model = {};
  // The adapters that sequences may name; the runner tells it the model's matrices. Null: none.
  std::shared_ptr<AdapterSet> adapters = {};
  // Opens the same model once more, for load_weights(); null: weights cannot be released.
  std::function<Result<std::shared_ptr<const ModelSource>>()> reopen = {};
};

// The error that encoders give under these options, if any.
Status check_encoder(const DecoderConfig& config, const RunnerOptions& options);
// Blocks for a whole step's keys and values, of one layer at a time, where nothing is kept: each sequence
// begins a block.
std::int64_t blocks_of_a_step(const RunnerOptions& options);

// options.model, or else what the source says.
Result<std::shared_ptr<const ModelInfo>> model_of(const ModelSource& source, const RunnerOptions& options);

// How the rotation of its sequences depends on how long they may become.
RotationRule rotation_rule_of(const DecoderConfig& config);

class LocalModelRunner final : public RankRunner {
 public:
  // Errors name the option, the architecture or the tensor. Nothing of `source` is kept.
  static Result<std::unique_ptr<LocalModelRunner>> create(std::shared_ptr<const ModelSource> source,
                                                          const RunnerOptions& options);

  Status allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks = 0) override;
  Status allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape, std::int64_t num_blocks,
                             std::int64_t num_swap_blocks) override;
  Status create_kv_pages(std::int64_t first, std::int64_t count) override;

  Status set_tiers(std::vector<std::shared_ptr<KvTier>> tiers,
                   std::unique_ptr<KvRowServer> server = nullptr) override;
  std::size_t kv_block_bytes() const override { return kv_.block_bytes(); }
  bool has_tier_news() const override { return tiers_.has_news(); }
  void on_tier_news(std::function<void()> wake) override { tiers_.on_news(std::move(wake)); }
  void erase_tiers(TierRows which) override { tiers_.erase(which); }
  void erase_from_tiers(TierErase what, std::function<void(Status)> done) override {
    tiers_.erase_these(std::move(what), std::move(done));
  }

  StepResult run(const ScheduledBatch& batch) override;
  void for_each(std::int64_t count, const Body& body) override;
  bool pools() const override { return options_.pooling.has_value(); }
  RotationRule rotation_rule() const override { return rotation_rule_of(config()); }
  std::int32_t vector_size() const override { return pooler_ ? pooler_->size() : 0; }
  bool prepare_ahead() override { return kv_.populate_ahead(); }
  // In release_memory.cc. Of a virtual KV cache the pages stay.
  Status release_memory(KvContent content) override;
  Status load_weights() override;

  const DecoderConfig& config() const override { return decoder_->config(); }
  const KvLayout& kv_layout() const { return layout_; }  // all layers' where they are alike, or a page's
  const KvGroupPlan& kv_plan() const override { return kv_plan_; }
  KvLayout kv_page_layout() const override {
    KvLayout page = layout_;
    page.num_layers = kv_plan_.page_layers;
    if (!kv_plan_.uniform) page.num_layers = 1;
    return page;
  }
  std::int64_t page_granule() const override { return kPageGranule; }
  std::int64_t num_blocks() const { return kv_.num_blocks(); }
  MemoryPlan memory_plan() const override;
  std::int64_t embedding_bytes() const override { return decoder_->weights().embedding_bytes(); }
  const std::vector<std::string>& ignored_tensors() const override {
    return decoder_->weights().ignored_tensors;
  }

 private:
  LocalModelRunner() = default;

  Result<std::unique_ptr<DecoderModel>> load_decoder(const ModelSource& source) const;  // options_.model
  void run(const ScheduledBatch& batch, StepResult& result);
  Status make_step_layout();
  StepIds ids() const;
  void show_step();
  // Vectors (pooling_steps.cc).
  Status prepare_pooling(const ModelSource& source);
  bool keeps_nothing() const { return kv_plan_.groups.empty(); }
  bool sample_largest(const ScheduledBatch& batch, StepResult& result);
  Status sample(const ScheduledBatch& batch, StepResult& result);
  bool samples() const { return options_.parallel.rank() == 0; }

  RunnerOptions options_;
  std::unique_ptr<ThreadPool> pool_;
  KernelContext context_;
  std::unique_ptr<DecoderModel> decoder_;
  std::string identity_;            // the source that it was loaded from
  bool released_ = false;           // its weights are
  std::optional<Sampler> sampler_;  // rank 0, as the pooler
  std::optional<VectorPooler> pooler_;
  KvLayout layout_;
  KvGroupPlan kv_plan_;
  std::vector<KvLayout> layer_layouts_;   // for each layer, with this rank's key-value heads
  std::vector<LayerInPage> layer_pages_;  // their places in pages as they are allocated
  KvStorage kv_;
  Memory logits_;
  TierSteps tiers_;  // after kv_, whose blocks its threads copy

  StepLayout step_;
  StepViews views_;
  HeldAdapters adapters_;
  std::vector<SampleRow> sample_rows_;
  std::vector<LogitMax> largest_;
  std::vector<PromptRow> prompt_rows_;
};

}  // namespace pagoda
