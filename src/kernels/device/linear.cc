// Matrix products: the kernels by tiles if they support a matrix and the address of its output; otherwise the
// plain ones. The choice depends only on the model: no bit depends on the number of rows.
#include <algorithm>
#include <array>

#include "device/kernels/launch_shapes.h"
#include "kernels/device/ops.h"
#include "kernels/linear_storage.h"

namespace pagoda::device_ops {
namespace {

using device::Element;
using device::RowOp;

bool aligned(const void* address, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

std::uint16_t* scratch_for_rounded(DeviceOps& ops, std::int64_t num_rows, std::int64_t k) {
  const std::int64_t elements = device::KernelLaunches::rounded_elements(num_rows, k);
  return reinterpret_cast<std::uint16_t*>(ops.scratch(DeviceOps::Scratch::rounded, (elements + 1) / 2));
}

// True if inputs become 8-bit floats, as the folder's scheme says, and a product exists for them: scales of
// rows with scales of rows, and of groups, or one for all, with those of blocks.
bool takes_float8(const DeviceOps& ops, const PackedLinear::Storage& weight) {
  const LinearArithmetic& inputs = weight.arithmetic;
  if (ops.options().products != MatrixProducts::w8a8 || inputs.number != InputNumber::e4m3) return false;
  const bool of_groups = inputs.scales == InputScale::group && inputs.group == device::kFloat8Scale,
             of_rows = inputs.scales != InputScale::group || (of_groups && weight.k <= device::kFloat8Scale);
  const auto all = [&](Element element) {
    return std::ranges::all_of(weight.device,
                               [&](const DevicePart& part) { return part.element == element; });
  };
  return (of_rows && all(Element::fp8)) ||
         ((of_groups || inputs.scales == InputScale::fixed) && all(Element::fp8_blocks));
}

// True if the device's library computes a product, for those of its parts that are bf16.
bool is_by_library(const DeviceOps& ops, const PackedLinear::Storage& weight, std::int64_t num_rows) {
  const MatrixProducts products = ops.options().products;
  return products == MatrixProducts::library ||
         (products == MatrixProducts::fastest && num_rows >= kLibraryRows && weight.device.size() == 1 &&
          weight.device.front().element == Element::bf16);
}

// True if products of more than a few rows take all of a matrix's parts by tiles, which read x in bfloat16.
bool is_by_tiles(const DeviceOps& ops, const PackedLinear::Storage& weight, std::int64_t num_rows) {
  return ops.options().rounds() && !is_by_library(ops, weight, num_rows) && !takes_float8(ops, weight) &&
         num_rows > device::KernelLaunches::few_rows() &&
         std::ranges::all_of(weight.device, [&](const DevicePart& part) {
           return device::KernelLaunches::supports_product_tiles(part.element, i32(weight.k));
         });
}

// Rows for a product by tiles, in slabs: rounded by the norm or by a separate launch.
const std::uint16_t* rounded_rows(DeviceOps& ops, const LinearInput& input, std::int64_t num_rows,
                                  std::int64_t k) {
  if (const std::uint16_t* const rounded = ops.take_attended(input, num_rows, k)) return rounded;
  if (const std::uint16_t* const rounded = ops.find_rounded(input, num_rows, k)) return rounded;
  if (input.op == LinearInput::Op::none || ops.find_normed(input, num_rows, k) != nullptr) {
    const float* const x = input_rows(ops, input, num_rows, k);
    std::uint16_t* const out = scratch_for_rounded(ops, num_rows, k);
    if (x == nullptr || out == nullptr) return nullptr;
    ops.keep(ops.launches().round_rows({.x = x, .out = out, .width = i32(k), .slab_rows = i32(num_rows)},
                                       num_rows));
    return out;
  }
  std::uint16_t* const out = scratch_for_rounded(ops, num_rows, k);
  if (out == nullptr) return nullptr;
  const device::NormArgs args = {.x = input.x,
                                 .weight = input.weight,
                                 .width = i32(k),
                                 .eps = input.eps,
                                 .bias = input.bias,
                                 .stride = i32(input.stride),
                                 .slab_rows = i32(num_rows),
                                 .rounded = out};
  ops.keep(input.op == LinearInput::Op::rms_norm ? ops.launches().rms_norm(args, num_rows)
                                                 : ops.launches().layer_norm(args, num_rows));
  ops.keep_rounded(input, num_rows, k);
  return out;
}

// Scratch for rows of `width` in slabs, with zeros beyond their ends.
std::uint16_t* scratch_for_slabs(DeviceOps& ops, DeviceOps::Scratch which, std::int64_t num_rows,
                                 std::int64_t width) {
  const std::int64_t floats = device::slab_width(i32(width)) / 2;
  float* const scratch = ops.scratch(which, num_rows * floats);
  if (scratch != nullptr && width % device::kSlabStep != 0)
    row_op(ops, {num_rows, floats}, {.op = RowOp::zero, .y = strided(Buffer::of(scratch, floats))});
  return reinterpret_cast<std::uint16_t*>(scratch);
}

// y = (accumulate: y +) x W^T of a part; x is not set.
device::LinearArgs args_of(const DevicePart& part, std::int64_t k, std::int64_t num_rows, float* y,
                           std::int64_t stride, bool accumulate) {
  return {.weight = part.weight,
          .bias = part.bias,
          .y = y,
          .rows = i32(num_rows),
          .n = part.n,
          .k = i32(k),
          .accumulate = accumulate ? 1 : 0,
          .stride = i32(stride)};
}

// y [num_rows, columns of the parts] = (accumulate: y +) x W^T, for rows prepared for it.
void rounded_products(DeviceOps& ops, const PackedLinear::Storage& weight, const std::uint16_t* rounded,
                      std::int64_t num_rows, float* y, std::int64_t stride, bool accumulate) {
  const bool float8 = takes_float8(ops, weight);
  for (const DevicePart& part : weight.device) {
    device::LinearArgs args = args_of(part, weight.k, num_rows, y, stride, accumulate);
    args.rounded = const_cast<std::uint16_t*>(rounded);
    ops.keep(float8 ? ops.launches().linear_float8(part.element, args)
                    : ops.launches().linear_tiles(part.element, args));
    y += part.n;
  }
}

// Rows for products that takes_float8(): their `x`, computed from `rows`.
const std::uint16_t* float8_rows(DeviceOps& ops, const PackedLinear::Storage& weight, std::int64_t num_rows,
                                 device::QuantizeRowsArgs rows) {
  const Element element = weight.device.front().element;
  const std::int64_t bytes = device::KernelLaunches::float8_input_bytes(element, num_rows, weight.k);
  float* const scratch = ops.scratch(DeviceOps::Scratch::rounded, (bytes + 3) / 4);
  if (scratch == nullptr) return nullptr;
  rows.out = reinterpret_cast<std::uint8_t*>(scratch);
  rows.rows = i32(num_rows), rows.width = i32(weight.k);
  rows.blocks = element == Element::fp8_blocks ? 1 : 0;
  rows.scale = weight.arithmetic.scales == InputScale::fixed ? weight.arithmetic.scale : 0.0f;
  rows.largest = weight.arithmetic.largest;
  ops.keep(rows.function.is_there != 0                       ? ops.launches().quantize_function(rows)
           : rows.norm.kind != device::InputNorm::Kind::none ? ops.launches().quantize_norm(rows)
                                                             : ops.launches().quantize_rows(rows));
  return reinterpret_cast<const std::uint16_t*>(scratch);
}
const std::uint16_t* float8_rows(DeviceOps& ops, const PackedLinear::Storage& weight, std::int64_t num_rows,
                                 const LinearInput& input) {
  using Kind = device::InputNorm::Kind;
  return float8_rows(ops, weight, num_rows,
                     {.x = input.x,
                      .stride = i32(input.stride),
                      .norm = {.kind = input.op == LinearInput::Op::none       ? Kind::none
                                       : input.op == LinearInput::Op::rms_norm ? Kind::rms
                                                                               : Kind::layer,
                               .weight = input.weight,
                               .bias = input.bias,
                               .eps = input.eps},
                      .function = {}});
}

// Likewise for unprepared rows, by the kernel that each part supports. False: out of memory; ops has the
// error.
bool products(DeviceOps& ops, const PackedLinear::Storage& weight, const LinearInput& input,
              std::int64_t num_rows, float* y, std::int64_t stride, bool accumulate) {
  if (const bool float8 = takes_float8(ops, weight); float8 || is_by_tiles(ops, weight, num_rows)) {
    const std::uint16_t* const rounded =
        float8 ? float8_rows(ops, weight, num_rows, input) : rounded_rows(ops, input, num_rows, weight.k);
    if (rounded == nullptr) return false;
    rounded_products(ops, weight, rounded, num_rows, y, stride, accumulate);
    return true;
  }
  const float* const x = input_rows(ops, input, num_rows, weight.k);
  if (x == nullptr) return false;
  for (const DevicePart& part : weight.device) {
    device::LinearArgs args = args_of(part, weight.k, num_rows, y, stride, accumulate);
    args.x = x;
    const bool tiles =
        ops.options().rounds() && device::KernelLaunches::supports_product_tiles(part.element, args.k);
    if (is_by_library(ops, weight, num_rows) && part.element == Element::bf16) {
      CHECK(stride == part.n || num_rows == 1);
      args.rounded = scratch_for_rounded(ops, num_rows, weight.k);
      if (args.rounded == nullptr) return false;
      ops.keep(ops.launches().round_rows({.x = x, .out = args.rounded, .width = args.k}, num_rows));
      ops.multiply({.x = args.rounded,
                    .weight = part.weight,
                    .bias = part.bias,
                    .y = y,
                    .rows = args.rows,
                    .n = part.n,
                    .k = args.k,
                    .accumulate = args.accumulate});
    } else if (tiles) {
      args.rounded = scratch_for_rounded(ops, num_rows, weight.k);
      if (args.rounded == nullptr) return false;
      ops.keep(ops.launches().linear_tiles(part.element, args));
    } else {
      ops.keep(ops.launches().linear(part.element, args));
    }
    y += part.n;
  }
  return true;
}

// The buffer for a function's input: scratch if gated, otherwise that of the result.
float* function_input(DeviceOps& ops, const PackedLinear::Storage& weight, std::int64_t num_rows,
                      const Buffer& y) {
  if (weight.form != LinearForm::gated) return floats(y);
  return ops.scratch(DeviceOps::Scratch::products, num_rows * weight.num_rows());
}

}  // namespace

device::Function function_of(Activation activation) {
  switch (activation) {
    case Activation::silu:
      return device::Function::silu;
    case Activation::gelu_tanh:
      return device::Function::gelu_tanh;
    case Activation::gelu_erf:
      return device::Function::gelu_erf;
    case Activation::relu:
      return device::Function::relu;
    case Activation::relu2:
      return device::Function::relu2;
    case Activation::clamped_silu:
      return device::Function::clamped_silu;
  }
  return device::Function::silu;
}

namespace {

bool aligned_input(const LinearInput& input, std::int64_t num_rows, std::int64_t k) {
  return aligned(input.x, 16) && (input.stride == k || num_rows == 1);
}

// True if a product of few rows can be one launch, whatever its matrices' types.
bool is_few(const DeviceOps& ops, const PackedLinear::Storage& weight, std::int64_t num_rows) {
  return ops.options().rounds() && !is_by_library(ops, weight, num_rows) && !takes_float8(ops, weight) &&
         num_rows <= device::KernelLaunches::few_rows() && std::ssize(weight.device) <= device::kMostParts &&
         (weight.form != LinearForm::gated || weight.device.size() == 1) &&
         std::ranges::all_of(weight.device, [&](const DevicePart& part) {
           return device::KernelLaunches::supports_product_tiles(part.element, i32(weight.k)) &&
                  (weight.device.size() == 1 || device::KernelLaunches::shares_launches(part.element));
         });
}

void few(DeviceOps& ops, const PackedLinear::Storage& weight, const LinearInput& input, std::int64_t num_rows,
         const Buffer& y, const LinearOutput& output) {
  using Kind = device::InputNorm::Kind;
  device::FewLinearArgs args;
  const bool normed = input.op != LinearInput::Op::none && num_rows <= device::KernelLaunches::few_norms() &&
                      aligned_input(input, num_rows, weight.k) && aligned(input.weight, 16) &&
                      aligned(input.bias, 16) && ops.find_normed(input, num_rows, weight.k) == nullptr;
  if (normed)
    args.norm = {.kind = input.op == LinearInput::Op::rms_norm ? Kind::rms : Kind::layer,
                 .weight = input.weight,
                 .bias = input.bias,
                 .eps = input.eps};
  if (output.activation)
    args.output = {.is_there = 1,
                   .function = function_of(*output.activation),
                   .gated = weight.form == LinearForm::gated ? 1 : 0};
  const float* const x = normed ? input.x : input_rows(ops, input, num_rows, weight.k);
  if (x == nullptr) return;  // ops has the error
  args.product = {.x = x,
                  .y = floats(y),
                  .rows = i32(num_rows),
                  .k = i32(weight.k),
                  .accumulate = output.accumulate ? 1 : 0,
                  .rounded = normed ? nullptr : scratch_for_rounded(ops, num_rows, weight.k),
                  .stride = i32(y.stride)};
  std::array<device::KernelLaunches::Matrix, device::kMostParts> matrices;
  const std::int32_t rows_of_column = args.output.gated != 0 ? 2 : 1;
  for (std::size_t i = 0; i < weight.device.size(); ++i) {
    const DevicePart& part = weight.device[i];
    matrices[i] = {part.element, part.weight, part.bias, part.n / rows_of_column};
  }
  ops.keep(ops.launches().linear_few(std::span(matrices).first(weight.device.size()), args));
}

// The rows between gated matrices and the next product, if one launch computes them; otherwise null.
const std::uint16_t* gated_rows(DeviceOps& ops, const PackedLinear::Storage& weight, Activation activation,
                                const LinearInput& input, std::int64_t num_rows) {
  const DevicePart& part = weight.device.front();
  if (weight.form != LinearForm::gated || weight.device.size() > 1 ||
      !ops.launches().takes_gated(part.element, function_of(activation), i32(num_rows)))
    return nullptr;
  const std::uint16_t* const x = rounded_rows(ops, input, num_rows, weight.k);
  std::uint16_t* const out = scratch_for_slabs(ops, DeviceOps::Scratch::products, num_rows, weight.n);
  if (x == nullptr || out == nullptr) return nullptr;  // ops has the error
  ops.keep(ops.launches().linear_gated({.product = {.weight = part.weight,
                                                    .bias = part.bias,
                                                    .rows = i32(num_rows),
                                                    .n = i32(weight.n),
                                                    .k = i32(weight.k),
                                                    .rounded = const_cast<std::uint16_t*>(x)},
                                        .out = out}));
  return out;
}

}  // namespace

const float* input_rows(DeviceOps& ops, const LinearInput& input, std::int64_t num_rows, std::int64_t k) {
  if (input.op == LinearInput::Op::none && aligned_input(input, num_rows, k)) return input.x;
  const Buffer x = Buffer::of(input.x, input.stride);
  if (const float* const normed = ops.find_normed(input, num_rows, k)) return normed;
  float* const scratch = ops.scratch(DeviceOps::Scratch::rows, num_rows * k);
  if (scratch == nullptr) return nullptr;
  const Buffer out = Buffer::of(scratch, k);
  if (input.op == LinearInput::Op::none)
    row_op(ops, {num_rows, k}, {.op = RowOp::copy, .y = strided(out), .a = strided(x)});
  else
    norm(ops, input.op == LinearInput::Op::rms_norm ? device::GroupNorm::rms : device::GroupNorm::layer, x,
         num_rows, k, input.weight, input.bias, input.eps, out);
  if (input.op != LinearInput::Op::none) ops.keep_normed(input, num_rows, k);
  return scratch;
}

std::uint16_t* scratch_for_attended(DeviceOps& ops, const PackedLinear::Storage& weight,
                                    std::int64_t num_rows) {
  if (!is_by_tiles(ops, weight, num_rows)) return nullptr;
  return scratch_for_slabs(ops, DeviceOps::Scratch::attended, num_rows, weight.k);
}

// A function of a product that is not gated is applied in place.
void linear(DeviceOps& ops, const PackedLinear::Storage& weight, const LinearInput& input,
            std::int64_t num_rows, const Buffer& y, const LinearOutput& output) {
  AdapterAddends addends(ops, weight, input, num_rows);
  if (is_few(ops, weight, num_rows) && !addends.are_there()) {
    few(ops, weight, input, num_rows, y, output);
  } else if (output.activation) {
    CHECK(y.stride == weight.n || num_rows == 1);
    float* const made = function_input(ops, weight, num_rows, y);
    if (made == nullptr || !products(ops, weight, input, num_rows, made, weight.num_rows(), false)) return;
    addends.add_to(made, weight.num_rows());
    ops.keep(ops.launches().activate({.in = made,
                                      .out = floats(y),
                                      .width = i32(weight.n),
                                      .function = function_of(*output.activation),
                                      .gated = weight.form == LinearForm::gated ? 1 : 0},
                                     num_rows));
  } else if (!products(ops, weight, input, num_rows, floats(y), y.stride, output.accumulate)) {
    return;
  } else {
    addends.add_to(floats(y), y.stride);
  }
  ops.wrote(y, num_rows);
}

// Rows between products by tiles are rounded, or quantised, by the function's kernel.
void linear_pair(DeviceOps& ops, const PackedLinear::Storage& first, Activation activation,
                 const PackedLinear::Storage& second, const LinearInput& input, std::int64_t num_rows,
                 const Buffer& between, const Buffer& y, bool accumulate) {
  const bool float8 = takes_float8(ops, second);
  if (any_adapter(input.adapters, num_rows, {first.adapter_slot, second.adapter_slot})) {
    // Adapters of the second product read its rows in float.
    linear(ops, first, input, num_rows, between, {.activation = activation});
    LinearInput made = LinearInput::rows(between);
    made.adapters = input.adapters;
    return linear(ops, second, made, num_rows, y, {.accumulate = accumulate});
  }
  if (!float8 && (!is_by_tiles(ops, first, num_rows) || !is_by_tiles(ops, second, num_rows))) {
    linear(ops, first, input, num_rows, between, {.activation = activation});
    linear(ops, second, LinearInput::rows(between), num_rows, y, {.accumulate = accumulate});
    return;
  }
  CHECK(between.stride == first.n);
  if (const std::uint16_t* const rounded =
          float8 ? nullptr : gated_rows(ops, first, activation, input, num_rows)) {
    rounded_products(ops, second, rounded, num_rows, floats(y), y.stride, accumulate);
    return ops.wrote(y, num_rows);
  }
  float* const made = function_input(ops, first, num_rows, between);
  if (made == nullptr || !products(ops, first, input, num_rows, made, first.num_rows(), false)) return;
  ops.wrote(between, num_rows);
  const std::int32_t gated = first.form == LinearForm::gated ? 1 : 0;
  if (float8) {
    const std::uint16_t* const codes =
        float8_rows(ops, second, num_rows,
                    {.x = made,
                     .norm = {},
                     .function = {.is_there = 1, .function = function_of(activation), .gated = gated}});
    if (codes == nullptr) return;  // ops has the error
    rounded_products(ops, second, codes, num_rows, floats(y), y.stride, accumulate);
    return ops.wrote(y, num_rows);
  }
  std::uint16_t* const rounded = scratch_for_rounded(ops, num_rows, second.k);
  if (rounded == nullptr) return;  // ops has the error
  ops.keep(ops.launches().activate({.in = made,
                                    .width = i32(first.n),
                                    .function = function_of(activation),
                                    .gated = gated,
                                    .slab_rows = i32(num_rows),
                                    .rounded = rounded},
                                   num_rows));
  rounded_products(ops, second, rounded, num_rows, floats(y), y.stride, accumulate);
  ops.wrote(y, num_rows);
}

void packed_rows(DeviceOps& ops, const PackedLinear::Storage& weight, std::span<const std::int32_t> ids,
                 const Buffer& out, const EmbeddedIds& own) {
  CHECK(weight.device.size() == 1 && (out.stride == weight.k || ids.size() == 1));
  const bool rounded = ops.options().weights == Element::bf16;
  ops.keep(ops.launches().embedding(weight.device.front().element,
                                    {.table = weight.device.front().weight,
                                     .ids = ops.there(ids),
                                     .out = floats(out),
                                     .width = i32(weight.k),
                                     .first_row = i32(-own.first_id),
                                     .rounded = rounded ? 1 : 0,
                                     .num_rows = i32(own.num_ids)},
                                    std::ssize(ids)));
}

void latent_rows(DeviceOps& ops, const LatentRows& shape, std::int64_t num_rows, const Buffer& queries,
                 const Buffer& kept, const Buffer& out) {
  ops.keep(ops.layers().latent_rows({.queries = strided(queries),
                                     .kept = strided(kept),
                                     .out = strided(out),
                                     .num_heads = i32(shape.num_heads),
                                     .query_size = i32(shape.query_size),
                                     .nope_size = i32(shape.nope_size),
                                     .latent_size = i32(shape.latent_size),
                                     .rope_size = i32(shape.rope_size)},
                                    num_rows));
  norm(ops, device::GroupNorm::rms, kept, num_rows, shape.latent_size, shape.weight, nullptr, shape.eps,
       out.at(0, shape.num_heads * (shape.latent_size + shape.rope_size)));
}

}  // namespace pagoda::device_ops
