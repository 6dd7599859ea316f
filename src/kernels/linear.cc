// PackedLinear: checks shapes, allocates memory, and delegates to the chosen backend.
#include "kernels/linear.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/linear_tile.h"
#include "kernels/device/ops.h"
#include "kernels/for_rows.h"
#include "kernels/linear_storage.h"
#include "kernels/reference/reference.h"
#include "kernels/rows.h"

namespace pagoda {

PackedLinear::PackedLinear() : storage_(std::make_unique<Storage>()) {}
PackedLinear::~PackedLinear() = default;
PackedLinear::PackedLinear(PackedLinear&&) noexcept = default;
PackedLinear& PackedLinear::operator=(PackedLinear&&) noexcept = default;

std::int64_t PackedLinear::n() const { return storage_->n; }
std::int64_t PackedLinear::k() const { return storage_->k; }
std::int64_t PackedLinear::multiplications() const { return storage_->num_rows() * storage_->k; }
std::int64_t PackedLinear::packed_bytes() const { return storage_->packed_bytes; }
LinearType PackedLinear::type() const { return storage_->type; }
bool PackedLinear::keeps_values() const { return storage_->keeps_values; }

void PackedLinear::row(std::int64_t index, float* out) const {
  CHECK(storage_->form == LinearForm::stacked && storage_->packed != nullptr);
  CHECK(index >= 0 && index < storage_->n);
  if (storage_->backend == Backend::cpu) return cpu::unpack_row(*storage_, index, out);
  const auto* rows = reinterpret_cast<const float*>(storage_->packed);
  std::copy_n(rows + index * storage_->k, storage_->k, out);
}

const LinearArithmetic& PackedLinear::arithmetic() const { return storage_->arithmetic; }
std::int32_t PackedLinear::adapter_slot() const { return storage_->adapter_slot; }
void PackedLinear::set_adapter_slot(std::int32_t slot) { storage_->adapter_slot = slot; }
void PackedLinear::precedes(const PackedLinear& next) { storage_->next = next.storage_.get(); }

Result<PackedLinear> PackedLinear::pack(const KernelContext& context, LinearType type,
                                        std::span<const TensorView> weights, std::vector<float> bias,
                                        LinearForm form, const LinearArithmetic& arithmetic,
                                        const std::function<void(const TensorView&)>& on_packed) {
  PackedLinear result;
  Storage& storage = *result.storage_;
  storage.type = type;
  storage.form = form;
  storage.arithmetic = arithmetic;
  for (const TensorView& view : weights) {
    if (view.shape.size() != 2 || view.rows() <= 0 || view.columns() <= 0) {
      return invalid_argument("a linear weight must be a matrix");
    }
    if (storage.k != 0 && view.columns() != storage.k) {
      return invalid_argument(
          concat("linear weights of ", storage.k, " and ", view.columns(), " columns cannot be joined"));
    }
    if (view.columns() % dtype_info(view.dtype).block_elements != 0) {
      return invalid_argument(
          concat("a row of ", view.columns(), " is not whole blocks of ", dtype_info(view.dtype).name));
    }
    storage.k = view.columns();
    storage.n += view.rows();
  }
  if (storage.n == 0) return invalid_argument("a linear layer without weights");
  if (form == LinearForm::gated) {
    if (weights.size() != 2 || weights[0].rows() != weights[1].rows())
      return invalid_argument("a gated linear layer takes two matrices of one shape");
    storage.n = weights[0].rows();
  }
  if (!bias.empty() && bias.size() != static_cast<std::size_t>(storage.num_rows())) {
    return invalid_argument(concat("a bias of ", bias.size(), " for ", storage.num_rows(), " outputs"));
  }
  storage.bias = std::move(bias);

  storage.backend = context.backend;
  if (on_device(context)) {
    auto placed = context.device->place_matrix(weights, storage.bias, type == LinearType::float32);
    if (!placed) return placed.error();
    storage.device = *std::move(placed);
    context.device->note_matrix(storage.k, form == LinearForm::gated ? storage.num_rows() : 0);
    storage.keeps_values = form == LinearForm::stacked && storage.device.size() == 1;
    for (const DevicePart& part : storage.device)
      storage.packed_bytes += part.n * device::KernelLaunches::row_bytes(part.element, storage.k);
    if (on_packed) std::ranges::for_each(weights, on_packed);
    return result;
  }
  storage.has_blocks = have_blocks(context.level, type, form, weights);
  std::vector<PackedFormat> formats(weights.size(), PackedFormat::plain);
  if (context.backend == Backend::cpu) formats = cpu::choose_panels(context.level, storage, weights);
  for (std::size_t i = 0; i < weights.size(); ++i) storage.parts.push_back({formats[i], weights[i].rows()});
  storage.packed_bytes = plan_panels(storage);
  auto memory = Memory::carve(static_cast<std::size_t>(storage.packed_bytes));
  if (!memory) return memory.error();
  storage.own = std::move(*memory);
  storage.packed = storage.own.data();
  if (context.backend == Backend::cpu) {
    cpu::pack(context, weights, storage, on_packed);
  } else {
    reference::pack(context, weights, storage);
    if (on_packed) std::ranges::for_each(weights, on_packed);
  }
  return result;
}

std::int64_t plan_panels(PackedLinear::Storage& storage) {
  return storage.backend == Backend::cpu ? cpu::plan_panels(storage) : storage.num_rows() * storage.k * 4;
}

void linear(const KernelContext& context, const PackedLinear& weight, const LinearInput& input,
            std::int64_t num_rows, const Buffer& to, const LinearOutput& output) {
  CHECK(output.accumulate + output.activation.has_value() + output.read_late <= 1);
  CHECK(output.activation || weight.storage().form != LinearForm::gated);
  if (num_rows <= 0) return;
  CHECK(to.stride == weight.n() || num_rows == 1);
  if (on_device(context))
    return device_ops::linear(*context.device, weight.storage(), input, num_rows, to, output);
  float* const y = floats(to);
  // The packed form decides: weights are packed for one backend.
  if (weight.storage().backend == Backend::cpu) {
    cpu::linear(context, weight.storage(), input, num_rows, y, output);
  } else {
    reference::linear(context, weight.storage(), input, num_rows, y, output);
  }
}

// With many rows, memory has enough time at the end, and lines fetched earlier would be evicted from a shared
// cache by other threads. The processors that benefit were found by measurement (bench/results).
BringsAhead brings_ahead(const KernelContext& context, std::int64_t num_rows) {
  constexpr std::int64_t kManyRows = 48;
  if (num_rows < cpu::kFetchRows || on_device(context)) return BringsAhead::nothing;
  const bool late = context.tuning == CpuTuning::common || context.tuning == CpuTuning::intel;
  return num_rows >= kManyRows && late ? BringsAhead::late : BringsAhead::early;
}

void linear_pair(const KernelContext& context, const PackedLinear& first, Activation activation,
                 const PackedLinear& second, const LinearInput& input, std::int64_t num_rows,
                 const Buffer& between, const Buffer& y, bool accumulate) {
  CHECK(first.n() == second.k() && (y.stride == second.n() || num_rows == 1));
  if (num_rows <= 0) return;
  if (on_device(context))
    return device_ops::linear_pair(*context.device, first.storage(), activation, second.storage(), input,
                                   num_rows, between, y, accumulate);
  if (first.storage().backend == Backend::cpu && second.storage().backend == Backend::cpu &&
      cpu::can_pair(first.storage(), second.storage())) {
    if (!accumulate) zero_rows(context, {num_rows, second.n()}, y);
    accumulate = true;
    // The second product's adapters read its input rows, which exist in memory only on the path below.
    if (!any_adapter(input.adapters, num_rows, {first.adapter_slot(), second.adapter_slot()}))
      return cpu::linear_pair(context, first.storage(), activation, second.storage(), input, num_rows,
                              floats(y));
  }
  linear(context, first, input, num_rows, between, {.activation = activation});
  LinearInput made = LinearInput::rows(between);
  made.adapters = input.adapters;
  linear(context, second, made, num_rows, y, {.accumulate = accumulate});
}

void linear_max(const KernelContext& context, const PackedLinear& weight, const LinearInput& input,
                std::span<LogitMax> largest) {
  CHECK(weight.storage().form == LinearForm::stacked && !on_device(context));
  if (largest.empty()) return;
  if (weight.storage().backend == Backend::cpu)
    cpu::linear_max(context, weight.storage(), input, largest);
  else
    reference::linear_max(context, weight.storage(), input, largest);
}

void packed_rows(const KernelContext& context, const PackedLinear& weight, std::span<const std::int32_t> ids,
                 const Buffer& out, const EmbeddedIds& own) {
  if (on_device(context)) return device_ops::packed_rows(*context.device, weight.storage(), ids, out, own);
  for_rows(context, std::ssize(ids), weight.k(), [&](std::int64_t row) {
    const std::int64_t id = ids[static_cast<std::size_t>(row)];
    if (own.has(id))
      weight.row(id - own.first_id, floats(out, row));
    else
      std::fill_n(floats(out, row), weight.k(), 0.0f);
  });
}

LinearArithmetic arithmetic_with(LinearType type, const LinearArithmetic& scheme) {
  return type == LinearType::int8 && scheme.number == InputNumber::e4m3 ? LinearArithmetic{} : scheme;
}

bool multiplies_in_int8(DType stored) {
  return is_quantized(stored) && weight_format(stored).codes == nullptr;
}

Result<LinearType> choose_linear_type(std::string_view dtype, DType stored, CpuLevel level) {
  if (dtype == "float32") return LinearType::float32;
  if (dtype == "bfloat16") return LinearType::bfloat16;
  if (dtype == "float16") return LinearType::float16;
  if (dtype == "int8") return LinearType::int8;
  if (dtype != "auto") {
    return invalid_argument(
        concat("dtype '", dtype, "' is not supported; use auto, float32, bfloat16, float16 or int8"));
  }
  if (multiplies_in_int8(stored)) return LinearType::int8;
  return level == CpuLevel::portable ? LinearType::float32 : LinearType::bfloat16;
}

std::int64_t estimated_packed_bytes(DType stored, std::int64_t elements, CpuLevel level) {
  PackedFormat format =
      multiplies_in_int8(stored) ? int8_panels(stored, level) : weight_format(stored).bf16_panels;
  if (stored == DType::int4) format = PackedFormat::q4g;  // most have groups of 128
  const cpu::PanelLayout& panel = cpu::panel_layout(format);
  const auto inputs = static_cast<double>(panel.block_inputs * cpu::kStrip);
  return static_cast<std::int64_t>(static_cast<double>(elements) * static_cast<double>(panel.block_bytes) /
                                   inputs);
}

}  // namespace pagoda
