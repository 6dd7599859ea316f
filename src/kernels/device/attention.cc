// Attention: the heads of each row, attention over the paged cache, and layers that keep a state instead.
#include <algorithm>

#include "kernels/device/ops.h"
#include "kernels/kv_layout.h"

namespace pagoda::device_ops {
namespace {

using device::Element;
using device::GroupNorm;
using device::RowOp;

void normalize_heads(DeviceOps& ops, const AttentionInputArgs& args) {
  const HeadNorms& norms = args.norms;
  const std::int64_t size = args.head_size, queries = args.num_query_heads, keys = args.num_kv_heads;
  const auto run = [&](GroupNorm kind, std::int64_t first_head, std::int64_t groups, std::int64_t width,
                       const float* weight, bool own_weights) {
    const device::StridedRows x = strided(args.output.at(0, first_head * size));
    ops.keep(ops.layers().norm_groups({.kind = kind,
                                       .x = x,
                                       .out = x,
                                       .gate = {},
                                       .weight = weight,
                                       .size = i32(width),
                                       .weight_stride = own_weights ? i32(width) : 0,
                                       .eps = norms.eps},
                                      args.num_rows, groups));
  };
  switch (norms.kind) {
    case HeadNorms::Kind::none:
      return;
    case HeadNorms::Kind::rms_whole:
      run(GroupNorm::rms, 0, 1, queries * size, norms.query, false);
      if (keys > 0) run(GroupNorm::rms, queries, 1, keys * size, norms.key, false);
      return;
    case HeadNorms::Kind::layer:
      run(GroupNorm::layer, 0, queries, size, norms.query, true);
      run(GroupNorm::layer, queries, keys, size, norms.key, true);
      return;
    case HeadNorms::Kind::rms:
      run(GroupNorm::rms, 0, queries, size, norms.query, false);
      run(GroupNorm::rms, queries, keys, size, norms.key, false);
      if (norms.values) run(GroupNorm::rms, queries + keys, keys, size, nullptr, false);
      return;
  }
}

Element element_of(DType cache) {
  CHECK(cache == DType::f32 || cache == DType::bf16 || cache == DType::i8 || cache == DType::e4m3);
  return cache == DType::f32    ? Element::f32
         : cache == DType::bf16 ? Element::bf16
         : cache == DType::i8   ? Element::i8
                                : Element::fp8;
}

// The scales of the cache's elements.
struct CacheScales {
  float key = 1, value = 1;
};
CacheScales scales_of(const PagedAttentionArgs& args) {
  if (args.layout.dtype != DType::e4m3) return {};
  return {args.key_scale, args.layout.latent_size > 0 ? args.key_scale : args.value_scale};
}
float scale_of_scores(const PagedAttentionArgs& args) { return args.scale * scales_of(args).key; }

// Norms, clipping, rotation and scale by separate kernels, for heads of any kind.
void finish_plainly(DeviceOps& ops, const AttentionInputArgs& args) {
  const std::int64_t size = args.head_size, queries = args.num_query_heads * size,
                     width = queries + 2 * args.num_kv_heads * size;
  if (!args.norms.behind_rotation) normalize_heads(ops, args);
  if (args.clip > 0)
    row_op(ops, {args.num_rows, width}, {.op = RowOp::clip, .y = strided(args.output), .factor = args.clip});
  if (args.rotary_size > 0)
    rope(ops, args.output, args.num_rows, args.num_query_heads + args.num_kv_heads, args.head_size,
         args.rotary_size, args.turns, args.cos_sin);
  if (args.norms.behind_rotation) normalize_heads(ops, args);
  if (args.query_scale.beta == 0) return;
  row_op(ops, {args.num_rows, queries},
         {.op = RowOp::by_position,
          .y = strided(args.output),
          .positions = ops.there(args.positions),
          .beta = args.query_scale.beta,
          .offset = args.query_scale.offset,
          .period = args.query_scale.positions});
}

// Elements of a row with only queries, keys and values.
std::int64_t qkv_width(std::int32_t query_heads, std::int32_t kv_heads, std::int32_t head_size) {
  return std::int64_t{query_heads + 2 * kv_heads} * head_size;
}

// True if rope_and_write can do everything except for norms of all heads together. Its norm divides by the
// values before the rotation.
bool can_write_and_finish(const AttentionInputArgs& args) {
  const HeadNorms& norms = args.norms;
  if (!args.written_next || args.clip > 0 || norms.values) return false;
  switch (norms.kind) {
    case HeadNorms::Kind::none:
      return true;
    case HeadNorms::Kind::rms_whole:
      return !norms.behind_rotation;
    case HeadNorms::Kind::rms:
    case HeadNorms::Kind::layer:
      return norms.query != nullptr && norms.key != nullptr &&
             (!norms.behind_rotation || args.rotary_size == 0 || args.amplitude == 1);
  }
  return false;
}

// The norm of all query heads together, and of all key heads.
void normalize_whole(DeviceOps& ops, const AttentionInputArgs& args) {
  const std::int32_t queries = args.num_query_heads * args.head_size,
                     keys = args.num_kv_heads * args.head_size;
  const auto run = [&](float* x, const float* weight, std::int32_t width) {
    ops.keep(ops.launches().rms_norm({.x = x,
                                      .weight = weight,
                                      .out = x,
                                      .width = width,
                                      .eps = args.norms.eps,
                                      .stride = i32(args.output.stride)},
                                     args.num_rows));
  };
  run(floats(args.output), args.norms.query, queries);
  run(floats(args.output) + queries, args.norms.key, keys);
}

// A layer's location in the cache, as the kernels for full rows take it.
struct LayerCache {
  device::CacheArgs args;
  Element element = Element::f32;
  bool fits = false;  // its heads are not padded, and not parts of latent rows
};

LayerCache cache_of(const PagedAttentionArgs& args) {
  const KvAddress address(args.layout);
  LayerCache cache = {.args = {.cache = args.cache,
                               .block_elements = address.block_stride / address.element,
                               .layer_offset = address.key_piece(args.layer, 0) / address.element,
                               .block_size = args.layout.block_size,
                               .num_kv_heads = args.layout.num_kv_heads,
                               .head_size = args.layout.head_size,
                               .key_scale = scales_of(args).key,
                               .value_scale = scales_of(args).value},
                      .element = element_of(args.layout.dtype)};
  cache.fits = !address.latent && (address.element == 1 || args.layout.head_size % 2 == 0);
  return cache;
}

// The batch's rows as the kernels for full rows take them, with only queries, keys and values. Rows that also
// have gates, and queries of layers that read another layer's keys, are copied there. Null: out of memory;
// ops has the error.
float* whole_rows(DeviceOps& ops, const PagedAttentionArgs& args, std::int64_t num_rows) {
  const std::int64_t size = args.layout.head_size, queries = args.num_query_heads * size,
                     keys = args.layout.num_kv_heads * size;
  const std::int64_t width = qkv_width(args.num_query_heads, args.layout.num_kv_heads, args.layout.head_size);
  if (args.key) {
    CHECK(floats(args.key) == floats(args.query) + queries && floats(args.value) == floats(args.key) + keys);
    if (args.query.stride == width) return floats(args.query);
  }
  float* const scratch = ops.scratch(DeviceOps::Scratch::heads, num_rows * width);
  if (scratch == nullptr) return nullptr;
  const Buffer copy = Buffer::of(scratch, width);
  row_op(ops, {num_rows, args.key ? width : queries},
         {.op = RowOp::copy, .y = strided(copy), .a = strided(args.query)});
  return floats(copy);
}

// The arguments for finishing the heads, and for writing keys and values into their slots.
device::RopeAndWriteArgs rest_of_heads(DeviceOps& ops, const PagedAttentionArgs& args,
                                       const LayerCache& cache,
                                       const std::optional<AttentionInputArgs>& heads, float* qkv,
                                       const DeviceOps::AttentionRows& rows,
                                       const DeviceOps::Sequences& shown) {
  device::RopeAndWriteArgs write = {.cache = cache.args,
                                    .qkv = qkv,
                                    .positions = rows.positions,
                                    .tables = shown.tables,
                                    .block_tables = shown.block_tables,
                                    .num_query_heads = args.num_query_heads};
  if (heads) {
    const HeadNorms& norms = heads->norms;
    if (norms.kind == HeadNorms::Kind::rms || norms.kind == HeadNorms::Kind::layer) {
      const bool own = norms.kind == HeadNorms::Kind::layer;
      write.query_norm = norms.query;
      write.key_norm = norms.key;
      write.norm_eps = norms.eps;
      write.norm_stride = own ? args.layout.head_size : 0;
      write.centred = own ? 1 : 0;
      write.norm_behind = norms.behind_rotation ? 1 : 0;
    }
    if (heads->rotary_size > 0) {
      write.turns = ops.there(heads->turns);
      write.cos_sin = floats(heads->cos_sin);
      write.rotary_size = heads->rotary_size;
    }
    write.query_temperature = heads->query_scale.beta;
    write.temperature_offset = heads->query_scale.offset;
    write.temperature_positions = heads->query_scale.positions;
  }
  return write;
}

// Computes rows with few new tokens split by split, and all others in tiles, or one after the other. `write`:
// the work that the launch must do first, or nothing.
void attend(DeviceOps& ops, const PagedAttentionArgs& args, const LayerCache& cache, bool by_tiles,
            bool by_warpgroups, const float* qkv, const device::RopeAndWriteArgs& write,
            const DeviceOps::AttentionRows& rows, const DeviceOps::Sequences& shown) {
  using device::KernelLaunches;
  device::AttentionArgs attention = {.cache = cache.args,
                                     .qkv = qkv,
                                     .positions = rows.positions,
                                     .tables = shown.tables,
                                     .block_tables = shown.block_tables,
                                     .sinks = args.sinks,
                                     .slopes = args.slopes,
                                     .out = floats(args.output),
                                     .num_query_heads = args.num_query_heads,
                                     .splits = rows.splits,
                                     .all_splits = rows.all_splits,
                                     .window = args.sliding_window,
                                     .chunks = args.chunks ? 1 : 0,
                                     .scale = scale_of_scores(args),
                                     .softcap = args.softcap,
                                     .write = write};
  if (args.next != nullptr)
    attention.rounded = scratch_for_attended(ops, args.next->storage(), rows.num_rows);
  if (attention.rounded != nullptr) {
    attention.out = nullptr;
    attention.slab_rows = i32(rows.num_rows);
    ops.keep_attended(LinearInput::rows(args.output), rows.num_rows, args.next->k());
  }
  if (rows.num_split_rows > 0) {
    std::int64_t at_once = rows.num_split_rows;
    if (!by_tiles || !KernelLaunches::walks(attention, rows.num_split_rows)) {
      const std::int64_t one = KernelLaunches::partial_floats(attention, 1);
      const std::int64_t reserved = ops.scratch_floats(DeviceOps::Scratch::partial);
      const std::int64_t most = std::max(one, reserved > 0 ? reserved : kPartialFloats);
      attention.partial = ops.scratch(DeviceOps::Scratch::partial, std::min(most, at_once * one));
      attention.tickets = ops.tickets();
      if (attention.partial == nullptr || attention.tickets == nullptr) return;  // ops has the error
      at_once = std::min({at_once, most / one, DeviceOps::kTickets / cache.args.num_kv_heads});
    }
    for (std::int64_t first = 0; first < rows.num_split_rows; first += at_once) {
      attention.rows = rows.split_rows + first;
      const std::int64_t count = std::min(at_once, rows.num_split_rows - first);
      ops.keep(by_tiles ? ops.launches().attend_tile_decode(attention, count, cache.element)
                        : ops.launches().attend_splits(cache.element, attention, count));
    }
  }
  attention.rows = rows.whole_rows;
  attention.tiles = rows.tiles;
  ops.keep(by_warpgroups ? ops.launches().attend_bulk(attention, rows.num_tiles, cache.element)
           : by_tiles    ? ops.launches().attend_tiles(attention, rows.num_tiles, cache.element)
                         : ops.launches().attend_rows(cache.element, attention, rows.num_whole_rows));
}

// Computes one row and head at a time, for heads and rows of any form.
void attend_plainly(DeviceOps& ops, const PagedAttentionArgs& args,
                    const std::optional<AttentionInputArgs>& heads) {
  if (heads) finish_plainly(ops, *heads);
  const KvAddress address(args.layout);
  const device::KvPlaces kv = {.cache = args.cache + address.key_piece(args.layer, 0),
                               .block_bytes = address.block_stride,
                               .head_bytes = address.head_bytes,
                               .value_offset = address.value_offset,
                               .block_size = args.layout.block_size,
                               .head_size = args.layout.head_size,
                               .key_scale = scales_of(args).key,
                               .value_scale = scales_of(args).value};
  const DeviceOps::Sequences shown = ops.show(args.sequences);
  if (args.key)
    ops.keep(ops.layers().write_kv(element_of(args.layout.dtype),
                                   {.kv = kv,
                                    .key = strided(args.key),
                                    .value = strided(args.value),
                                    .sequences = shown.sequences,
                                    .row_sequences = shown.of_rows},
                                   shown.num_rows, args.layout.num_kv_heads));
  ops.keep(ops.layers().attend(element_of(args.layout.dtype),
                               {.kv = kv,
                                .query = strided(args.query),
                                .out = strided(args.output),
                                .sequences = shown.sequences,
                                .row_sequences = shown.of_rows,
                                .sinks = args.sinks,
                                .slopes = args.slopes,
                                .num_query_heads = args.num_query_heads,
                                .num_kv_heads = args.layout.num_kv_heads,
                                .value_size = args.layout.value_size(),
                                .window = args.sliding_window,
                                .chunks = args.chunks ? 1 : 0,
                                .both_ways = args.causal ? 0 : 1,
                                .scale = scale_of_scores(args),
                                .softcap = args.softcap},
                               shown.num_rows));
}

}  // namespace

bool takes_bulk_attention(const DeviceOps::Options& options) {
  return options.attention == AttentionKernels::warpgroups ||
         (options.attention == AttentionKernels::automatic &&
          device::KernelLaunches::prefers_bulk_attention());
}

bool attends_by_tiles(const DeviceOps::Options& options, DType cache, std::int32_t query_heads,
                      std::int32_t kv_heads, std::int32_t head_size) {
  return options.attention != AttentionKernels::plain &&
         (cache == DType::bf16 || ((cache == DType::i8 || cache == DType::e4m3) && head_size % 16 == 0)) &&
         device::KernelLaunches::supports_tiles(query_heads, kv_heads, head_size);
}

void finish_attention_input(DeviceOps& ops, const AttentionInputArgs& args) {
  if (!can_write_and_finish(args)) return finish_plainly(ops, args);
  AttentionInputArgs rest = args;
  if (args.norms.kind == HeadNorms::Kind::rms_whole) {
    normalize_whole(ops, args);
    rest.norms.kind = HeadNorms::Kind::none;
  }
  ops.finish_later(rest);
}

// Latent rows, padded heads and bidirectional attention use the plain kernels, all others the fast ones. The
// choice depends only on the model, so that no bit depends on the batch.
void paged_attention(DeviceOps& ops, const PagedAttentionArgs& args) {
  CHECK(!args.sequences.empty());
  const std::optional<AttentionInputArgs> heads = ops.take_unfinished();
  CHECK(!heads || floats(heads->output) == floats(args.query));
  const LayerCache cache = cache_of(args);
  const std::int32_t size = args.layout.head_size, kv_heads = args.layout.num_kv_heads;
  if (!args.causal || !cache.fits ||
      !device::KernelLaunches::supports_heads(args.num_query_heads, kv_heads, size))
    return attend_plainly(ops, args, heads);
  // Tiles copy 16 bytes at once.
  const bool by_tiles =
      attends_by_tiles(ops.options(), args.layout.dtype, args.num_query_heads, kv_heads, size) &&
      device::KernelLaunches::supports_tiles_over(cache.element, cache.args);
  const bool by_warpgroups =
      by_tiles && takes_bulk_attention(ops.options()) && ops.launches().supports_bulk_attention(cache.args);
  const DeviceOps::AttentionRows rows =
      ops.show_rows(args.sequences,
                    by_warpgroups ? device::KernelLaunches::bulk_rows_of_tile(args.num_query_heads, kv_heads)
                    : by_tiles    ? device::KernelLaunches::rows_of_tile(args.num_query_heads, kv_heads, size)
                                  : 0);
  const DeviceOps::Sequences shown = ops.show(args.sequences);
  float* const qkv = whole_rows(ops, args, rows.num_rows);
  if (qkv == nullptr) return;
  device::RopeAndWriteArgs write = {};
  if (args.key) write = rest_of_heads(ops, args, cache, heads, qkv, rows, shown);
  // Decode by tiles writes them itself, in the same launch.
  const bool in_attention =
      by_tiles && rows.one_each && device::KernelLaunches::finishes_own_heads(cache.element, size);
  if (args.key && !in_attention) {
    ops.keep(ops.launches().rope_and_write(cache.element, write, rows.num_rows));
    write = {};
  }
  attend(ops, args, cache, by_tiles, by_warpgroups, qkv, write, rows, shown);
}

void causal_conv(DeviceOps& ops, const CausalConvArgs& args) {
  static_assert(device::kMostTaps == kMaxConvTaps);
  const DeviceOps::States states = ops.show(args.states, args.piece);
  ops.keep(ops.layers().causal_conv({.states = states.args,
                                     .weight = args.weight,
                                     .bias = args.bias,
                                     .input = strided(args.input),
                                     .gate = strided(args.gate),
                                     .output_gate = strided(args.output_gate),
                                     .output = strided(args.output),
                                     .num_channels = i32(args.num_channels),
                                     .num_taps = args.num_taps,
                                     .silu = args.silu ? 1 : 0},
                                    states.num_sequences));
}

void linear_attention(DeviceOps& ops, const LinearAttentionArgs& args) {
  static_assert(device::kStateTile == kStateColumns);
  const DeviceOps::States states = ops.show(args.states, args.piece);
  ops.keep(ops.layers().linear_attention({.states = states.args,
                                          .query = strided(args.query),
                                          .key = strided(args.key),
                                          .value = strided(args.value),
                                          .decay = strided(args.decay),
                                          .weight = strided(args.weight),
                                          .output = strided(args.output),
                                          .skip = args.skip,
                                          .num_heads = args.num_heads,
                                          .num_key_heads = args.num_key_heads,
                                          .tiled_heads = args.tiled_heads ? 1 : 0,
                                          .key_size = args.key_size,
                                          .value_size = args.value_size,
                                          .delta_rule = args.delta_rule ? 1 : 0},
                                         states.num_sequences));
}

void selective_scan(DeviceOps& ops, const SelectiveScanArgs& args) {
  static_assert(device::kScanTile == kScanTile && device::kScanChannels == kScanChannels);
  const DeviceOps::States states = ops.show(args.states, args.piece);
  ops.keep(ops.layers().selective_scan({.states = states.args,
                                        .step = strided(args.step),
                                        .value = strided(args.value),
                                        .key = strided(args.key),
                                        .query = strided(args.query),
                                        .output = strided(args.output),
                                        .rate = args.rate,
                                        .skip = args.skip,
                                        .num_channels = i32(args.num_channels),
                                        .state_size = args.state_size},
                                       states.num_sequences));
}

}  // namespace pagoda::device_ops
