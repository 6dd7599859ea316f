// Attention: the heads of each row, attention over the paged cache, and layers that keep a state instead.
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
  CHECK(cache == DType::f32 || cache == DType::bf16 || cache == DType::i8);
  return cache == DType::f32 ? Element::f32 : cache == DType::bf16 ? Element::bf16 : Element::i8;
}

}  // namespace

void finish_attention_input(DeviceOps& ops, const AttentionInputArgs& args) {
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

void paged_attention(DeviceOps& ops, const PagedAttentionArgs& args) {
  CHECK(args.causal);
  const KvAddress address(args.layout);
  const DeviceOps::Sequences shown = ops.show(args.sequences);
  const device::KvPlaces kv = {.cache = args.cache + address.key_piece(args.layer, 0),
                               .block_bytes = address.block_stride,
                               .head_bytes = address.head_bytes,
                               .value_offset = address.value_offset,
                               .block_size = args.layout.block_size,
                               .head_size = args.layout.head_size};
  const Element element = element_of(args.layout.dtype);
  if (args.key)
    ops.keep(ops.layers().write_kv(element,
                                   {.kv = kv,
                                    .key = strided(args.key),
                                    .value = strided(args.value),
                                    .sequences = shown.sequences,
                                    .row_sequences = shown.of_rows},
                                   shown.num_rows, args.layout.num_kv_heads));
  ops.keep(ops.layers().attend(element,
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
                                .scale = args.scale,
                                .softcap = args.softcap},
                               shown.num_rows));
}

void causal_conv(DeviceOps& ops, const CausalConvArgs& args) {
  static_assert(device::kMostTaps == kMaxConvTaps);
  ops.keep(ops.layers().causal_conv({.states = ops.show(args.states, args.piece, 1),
                                     .weight = args.weight,
                                     .bias = args.bias,
                                     .input = strided(args.input),
                                     .gate = strided(args.gate),
                                     .output_gate = strided(args.output_gate),
                                     .output = strided(args.output),
                                     .num_channels = i32(args.num_channels),
                                     .num_taps = args.num_taps,
                                     .silu = args.silu ? 1 : 0},
                                    std::ssize(args.states.sequences)));
}

void linear_attention(DeviceOps& ops, const LinearAttentionArgs& args) {
  static_assert(device::kStateTile == kStateColumns);
  ops.keep(ops.layers().linear_attention({.states = ops.show(args.states, args.piece, args.num_heads),
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
                                         std::ssize(args.states.sequences)));
}

}  // namespace pagoda::device_ops
