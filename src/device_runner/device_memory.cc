// DeviceModelRunner's memory: allocated for a model, released while the engine sleeps, and filled with the
// weights again.
#include <algorithm>

#include "base/strings.h"
#include "device_runner/device_model_runner.h"
#include "device_runner/rank_library.h"
#include "device_runner/rank_windows.h"
#include "kernels/device/ops.h"

namespace pagoda::device_runner {

Status DeviceModelRunner::load_model(const ModelSource& source) {
  ops_ = std::make_unique<DeviceOps>(*device_, stream_, *arena_, ops_options_);
  if (adapters_) ops_->use_adapters(&*adapters_);
  arena_->begin();
  // The pool is only for loading: steps on the device do not need it.
  ThreadPool pool(std::max(1, options_.threads));
  ops_->begin_placing(&pool);
  const KernelContext context = {.backend = Backend::device, .device = ops_.get()};
  auto decoder = DecoderModel::load(
      context, source, *options_.model, ops_options_.weights == device::Element::f32 ? "float32" : "bfloat16",
      options_.max_num_batched_tokens, options_.parallel, nullptr, /*with_head=*/!pools());
  const Status placed = ops_->finish_placing();  // also ends the pool's use after a failed load
  if (!decoder) return decoder.error();
  PAGODA_RETURN_IF_ERROR(placed);
  model_ = *std::move(decoder);
  PAGODA_RETURN_IF_ERROR(ops_->take_status());
  PAGODA_RETURN_IF_ERROR(reserve_scratch());
  if (carrier_) ops_->join_ranks(carrier_->ranks());
  return device_->synchronize(stream_);
}

Status DeviceModelRunner::create_carrier(RankParts by) {
  std::int64_t widest = std::max(config().vocab_size, config().hidden_size);
  for (const DecoderLayer& layer : model_->weights().layers) {
    for (PackedLinear* last : layer.mixer->output_products()) widest = std::max(widest, last->k());
    for (PackedLinear* last : layer.feed_forward->output_products()) widest = std::max(widest, last->k());
  }
  for (const LayerConfig& layer : config().layers)
    if (const MixtureConfig* const mixture = layer.mixture())
      widest = std::max<std::int64_t>(widest, mixture->expert.intermediate_size);
  const auto take = [this](auto made) -> Status {
    if (!made) return made.error();
    carrier_ = *std::move(made);
    return ok_status();
  };
  return by == RankParts::library ? take(RankLibrary::create(*device_, stream_, options_.parallel, widest))
                                  : take(RankWindows::create(*device_, stream_, options_.parallel, widest));
}

Status DeviceModelRunner::connect() {
  if (!carrier_) return ok_status();
  PAGODA_RETURN_IF_ERROR(carrier_->connect());
  ops_->join_ranks(carrier_->ranks());
  return ok_status();
}

Status DeviceModelRunner::release_memory(KvContent content) {
  settle();
  if (!options_.reopen) return unimplemented("This model runner keeps its memory.");
  PAGODA_RETURN_IF_ERROR(device_->synchronize(stream_));
  PAGODA_RETURN_IF_ERROR(graphs_->clear());
  if (content == KvContent::drop) cache_ = {};
  if (released_) return ok_status();
  model_->release();
  ops_.reset();
  if (adapters_) adapters_->clear();  // the next steps copy theirs again
  released_ = true;
  return ok_status();
}

// As on the CPU (model_runner/release_memory.cc): only the same weights are consistent with earlier answers.
Status DeviceModelRunner::load_weights() {
  settle();
  if (released_) {
    auto source = options_.reopen();
    if (!source) return source.error();
    if ((*source)->identity() != identity_)
      return unavailable(
          concat((*source)->path(), " has changed since it was loaded: the server must be restarted."));
    PAGODA_RETURN_IF_ERROR(load_model(**source));
    released_ = false;
  }
  if (mapper_ || num_blocks_ == 0 || cache_.data() != nullptr) return ok_status();
  return create_cache();
}

void DeviceModelRunner::plan_kv(const KvLayout& layout) {
  const TensorShard& shard = model_->shard();
  const std::vector<LayerState> layers = layer_states(config(), shard);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    KvLayout& of_layer = layer_layouts_.emplace_back(layout);
    of_layer.num_kv_heads = static_cast<std::int32_t>(shard.layers[i].heads.kv.count);
    of_layer.head_size = layers[i].head_size;
    of_layer.latent_size = layers[i].latent_size;
    of_layer.num_layers = 1;
  }
  kv_plan_ = plan_kv_groups(layers, options_.block_size, options_.max_context, options_.kv_windows,
                            options_.block_size * dtype_info(layout.dtype).block_bytes, shard.size);
  layout_ = page_layout(kv_plan_, layer_layouts_);
  layout_.num_layers = kv_plan_.uniform ? kv_plan_.page_layers : 1;
  layer_pages_ = layers_in_pages(kv_plan_, layer_layouts_, layout_);
}

// Reserves scratch for the largest possible step.
Status DeviceModelRunner::reserve_scratch() {
  const std::int64_t splits = (max_context() + device::kSplitTokens - 1) / device::kSplitTokens;
  DeviceOps::Widths widths = {.rows = config().hidden_size};
  std::int64_t partial = 0;
  for (const DecoderLayer& layer : model_->weights().layers)
    widths.rows = std::max(widths.rows, layer.mixer->mixed_width());
  for (const LayerConfig& layer : config().layers) {
    const AttentionConfig* const attention = layer.attention();
    if (attention == nullptr) continue;
    widths.attended = std::max(widths.attended, std::int64_t{attention->num_heads} * attention->head_size);
    partial = std::max(
        partial, std::int64_t{attention->num_heads} * splits * device::partial_line(attention->head_size));
    if (attention->output_gate != OutputGate::none || !attention->has_own_kv())
      widths.heads = std::max(widths.heads, std::int64_t{attention->num_heads + 2 * attention->num_kv_heads} *
                                                attention->head_size);
  }
  return ops_->reserve(
      options_.max_num_batched_tokens, widths,
      std::max(partial, std::min(device_ops::kPartialFloats, partial * options_.max_num_seqs)));
}

WrittenMemory DeviceModelRunner::written() const {
  WrittenMemory memory(*device_, stream_);
  for (const std::span<std::byte> part : ops_->written())
    memory.add("activations", part.data(), std::ssize(part));
  if (sampler_)
    memory.add("logits", reinterpret_cast<std::byte*>(sampler_->logits()),
               sampler_->max_rows() * config().vocab_size * static_cast<std::int64_t>(sizeof(float)));
  memory.add("KV cache", blocks_, (mapper_ ? mapper_->arena().num_created() : num_blocks_) * block_bytes_);
  return memory;
}

std::int64_t DeviceModelRunner::drawn_rows_at_once() const {
  const std::int64_t drawn = std::int64_t{options_.max_num_seqs} * (1 + options_.max_draft_tokens);
  return std::min<std::int64_t>(options_.max_num_batched_tokens, drawn);
}

Status DeviceModelRunner::prepare_sampling() {
  if (!samples()) return ok_status();
  auto sampler = DeviceSampler::create(*device_, stream_, *arena_,
                                       {.vocab_size = config().vocab_size,
                                        .max_num_seqs = options_.max_num_seqs,
                                        .max_rows = static_cast<std::int32_t>(drawn_rows_at_once())});
  if (!sampler) return sampler.error();
  sampler_ = *std::move(sampler);
  if (!measures_idle_) return ok_status();
  auto clock = StepClock::create(*device_, stream_);
  if (!clock) return clock.error();
  clock_ = *std::move(clock);
  sampler_->set_clock(clock_.get());
  return ok_status();
}

// Hidden states are pooled by the host, some rows at a time.
Status DeviceModelRunner::prepare_pooling(const ModelSource& source) {
  if (keeps_nothing()) PAGODA_RETURN_IF_ERROR(allocate_kv_cache(blocks_of_a_step(options_)));
  if (!samples()) return ok_status();
  auto pooler = VectorPooler::create(host_, source, *options_.pooling, *model_);
  if (!pooler) return pooler.error();
  const std::int64_t floats = VectorPooler::kRowsAtOnce * config().hidden_size;
  auto there = device::DeviceArray<float>::create(*device_, floats, "hidden states");
  if (!there) return there.error();
  auto here = device::PinnedArray<float>::create(*device_, floats);
  if (!here) return here.error();
  pooler_ = *std::move(pooler);
  hidden_ = *std::move(there);
  hidden_here_ = *std::move(here);
  return ok_status();
}

Status DeviceModelRunner::pool(const ScheduledBatch& batch, StepResult& result) {
  const auto hidden = [&](std::int64_t first, std::int64_t count, float* out) -> Status {
    const std::int64_t floats = count * config().hidden_size;
    model_->hidden(first, count, Buffer::of(hidden_.data(), config().hidden_size));
    PAGODA_RETURN_IF_ERROR(ops_->take_status());
    PAGODA_RETURN_IF_ERROR(device_->copy_out(stream_, hidden_here_.bytes(), hidden_.bytes(),
                                             static_cast<std::size_t>(floats) * sizeof(float)));
    PAGODA_RETURN_IF_ERROR(device_->synchronize(stream_));
    std::copy_n(hidden_here_.data(), floats, out);
    return ok_status();
  };
  return pooler_->run(batch, hidden, result.vectors);
}

}  // namespace pagoda::device_runner
