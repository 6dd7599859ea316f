#include "models/quantize/quantize_gguf.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "kernels/dequantize.h"
#include "kernels/quantize.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

constexpr std::string_view kHead = "output.weight", kEmbedding = "token_embd.weight";
constexpr std::string_view kOfWeight = ".weight", kScale = ".scale";

// llama.cpp's file type numbers (general.file_type).
constexpr std::pair<DType, std::uint32_t> kFileTypes[] = {
    {DType::f32, 0},   {DType::f16, 1},   {DType::q4_0, 2}, {DType::q8_0, 7},
    {DType::q4_k, 14}, {DType::q6_k, 18}, {DType::bf16, 32}};

bool has_tensor(const GgufModel& model, std::string_view name) {
  return std::ranges::find(model.tensors, name, &GgufRows::name) != model.tensors.end();
}

bool stays(const GgufModel& model, const GgufRows& tensor) {
  static constexpr auto kSmall = std::to_array<std::string_view>(
      {"_norm.weight", "ffn_gate_inp", "position_embd.weight", "token_types.weight", "ssm_conv1d",
       "shortconv.conv", "altup", "laurel", "per_layer_model_proj", "attn_rel_b.weight", "time_mix_"});
  const auto axes = std::ranges::count_if(tensor.shape, [](std::int64_t extent) { return extent > 1; });
  if (!tensor.name.ends_with(kOfWeight) || axes < 2) return true;
  if (std::ranges::any_of(kSmall,
                          [&](std::string_view part) { return tensor.name.find(part) != std::string::npos; }))
    return true;
  // Its values are multiplied by a tensor that exists only for NVFP4 weights.
  const std::string stem = tensor.name.substr(0, tensor.name.size() - kOfWeight.size());
  return tensor.kept == DType::nvfp4 && has_tensor(model, concat(stem, kScale));
}

DType type_of(const GgufRows& tensor, DType wanted, bool tied) {
  const bool is_head = tensor.name == kHead || (tensor.name == kEmbedding && tied);
  DType type = wanted;
  if (is_head && (wanted == DType::q4_0 || wanted == DType::q4_k)) type = DType::q6_k;
  const auto fits = [&](DType each) { return tensor.shape.back() % dtype_info(each).block_elements == 0; };
  if (!fits(type)) type = type == DType::q4_k ? DType::q5_0 : type == DType::q6_k ? DType::q8_0 : type;
  return fits(type) ? type : DType::f16;
}

// Converts rows of a part of a tensor from one type to another.
class Pieces {
 public:
  Pieces(const GgufRows& tensor, const GgufPart& part, DType to, ThreadPool& pool)
      : tensor_(tensor), part_(part), to_(to), pool_(pool) {
    const TensorView& stored = part.stored;
    // A vector whose matrix has reordered rows is reordered by element.
    columns_ = tensor.rotary_size > 0 && stored.shape.size() == 1 ? 1 : stored.shape.back();
    rows_ = stored.elements() / columns_;
    if (part.transposed) {
      whole_.resize(static_cast<std::size_t>(stored.elements()));
      dequantize(stored.dtype, stored.data, stored.elements(), whole_.data());
      std::swap(rows_, columns_);
    }
    constexpr std::int64_t kPieceElements = std::int64_t{1} << 23;
    at_once_ = std::clamp<std::int64_t>(kPieceElements / columns_, 1, rows_);
  }
  bool done() const { return row_ == rows_; }
  std::int64_t bytes_read() const { return part_.stored.bytes() / rows_ * row_; }

  // Converts the next rows. corrupt_data: a weight is not finite.
  Status next(std::vector<std::byte>& out) {
    const std::int64_t count = std::min(at_once_, rows_ - row_), to_bytes = dtype_bytes(to_, columns_);
    out.resize(static_cast<std::size_t>(count * to_bytes));
    const auto store = [&](std::int64_t row, std::span<float> values) {
      for (float& value : values) value = value * part_.factor + tensor_.offset;
      quantize(to_, values.data(), columns_, out.data() + row * to_bytes);
    };
    PAGODA_RETURN_IF_ERROR(convert_rows(
        tensor_.name, count, columns_, pool_,
        [&](std::int64_t row, std::span<float> values) { load(row_ + row, values); }, store));
    row_ += count;
    return ok_status();
  }

 private:
  void load(std::int64_t row, std::span<float> values) const {
    if (part_.transposed) {
      for (std::int64_t column = 0; column < columns_; ++column)
        values[static_cast<std::size_t>(column)] = whole_[static_cast<std::size_t>(column * rows_ + row)];
      return;
    }
    const TensorView& stored = part_.stored;
    const std::int64_t row_bytes = dtype_bytes(stored.dtype, columns_);
    dequantize(stored.dtype, stored.data + source_row(row) * row_bytes, columns_, values.data());
    if (tensor_.column_blocks.empty()) return;
    const std::vector<float> before(values.begin(), values.end());
    const std::size_t size = before.size() / tensor_.column_blocks.size();
    for (std::size_t i = 0; i < before.size(); ++i)
      values[i] = before[static_cast<std::size_t>(tensor_.column_blocks[i / size]) * size + i % size];
  }

  std::int64_t source_row(std::int64_t row) const {
    if (tensor_.rotary_size == 0) return row;
    const std::int64_t at = row % tensor_.head_size - tensor_.rotary_begin, half = tensor_.rotary_size / 2;
    if (at < 0 || at >= tensor_.rotary_size) return row;
    return row - at + at % 2 * half + at / 2;
  }

  const GgufRows& tensor_;
  const GgufPart& part_;
  DType to_;
  ThreadPool& pool_;
  std::vector<float> whole_;  // a transposed part
  std::int64_t columns_ = 0, rows_ = 0, at_once_ = 1, row_ = 0;
};

bool is_as_stored(const GgufRows& tensor, const GgufPart& part, DType type) {
  return part.stored.dtype == type && part.factor == 1 && !part.transposed && tensor.rotary_size == 0 &&
         tensor.offset == 0 && tensor.column_blocks.empty();
}

std::vector<GgufEntry> new_metadata(const GgufModel& model, DType type) {
  std::vector<GgufEntry> entries = model.metadata;
  std::erase_if(entries, [](const GgufEntry& entry) {
    return entry.key == "general.file_type" || entry.key == "general.quantization_version" ||
           entry.key.starts_with("split.");
  });
  for (const auto& [each, number] : kFileTypes)
    if (each == type) entries.push_back(integer_entry("general.file_type", number));
  entries.push_back(integer_entry("general.quantization_version", 2));
  return entries;
}

}  // namespace

std::int64_t GgufRows::bytes() const {
  std::int64_t total = 0;
  for (const GgufPart& part : parts) total += part.stored.bytes();
  return total;
}

Status convert_rows(const std::string& tensor, std::int64_t count, std::int64_t columns, ThreadPool& pool,
                    const OfRow& load, const OfRow& store) {
  std::atomic<bool> finite = true;
  const std::int64_t per_tile = std::max<std::int64_t>(1, 16384 / columns);
  pool.parallel_for((count + per_tile - 1) / per_tile, [&](std::int64_t tile, int) {
    std::vector<float> values(static_cast<std::size_t>(columns));
    for (std::int64_t row = tile * per_tile; row < std::min(count, (tile + 1) * per_tile); ++row) {
      load(row, values);
      if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
        finite = false;
        return;
      }
      store(row, values);
    }
  });
  if (finite) return ok_status();
  return corrupt_data(concat("tensor '", printable(tensor), "' has a weight that is not a finite number"));
}

GgufModel model_of(const GgufFile& file) {
  GgufModel model{.metadata = metadata_entries(file),
                  .tensors = {},
                  .alignment = file.integer("general.alignment").value_or(32)};
  for (const FileTensor& tensor : file.tensor_list())
    model.tensors.push_back({.name = tensor.name,
                             .shape = tensor.shape,
                             .kept = *tensor.dtype,
                             .parts = {{.stored = {*tensor.dtype, tensor.shape, tensor.data}}}});
  return model;
}

std::vector<DType> plan_quantization(const GgufModel& model, DType type) {
  const bool tied = !has_tensor(model, kHead);
  std::vector<DType> types;
  for (const GgufRows& tensor : model.tensors)
    types.push_back(stays(model, tensor) ? tensor.kept : type_of(tensor, type, tied));
  return types;
}

Result<Quantized> quantize_gguf(const ModelSource& source, const GgufModel& model, DType type,
                                const std::string& to, ThreadPool& pool,
                                const std::function<void(std::int64_t)>& on_progress) {
  const std::vector<DType> types = plan_quantization(model, type);
  std::vector<GgufTensorEntry> entries;
  for (std::size_t i = 0; i < types.size(); ++i)
    entries.push_back({.name = model.tensors[i].name, .shape = model.tensors[i].shape, .dtype = types[i]});
  PAGODA_ASSIGN_OR_RETURN(
      auto writer, GgufWriter::create(to, new_metadata(model, type), std::move(entries), model.alignment));
  Quantized result;
  std::vector<std::byte> piece;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const GgufRows& tensor = model.tensors[i];
    for (const GgufPart& part : tensor.parts) {
      const TensorView& stored = part.stored;
      PAGODA_RETURN_IF_ERROR(source.bring_in(stored, &pool));
      if (is_as_stored(tensor, part, types[i])) {
        PAGODA_RETURN_IF_ERROR(writer->write(stored_bytes(stored)));
        result.bytes_after += stored.bytes();
      } else {
        if (is_quantized(stored.dtype)) result.twice += stored.bytes();
        for (Pieces pieces(tensor, part, types[i], pool); !pieces.done();) {
          PAGODA_RETURN_IF_ERROR(pieces.next(piece));
          PAGODA_RETURN_IF_ERROR(writer->write(piece));
          result.bytes_after += static_cast<std::int64_t>(piece.size());
          on_progress(result.bytes_before + pieces.bytes_read());
        }
      }
      source.give_back(stored);
      on_progress(result.bytes_before += stored.bytes());
    }
  }
  PAGODA_RETURN_IF_ERROR(writer->finish());
  return result;
}

}  // namespace pagoda
