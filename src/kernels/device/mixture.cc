// A mixture's step: the choice, pairs of a row and an expert sorted by expert, their products, and the sums.
#include <algorithm>
#include <utility>

#include "kernels/device/ops.h"
#include "kernels/linear_storage.h"

namespace pagoda::device_ops {

device::Score score_of(RouterScore score) {
  switch (score) {
    case RouterScore::softmax:
    case RouterScore::sparse_mixer:  // has kernels of its own
      return device::Score::softmax;
    case RouterScore::softmax_of_chosen:
      return device::Score::softmax_of_chosen;
    case RouterScore::sigmoid:
      return device::Score::sigmoid;
  }
  return device::Score::softmax;
}

namespace {

// Parts of the op's scratch, in floats per row, in whole cache lines.
struct MixtureWidths {
  explicit MixtureWidths(const MixtureArgs& args) {
    const PackedLinear::Storage& first = args.first.front().storage();
    const std::int64_t choices = args.routing.per_token;
    outs = lines(choices * args.second.front().n());
    entered = lines(choices * first.num_rows());
    inner = lines(choices * first.n);
    if (!args.hidden_ends.empty()) {
      whole = lines(choices * args.feature_ends.back());
      sums = lines(args.second.front().n());
      all_sums = lines(args.hidden_ends.back());
    }
    if (!first.arithmetic.is_own()) {
      const auto of = [](std::int64_t rows, std::int64_t k) {
        return (device::KernelLaunches::float8_wide_bytes(rows, k, true) + 3) / 4;
      };
      codes = lines(std::max(of(1, first.k), of(choices, args.second.front().k())));
    }
    tiles = lines(choices * std::int64_t{sizeof(device::TileOfPairs) / sizeof(float)});
    pairs = lines(choices);
  }
  static std::int64_t lines(std::int64_t floats) { return (floats + 15) / 16 * 16; }
  std::int64_t sum() const {
    return outs + entered + inner + whole + sums + all_sums + codes + tiles + 3 * pairs;
  }

  std::int64_t outs, entered, inner, tiles, pairs;
  std::int64_t whole = 0, sums = 0, all_sums = 0;  // for ranks
  std::int64_t codes = 0;                          // inputs in 8-bit floats, if the scheme has them
};

struct MixtureScratch {
  MixtureScratch(const MixtureWidths& widths, const Buffer& scratch, std::int64_t num_rows) {
    float* next = floats(scratch);
    const auto take = [&](std::int64_t width) { return std::exchange(next, next + num_rows * width); };
    outs = take(widths.outs);
    entered = take(widths.entered);
    inner = take(widths.inner);
    whole = take(widths.whole);
    sums = take(widths.sums);
    all_sums = take(widths.all_sums);
    codes = reinterpret_cast<std::uint8_t*>(take(widths.codes));
    tiles = reinterpret_cast<device::TileOfPairs*>(take(widths.tiles));
    weights = take(widths.pairs);
    chosen = reinterpret_cast<std::int32_t*>(take(widths.pairs));
    slots = reinterpret_cast<std::int32_t*>(take(widths.pairs));
  }
  float *outs, *entered, *inner, *weights;
  std::uint8_t* codes;
  float *whole, *sums, *all_sums;  // all ranks' features; own columns of the rows' sums, and all columns
  std::int32_t *chosen, *slots;    // [row, choice]; pairs by expert
  device::TileOfPairs* tiles;
};

void route(DeviceOps& ops, const MixtureArgs& args, const Buffer& logits, std::int64_t num_rows,
           const MixtureScratch& scratch) {
  const RoutingRule& rule = args.routing;
  const std::int32_t pairs = i32(num_rows * rule.per_token);
  if (rule.score == RouterScore::sparse_mixer) {
    ops.keep(ops.layers().route_sparsely({.logits = floats(logits),
                                          .chosen = scratch.chosen,
                                          .weights = scratch.weights,
                                          .experts = rule.num_experts,
                                          .per_token = rule.per_token,
                                          .scale = rule.scale,
                                          .near = rule.near,
                                          .num_rows = ops.num_rows_there()},
                                         num_rows));
    ops.keep(ops.launches().group_pairs({.chosen = scratch.chosen,
                                         .slots = scratch.slots,
                                         .tiles = scratch.tiles,
                                         .pairs = pairs,
                                         .experts = rule.num_experts}));
  } else {
    ops.keep(ops.launches().route_and_group(
        {.logits = floats(logits),
         .correction = args.correction.empty() ? nullptr : args.correction.data(),
         .chosen = scratch.chosen,
         .weights = scratch.weights,
         .experts = rule.num_experts,
         .per_token = rule.per_token,
         .groups = rule.num_groups,
         .groups_used = rule.groups_used,
         .best_two = rule.group_is_best_two ? 1 : 0,
         .score = score_of(rule.score),
         .renormalize = rule.renormalize ? 1 : 0,
         .scale = rule.scale,
         .num_rows = ops.num_rows_there(),
         .slots = scratch.slots,
         .tiles = scratch.tiles},
        num_rows));
  }
  if (!args.expert_scales.empty())
    ops.keep(ops.layers().scale_choices({.chosen = scratch.chosen,
                                         .scales = args.expert_scales.data(),
                                         .weights = scratch.weights,
                                         .count = pairs}));
}

// True if inputs become 8-bit floats, as the folder's scheme says. Not supported: a fixed scale, which would
// differ for each expert; and, if factors multiply inputs, a bound, since factors multiply the scales.
bool takes_float8(const DeviceOps& ops, const PackedLinear::Storage& experts, bool weighed) {
  const LinearArithmetic& inputs = experts.arithmetic;
  return ops.options().products == MatrixProducts::w8a8 && ops.options().rounds() &&
         inputs.number == InputNumber::e4m3 && !(weighed && inputs.largest > 0) &&
         (inputs.scales == InputScale::row ||
          (inputs.scales == InputScale::group && inputs.group == device::kFloat8Scale)) &&
         experts.device.front().element == device::Element::fp8_blocks &&
         device::KernelLaunches::supports_product_tiles(device::Element::fp8_blocks, i32(experts.k));
}

// Writes such inputs of `rows` to `codes`, of a function of x if it has one, and sets `args` to read them.
void quantize(DeviceOps& ops, const PackedLinear::Storage& experts, device::QuantizeRowsArgs rows,
              device::GroupedLinearArgs& args) {
  const LinearArithmetic& inputs = experts.arithmetic;
  rows.width = i32(experts.k);
  rows.blocks = inputs.scales == InputScale::group ? 1 : 0;
  rows.wide = 1;
  rows.largest = inputs.largest;
  ops.keep(rows.function.is_there != 0 ? ops.launches().quantize_function(rows)
                                       : ops.launches().quantize_rows(rows));
  args.x = nullptr;
  args.codes = reinterpret_cast<const std::uint16_t*>(rows.out);
  args.scales = reinterpret_cast<const float*>(args.codes + std::int64_t{rows.rows} * rows.width);
  args.blocks = rows.blocks;
}

// The products of pairs by their experts, whose matrices are contiguous (continue_series()).
void multiply(DeviceOps& ops, std::span<const PackedLinear> experts, device::GroupedLinearArgs args) {
  const PackedLinear::Storage& first = experts.front().storage();
  CHECK(first.device.size() == 1);
  const DevicePart& part = first.device.front();
  const std::int64_t bytes = part.n * device::KernelLaunches::row_bytes(part.element, first.k);
  CHECK(experts.back().storage().device.front().weight == part.weight + (std::ssize(experts) - 1) * bytes);
  args.weight = part.weight;
  args.bias = part.bias;
  args.experts = i32(std::ssize(experts));
  args.n = part.n;
  args.k = i32(first.k);
  if (args.codes != nullptr) return ops.keep(ops.launches().grouped_float8(args));
  const bool tiles =
      ops.options().rounds() && device::KernelLaunches::supports_product_tiles(part.element, args.k);
  ops.keep(tiles ? ops.launches().grouped_tiles(part.element, args)
                 : ops.launches().grouped_linear(part.element, args));
}

}  // namespace

std::int64_t mixture_scratch(const MixtureArgs& args) { return MixtureWidths(args).sum(); }

Status mixture(DeviceOps& ops, const MixtureArgs& args, const Buffer& logits, const LinearInput& input,
               std::int64_t num_rows, const Buffer& scratch, bool accumulate, const Buffer& y) {
  CHECK(args.exchange == nullptr);
  const bool ranks = !args.hidden_ends.empty();
  const PackedLinear::Storage& first = args.first.front().storage();
  const std::int64_t columns = args.second.front().n(), pairs = num_rows * args.routing.per_token;
  const std::int64_t hidden = ranks ? args.hidden_ends.back() : columns;
  CHECK(y.stride == hidden || num_rows == 1);
  const MixtureScratch parts(MixtureWidths(args), scratch, num_rows);
  const float* const x = input_rows(ops, input, num_rows, first.k);
  if (x == nullptr) return ok_status();  // ops has the error
  route(ops, args, logits, num_rows, parts);
  device::GroupedLinearArgs enter = {.x = x,
                                     .factors = args.weigh_input ? parts.weights : nullptr,
                                     .y = parts.entered,
                                     .slots = parts.slots,
                                     .tiles = parts.tiles,
                                     .pairs = i32(pairs),
                                     .pairs_of_row = args.routing.per_token};
  if (takes_float8(ops, first, args.weigh_input))
    quantize(ops, first, {.x = x, .out = parts.codes, .rows = i32(num_rows)}, enter);
  multiply(ops, args.first, enter);
  device::GroupedLinearArgs leave = {.x = ranks ? parts.whole : parts.inner,
                                     .y = parts.outs,
                                     .slots = parts.slots,
                                     .tiles = parts.tiles,
                                     .pairs = i32(pairs)};
  const device::OutputFunction function = {.is_there = 1,
                                           .function = function_of(args.activation),
                                           .gated = first.form == LinearForm::gated ? 1 : 0};
  const bool float8 = takes_float8(ops, args.second.front().storage(), false);
  if (float8 && !ranks)
    quantize(ops, args.second.front().storage(),
             {.x = parts.entered, .out = parts.codes, .rows = i32(pairs), .function = function}, leave);
  else
    ops.keep(ops.launches().activate({.in = parts.entered,
                                      .out = parts.inner,
                                      .width = i32(first.n),
                                      .function = function.function,
                                      .gated = function.gated},
                                     pairs));
  if (ranks)
    gather_columns(ops, args.feature_ends, pairs, Buffer::of(parts.inner, first.n),
                   Buffer::of(parts.whole, args.feature_ends.back()));
  if (float8 && ranks)
    quantize(ops, args.second.front().storage(), {.x = parts.whole, .out = parts.codes, .rows = i32(pairs)},
             leave);
  multiply(ops, args.second, leave);
  if (args.before_sum) PAGODA_RETURN_IF_ERROR(args.before_sum());
  ops.keep(ops.launches().combine({.x = parts.outs,
                                   .weights = args.weigh_input ? nullptr : parts.weights,
                                   .y = ranks ? parts.sums : floats(y),
                                   .width = i32(columns),
                                   .per_token = args.routing.per_token,
                                   .accumulate = accumulate && !ranks ? 1 : 0},
                                  num_rows));
  if (ranks) {
    const Buffer sums = Buffer::of(parts.all_sums, hidden);
    gather_columns(ops, args.hidden_ends, num_rows, Buffer::of(parts.sums, columns), sums);
    row_op(
        ops, {num_rows, hidden},
        {.op = accumulate ? device::RowOp::add : device::RowOp::copy, .y = strided(y), .a = strided(sums)});
  }
  ops.wrote(y, num_rows);
  return ok_status();
}

}  // namespace pagoda::device_ops
