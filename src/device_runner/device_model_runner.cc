#include "device_runner/device_model_runner.h"

#include <algorithm>
#include <ranges>

#include "base/clock.h"
#include "base/strings.h"
#include "device_runner/device_support.h"
#include "model_runner/kv_layout_choice.h"
#include "models/read_config.h"

namespace pagoda::device_runner {
namespace {

using device::Element;

Result<Element> element_named(std::string_view flag, std::string_view name, Element automatic) {
  if (name == "auto") return automatic;
  if (name == "float32") return Element::f32;
  if (name == "bfloat16") return Element::bf16;
  return unimplemented(concat("--", flag, " ", name, ": the device runner has auto, float32 and bfloat16",
                              flag == "dtype" ? "" : ", int8"));
}

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

bool is_drawn(const OutputRow& row) { return row.prompt_row < 0; }

}  // namespace

Result<std::unique_ptr<DeviceModelRunner>> DeviceModelRunner::create(
    std::shared_ptr<const ModelSource> source, const RunnerOptions& options,
    std::unique_ptr<device::Device> device, const DeviceKernels& kernels) {
  if (options.max_num_batched_tokens < 1)
    return invalid_argument("max-num-batched-tokens must be at least 1");
  if (options.max_num_seqs < 1) return invalid_argument("max-num-seqs must be at least 1");
  const auto model = model_of(*source, options);
  if (!model) return model.error();
  if (options.pooling || is_encoder((*model)->decoder))
    return unimplemented("--device does not support models that return vectors: use --device cpu");
  if (options.parallel.size() > 1)
    return unimplemented("--device does not support --tensor-parallel-size: use 1");
  const auto weights = element_named("dtype", options.dtype, Element::bf16);
  if (!weights) return weights.error();
  const auto cache = options.kv_cache_dtype == "int8"
                         ? Result<Element>(Element::i8)
                         : element_named("kv-cache-dtype", options.kv_cache_dtype, *weights);
  if (!cache) return cache.error();

  if (kernels.products == MatrixProducts::tiles && *weights != Element::bf16)
    return unimplemented("--device-products tiles needs --dtype bfloat16");
  if (kernels.products == MatrixProducts::library) {
    if (*weights != Element::bf16) return unimplemented("--device-products cublaslt needs --dtype bfloat16");
    PAGODA_RETURN_IF_ERROR(device->open_products().annotate("--device-products cublaslt"));
  }

  std::unique_ptr<DeviceModelRunner> runner(new DeviceModelRunner(std::move(device)));
  device::Device& there = *runner->device_;
  runner->options_ = options;
  for (device::StreamId* stream : {&runner->stream_, &runner->swap_stream_}) {
    auto made = there.create_stream();
    if (!made) return made.error();
    *stream = *made;
  }
  auto event = there.create_event();
  if (!event) return event.error();
  runner->swapped_ = *event;
  runner->arena_.emplace(there, runner->stream_);
  const std::int32_t positions = (*model)->decoder.max_positions;
  const std::int32_t context = options.max_context > 0 ? std::min(options.max_context, positions) : positions;
  if (check_support((*model)->decoder, context).ok())
    PAGODA_RETURN_IF_ERROR(runner->load_decoder(*source, **model, *weights, *cache, kernels));
  else
    PAGODA_RETURN_IF_ERROR(runner->load_model(*source, **model, *weights, *cache, kernels));
  PAGODA_RETURN_IF_ERROR(runner->make_step_layout());

  const std::int64_t drawn = std::int64_t{options.max_num_seqs} * (1 + options.max_draft_tokens);
  auto sampler = DeviceSampler::create(
      there, runner->stream_, *runner->arena_,
      {.vocab_size = runner->config().vocab_size,
       .max_num_seqs = options.max_num_seqs,
       .max_rows = static_cast<std::int32_t>(std::min<std::int64_t>(options.max_num_batched_tokens, drawn))});
  if (!sampler) return sampler.error();
  runner->sampler_ = *std::move(sampler);
  PAGODA_RETURN_IF_ERROR(runner->arena_->reserve(runner->step_bytes()));
  if (options.num_blocks > 0)
    PAGODA_RETURN_IF_ERROR(runner->allocate_kv_cache(options.num_blocks, options.num_swap_blocks));
  return runner;
}

Status DeviceModelRunner::load_decoder(const ModelSource& source, const ModelInfo& model,
                                       device::Element weights, device::Element cache,
                                       const DeviceKernels& kernels) {
  auto decoder = DeviceDecoder::load(*device_, stream_, source, model,
                                     {.weights = weights,
                                      .cache = cache,
                                      .max_batched_tokens = options_.max_num_batched_tokens,
                                      .max_num_seqs = options_.max_num_seqs,
                                      .block_size = options_.block_size,
                                      .products = kernels.products,
                                      .attention = kernels.attention,
                                      .max_context = options_.max_context});
  if (!decoder) return decoder.error();
  decoder_ = *std::move(decoder);
  kv_plan_ = plan_kv_groups(layer_states(config()), options_.block_size, options_.max_context, false);
  return ok_status();
}

// The model as models/ computes it on every backend.
Status DeviceModelRunner::load_model(const ModelSource& source, const ModelInfo& model,
                                     device::Element weights, device::Element cache,
                                     const DeviceKernels& kernels) {
  PAGODA_RETURN_IF_ERROR(check_plain_support(model.decoder).annotate(model.architecture));
  if (kernels.attention == AttentionKernels::tiles || kernels.products == MatrixProducts::library)
    return unimplemented(concat(model.architecture,
                                ": --device-attention tiles and --device-products cublaslt ",
                                "are not supported for this model"));
  const auto name = [](device::Element element) {
    return element == device::Element::f32    ? "float32"
           : element == device::Element::bf16 ? "bfloat16"
                                              : "int8";
  };
  auto layout = plan_kv_layout(source, model, name(weights), name(cache), options_.block_size);
  if (!layout) return layout.error();
  const bool tiles = weights == device::Element::bf16 && kernels.products != MatrixProducts::plain;
  ops_ = std::make_unique<DeviceOps>(*device_, stream_, *arena_,
                                     DeviceOps::Options{.weights = weights, .tiles = tiles});
  arena_->begin();
  const KernelContext context = {.backend = Backend::device, .device = ops_.get()};
  auto decoder = DecoderModel::load(context, source, model, name(weights), options_.max_num_batched_tokens);
  if (!decoder) return decoder.error();
  model_ = *std::move(decoder);
  PAGODA_RETURN_IF_ERROR(ops_->take_status());
  PAGODA_RETURN_IF_ERROR(device_->synchronize(stream_));
  const std::vector<LayerState> layers = layer_states(config());
  std::vector<KvLayout> layouts;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    KvLayout& of_layer = layouts.emplace_back(*layout);
    of_layer.num_kv_heads = static_cast<std::int32_t>(model_->shard().layers[i].heads.kv.count);
    of_layer.head_size = layers[i].head_size;
    of_layer.latent_size = layers[i].latent_size;
    of_layer.num_layers = 1;
  }
  kv_plan_ = plan_kv_groups(layers, options_.block_size, options_.max_context, options_.kv_windows,
                            options_.block_size * dtype_info(layout->dtype).block_bytes);
  layout_ = page_layout(kv_plan_, layouts);
  layout_.num_layers = kv_plan_.uniform ? kv_plan_.page_layers : 1;
  layer_pages_ = layers_in_pages(kv_plan_, layouts, layout_);
  return ok_status();
}

std::int32_t DeviceModelRunner::max_context() const {
  const std::int32_t positions = config().max_positions;
  return options_.max_context > 0 ? std::min(options_.max_context, positions) : positions;
}

DeviceModelRunner::~DeviceModelRunner() {
  // Memory is freed while nothing uses it: nothing runs between steps, but a step that failed may have left
  // something.
  for (const device::StreamId stream : {stream_, swap_stream_}) (void)device_->synchronize(stream).ok();
}

Status DeviceModelRunner::allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  cache_ = {};
  mapper_.reset();
  swap_space_ = {};
  auto cache = device::DeviceArray<std::byte>::create(*device_, num_blocks * kv_page_bytes(), "KV cache");
  if (!cache) return cache.error();
  auto swap_space = device::PinnedArray<std::byte>::create(*device_, num_swap_blocks * kv_page_bytes());
  if (!swap_space) return swap_space.error();
  cache_ = *std::move(cache);
  swap_space_ = *std::move(swap_space);
  num_blocks_ = num_table_ids_ = num_blocks;
  num_swap_blocks_ = num_swap_blocks;
  blocks_ = cache_.data();
  block_bytes_ = kv_page_bytes();
  place_ = {.data = blocks_,
            .block_stride = block_bytes_,
            .layer_stride = block_bytes_ / config().num_layers(),
            .block_size = options_.block_size};
  return ok_status();
}

Status DeviceModelRunner::allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape,
                                              std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  if (model_)
    return unimplemented("--kv-manager virtual is not supported for this model on a device: use paged");
  cache_ = {};
  mapper_.reset();
  swap_space_ = {};
  auto pages = DevicePages::create(*device_, {.page_bytes = shape.page_bytes,
                                              .num_tensors = shape.num_tensors,
                                              .num_pages = num_blocks,
                                              .num_blocks = shape.num_slots * shape.blocks_per_slot});
  if (!pages) return pages.error();
  PAGODA_RETURN_IF_ERROR(pages->create_pages(0, shape.num_created < 0 ? num_blocks : shape.num_created));
  blocks_ = pages->window();
  block_bytes_ = pages->page_stride();
  num_table_ids_ = pages->shape().num_blocks;
  KvLayout layer = layout;
  layer.num_layers = 1;
  place_ = {.data = pages->data(),
            .block_stride = shape.page_bytes,
            .layer_stride = shape.num_tensors > 1 ? pages->tensor_stride()
                                                  : static_cast<std::int64_t>(layer.block_bytes()),
            .block_size = layout.block_size};
  auto swap_space = device::PinnedArray<std::byte>::create(*device_, num_swap_blocks * block_bytes_);
  if (!swap_space) return swap_space.error();
  mapper_ = std::make_unique<PageMapperOf<DevicePages>>(*std::move(pages));
  swap_space_ = *std::move(swap_space);
  num_blocks_ = num_blocks;
  num_swap_blocks_ = num_swap_blocks;
  for (KvGroup& group : kv_plan_.groups) group.tokens_per_row = layout.block_size;
  return make_step_layout();
}

Status DeviceModelRunner::create_kv_pages(std::int64_t first, std::int64_t count) {
  if (!mapper_ || first < 0 || count < 0 || first > num_blocks_ - count)
    return internal_error("pages to create are out of range");
  return mapper_->create_pages(first, count);
}

MemoryPlan DeviceModelRunner::memory_plan() const {
  return {.weight_bytes = model_ ? model_->weights().packed_bytes : decoder_->weights().bytes,
          .kv_bytes = mapper_ ? mapper_->arena().bytes() : cache_.size_bytes(),
          .swap_bytes = swap_space_.count(),
          .activation_bytes = model_ ? model_->activation_bytes() : decoder_->activation_bytes(),
          .buffer_bytes = sampler_->size_bytes() + arena_->size_bytes()};
}

// Bytes that a step brings to the device, at most, but for the histories of several sequences that want
// penalties for the first time.
std::size_t DeviceModelRunner::step_bytes() const {
  const std::int64_t tokens = options_.max_num_batched_tokens, seqs = options_.max_num_seqs;
  const std::int64_t context = max_context(), word = sizeof(std::int32_t);
  const std::int64_t tables = seqs * (context / options_.block_size + 1) * word;
  const auto mask = static_cast<std::int64_t>(mask_words(config().vocab_size)) * word;
  return as_size(16 * tokens * word + tables + sampler_->max_rows() * (mask + 512) + context * word);
}

Status DeviceModelRunner::make_step_layout() {
  auto step = StepLayout::create(kv_plan_, {.max_tokens = options_.max_num_batched_tokens,
                                            .max_seqs = options_.max_num_seqs,
                                            .max_context = max_context(),
                                            .max_positions = config().max_positions,
                                            .vocab_size = config().vocab_size,
                                            .tables = StepRules::Tables::by_row});
  if (!step) return step.error();
  step_ = *std::move(step);
  return ok_status();
}

// Pages that are not there yet are no pages.
StepIds DeviceModelRunner::ids() const {
  return {.num_blocks = num_blocks_,
          .num_table_ids = num_table_ids_,
          .num_swap_blocks = num_swap_blocks_,
          .num_mapped_pages = mapper_ ? mapper_->arena().num_created() : 0};
}

StepResult DeviceModelRunner::run(const ScheduledBatch& batch) {
  StepResult result;
  result.sequences.resize(batch.sequences.size());
  result.status = step_.check(batch, ids());
  if (result.status.ok()) result.status = step(batch, result);
  return result;
}

Status DeviceModelRunner::step(const ScheduledBatch& batch, StepResult& result) {
  arena_->begin();
  if (mapper_) {
    PAGODA_RETURN_IF_ERROR(mapper_->map(batch.page_maps));
    if (!batch.sequences.empty()) mapper_->map_ahead(batch.page_maps_ahead);
    result.mapping = mapper_->take_stats();
  }
  PAGODA_RETURN_IF_ERROR(swap(batch, result));
  PAGODA_RETURN_IF_ERROR(copy_blocks(batch.block_copies));
  if (!batch.empty() && model_) {
    PAGODA_RETURN_IF_ERROR(forward_model(batch, result));
    PAGODA_RETURN_IF_ERROR(sample(batch, result));
  } else if (!batch.empty()) {
    auto laid_out = lay_out(batch, result);
    if (!laid_out) return laid_out.error();
    PAGODA_RETURN_IF_ERROR(decoder_->forward(*laid_out, place_));
    PAGODA_RETURN_IF_ERROR(sample(batch, result));
  }
  return device_->synchronize(stream_);
}

// One copy a block: all of its layers lie together.
Status DeviceModelRunner::swap(const ScheduledBatch& batch, StepResult& result) {
  if (batch.swap_out.empty() && batch.swap_in.empty()) return ok_status();
  const SteadyClock clock;
  const TimeNs before = clock.now();
  const std::int64_t bytes = block_bytes_;
  const auto there = [&](const SwapCopy& copy) { return blocks_ + index(copy.block) * bytes; };
  const auto here = [&](const SwapCopy& copy) {
    return swap_space_.data() + static_cast<std::int64_t>(copy.swap_block) * bytes;
  };
  for (const SwapCopy& copy : batch.swap_out)
    PAGODA_RETURN_IF_ERROR(device_->copy_out(swap_stream_, here(copy), there(copy), as_size(bytes)));
  for (const SwapCopy& copy : batch.swap_in)
    PAGODA_RETURN_IF_ERROR(device_->copy_in(swap_stream_, there(copy), here(copy), as_size(bytes)));
  PAGODA_RETURN_IF_ERROR(device_->record(swapped_, swap_stream_));
  PAGODA_RETURN_IF_ERROR(device_->wait(stream_, swapped_));
  PAGODA_RETURN_IF_ERROR(device_->synchronize(swap_stream_));
  result.swap_seconds = to_seconds(clock.now() - before);
  return ok_status();
}

// In goes of pairs that may run in any order; pairs of the list may chain.
Status DeviceModelRunner::copy_blocks(std::span<const BlockCopy> copies) {
  std::vector<std::int32_t> from, to;
  device::KernelLaunches launches(*device_, stream_);
  const auto go = [&]() -> Status {
    const device::CopyBlocksArgs args = {
        .cache = blocks_, .from = arena_->put(from), .to = arena_->put(to), .block_bytes = block_bytes_};
    const auto count = std::ssize(from);
    from.clear();
    to.clear();
    PAGODA_RETURN_IF_ERROR(arena_->take_status());
    return launches.copy_blocks(args, count);
  };
  const auto has = [](const std::vector<std::int32_t>& ids, BlockId id) {
    return std::ranges::find(ids, index(id)) != ids.end();
  };
  for (const BlockCopy& copy : copies) {
    if (has(to, copy.from) || has(to, copy.to) || has(from, copy.to)) PAGODA_RETURN_IF_ERROR(go());
    from.push_back(index(copy.from));
    to.push_back(index(copy.to));
  }
  return from.empty() ? ok_status() : go();
}

Result<DeviceBatch> DeviceModelRunner::lay_out(const ScheduledBatch& batch, StepResult& result) {
  // A sequence with so few new tokens has the splits of its context computed side by side.
  constexpr std::int32_t kFewTokens = 8;
  step_.lay_out(batch, result);
  std::vector<std::int32_t> split_rows, whole_rows, tiles;
  DeviceBatch out;
  const std::int32_t rows_of_tile = decoder_->rows_of_tile();
  for (std::int32_t i = 0; i < step_.num_sequences(); ++i) {
    const std::int32_t first = step_.first_rows()[as_size(i)], count = step_.row_counts()[as_size(i)];
    const bool few = count <= kFewTokens;
    const std::int32_t splits = (step_.context_len(i) - 1) / device::kSplitTokens + 1;
    if (few) {
      out.splits = std::max(out.splits, splits);
      out.all_splits += std::int64_t{count} * splits;
    }
    for (std::int32_t row = 0; row < count; ++row) {
      if (!few && rows_of_tile > 0 && row % rows_of_tile == 0)
        tiles.push_back(static_cast<std::int32_t>(whole_rows.size()));
      (few ? split_rows : whole_rows).push_back(first + row);
    }
  }
  out.rows = step_.num_rows();
  const std::span<const std::int32_t> image = step_.image();
  const std::int32_t* const there = arena_->keep(image);
  const auto at = [&](std::span<const std::int32_t> part) { return there + (part.data() - image.data()); };
  out.ids = at(step_.token_ids());
  out.positions = at(step_.positions());
  out.sequences = at(step_.row_sequences());
  out.blocks = at(step_.slots());
  out.block_tables = at(step_.tables());
  out.table_width = step_.table_width();
  out.split_rows = arena_->put(split_rows);
  out.num_split_rows = std::ssize(split_rows);
  out.whole_rows = arena_->put(whole_rows);
  out.num_whole_rows = std::ssize(whole_rows);
  out.num_tiles = std::ssize(tiles);
  if (!tiles.empty()) tiles.push_back(static_cast<std::int32_t>(whole_rows.size()));
  out.tiles = arena_->put(tiles);
  out.output_rows = at(step_.output_row_ids());
  out.num_output_rows = std::ssize(step_.output_row_ids());
  PAGODA_RETURN_IF_ERROR(arena_->take_status());
  return out;
}

Status DeviceModelRunner::forward_model(const ScheduledBatch& batch, StepResult& result) {
  step_.lay_out(batch, result);
  const std::int32_t* const image = arena_->keep(step_.image());
  PAGODA_RETURN_IF_ERROR(arena_->take_status());
  ops_->begin_step(step_.image(), image);
  views_.show_tables(step_, kv_plan_, layer_pages_);
  if (kv_plan_.has_states())
    views_.show_states(step_, kv_plan_, [&](std::int32_t page) { return blocks_ + page * block_bytes_; });
  PAGODA_RETURN_IF_ERROR(model_->forward({.token_ids = step_.token_ids(),
                                          .positions = step_.positions(),
                                          .sequences = views_.sequences(),
                                          .output_rows = step_.output_row_ids(),
                                          .layout = layout_,
                                          .cache = blocks_,
                                          .layers = views_.layers(),
                                          .rotations = step_.rotations(),
                                          .states = views_.states()}));
  return ops_->take_status();
}

// Logits of so many output rows into the sampler's.
Status DeviceModelRunner::logits(std::int64_t first, std::int64_t count) {
  if (!model_) return decoder_->logits(first, count, sampler_->logits());
  PAGODA_RETURN_IF_ERROR(model_->logits(first, count, Buffer::of(sampler_->logits(), config().vocab_size)));
  return ops_->take_status();
}

// Rows to draw from stand before those that are only scored: one pass over the head is for all of them.
Status DeviceModelRunner::sample(const ScheduledBatch& batch, StepResult& result) {
  const std::span<const OutputRow> outputs = step_.output_rows();
  const auto num_drawn = as_size(std::ranges::count_if(outputs, is_drawn));
  std::vector<DrawnRow> drawn;
  for (std::size_t first = 0; first < num_drawn; first += drawn.size()) {
    drawn.clear();
    const std::size_t end = std::min(num_drawn, first + as_size(sampler_->max_rows()));
    for (std::size_t i = first; i < end; ++i) {
      const OutputRow& row = outputs[i];
      drawn.push_back({.row = sample_row(batch, result, row),
                       .id = batch.sequences[as_size(row.sequence)].id,
                       .sequence = as_size(row.sequence),
                       .draft = row.draft});
    }
    PAGODA_RETURN_IF_ERROR(logits(static_cast<std::int64_t>(first), std::ssize(drawn)));
    PAGODA_RETURN_IF_ERROR(sampler_->draw(drawn));
  }
  std::vector<PromptRow> scored;
  for (std::size_t first = num_drawn; first < outputs.size(); first += scored.size()) {
    scored.clear();
    const std::size_t end = std::min(outputs.size(), first + as_size(sampler_->max_prompt_rows()));
    for (std::size_t i = first; i < end; ++i) {
      const OutputRow& row = outputs[i];
      scored.push_back(
          {.token = row.prompt_token,
           .num_top = batch.sequences[as_size(row.sequence)].prompt_logprobs,
           .result = &result.sequences[as_size(row.sequence)].prompt_logprobs[as_size(row.prompt_row)]});
    }
    PAGODA_RETURN_IF_ERROR(logits(static_cast<std::int64_t>(first), std::ssize(scored)));
    PAGODA_RETURN_IF_ERROR(sampler_->score(scored));
  }
  return ok_status();
}

}  // namespace pagoda::device_runner
