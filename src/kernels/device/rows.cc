// The row-wise ops: rows.h, elementwise.h and residual_streams.h.
#include <algorithm>

#include "kernels/device/ops.h"

namespace pagoda::device_ops {

using device::GroupNorm;
using device::RowOp;

void row_op(DeviceOps& ops, RowShape shape, device::RowOpArgs args) {
  args.width = i32(shape.width);
  ops.keep(ops.layers().row_op(args, shape.num_rows));
  ops.wrote(Buffer::of(args.y.data, args.y.stride), shape.num_rows);
}

// A row's old place may be another row's new place, so rows move through scratch. A no-op if all rows stay,
// as in decode.
void gather_rows(DeviceOps& ops, std::span<const std::int32_t> rows, std::int64_t width, const Buffer& x) {
  const std::int64_t count = std::ssize(rows);
  CHECK(x.stride == width);
  std::int32_t next = 0;
  if (std::ranges::all_of(rows, [&](std::int32_t row) { return row == next++; })) return;
  float* const scratch = ops.scratch(DeviceOps::Scratch::rows, count * width);
  if (scratch == nullptr) return;  // ops has the error
  const Buffer between = Buffer::of(scratch, width);
  ops.keep(ops.launches().gather_rows(
      {.x = floats(x), .rows = ops.there(rows), .out = floats(between), .width = i32(width)}, count));
  row_op(ops, {count, width}, {.op = RowOp::copy, .y = strided(x), .a = strided(between)});
}

void sparse_gate(DeviceOps& ops, const SparseGate& how, std::int64_t num_rows, const Buffer& gates,
                 const Buffer& up) {
  CHECK(how.widths.size() == 1);
  const std::int64_t width = how.widths.front();
  ops.keep(ops.layers().sparse_gate({.gates = strided(gates.with_stride(width)),
                                     .up = strided(up),
                                     .width = i32(width),
                                     .deviations = static_cast<float>(how.deviations)},
                                    num_rows));
}

void recurrent_gates(DeviceOps& ops, const RecurrentGates& gates, std::int64_t num_rows, const Buffer& weight,
                     const Buffer& decay) {
  ops.keep(ops.layers().recurrent_gates({.weight = strided(weight),
                                         .decay = strided(decay),
                                         .rate = gates.rate,
                                         .bias = gates.bias,
                                         .num_heads = i32(gates.num_heads),
                                         .delta_rule = gates.delta_rule ? 1 : 0,
                                         .least_step = gates.least_step,
                                         .most_step = gates.most_step},
                                        num_rows));
}

void fill_rotations(DeviceOps& ops, std::span<const std::int32_t> positions,
                    std::span<const double> frequencies, double amplitude, const Buffer& out) {
  ops.keep(ops.layers().fill_rotations({.positions = ops.there(positions),
                                        .frequencies = ops.there(frequencies),
                                        .amplitude = amplitude,
                                        .out = strided(out),
                                        .pairs = i32(std::ssize(frequencies))},
                                       std::ssize(positions)));
}

void norm(DeviceOps& ops, GroupNorm kind, const Buffer& x, std::int64_t num_rows, std::int64_t width,
          const float* weight, const float* bias, float eps, const Buffer& out) {
  ops.wrote(out, num_rows);
  if (x.stride == out.stride && (kind == GroupNorm::rms || kind == GroupNorm::layer)) {
    const device::NormArgs args = {.x = floats(x),
                                   .weight = weight,
                                   .out = floats(out),
                                   .width = i32(width),
                                   .eps = eps,
                                   .bias = bias,
                                   .stride = i32(x.stride)};
    return ops.keep(kind == GroupNorm::rms ? ops.launches().rms_norm(args, num_rows)
                                           : ops.launches().layer_norm(args, num_rows));
  }
  ops.keep(ops.layers().norm_groups({.kind = kind,
                                     .x = strided(x),
                                     .out = strided(out),
                                     .gate = {},
                                     .weight = weight,
                                     .bias = bias,
                                     .size = i32(width),
                                     .eps = eps},
                                    num_rows, 1));
}

void embedding(DeviceOps& ops, const TensorView& table, std::span<const std::int32_t> ids, const Buffer& out,
               const EmbeddedIds& own) {
  CHECK(out.stride == table.columns());
  ops.wrote(out, std::ssize(ids));
  const bool rounded = ops.options().weights == device::Element::bf16;
  ops.keep(ops.launches().embedding(ops.element_of(table),
                                    {.table = table.data,
                                     .ids = ops.there(ids),
                                     .out = floats(out),
                                     .width = i32(table.columns()),
                                     .first_row = i32(-own.first_id),
                                     .rounded = rounded ? 1 : 0,
                                     .num_rows = i32(own.num_ids)},
                                    std::ssize(ids)));
}

void rope(DeviceOps& ops, const Buffer& x, std::int64_t num_rows, std::int32_t num_heads,
          std::int32_t head_size, std::int32_t rotary_size, std::span<const std::int32_t> positions,
          const Buffer& cos_sin) {
  ops.keep(ops.layers().turn_heads({.x = strided(x),
                                    .turns = ops.there(positions),
                                    .cos_sin = strided(cos_sin),
                                    .head_size = head_size,
                                    .rotary_size = rotary_size},
                                   num_rows, num_heads));
}

void heads_to_unit(DeviceOps& ops, const Buffer& x, std::int64_t num_rows, std::int32_t num_heads,
                   std::int32_t head_size, float eps, float scale) {
  ops.keep(ops.layers().norm_groups({.kind = GroupNorm::unit,
                                     .x = strided(x),
                                     .out = strided(x),
                                     .gate = {},
                                     .size = head_size,
                                     .eps = eps,
                                     .scale = scale},
                                    num_rows, num_heads));
}

void gated_rms_norm(DeviceOps& ops, const GatedNorm& norm, std::int64_t num_rows, const Buffer& x,
                    const Buffer& gate) {
  ops.keep(ops.layers().norm_groups({.kind = norm.weight != nullptr ? GroupNorm::rms : GroupNorm::none,
                                     .x = strided(x),
                                     .out = strided(x),
                                     .gate = strided(gate),
                                     .weight = norm.weight,
                                     .size = norm.group_size,
                                     .weight_stride = norm.own_weights ? norm.group_size : 0,
                                     .gate_first = norm.gate_first ? 1 : 0,
                                     .eps = norm.eps},
                                    num_rows, norm.num_groups));
}

void match_magnitude(DeviceOps& ops, const StreamShape& shape, const Buffer& from, const Buffer& like,
                     StreamSum sum, const Buffer& to) {
  ops.wrote(to, shape.num_rows);
  ops.keep(ops.layers().match_magnitude(
      {.from = strided(from),
       .like = strided(like),
       .to = strided(to),
       .width = i32(shape.width),
       .added = sum == StreamSum::none ? 0 : 1,
       .divisor = sum == StreamSum::added_last ? static_cast<float>(shape.streams) : 1.0f},
      shape.num_rows));
}

void predict_streams(DeviceOps& ops, const StreamShape& shape, const float* factors, const Buffer& modes,
                     const Buffer& x, const Buffer& others, const Buffer& predicted) {
  ops.wrote(x, shape.num_rows);
  ops.wrote(predicted, shape.num_rows);
  ops.keep(ops.layers().predict_streams({.factors = factors,
                                         .modes = strided(modes),
                                         .x = strided(x),
                                         .others = strided(others),
                                         .predicted = strided(predicted),
                                         .width = i32(shape.width),
                                         .streams = i32(shape.streams)},
                                        shape.num_rows));
}

void correct_streams(DeviceOps& ops, const StreamShape& shape, const float* factors, const Buffer& modes,
                     const Buffer& predicted, const Buffer& x, const Buffer& others) {
  ops.wrote(x, shape.num_rows);
  ops.keep(ops.layers().correct_streams({.factors = factors,
                                         .modes = strided(modes),
                                         .x = strided(x),
                                         .others = strided(others),
                                         .predicted = strided(predicted),
                                         .width = i32(shape.width),
                                         .streams = i32(shape.streams)},
                                        shape.num_rows));
}

}  // namespace pagoda::device_ops
