#pragma once
// LocalModelRunner: carries out ScheduledBatches in this process on one thread pool: block copies, the
// decoder's forward pass, sampling. Owns the weights, the KV bytes, the swap space and the threads. As one
// rank of several it owns that rank's part, and all ranks run the same batches (distributed_model_runner.h);
// only rank 0 samples, and the other ranks' results are empty.
// Invariant: the result of a sequence depends only on its own tokens and parameters, to the bit.
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
  // If true, layers with windows shorter than max_context tokens have their own KV groups; otherwise every
  // layer keeps all tokens.
  bool kv_windows = false;
  std::int32_t max_context = 0;
  std::int32_t max_num_batched_tokens = 512;
  std::int32_t max_num_seqs = 256;
  std::int32_t max_draft_tokens = 0;  // per sequence and step
  std::int64_t num_blocks = 0;        // 0: call allocate_kv_cache() later
  std::int64_t num_swap_blocks = 0;
  Backend backend = Backend::cpu;
  std::optional<CpuLevel> cpu_level = {};  // nullopt: the best level of this CPU
  ParallelContext parallel = {};
  std::shared_ptr<const WeightCaching> weight_caching = {};  // null: no weight cache, and no messages
  std::optional<PoolingModel> pooling = {};                  // nullopt: the model generates
  // The result of read_model_config() for this source; null: the runner reads it.
  std::shared_ptr<const ModelInfo> model = {};
  // The adapters that sequences may name; the runner passes the model's matrices to set_targets(). Null:
  // no adapters.
  std::shared_ptr<AdapterSet> adapters = {};
  // Reopens the same model for load_weights(); null: weights cannot be released.
  std::function<Result<std::shared_ptr<const ModelSource>>()> reopen = {};
};

// Returns the error that encoders give under these options, or ok.
Status check_encoder(const DecoderConfig& config, const RunnerOptions& options);
// Number of blocks for the keys and values of a whole step, one layer at a time, in models that keep nothing:
// each sequence starts a new block.
std::int64_t blocks_of_a_step(const RunnerOptions& options);

// Returns options.model if set, otherwise the configuration read from the source.
Result<std::shared_ptr<const ModelInfo>> model_of(const ModelSource& source, const RunnerOptions& options);

// How a sequence's rotation depends on the length it may reach.
RotationRule rotation_rule_of(const DecoderConfig& config);

class LocalModelRunner final : public RankRunner {
 public:
  // Errors name the option, the architecture or the tensor. Keeps no reference to `source`.
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
  // In release_memory.cc. The pages of a virtual KV cache stay.
  Status release_memory(KvContent content) override;
  Status load_weights() override;

  const DecoderConfig& config() const override { return decoder_->config(); }
  const KvLayout& kv_layout() const { return layout_; }  // all layers' if they are alike, or a page's
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

  Result<std::unique_ptr<DecoderModel>> load_decoder(const ModelSource& source) const;  // uses options_.model
  void run(const ScheduledBatch& batch, StepResult& result);
  Status make_step_layout();
  StepIds ids() const;
  void show_step();
  // For models that make vectors (pooling_steps.cc).
  Status prepare_pooling(const ModelSource& source);
  bool keeps_nothing() const { return kv_plan_.groups.empty(); }
  bool sample_largest(const ScheduledBatch& batch, StepResult& result);
  Status sample(const ScheduledBatch& batch, StepResult& result);
  bool samples() const { return options_.parallel.rank() == 0; }

  RunnerOptions options_;
  std::unique_ptr<ThreadPool> pool_;
  KernelContext context_;
  std::unique_ptr<DecoderModel> decoder_;
  std::string identity_;            // identifies the source that the model was loaded from
  bool released_ = false;           // the weights are released
  std::optional<Sampler> sampler_;  // on rank 0 only, as the pooler
  std::optional<VectorPooler> pooler_;
  KvLayout layout_;
  KvGroupPlan kv_plan_;
  std::vector<KvLayout> layer_layouts_;   // by layer, with this rank's key-value heads
  std::vector<LayerInPage> layer_pages_;  // the layers' places in allocated pages
  KvStorage kv_;
  Memory logits_;
  TierSteps tiers_;  // declared after kv_, whose blocks the tier threads copy

  StepLayout step_;
  StepViews views_;
  HeldAdapters adapters_;
  std::vector<SampleRow> sample_rows_;
  std::vector<LogitMax> largest_;
  std::vector<PromptRow> prompt_rows_;
};

}  // namespace pagoda
