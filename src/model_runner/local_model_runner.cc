#include "model_runner/local_model_runner.h"

#include <algorithm>

#include "base/assign_or_return.h"
#include "base/clock.h"
#include "base/strings.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

// Maximum rows of logits that exist at a time: bounds the memory of prompts that want log-probabilities of
// all rows.
constexpr std::int64_t kMaxLogitRows = 64;

std::int64_t logit_buffer_rows(const RunnerOptions& options) {
  return std::min<std::int64_t>(options.max_num_batched_tokens, kMaxLogitRows);
}

// Per worker, for one row: two copies of the logits (masked, processed), weights, marks and values
// (sampler/).
std::int64_t sampler_bytes(std::int32_t vocab_size, std::int32_t threads) {
  return std::int64_t{threads} * vocab_size * 5 * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t buffer_bytes(std::int32_t vocab_size, const RunnerOptions& options) {
  return logit_buffer_rows(options) * vocab_size * static_cast<std::int64_t>(sizeof(float)) +
         sampler_bytes(vocab_size, options.threads);
}

}  // namespace

Result<std::shared_ptr<const ModelInfo>> model_of(const ModelSource& source, const RunnerOptions& options) {
  if (options.model) return options.model;
  PAGODA_ASSIGN_OR_RETURN(auto model, read_model_config(source));
  return std::make_shared<const ModelInfo>(std::move(model));
}

Result<std::unique_ptr<LocalModelRunner>> LocalModelRunner::create(std::shared_ptr<const ModelSource> source,
                                                                   const RunnerOptions& options) {
  if (options.threads < 1) return invalid_argument("threads must be at least 1");
  if (options.max_num_batched_tokens < 1)
    return invalid_argument("max-num-batched-tokens must be at least 1");
  if (options.max_num_seqs < 1) return invalid_argument("max-num-seqs must be at least 1");
  if (options.adapters != nullptr && options.parallel.size() > 1)
    return unimplemented("adapters that requests choose are not supported on several ranks");
  PAGODA_ASSIGN_OR_RETURN(auto model, model_of(*source, options));
  PAGODA_RETURN_IF_ERROR(check_encoder(model->decoder, options));
  PAGODA_ASSIGN_OR_RETURN(auto layout, plan_kv_layout(*source, *model, options.dtype, options.kv_cache_dtype,
                                                      options.block_size));

  std::unique_ptr<LocalModelRunner> runner(new LocalModelRunner);
  runner->options_ = options;
  runner->options_.model = std::move(model);
  runner->layout_ = layout;
  runner->pool_ = std::make_unique<ThreadPool>(options.threads);
  runner->context_.backend = options.backend;
  if (options.cpu_level) runner->context_.level = *options.cpu_level;
  runner->context_.pool = options.threads > 1 ? runner->pool_.get() : nullptr;

  PAGODA_ASSIGN_OR_RETURN(auto decoder, runner->load_decoder(*source));
  runner->identity_ = source->identity();
  runner->decoder_ = std::move(decoder);
  if (options.adapters != nullptr) options.adapters->set_targets(runner->decoder_->weights().adapter_targets);
  const TensorShard& shard = runner->decoder_->shard();
  const std::vector<LayerState> layers = layer_states(runner->config(), shard);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    KvLayout& of_layer = runner->layer_layouts_.emplace_back(layout);
    of_layer.num_kv_heads = static_cast<std::int32_t>(shard.layers[i].heads.kv.count);
    of_layer.head_size = layers[i].head_size;
    of_layer.latent_size = layers[i].latent_size;
    of_layer.num_layers = 1;
  }
  runner->kv_plan_ = plan_kv_groups(layers, options.block_size, options.max_context, options.kv_windows,
                                    options.block_size * dtype_info(layout.dtype).block_bytes, shard.size);
  runner->layout_ = page_layout(runner->kv_plan_, runner->layer_layouts_);
  if (runner->kv_plan_.uniform) runner->layout_.num_layers = layout.num_layers;
  if (options.pooling) {
    PAGODA_RETURN_IF_ERROR(runner->prepare_pooling(*source));
  } else if (runner->samples()) {
    runner->sampler_.emplace(runner->context_);
    PAGODA_ASSIGN_OR_RETURN(
        runner->logits_,
        Memory::reserve(static_cast<std::size_t>(logit_buffer_rows(options)) *
                        static_cast<std::size_t>(runner->config().vocab_size) * sizeof(float)));
  }
  PAGODA_RETURN_IF_ERROR(runner->make_step_layout());
  if (options.num_blocks > 0 && !runner->keeps_nothing()) {
    PAGODA_RETURN_IF_ERROR(runner->allocate_kv_cache(options.num_blocks, options.num_swap_blocks));
  }
  return runner;
}

RotationRule rotation_rule_of(const DecoderConfig& config) {
  for (const RopeConfig& rope : config.ropes)
    if (depends_on_length(rope))
      return {.original = rope.original_positions, .by_length = rope.scaling == RopeScaling::dynamic};
  return {};
}

Status LocalModelRunner::allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  kv_ = {};  // free the old cache first: both may not fit
  PAGODA_ASSIGN_OR_RETURN(kv_, KvStorage::create(kv_page_layout(), num_blocks, num_swap_blocks));
  layer_pages_ = layers_in_pages(kv_plan_, layer_layouts_, kv_page_layout());
  return ok_status();
}

Status LocalModelRunner::allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape,
                                             std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  PAGODA_ASSIGN_OR_RETURN(auto plan, in_blocks_of(kv_plan_, layout));
  kv_ = {};
  PAGODA_ASSIGN_OR_RETURN(kv_, KvStorage::create_virtual(layout, shape, num_blocks, num_swap_blocks));
  const std::int32_t num_layers = layout_.num_layers;
  layout_ = layout;
  layout_.num_layers = num_layers;
  kv_plan_ = std::move(plan);
  layer_pages_ = layers_in_pages(kv_plan_, layer_layouts_, kv_page_layout());
  return make_step_layout();
}

Status LocalModelRunner::make_step_layout() {
  const std::int32_t positions = config().max_positions;
  // Other ranks have no masks, and all ranks must compute the same rows.
  const OutputRowRules output = {.knows_tokens = samples(), .settles = options_.parallel.size() == 1};
  PAGODA_ASSIGN_OR_RETURN(
      step_, StepLayout::create(kv_plan_, {.max_tokens = options_.max_num_batched_tokens,
                                           .max_seqs = options_.max_num_seqs,
                                           .max_context = options_.max_context > 0
                                                              ? std::min(options_.max_context, positions)
                                                              : positions,
                                           .max_positions = positions,
                                           .vocab_size = config().vocab_size,
                                           .block_size = layout_.block_size,
                                           .pools = pools(),
                                           .draws = samples(),
                                           .output = output}));
  return ok_status();
}

StepIds LocalModelRunner::ids() const {
  return {.num_blocks = kv_.num_blocks(),
          .num_table_ids = kv_.num_table_ids(),
          .num_swap_blocks = kv_.num_swap_blocks(),
          .num_mapped_pages = kv_.mapper() != nullptr ? kv_.num_blocks() : 0,
          .adapters = options_.adapters.get()};
}

Status LocalModelRunner::create_kv_pages(std::int64_t first, std::int64_t count) {
  if (kv_.mapper() == nullptr || first < 0 || count < 0 || first > kv_.num_blocks() - count)
    return internal_error("pages to create are out of range");
  return kv_.mapper()->create_pages(first, count);
}

MemoryPlan LocalModelRunner::memory_plan() const {
  MemoryPlan plan;
  plan.weight_bytes = decoder_->weights().packed_bytes;
  if (decoder_->weights().mapped) plan.mapped_bytes = plan.weight_bytes + embedding_bytes();
  plan.kv_bytes = kv_.pool_bytes();
  plan.swap_bytes = kv_.swap_bytes();
  plan.activation_bytes = decoder_->activation_bytes();
  plan.buffer_bytes = pooler_     ? pooler_->bytes()
                      : samples() ? buffer_bytes(config().vocab_size, options_)
                                  : 0;
  return plan;
}

Status LocalModelRunner::set_tiers(std::vector<std::shared_ptr<KvTier>> tiers,
                                   std::unique_ptr<KvRowServer> server) {
  const std::size_t bytes = kv_.block_bytes();
  tiers_.start(std::move(tiers),
               {.bytes = bytes,
                .read =
                    [this, bytes](std::span<const BlockId> pages, std::span<std::byte> to) {
                      for (std::size_t i = 0; i < pages.size(); ++i)
                        kv_.read(pages[i], to.subspan(i * bytes, bytes));
                      return true;
                    },
                .write =
                    [this, bytes](std::span<const BlockId> pages, std::span<const std::byte> from) {
                      for (std::size_t i = 0; i < pages.size(); ++i)
                        kv_.write(pages[i], from.subspan(i * bytes, bytes));
                      return true;
                    }},
               std::move(server));
  return ok_status();
}

StepResult LocalModelRunner::run(const ScheduledBatch& batch) {
  StepResult result;
  result.sequences.resize(batch.sequences.size());
  result.status = released_ && !batch.empty() ? internal_error("the weights have been released")
                                              : step_.check(batch, ids());
  if (result.status.ok()) result.status = tiers_.check(batch.tier_moves, kv_plan_, kv_.num_blocks());
  if (result.status.ok()) run(batch, result);
  adapters_.clear();
  tiers_.take_news(result.tier_news);
  return result;
}

void LocalModelRunner::run(const ScheduledBatch& batch, StepResult& result) {
  tiers_.cancel(batch.tier_moves);
  const SteadyClock clock;
  if (PageMapper* mapper = kv_.mapper()) {
    for (const PageMapping& mapping : batch.page_maps) {
      if (mapping.page != kNoPage) kv_.note_used(BlockId{index(mapping.page) + mapping.count - 1});
    }
    result.status = mapper->map(batch.page_maps);
    if (!result.status.ok()) return;
    if (!batch.sequences.empty()) mapper->map_ahead(batch.page_maps_ahead);
    result.mapping = mapper->take_stats();
  }
  const TimeNs before_swaps = clock.now();
  kv_.swap_out(context_, batch.swap_out);
  kv_.swap_in(context_, batch.swap_in);
  result.swap_seconds = to_seconds(clock.now() - before_swaps);
  kv_.copy(context_, batch.block_copies);
  tiers_.submit(batch.tier_moves);
  if (batch.empty()) return;

  step_.lay_out(batch, result);
  show_step();
  adapters_.hold(options_.adapters.get(), step_.adapters());
  DecoderBatch rows = views_.batch(step_, layout_, kv_.data());
  rows.adapters = adapters_.of_rows();
  result.status = decoder_->forward(rows);
  if (!result.status.ok()) return;
  if (pooler_)
    result.status = pooler_->run(
        batch,
        [&](std::int64_t first, std::int64_t count, float* out) {
          decoder_->hidden(first, count, Buffer::of(out, config().hidden_size));
          return ok_status();
        },
        result.vectors);
  else if (!pools())
    result.status = sample(batch, result);
}

void LocalModelRunner::for_each(std::int64_t count, const Body& body) {
  if (count < 2) return ModelRunner::for_each(count, body);
  pool_->parallel_for(count, [&body](std::int64_t i, int) { body(i); });
}

void LocalModelRunner::show_step() {
  if (keeps_nothing())
    views_.show_whole_prompts(step_, kv_page_layout(), config().num_layers());
  else
    views_.show_tables(step_, kv_plan_, layer_pages_);
  if (kv_.mapper() == nullptr) {
    for (const std::int32_t block : step_.tables()) kv_.note_used(BlockId{block});
  }
  if (!kv_plan_.has_states()) return;
  views_.show_states(step_, kv_plan_, [&](std::int32_t page) {
    kv_.note_used(BlockId{page});
    return kv_.page(BlockId{page});
  });
}

// If every row takes its most likely token, logits need not be stored.
bool LocalModelRunner::sample_largest(const ScheduledBatch& batch, StepResult& result) {
  if (options_.parallel.size() > 1 || config().logit_softcap > 0) return false;
  sample_rows_.clear();
  for (const OutputRow& output : step_.output_rows()) {
    if (output.prompt_row >= 0) return false;
    sample_rows_.push_back(sample_row(batch, result, output));
    if (!Sampler::takes_largest(sample_rows_.back())) return false;
  }
  largest_.resize(step_.output_rows().size());
  decoder_->largest_logits(largest_);
  for (std::size_t row = 0; row < largest_.size(); ++row)
    Sampler::take(sample_rows_[row], largest_[row].index);
  return true;
}

Status LocalModelRunner::sample(const ScheduledBatch& batch, StepResult& result) {
  if (sample_largest(batch, result)) return ok_status();
  const auto vocab = static_cast<std::size_t>(config().vocab_size);
  const std::size_t chunk = static_cast<std::size_t>(logit_buffer_rows(options_));
  const std::span<const OutputRow> outputs = step_.output_rows();
  for (std::size_t first = 0; first < outputs.size(); first += chunk) {
    const std::size_t count = std::min(chunk, outputs.size() - first);
    PAGODA_RETURN_IF_ERROR(decoder_->logits(static_cast<std::int64_t>(first),
                                            static_cast<std::int64_t>(count),
                                            Buffer::of(logits_.as<float>(), config().vocab_size)));
    if (!samples()) continue;
    sample_rows_.clear();
    prompt_rows_.clear();
    for (std::size_t row = 0; row < count; ++row) {
      const OutputRow& output = outputs[first + row];
      const auto sequence = static_cast<std::size_t>(output.sequence);
      const std::span<const float> logits(logits_.as<float>() + row * vocab, vocab);
      if (output.prompt_row < 0) {
        sample_rows_.push_back(sample_row(batch, result, output));
        sample_rows_.back().logits = logits;
        continue;
      }
      prompt_rows_.push_back(
          {.logits = logits,
           .token = output.prompt_token,
           .num_top = batch.sequences[sequence].prompt_logprobs,
           .result =
               &result.sequences[sequence].prompt_logprobs[static_cast<std::size_t>(output.prompt_row)]});
    }
    sampler_->sample(sample_rows_);
    sampler_->score_prompt(prompt_rows_);
  }
  return ok_status();
}

}  // namespace pagoda
