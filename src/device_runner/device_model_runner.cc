#include "device_runner/device_model_runner.h"

#include <algorithm>
#include <ranges>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "device/attention_check.h"
#include "device/bulk_check.h"
#include "device/float8_check.h"
#include "kernels/device/ops.h"
#include "model_runner/kv_layout_choice.h"
#include "models/read_config.h"

namespace pagoda::device_runner {
namespace {

using device::Element;

Result<Element> element_named(std::string_view flag, std::string_view name, Element automatic) {
  if (name == "auto") return automatic;
  if (name == "float32") return Element::f32;
  if (name == "bfloat16") return Element::bf16;
  if (flag == "kv-cache-dtype") {
    if (name == "int8") return Element::i8;
    if (name == "fp8" || name == "fp8_e4m3") return Element::fp8;
  }
  return unimplemented(concat("--", flag, " ", name, ": the device runner has auto, float32 and bfloat16",
                              flag == "dtype" ? "" : ", int8, fp8"));
}

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

const char* name_of(Element element) {
  return element == Element::f32    ? "float32"
         : element == Element::bf16 ? "bfloat16"
         : element == Element::i8   ? "int8"
                                    : "fp8";
}

// The heads of a layer that keep a matrix each, or null.
const LinearAttentionConfig* linear_of(const LayerConfig& layer) {
  if (const auto* both = std::get_if<ParallelMixersConfig>(&layer.mixer)) return &both->linear;
  return std::get_if<LinearAttentionConfig>(&layer.mixer);
}

// Checks the limits of the kernels.
Status check_support(const DecoderConfig& config, std::int32_t num_ranks) {
  const auto refused = [](std::string_view what) {
    return unimplemented(concat("this model has ", what, ", which the device runner does not compute"));
  };
  for (const LayerState& state : layer_states(config))
    if ((state.latent_size > 0 ? state.latent_size : state.head_size) > device::kMostValueSize)
      return refused("heads of such sizes");
  for (const LayerConfig& layer : config.layers) {
    const LinearAttentionConfig* const linear = linear_of(layer);
    if (linear != nullptr && !device::LayerLaunches::supports_states(linear->key_size))
      return refused("states of this size");
    const auto* const scan = std::get_if<SelectiveScanConfig>(&layer.mixer);
    if (scan != nullptr && !device::LayerLaunches::supports_scan(scan->state_size))
      return refused("states of this size");
    if (num_ranks > 1 && std::holds_alternative<SparseFeedForwardConfig>(layer.feed_forward))
      return unimplemented(
          "this model has feed-forwards of which a row keeps some features: several devices do not compute "
          "those");
    if (layer.mixture() != nullptr &&
        !device::KernelLaunches::supports_experts(layer.mixture()->routing.num_experts))
      return refused("this many experts");
  }
  return ok_status();
}

// Plain products have a tile of rows, or of a mixture's pairs, for each block in their grid's second
// dimension; prompts' attention by warpgroups has a tile of at least 8 rows, so a sequence of 9 rows has two.
Status check_grids(const DecoderConfig& config, const device::Device& device, std::int32_t max_tokens) {
  constexpr std::int32_t kMostBlocks = 65535;
  std::int64_t blocks = (std::int64_t{max_tokens} + device::kPairsOfTile - 1) / device::kPairsOfTile;
  if (device.has_warpgroups()) blocks = std::max(blocks, (std::int64_t{max_tokens} * 2 + 8) / 9);
  for (const LayerConfig& layer : config.layers)
    if (const MixtureConfig* const mixture = layer.mixture())
      blocks = std::max(blocks, std::int64_t{max_tokens} * mixture->routing.per_token / device::kPairsOfTile +
                                    mixture->routing.num_experts);
  if (blocks <= kMostBlocks) return ok_status();
  return invalid_argument(concat("--max-num-batched-tokens ", max_tokens,
                                 ": a step of so many rows would have more blocks than a device takes"));
}

std::set<std::int32_t> sizes_of_heads(const DecoderConfig& config) {
  std::set<std::int32_t> sizes;
  for (const LayerConfig& layer : config.layers)
    if (const AttentionConfig* const attention = layer.attention()) sizes.insert(attention->head_size);
  return sizes;
}

Status check_w8a8(const ModelSource& source, const device::Device& device, Element weights) {
  if (weights != Element::bf16) return unimplemented("--device-products w8a8 needs --dtype bfloat16");
  if (!device.has_warpgroups())
    return unimplemented(
        concat("--device-products w8a8 needs compute capability 9.0; this is ", device.describe()));
  const bool any = std::ranges::any_of(source.tensor_names(), [&](const std::string& name) {
    return source.inputs_of(*source.find(name)).number == InputNumber::e4m3;
  });
  if (!any)
    return invalid_argument(
        "--device-products w8a8 is for folders whose scheme quantises activations to 8-bit floats (FP8)");
  return ok_status();
}

// The products for --device-kernels fastest: the library's, if there is one. Logs which library is used.
Result<MatrixProducts> take_fastest(device::Device& device, Element weights) {
  if (weights != Element::bf16) return unimplemented("--device-kernels fastest needs --dtype bfloat16");
  const Status opened = device.open_products();
  if (!opened.ok() && opened.code() != StatusCode::unavailable) return opened;
  log_info("device",
           opened.ok()
               ? concat("--device-kernels fastest: bfloat16 matrices by cuBLASLt from ", kLibraryRows,
                        " rows on, all else by this program's kernels, FlashInfer's attention is not in; a "
                        "token's bits depend on its batch")
               : concat("--device-kernels fastest: ", opened.message(),
                        ", and FlashInfer's attention is not in: all kernels are this program's"));
  return opened.ok() ? MatrixProducts::fastest : MatrixProducts::automatic;
}

bool all_attend_by_tiles(const DecoderConfig& config, DType cache, const DeviceOps::Options& options) {
  return std::ranges::all_of(config.layers, [&](const LayerConfig& layer) {
    const AttentionConfig* const attention = layer.attention();
    return attention != nullptr &&
           device_ops::attends_by_tiles(options, cache, attention->num_heads, attention->num_kv_heads,
                                        attention->head_size);
  });
}

}  // namespace

Result<std::unique_ptr<DeviceModelRunner>> DeviceModelRunner::create(
    std::shared_ptr<const ModelSource> source, const RunnerOptions& options,
    std::unique_ptr<device::Device> device, const DeviceKernels& kernels) {
  if (options.max_num_batched_tokens < 1)
    return invalid_argument("max-num-batched-tokens must be at least 1");
  if (options.max_num_seqs < 1) return invalid_argument("max-num-seqs must be at least 1");
  if (options.adapters != nullptr && options.parallel.size() > 1)
    return unimplemented("adapters that requests choose are not supported on several devices");
  if (options.adapters != nullptr && kernels.products == MatrixProducts::w8a8)
    return unimplemented("adapters that requests choose are not supported with --device-products w8a8");
  const auto model = model_of(*source, options);
  if (!model) return model.error();
  PAGODA_RETURN_IF_ERROR(check_encoder((*model)->decoder, options));
  const auto weights = element_named("dtype", options.dtype, Element::bf16);
  if (!weights) return weights.error();
  const auto cache = element_named("kv-cache-dtype", options.kv_cache_dtype, *weights);
  if (!cache) return cache.error();

  if (kernels.products == MatrixProducts::tiles && *weights != Element::bf16)
    return unimplemented("--device-products tiles needs --dtype bfloat16");
  if (kernels.products == MatrixProducts::library) {
    if (*weights != Element::bf16) return unimplemented("--device-products cublaslt needs --dtype bfloat16");
    PAGODA_RETURN_IF_ERROR(device->open_products().annotate("--device-products cublaslt"));
  }

  MatrixProducts products = kernels.products;
  if (products == MatrixProducts::fastest) {
    auto taken = take_fastest(*device, *weights);
    if (!taken) return taken.error();
    products = *taken;
  }
  if (options.parallel.size() > 1 && kernels.rank_parts == RankParts::library)
    PAGODA_RETURN_IF_ERROR(device->open_collectives().annotate("--disable-custom-all-reduce"));
  if (kernels.products == MatrixProducts::w8a8)
    PAGODA_RETURN_IF_ERROR(check_w8a8(*source, *device, *weights));

  std::unique_ptr<DeviceModelRunner> runner(new DeviceModelRunner(std::move(device)));
  device::Device& there = *runner->device_;
  runner->options_ = options;
  runner->measures_idle_ = kernels.measure_idle;
  for (device::StreamId* stream : {&runner->stream_, &runner->swap_stream_}) {
    auto made = there.create_stream();
    if (!made) return made.error();
    *stream = *made;
  }
  for (device::EventId* event : {&runner->swapped_, &runner->done_[0], &runner->done_[1]}) {
    auto made = there.create_event();
    if (!made) return made.error();
    *event = *made;
  }
  runner->arena_.emplace(there, runner->stream_);
  PAGODA_RETURN_IF_ERROR(
      check_support((*model)->decoder, options.parallel.size()).annotate((*model)->architecture));
  PAGODA_RETURN_IF_ERROR(check_grids((*model)->decoder, there, options.max_num_batched_tokens));
  runner->options_.model = *model;
  runner->ops_options_ = {.weights = *weights, .products = products, .attention = kernels.attention};
  PAGODA_RETURN_IF_ERROR(runner->ask_for_bits(*cache));
  auto layout = plan_kv_layout(*source, **model, name_of(*weights), name_of(*cache), options.block_size);
  if (!layout) return layout.error();
  const bool warpgroups = kernels.attention == AttentionKernels::warpgroups;
  if ((warpgroups || kernels.attention == AttentionKernels::tiles) &&
      !all_attend_by_tiles((*model)->decoder, layout->dtype, runner->ops_options_))
    return unimplemented(
        concat("--device-attention ", warpgroups ? "warpgroups" : "tiles",
               " needs keys and values in bfloat16, int8 or fp8, and heads of a multiple of ",
               dtype_info(layout->dtype).block_bytes == 1 ? "16" : "8", " up to 256"));
  runner->identity_ = source->identity();
  if (options.adapters != nullptr) runner->adapters_.emplace(there, runner->stream_);
  PAGODA_RETURN_IF_ERROR(runner->load_model(*source));
  if (options.adapters != nullptr) options.adapters->set_targets(runner->model_->weights().adapter_targets);
  if (options.parallel.size() > 1) PAGODA_RETURN_IF_ERROR(runner->create_carrier(kernels.rank_parts));
  runner->plan_kv(*layout);
  PAGODA_RETURN_IF_ERROR(runner->make_step_layout());

  // The bits of the library's products depend on the number of rows: steps that use them are not replayed.
  std::int32_t replayed_rows = std::min(options.max_num_seqs, options.max_num_batched_tokens);
  if (products == MatrixProducts::fastest) replayed_rows = std::min(replayed_rows, kLibraryRows - 1);
  runner->graphs_.emplace(there, runner->stream_,
                          products == MatrixProducts::library ? GraphUse::off : kernels.graphs,
                          StepGraphs::Limits{.rows = replayed_rows, .context = runner->max_context()});
  PAGODA_RETURN_IF_ERROR(runner->pools() ? runner->prepare_pooling(*source) : runner->prepare_sampling());
  PAGODA_RETURN_IF_ERROR(runner->arena_->reserve(runner->step_bytes()));
  if (options.num_blocks > 0 && !runner->keeps_nothing())
    PAGODA_RETURN_IF_ERROR(runner->allocate_kv_cache(options.num_blocks, options.num_swap_blocks));
  return runner;
}

// Leaves to warps what the device's warpgroups compute with other bits, and logs it; returns an error if the
// user requested it.
Status DeviceModelRunner::ask_for_bits(Element cache) {
  const auto differs = [this](std::string_view what) {
    return concat(device_->describe(), ": ", what, " by warpgroups has other bits than by warps");
  };
  const auto leave_out = [&](std::string_view what) {
    log_warning("device", concat(differs(what), ", and is left to these"));
  };
  if (device_ops::takes_bulk_attention(ops_options_))
    for (const std::int32_t size : sizes_of_heads(options_.model->decoder)) {
      const auto same = device::check_bulk_attention(*device_, stream_, size,
                                                     cache == Element::f32 ? Element::bf16 : cache);
      if (!same) return same.error();
      if (*same) continue;
      if (ops_options_.attention == AttentionKernels::warpgroups)
        return unavailable(concat(differs("attention of prompts"), ": use --device-attention tiles"));
      leave_out("attention of prompts");
      ops_options_.attention = AttentionKernels::tiles;
      break;
    }
  if (!ops_options_.rounds() || ops_options_.products == MatrixProducts::library) return ok_status();
  if (ops_options_.products == MatrixProducts::w8a8) {
    const auto right = device::check_float8_products(*device_, stream_);
    if (!right) return right.error();
    if (!*right)
      return unavailable(concat(device_->describe(),
                                ": products of 8-bit floats by warpgroups have bits that "
                                "depend on their form: leave out --device-products w8a8"));
  }
  const auto asked = device::KernelLaunches::forms_up_to(options_.max_num_batched_tokens);
  const auto shown = device::check_bulk_products(*device_, stream_, asked);
  if (!shown) return shown.error();
  if (asked.bulk && !shown->bulk) leave_out("a product of many rows (bulk_rows)");
  if (asked.narrow && !shown->narrow) leave_out("a product of some rows (narrow_rows)");
  if (asked.gated && !shown->gated) leave_out("a gated product (bulk_gated)");
  ops_options_.forms = *shown;
  return ok_status();
}

std::int32_t DeviceModelRunner::max_context() const {
  const std::int32_t positions = config().max_positions;
  return options_.max_context > 0 ? std::min(options_.max_context, positions) : positions;
}

DeviceModelRunner::~DeviceModelRunner() {
  // Memory must not be freed while in use: nothing runs between steps, but a failed step may have left work.
  for (const device::StreamId stream : {stream_, swap_stream_}) (void)device_->synchronize(stream).ok();
  settle();
  if (!graphs_) return;
  (void)graphs_->clear().ok();
  if (const StepGraphs::Stats& all = graph_stats(); all.captured > 0)
    log_info("device", concat(all.captured, " graphs captured, ", all.replayed, " decode steps replayed"));
}

Status DeviceModelRunner::allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  settle();
  PAGODA_RETURN_IF_ERROR(graphs_->clear());
  cache_ = {};
  mapper_.reset();
  swap_space_ = {};
  num_blocks_ = num_table_ids_ = num_blocks;
  num_swap_blocks_ = num_swap_blocks;
  layout_.block_stride = layout_.layer_stride = 0;
  block_bytes_ = kv_page_bytes();
  PAGODA_RETURN_IF_ERROR(create_cache());
  auto swap_space = device::PinnedArray<std::byte>::create(*device_, num_swap_blocks * block_bytes_);
  if (!swap_space) return swap_space.error();
  swap_space_ = *std::move(swap_space);
  return ok_status();
}

Status DeviceModelRunner::create_cache() {
  auto cache = device::DeviceArray<std::byte>::create(*device_, num_blocks_ * block_bytes_, "KV cache");
  if (!cache) return cache.error();
  cache_ = *std::move(cache);
  blocks_ = blocks_of_tables_ = cache_.data();
  return ok_status();
}

Status DeviceModelRunner::allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape,
                                              std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  settle();
  auto plan = in_blocks_of(kv_plan_, layout);
  if (!plan) return plan.error();
  PAGODA_RETURN_IF_ERROR(graphs_->clear());
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
  blocks_of_tables_ = pages->data();
  const std::int32_t num_layers = layout_.num_layers;
  layout_ = layout;
  layout_.num_layers = num_layers;
  layout_.block_stride = shape.page_bytes;
  layout_.layer_stride = shape.num_tensors > 1 ? pages->tensor_stride() : 0;
  auto swap_space = device::PinnedArray<std::byte>::create(*device_, num_swap_blocks * block_bytes_);
  if (!swap_space) return swap_space.error();
  mapper_ = std::make_unique<PageMapperOf<DevicePages>>(*std::move(pages));
  swap_space_ = *std::move(swap_space);
  num_blocks_ = num_blocks;
  num_swap_blocks_ = num_swap_blocks;
  kv_plan_ = *std::move(plan);
  layer_pages_ = layers_in_pages(kv_plan_, layer_layouts_, layout_);
  return make_step_layout();
}

Status DeviceModelRunner::create_kv_pages(std::int64_t first, std::int64_t count) {
  settle();
  if (!mapper_ || first < 0 || count < 0 || first > num_blocks_ - count)
    return internal_error("pages to create are out of range");
  return mapper_->create_pages(first, count);
}

std::int64_t DeviceModelRunner::embedding_bytes() const {
  const TensorView& table = model_->weights().token_embedding;
  return table.data != nullptr && ops_ ? ops_->table_bytes(table) : 0;
}

MemoryPlan DeviceModelRunner::memory_plan() const {
  const std::int64_t weights = model_->weights().packed_bytes;
  return {.weight_bytes = weights,
          .kv_bytes = mapper_ ? mapper_->arena().bytes() : cache_.size_bytes(),
          .swap_bytes = swap_space_.count(),
          .activation_bytes = released_ ? 0 : ops_->size_bytes() - weights - embedding_bytes(),
          .buffer_bytes = arena_->size_bytes() + (carrier_ ? carrier_->size_bytes() : 0) +
                          (pooler_    ? pooler_->bytes() + hidden_.size_bytes()
                           : sampler_ ? sampler_->size_bytes()
                                      : 0),
          .graph_bytes = pools() ? 0 : graphs_->planned_bytes(config().num_layers())};
}

// Maximum bytes that a step copies to the device, except for the histories of several sequences that need
// penalties for the first time.
std::size_t DeviceModelRunner::step_bytes() const {
  const std::int64_t tokens = options_.max_num_batched_tokens;
  const std::int64_t context = max_context(), word = sizeof(std::int32_t);
  const auto mask = static_cast<std::int64_t>(mask_words(config().vocab_size)) * word;
  const std::int64_t drawn = pools() ? 0 : drawn_rows_at_once();
  const std::int64_t rows = (8 * step_.num_lanes() + 16) * tokens * word;
  return as_size(step_.size_bytes() + rows + drawn * (mask + 512) + context * word);
}

Status DeviceModelRunner::make_step_layout() {
  // Other ranks have no masks, and all of them need the same rows.
  const OutputRowRules output = {.knows_tokens = samples(), .settles = options_.parallel.size() == 1};
  auto step = StepLayout::create(kv_plan_, {.max_tokens = options_.max_num_batched_tokens,
                                            .max_seqs = options_.max_num_seqs,
                                            .max_context = max_context(),
                                            .max_positions = config().max_positions,
                                            .vocab_size = config().vocab_size,
                                            .block_size = options_.block_size,
                                            .pools = pools(),
                                            .draws = samples(),
                                            .fills_in = true,
                                            .output = output,
                                            .tables = StepRules::Tables::by_row});
  if (!step) return step.error();
  step_ = *std::move(step);
  return ok_status();
}

// Pages that do not exist yet do not count.
StepIds DeviceModelRunner::ids() const {
  return {.num_blocks = num_blocks_,
          .num_table_ids = num_table_ids_,
          .num_swap_blocks = num_swap_blocks_,
          .num_mapped_pages = mapper_ ? mapper_->arena().num_created() : 0,
          .adapters = options_.adapters.get()};
}

}  // namespace pagoda::device_runner
