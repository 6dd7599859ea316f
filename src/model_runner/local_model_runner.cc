#include "model_runner/local_model_runner.h"

#include <algorithm>
#include <ranges>

#include "base/clock.h"
#include "base/strings.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

// Rows of logits that exist at the same time: prompts whose every row is asked for stay bounded in memory.
constexpr std::int64_t kMaxLogitRows = 64;

std::int64_t logit_buffer_rows(const RunnerOptions& options) {
  return std::min<std::int64_t>(options.max_num_batched_tokens, kMaxLogitRows);
}

// Per worker: two copies of the logits (masked, processed), weights, marks and values of one row (sampler/).
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
  auto model = read_model_config(source);
  if (!model) return model.error();
  return std::make_shared<const ModelInfo>(*std::move(model));
}

Result<std::unique_ptr<LocalModelRunner>> LocalModelRunner::create(std::shared_ptr<const ModelSource> source,
                                                                   const RunnerOptions& options) {
  if (options.threads < 1) return invalid_argument("threads must be at least 1");
  if (options.max_num_batched_tokens < 1)
    return invalid_argument("max-num-batched-tokens must be at least 1");
  auto model = model_of(*source, options);
  if (!model) return model.error();
  PAGODA_RETURN_IF_ERROR(check_encoder((*model)->decoder, options));
  auto layout = plan_kv_layout(*source, **model, options.dtype, options.kv_cache_dtype, options.block_size);
  if (!layout) return layout.error();

  std::unique_ptr<LocalModelRunner> runner(new LocalModelRunner);
  runner->options_ = options;
  runner->options_.model = *std::move(model);
  runner->layout_ = *layout;
  runner->pool_ = std::make_unique<ThreadPool>(options.threads);
  runner->context_.backend = options.backend;
  if (options.cpu_level) runner->context_.level = *options.cpu_level;
  runner->context_.pool = options.threads > 1 ? runner->pool_.get() : nullptr;

  auto decoder = runner->load_decoder(*source);
  if (!decoder) return decoder.error();
  runner->identity_ = source->identity();
  runner->decoder_ = *std::move(decoder);
  const std::vector<LayerState> layers = layer_states(runner->config());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    KvLayout& of_layer = runner->layer_layouts_.emplace_back(*layout);
    of_layer.num_kv_heads = static_cast<std::int32_t>(runner->decoder_->shard().layers[i].heads.kv.count);
    of_layer.head_size = layers[i].head_size;
    of_layer.latent_size = layers[i].latent_size;
    of_layer.num_layers = 1;
  }
  runner->kv_plan_ = plan_kv_groups(layers, options.block_size, options.max_context, options.kv_windows,
                                    options.block_size * dtype_info(layout->dtype).block_bytes);
  runner->layout_ = page_layout(runner->kv_plan_, runner->layer_layouts_);
  if (runner->kv_plan_.uniform) runner->layout_.num_layers = layout->num_layers;
  if (options.pooling) {
    PAGODA_RETURN_IF_ERROR(runner->prepare_pooling(*source));
  } else if (runner->samples()) {
    runner->sampler_.emplace(runner->context_);
    auto logits = Memory::reserve(static_cast<std::size_t>(logit_buffer_rows(options)) *
                                  static_cast<std::size_t>(runner->config().vocab_size) * sizeof(float));
    if (!logits) return logits.error();
    runner->logits_ = *std::move(logits);
  }
  if (options.num_blocks > 0 && !runner->keeps_nothing()) {
    PAGODA_RETURN_IF_ERROR(runner->allocate_kv_cache(options.num_blocks, options.num_swap_blocks));
  }
  return runner;
}

RotationRule LocalModelRunner::rotation_rule() const {
  for (const RopeConfig& rope : config().ropes)
    if (depends_on_length(rope))
      return {.original = rope.original_positions, .by_length = rope.scaling == RopeScaling::dynamic};
  return {};
}

Status LocalModelRunner::allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  kv_ = {};  // the old one goes first: both may not fit
  auto storage = KvStorage::create(kv_page_layout(), num_blocks, num_swap_blocks);
  if (!storage) return storage.error();
  kv_ = *std::move(storage);
  layer_pages_ = layers_in_pages(kv_plan_, layer_layouts_, kv_page_layout());
  return ok_status();
}

Status LocalModelRunner::allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape,
                                             std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  auto plan = in_blocks_of(kv_plan_, layout);
  if (!plan) return plan.error();
  kv_ = {};
  auto storage = KvStorage::create_virtual(layout, shape, num_blocks, num_swap_blocks);
  if (!storage) return storage.error();
  kv_ = *std::move(storage);
  const std::int32_t num_layers = layout_.num_layers;
  layout_ = layout;
  layout_.num_layers = num_layers;
  kv_plan_ = *std::move(plan);
  layer_pages_ = layers_in_pages(kv_plan_, layer_layouts_, kv_page_layout());
  return ok_status();
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

// Checks the guarantees of engine and scheduler. A batch that breaks one would read outside of tables, so it
// ends the engine with a message instead.
Status LocalModelRunner::check(const ScheduledBatch& batch) const {
  std::int64_t num_tokens = 0;
  for (const ScheduledSequence& sequence : batch.sequences) {
    const std::int64_t end = sequence.num_computed_tokens + static_cast<std::int64_t>(sequence.tokens.size());
    num_tokens += static_cast<std::int64_t>(sequence.tokens.size());
    if (sequence.tokens.empty() || sequence.num_computed_tokens < 0)
      return internal_error("a sequence without work");
    if (sequence.rotation < 0 || sequence.rotation > config().max_positions)
      return internal_error("a rotation of no length that the model has");
    if (end > config().max_positions)
      return internal_error(concat("position ", end - 1, " is beyond the model's"));
    PAGODA_RETURN_IF_ERROR(check_tables(sequence));
    for (const TokenId token : sequence.tokens) {
      if (token < 0 || token >= config().vocab_size) {
        return internal_error(concat("token id ", token, " is outside of the vocabulary"));
      }
    }
    if ((sequence.work != WorkKind::generate) != pools() || sequence.whole_prompt != keeps_nothing())
      return internal_error("this runner cannot do what the batch asks for");
    if (sequence.whole_prompt && !sequence.sample) return internal_error("a part of a whole prompt");
    if (sequence.sample && sequence.spec.params == nullptr && samples() && !pools())
      return internal_error("sampling without parameters");
    const std::int32_t drafts = sequence.num_draft_tokens;
    if (drafts < 0 || static_cast<std::size_t>(drafts) >= sequence.tokens.size() ||
        (drafts > 0 && (!sequence.sample || sequence.spec.num_candidates != 1 || sequence.spec.beam)))
      return internal_error("draft tokens where there cannot be any");
    const std::size_t words = mask_words(config().vocab_size) * static_cast<std::size_t>(1 + drafts);
    if (!sequence.spec.masks.empty() && sequence.spec.masks.size() != words)
      return internal_error("masks that do not match the rows to be drawn");
  }
  if (keeps_nothing() && std::ssize(batch.sequences) > options_.max_num_seqs)
    return internal_error("a batch of more than max-num-seqs sequences");
  if (num_tokens > options_.max_num_batched_tokens) {
    return internal_error(concat("a batch of ", num_tokens, " tokens is over max-num-batched-tokens"));
  }
  return check_copies(batch);
}

Status LocalModelRunner::check_tables(const ScheduledSequence& sequence) const {
  const std::int64_t end = sequence.num_computed_tokens + static_cast<std::int64_t>(sequence.tokens.size());
  if (keeps_nothing()) return ok_status();
  if (sequence.more_tables.size() + 1 != kv_plan_.groups.size())
    return internal_error("a sequence without a table for each KV group");
  for (std::size_t i = 0; i < kv_plan_.groups.size(); ++i) {
    const KvGroup& group = kv_plan_.groups[i];
    const KvTable table = kv_table(sequence, i);
    const std::int64_t rows = group.rows_for(end);
    if (table.first_row < 0 || table.first_row > group.first_visible_row(sequence.num_computed_tokens) ||
        std::ssize(table.blocks) % group.pages_per_row != 0 ||
        table.first_row + std::ssize(table.blocks) / group.pages_per_row < rows) {
      return internal_error("a block table does not cover its sequence");
    }
    const std::int64_t num_ids = group.is_state() ? kv_.num_blocks() : kv_.num_table_ids();
    for (const BlockId block : table.blocks) {
      if (index(block) < 0 || index(block) >= num_ids) return internal_error("a block id is out of range");
    }
  }
  return ok_status();
}

Status LocalModelRunner::check_copies(const ScheduledBatch& batch) const {
  const auto is_block = [&](BlockId id) { return index(id) >= 0 && index(id) < kv_.num_blocks(); };
  const auto is_pair = [&](const SwapCopy& copy) {
    const auto swap = static_cast<std::int64_t>(copy.swap_block);
    return is_block(copy.block) && swap >= 0 && swap < kv_.num_swap_blocks();
  };
  if (!std::ranges::all_of(batch.swap_out, is_pair) || !std::ranges::all_of(batch.swap_in, is_pair) ||
      !std::ranges::all_of(batch.block_copies,
                           [&](const BlockCopy& copy) { return is_block(copy.from) && is_block(copy.to); })) {
    return internal_error("a block to copy is out of range");
  }
  const auto is_mapping = [&](const PageMapping& mapping) {
    if (kv_.mapper() == nullptr || mapping.count < 0) return false;
    const bool pages_are_there =
        index(mapping.page) >= 0 && index(mapping.page) <= kv_.num_blocks() - mapping.count;
    if (mapping.block == kNoBlock) return pages_are_there;
    return index(mapping.block) >= 0 && index(mapping.block) <= kv_.num_table_ids() - mapping.count &&
           (mapping.page == kNoPage || pages_are_there);
  };
  if (!std::ranges::all_of(batch.page_maps, is_mapping) ||
      !std::ranges::all_of(batch.page_maps_ahead, is_mapping))
    return internal_error("a page to map is out of range");
  return check_state_copies(batch);
}

StepResult LocalModelRunner::run(const ScheduledBatch& batch) {
  StepResult result;
  result.sequences.resize(batch.sequences.size());
  result.status = released_ ? internal_error("the weights have been released") : check(batch);
  if (!result.status.ok()) return result;
  const SteadyClock clock;
  if (PageMapper* mapper = kv_.mapper()) {
    for (const PageMapping& mapping : batch.page_maps) {
      if (mapping.page != kNoPage) kv_.note_used(BlockId{index(mapping.page) + mapping.count - 1});
    }
    result.status = mapper->map(batch.page_maps);
    if (!result.status.ok()) return result;
    if (!batch.sequences.empty()) mapper->map_ahead(batch.page_maps_ahead);
    result.mapping = mapper->take_stats();
  }
  const TimeNs before_swaps = clock.now();
  kv_.swap_out(context_, batch.swap_out);
  kv_.swap_in(context_, batch.swap_in);
  result.swap_seconds = to_seconds(clock.now() - before_swaps);
  kv_.copy(context_, batch.block_copies);
  if (batch.empty()) return result;

  flatten(batch, result);
  result.status = decoder_->forward({.token_ids = token_ids_,
                                     .positions = positions_,
                                     .sequences = sequences_,
                                     .output_rows = output_row_ids_,
                                     .layout = layout_,
                                     .cache = kv_.data(),
                                     .layers = layer_kv_,
                                     .rotations = rotations_,
                                     .states = layer_states_,
                                     .token_types = token_types_});
  if (!result.status.ok()) return result;
  if (pooler_)
    pooler_->run(batch, *decoder_, result.vectors);
  else if (!pools())
    result.status = sample(batch, result);
  return result;
}

void LocalModelRunner::for_each(std::int64_t count, const Body& body) {
  if (count < 2) return ModelRunner::for_each(count, body);
  pool_->parallel_for(count, [&body](std::int64_t i, int) { body(i); });
}

void LocalModelRunner::flatten(const ScheduledBatch& batch, StepResult& result) {
  token_ids_.clear();
  token_types_.clear();
  positions_.clear();
  rotations_.clear();
  sequences_.clear();
  output_row_ids_.clear();
  output_rows_.clear();
  const bool rotated =
      std::ranges::any_of(batch.sequences, [](const auto& sequence) { return sequence.rotation != 0; });
  // Other ranks know no masks, and all of them need the same rows.
  const OutputRowRules rules{
      .knows_tokens = samples(), .settles = options_.parallel.size() == 1, .vocab_size = config().vocab_size};
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const ScheduledSequence& sequence = batch.sequences[i];
    const auto start = static_cast<std::int32_t>(token_ids_.size());
    const auto count = static_cast<std::int32_t>(sequence.tokens.size());
    const std::int32_t computed = sequence.num_computed_tokens;
    token_ids_.insert(token_ids_.end(), sequence.tokens.begin(), sequence.tokens.end());
    for (std::int32_t row = 0; row < count; ++row) positions_.push_back(computed + row);
    if (rotated) rotations_.insert(rotations_.end(), sequence.tokens.size(), sequence.rotation);
    sequences_.push_back({.query_start = start, .num_queries = count, .context_len = computed + count});
    if (pools()) {
      flatten_pooled(sequence, start);
      continue;
    }
    add_output_rows(batch, i, start, rules, result, output_row_ids_, output_rows_);
  }
  if (!token_types_.empty()) token_types_.resize(token_ids_.size(), 0);
  if (keeps_nothing())
    lay_out_whole_prompts();
  else
    flatten_tables(batch);
  if (kv_plan_.has_states()) flatten_states(batch);
}

// A table for each page of a row ("lane"), from the sequence's first row on: the kernels go by positions.
// Where rows have been given back they find, should they ever ask, one that is still there.
void LocalModelRunner::flatten_tables(const ScheduledBatch& batch) {
  block_tables_.clear();
  std::size_t num_lanes = 0;
  for (const KvGroup& group : kv_plan_.groups) num_lanes += static_cast<std::size_t>(group.pages_per_row);
  lanes_.resize(num_lanes);
  std::vector<std::size_t>& ends = table_ends_;
  ends.clear();
  for (const ScheduledSequence& sequence : batch.sequences) {
    for (std::size_t i = 0; i < kv_plan_.groups.size(); ++i) {
      const KvTable table = kv_table(sequence, i);
      const auto per_row = static_cast<std::size_t>(kv_plan_.groups[i].pages_per_row);
      if (kv_.mapper() == nullptr) {
        for (const BlockId block : table.blocks) kv_.note_used(block);
      }
      for (std::size_t page = 0; page < per_row; ++page) {
        block_tables_.insert(block_tables_.end(), static_cast<std::size_t>(table.first_row),
                             index(table.blocks[page]));
        for (std::size_t at = page; at < table.blocks.size(); at += per_row)
          block_tables_.push_back(index(table.blocks[at]));
        ends.push_back(block_tables_.size());
      }
    }
  }
  // Only now does the vector of tables stay in place.
  for (std::size_t lane = 0; lane < num_lanes; ++lane) {
    lanes_[lane] = sequences_;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      const std::size_t table = i * num_lanes + lane;
      lanes_[lane][i].block_table = block_tables_.data() + (table == 0 ? 0 : ends[table - 1]);
    }
  }
  layer_kv_.clear();
  for (std::size_t i = 0; i < sequences_.size(); ++i) sequences_[i] = lanes_.front()[i];
  if (kv_plan_.plain()) return;
  std::vector<std::size_t> first_lane;
  for (std::size_t lane = 0; const KvGroup& group : kv_plan_.groups) {
    first_lane.push_back(lane);
    lane += static_cast<std::size_t>(group.pages_per_row);
  }
  for (std::size_t layer = 0; layer < layer_pages_.size(); ++layer) {
    const KvPlace& place = kv_plan_.layers[layer];
    const std::size_t lane =
        first_lane[static_cast<std::size_t>(place.group)] + static_cast<std::size_t>(place.page);
    const LayerInPage& in_page = layer_pages_[layer];
    layer_kv_.push_back({.layout = in_page.layout, .layer = in_page.layer, .sequences = lanes_[lane]});
  }
}

// If every row takes its most likely token, logits need not be written down.
bool LocalModelRunner::sample_largest(const ScheduledBatch& batch, StepResult& result) {
  if (options_.parallel.size() > 1 || config().logit_softcap > 0) return false;
  sample_rows_.clear();
  for (const OutputRow& output : output_rows_) {
    if (output.prompt_row >= 0) return false;
    sample_rows_.push_back(sample_row(batch, result, output));
    if (!Sampler::takes_largest(sample_rows_.back())) return false;
  }
  largest_.resize(output_rows_.size());
  decoder_->largest_logits(largest_);
  for (std::size_t row = 0; row < largest_.size(); ++row)
    Sampler::take(sample_rows_[row], largest_[row].index);
  return true;
}

Status LocalModelRunner::sample(const ScheduledBatch& batch, StepResult& result) {
  if (sample_largest(batch, result)) return ok_status();
  const auto vocab = static_cast<std::size_t>(config().vocab_size);
  const std::size_t chunk = static_cast<std::size_t>(logit_buffer_rows(options_));
  for (std::size_t first = 0; first < output_rows_.size(); first += chunk) {
    const std::size_t count = std::min(chunk, output_rows_.size() - first);
    PAGODA_RETURN_IF_ERROR(decoder_->logits(static_cast<std::int64_t>(first),
                                            static_cast<std::int64_t>(count), logits_.as<float>()));
    if (!samples()) continue;
    sample_rows_.clear();
    prompt_rows_.clear();
    for (std::size_t row = 0; row < count; ++row) {
      const OutputRow& output = output_rows_[first + row];
      const std::span<const float> logits(logits_.as<float>() + row * vocab, vocab);
      if (output.prompt_row < 0) {
        sample_rows_.push_back(sample_row(batch, result, output));
        sample_rows_.back().logits = logits;
        continue;
      }
      prompt_rows_.push_back({.logits = logits,
                              .token = output.prompt_token,
                              .num_top = batch.sequences[output.sequence].prompt_logprobs,
                              .result = &result.sequences[output.sequence]
                                             .prompt_logprobs[static_cast<std::size_t>(output.prompt_row)]});
    }
    sampler_->sample(sample_rows_);
    sampler_->score_prompt(prompt_rows_);
  }
  return ok_status();
}

}  // namespace pagoda
