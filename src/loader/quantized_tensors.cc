#include "loader/quantized_tensors.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/printable.h"
#include "tensor/memory.h"

namespace pagoda {
namespace {

constexpr std::size_t kTensorPage = 4096;
constexpr std::int64_t kPageBytes = 4096;

std::size_t round_up(std::size_t bytes) { return (bytes + kTensorPage - 1) / kTensorPage * kTensorPage; }

// A tensor that holds the numbers of a quantised weight.
struct Found {
  MakeWeight* make = nullptr;
  std::string name;  // name of the weight
};

std::string without(std::string_view name, std::string_view end) {
  return std::string(name.substr(0, name.size() - end.size()));
}

constexpr std::string_view kQweight = ".qweight", kPacked = "_packed";

// True for gpt-oss' MXFP4, whose powers of two are in the corresponding `_scales`.
bool has_mxfp4_blocks(const FileTensor& tensor) {
  return tensor.type == "U8" && tensor.name.ends_with("_blocks");
}

// The first compressed-tensors wrote zero points for 8-bit floats, all zero.
bool is_no_zero_point(const FileTensor& tensor) {
  return tensor.type == "F8_E4M3" && tensor.name.ends_with("_zero_point") &&
         all_bytes_are(stored_bytes(tensor), std::byte{0});
}

Found found_in(const Quantization& how, const StoredTensors& stored, const FileTensor& tensor) {
  const std::string& name = tensor.name;
  const auto has = [&](std::string_view end) { return stored.contains(concat(name, end)); };
  if ((tensor.type == "U8" || tensor.dtype) &&  // bytes in any type: bnb_4bit_quant_storage
      (has(".quant_state.bitsandbytes__nf4") || has(".quant_state.bitsandbytes__fp4")))
    return {bitsandbytes_weight, name};
  if (name.ends_with(kQweight))
    return {how.method == QuantizationMethod::awq ? awq_weight : gptq_weight,
            concat(without(name, kQweight), ".weight")};
  if (has_mxfp4_blocks(tensor)) return {mxfp4_blocks_weight, name};
  if (how.method == QuantizationMethod::bitnet)
    return tensor.type == "U8" && name.ends_with(".weight") ? Found{ternary_weight, name} : Found{};
  if (how.method == QuantizationMethod::mlx)
    return tensor.type == "U32" && name.ends_with(".weight") ? Found{mlx_weight, name} : Found{};
  if (name.ends_with(kPacked) && tensor.type == "I32") return {packed_weight, without(name, kPacked)};
  if (name.ends_with(kPacked) && tensor.type == "U8") return {float4_weight, without(name, kPacked)};
  if (tensor.type == "F8_E4M3" && !name.ends_with("_scale") && !is_no_zero_point(tensor))
    return {float8_weight, name};
  if (tensor.type == "I8" && name.ends_with(".weight")) return {int8_weight, name};
  if (tensor.type == "U8" && (has("_scale") || has("_weight_scale"))) return {float4_weight, name};
  return {};
}

// True for tensors beside quantised weights: scales of activations, and other unused ones.
bool is_no_weight(std::string_view name) {
  constexpr auto kEnds = std::to_array<std::string_view>(
      {".input_scale", ".input_global_scale", ".activation_scale", ".input_scale_ub", ".output_scale",
       ".q_scale", ".prob_scale", ".weight_format", "_input_scale", "_activation_scale", ".input_zero_point",
       ".output_zero_point"});
  return is_kv_scale(name) ||
         std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
}

// Makes a weight that is stored unquantised, by copying its rows.
QuantizedWeight copied_weight(const FileTensor& tensor) {
  QuantizedWeight out{.dtype = *tensor.dtype, .shape = tensor.shape, .parts = {tensor.name}};
  const std::int64_t row_bytes = dtype_bytes(out.dtype, out.columns());
  out.decode = [data = tensor.data, row_bytes](std::int64_t first, std::int64_t count, std::byte* to) {
    std::copy_n(data + first * row_bytes, count * row_bytes, to);
    return ok_status();
  };
  return out;
}

// Returns the stored position of a row, in heads whose rows alternate between their halves.
std::int64_t alternating_place(std::int64_t row, std::int64_t head_size) {
  const std::int64_t half = head_size / 2, in_head = row % head_size;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

Status read_alternating(const std::string& name, std::int64_t head_size, QuantizedWeight& weight) {
  if (head_size < 2 || head_size % 2 != 0 || weight.shape.size() != 2 || weight.rows() % head_size != 0)
    return bad_tensor(name, "has no heads of ", head_size, " rows");
  const std::int64_t row_bytes = dtype_bytes(weight.dtype, weight.columns());
  weight.decode = [stored = std::move(weight.decode), head_size, row_bytes](
                      std::int64_t first, std::int64_t count, std::byte* to) -> Status {
    for (std::int64_t row = first; row < first + count; ++row, to += row_bytes)
      PAGODA_RETURN_IF_ERROR(stored(alternating_place(row, head_size), 1, to));
    return ok_status();
  };
  return ok_status();
}

// True for factors of activations, which AWQ's search leaves if no preceding matrix can absorb them.
bool scales_activations(std::string_view name) {
  return name.ends_with(".pre_quant_scale") || name.ends_with(".act.scales");
}

}  // namespace

bool is_kv_scale(std::string_view name) {
  constexpr auto kEnds = std::to_array<std::string_view>(
      {".k_scale", ".v_scale", ".kv_scale", ".k_proj.output_scale", ".v_proj.output_scale"});
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
}

Result<Quantization> quantization_by_tensors(const Quantization& how, const StoredTensors& stored) {
  if (how.method != QuantizationMethod::none) return how;
  for (const auto& [name, tensor] : stored) {
    if (name.ends_with(".SCB") || name.find(".quant_state.bitsandbytes__") != name.npos)
      return Quantization{.method = QuantizationMethod::bitsandbytes};
    if (tensor.type == "F8_E4M3" &&
        (stored.contains(name + "_scale_inv") || stored.contains(name + "_scale")))
      return Quantization{.method = QuantizationMethod::fp8,
                          .schemes = {{.number = QuantizedNumber::e4m3,
                                       .scales = ScaleShape::block,
                                       .block_rows = 128,
                                       .block_columns = 128},
                                      {.number = QuantizedNumber::e4m3, .scales = ScaleShape::tensor},
                                      {.number = QuantizedNumber::e4m3, .scales = ScaleShape::channel}}};
    if (has_mxfp4_blocks(tensor)) return Quantization{.method = QuantizationMethod::mxfp4};
    if (tensor.type == "U8" && stored.contains(name + "_scale") && stored.contains(name + "_scale_2"))
      return Quantization{.method = QuantizationMethod::modelopt,
                          .schemes = {{.number = QuantizedNumber::nvfp4, .group_size = 16}}};
    if (name.ends_with(kQweight) || name.ends_with(".weight_packed"))
      return unimplemented(concat("tensor '", printable(name), "' is quantised by ",
                                  name.ends_with(kQweight) ? "GPTQ or AWQ" : "compressed-tensors",
                                  ", and config.json has no quantization_config that says how"));
  }
  return how;
}

Result<std::unique_ptr<QuantizedTensors>> QuantizedTensors::find(const Quantization& how,
                                                                 const StoredTensors& stored,
                                                                 const AlternatingRows& alternating) {
  std::unique_ptr<QuantizedTensors> out(new QuantizedTensors);
  const bool quantised = how.method != QuantizationMethod::none;
  if (!quantised && alternating.empty()) return out;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : stored) {
    if (quantised && scales_activations(name))
      return unsupported_quantization(
          concat(quantization_name(how.method), " with factors of activations ('", printable(name), "')"));
    if (quantised && (is_no_weight(name) || is_no_zero_point(tensor))) out->parts_.insert(name);
    Found found = quantised ? found_in(how, stored, tensor) : Found{};
    const bool copied = found.make == nullptr && tensor.dtype && alternating.contains(name);
    if (found.make == nullptr && !copied) continue;
    QuantizedWeight weight;
    if (copied) {
      found.name = name;
      weight = copied_weight(tensor);
    } else {
      PAGODA_ASSIGN_OR_RETURN(weight, found.make(how, stored, tensor));
      if (!how.says(weight.number))
        return bad_tensor(name, "is not stored as quantization_config says: ", how.text());
      PAGODA_ASSIGN_OR_RETURN(weight.inputs, pagoda::inputs_of(how, stored, weight, found.name));
      if (stored.contains(found.name) && found.name != name)
        return bad_tensor(found.name, "is there twice, quantised and not");
    }
    if (const auto heads = alternating.find(found.name); heads != alternating.end())
      PAGODA_RETURN_IF_ERROR(read_alternating(found.name, heads->second, weight));
    out->parts_.insert(weight.parts.begin(), weight.parts.end());
    out->size_ +=
        round_up(static_cast<std::size_t>(weight.rows() * dtype_bytes(weight.dtype, weight.columns())));
    names.push_back(found.name);
    out->places_.push_back({.weight = std::move(weight), .stored = {}});
  }
  if (out->size_ == 0) return out;
  void* const address =
      ::mmap(nullptr, out->size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return reservation_refused(out->size_);
  out->data_ = static_cast<std::byte*>(address);
  std::byte* next = out->data_;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Place& place = out->places_[i];
    place.begin = next;
    next += round_up(static_cast<std::size_t>(place.weight.rows() * place.row_bytes()));
    for (const std::string& part : place.weight.parts) {
      const FileTensor& tensor = stored.find(part)->second;
      place.stored.push_back({DType::u8, {tensor.bytes}, tensor.data});
    }
    out->tensors_.emplace(names[i], TensorView{place.weight.dtype, place.weight.shape, place.begin});
  }
  return out;
}

QuantizedTensors::~QuantizedTensors() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

const QuantizedTensors::Place* QuantizedTensors::place_of(const TensorView& tensor) const {
  if (data_ == nullptr || tensor.data < data_ || tensor.data >= data_ + size_) return nullptr;
  const auto behind = std::ranges::upper_bound(places_, tensor.data, std::less(), &Place::begin);
  return &*(behind - 1);
}

LinearArithmetic QuantizedTensors::inputs_of(const TensorView& tensor) const {
  const Place* const place = place_of(tensor);
  return place == nullptr ? LinearArithmetic{} : place->weight.inputs;
}

Status QuantizedTensors::bring_in(const TensorView& tensor, ThreadPool* pool) const {
  const Place* const place = place_of(tensor);
  if (place == nullptr || tensor.bytes() == 0) return ok_status();
  const std::int64_t row_bytes = place->row_bytes(), from = tensor.data - place->begin;
  const std::int64_t first = from / row_bytes;
  const std::int64_t end = std::min((from + tensor.bytes() - 1) / row_bytes + 1, place->weight.rows());
  std::byte* const begin = data_ + (place->begin - data_ + first * row_bytes) / kPageBytes * kPageBytes;
  const auto bytes = round_up(static_cast<std::size_t>(place->begin + end * row_bytes - begin));
  const std::lock_guard lock(mutex_);
  if (::mprotect(begin, bytes, PROT_READ | PROT_WRITE) != 0)
    return resource_exhausted(concat("no memory for ", bytes, " bytes of a quantised weight"));
  PAGODA_RETURN_IF_ERROR(decode_rows(*place, first, end, pool));
  ++place->users;
  return ok_status();
}

// Decodes the rows [first, end) that are not ready.
Status QuantizedTensors::decode_rows(const Place& place, std::int64_t first, std::int64_t end,
                                     ThreadPool* pool) {
  constexpr std::int64_t kRows = 64;  // per task: some layouts store neighbours of a column together
  if (place.ready.empty()) place.ready.resize(static_cast<std::size_t>(place.weight.rows()));
  const auto is_ready = [&](std::int64_t row) { return place.ready[static_cast<std::size_t>(row)]; };
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;  // first row, rows
  for (std::int64_t row = first; row < end; ++row) {
    if (is_ready(row)) continue;
    if (runs.empty() || runs.back().first + runs.back().second != row || runs.back().second == kRows)
      runs.emplace_back(row, 0);
    ++runs.back().second;
  }
  std::mutex mutex;
  Status status;
  const auto decode = [&](std::int64_t run, int) {
    const auto [row, count] = runs[static_cast<std::size_t>(run)];
    const Status made = place.weight.decode(row, count, place.begin + row * place.row_bytes());
    if (made.ok()) return;
    const std::lock_guard lock(mutex);
    if (status.ok()) status = made;
  };
  if (pool != nullptr)
    pool->parallel_for(std::ssize(runs), decode);
  else
    for (std::int64_t run = 0; run < std::ssize(runs); ++run) decode(run, 0);
  if (!status.ok()) return status;
  std::fill(place.ready.begin() + first, place.ready.begin() + end, true);
  return status;
}

std::vector<TensorView> QuantizedTensors::give_back(const TensorView& tensor) const {
  const Place* const place = place_of(tensor);
  if (place == nullptr) return {};
  const std::lock_guard lock(mutex_);
  if (place->users == 0 || --place->users > 0) return {};
  place->ready.clear();
  ::mmap(place->begin, round_up(static_cast<std::size_t>(place->weight.rows() * place->row_bytes())),
         PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return place->stored;
}

}  // namespace pagoda
