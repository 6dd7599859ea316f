#include "models/quantize/quantize_folder.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <filesystem>
#include <span>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strict_json.h"
#include "base/strings.h"
#include "kernels/dequantize.h"
#include "loader/json_object.h"
#include "loader/new_file.h"
#include "loader/printable.h"
#include "loader/quantization.h"
#include "loader/safetensors_writer.h"
#include "models/read_config.h"
#include "models/weights/weight_parts.h"

namespace pagoda {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

constexpr std::string_view kWeightSuffix = ".weight";

constexpr FolderScheme kSchemes[] = {
    {"w8a8", RowScheme::int8, "int-quantized",
     R"({"num_bits":8,"type":"int","symmetric":true,"strategy":"channel","dynamic":false})",
     R"({"num_bits":8,"type":"int","symmetric":true,"strategy":"token","dynamic":true})"},
    {"w4a16", RowScheme::int4, "pack-quantized",
     R"({"num_bits":4,"type":"int","symmetric":true,"strategy":"group","dynamic":false})", ""},
    {"fp8", RowScheme::e4m3, "float-quantized",
     R"({"num_bits":8,"type":"float","symmetric":true,"strategy":"channel","dynamic":false})",
     R"({"num_bits":8,"type":"float","symmetric":true,"strategy":"token","dynamic":true})"},
    {"mxfp4", RowScheme::mxfp4, "mxfp4-pack-quantized",
     R"({"num_bits":4,"type":"float","symmetric":true,"strategy":"group","group_size":32,"dynamic":false})",
     ""},
};

std::string module_name(std::string_view tensor) {
  return std::string(tensor.substr(0, tensor.size() - kWeightSuffix.size()));
}

std::string_view plain_type(DType dtype) {
  return dtype == DType::f32 ? "F32" : dtype == DType::f16 ? "F16" : "BF16";
}

// True if such rows can be stored; multiples of eight keep all tensors of a file aligned.
bool can_store(RowScheme scheme, const TensorView& weight) {
  const bool groups = scheme == RowScheme::int4 || scheme == RowScheme::mxfp4;
  return weight.rows() % 8 == 0 && weight.columns() % (groups ? 32 : 8) == 0;
}

// Returns the largest common group size that divides all rows.
std::int32_t group_size(const ModelSource& source, const std::vector<std::string>& tensors) {
  for (const std::int32_t size : {128, 64})
    if (std::ranges::all_of(
            tensors, [&](const std::string& name) { return source.find(name)->columns() % size == 0; }))
      return size;
  return 32;
}

// Returns the parts of a quantised matrix in writing order.
std::vector<SafetensorsEntry> entries_of(const std::string& tensor, const TensorView& weight,
                                         RowScheme scheme, std::int64_t group) {
  const std::int64_t rows = weight.rows(), columns = weight.columns();
  const std::int64_t codes = rows * row_code_bytes(scheme, columns),
                     scales = rows * row_scale_bytes(scheme, columns, group);
  switch (scheme) {
    case RowScheme::int8:
    case RowScheme::e4m3:
      return {{tensor, scheme == RowScheme::int8 ? "I8" : "F8_E4M3", {rows, columns}, codes},
              {tensor + "_scale", "BF16", {rows, 1}, scales}};
    case RowScheme::int4:
      return {{tensor + "_packed", "I32", {rows, columns / 8}, codes},
              {tensor + "_scale", "BF16", {rows, columns / group}, scales}};
    case RowScheme::mxfp4:
      return {{tensor + "_packed", "U8", {rows, columns / 2}, codes},
              {tensor + "_scale", "U8", {rows, columns / 32}, scales}};
  }
  return {};
}

// Writes one matrix to the new folder: its codes in pieces, then its scales.
class Matrix {
 public:
  Matrix(std::string name, const TensorView& weight, RowScheme scheme, std::int64_t group, ThreadPool& pool)
      : name_(std::move(name)), weight_(weight), scheme_(scheme), group_(group), pool_(pool) {
    scales_.resize(static_cast<std::size_t>(weight.rows() * scale_bytes()));
  }

  template <class OnProgress>
  Status write_to(SafetensorsWriter& writer, const OnProgress& on_progress) {
    constexpr std::int64_t kPieceElements = std::int64_t{1} << 23;
    const std::int64_t rows = weight_.rows(), columns = weight_.columns();
    const std::int64_t at_once =
        std::max<std::int64_t>(1, kPieceElements / std::max<std::int64_t>(1, columns));
    std::vector<std::byte> piece;
    for (std::int64_t row = 0; row < rows; row += at_once) {
      const std::int64_t count = std::min(at_once, rows - row);
      PAGODA_RETURN_IF_ERROR(quantize_rows(row, count, piece));
      PAGODA_RETURN_IF_ERROR(writer.write(piece));
      on_progress(dtype_bytes(weight_.dtype, (row + count) * columns));
    }
    return writer.write(scales_);
  }

 private:
  std::int64_t scale_bytes() const { return row_scale_bytes(scheme_, weight_.columns(), group_); }

  Status quantize_rows(std::int64_t first, std::int64_t count, std::vector<std::byte>& piece) {
    const std::int64_t columns = weight_.columns(), row_bytes = row_code_bytes(scheme_, columns);
    piece.resize(static_cast<std::size_t>(count * row_bytes));
    return convert_rows(
        name_, count, columns, pool_,
        [&](std::int64_t row, std::span<float> values) {
          dequantize_row(weight_, first + row, values.data());
        },
        [&](std::int64_t row, std::span<float> values) {
          quantize_row(scheme_, values, group_, piece.data() + row * row_bytes,
                       scales_.data() + (first + row) * scale_bytes());
        });
  }

  std::string name_;
  const TensorView& weight_;
  RowScheme scheme_;
  std::int64_t group_;
  ThreadPool& pool_;
  std::vector<std::byte> scales_;
};

// The new folder; removed again unless kept.
class NewFolder {
 public:
  explicit NewFolder(std::string path) : path_(std::move(path)) {}
  ~NewFolder() {
    std::error_code error;
    if (made_ && !kept_) fs::remove_all(path_, error);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  Status make() {
    std::error_code error;
    made_ = fs::create_directory(path_, error);
    if (made_) return ok_status();
    return invalid_argument(concat("cannot make the folder '", printable(path_),
                                   "': ", error ? error.message() : std::string("it exists")));
  }
  void keep() { kept_ = true; }
  std::string file(std::string_view name) const { return (fs::path(path_) / name).string(); }

 private:
  std::string path_;
  bool made_ = false, kept_ = false;
};

// Copies everything except weights and files written anew: tokenizer, chat template, licence, folders of
// settings.
Status copy_side_files(const std::string& from, const NewFolder& to) {
  constexpr auto kWeights = std::to_array<std::string_view>(
      {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".index.json"});
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(from, error)) {
    const std::string name = entry.path().filename().string();
    const bool weights =
        std::ranges::any_of(kWeights, [&](std::string_view end) { return name.ends_with(end); });
    if (weights || name == "config.json" ||
        std::ranges::find(kQuantizationFiles, name) != kQuantizationFiles.end() || name.starts_with("."))
      continue;
    const bool settings = entry.is_directory(error) && fs::exists(entry.path() / "config.json", error) &&
                          name.find("Pooling") != name.npos;
    if (!settings && !entry.is_regular_file(error)) continue;
    fs::copy(entry.path(), to.file(name), fs::copy_options::none, error);
    if (error) return invalid_argument(concat("cannot copy '", printable(name), "': ", error.message()));
  }
  return ok_status();
}

json::object quantization_config(const FolderScheme& scheme, const FolderPlan& plan) {
  json::object weights = json::parse(json::string_view(scheme.weights)).as_object();
  if (scheme.rows == RowScheme::int4) weights["group_size"] = plan.group;
  json::object group = {{"targets", {"Linear"}}, {"weights", std::move(weights)}};
  group["input_activations"] =
      scheme.activations.empty() ? json::value() : json::parse(json::string_view(scheme.activations));
  group["output_activations"] = nullptr;
  return {{"quant_method", "compressed-tensors"},  {"format", scheme.format},
          {"quantization_status", "compressed"},   {"config_groups", {{"group_0", std::move(group)}}},
          {"ignore", json::value_from(plan.kept)}, {"kv_cache_scheme", nullptr}};
}

Status write_config(const ModelSource& source, const FolderScheme& scheme, const FolderPlan& plan,
                    const NewFolder& to) {
  PAGODA_ASSIGN_OR_RETURN(json::object config, parse_json_object(source.config_json(), "config.json"));
  config["quantization_config"] = quantization_config(scheme, plan);
  PAGODA_ASSIGN_OR_RETURN(auto file, NewFile::create(to.file("config.json")));
  PAGODA_RETURN_IF_ERROR(file->write(python_json(json::serialize(config)) + "\n"));
  return file->finish();
}

}  // namespace

const FolderScheme* find_folder_scheme(std::string_view name) {
  const auto found = std::ranges::find(kSchemes, name, &FolderScheme::name);
  return found == std::end(kSchemes) ? nullptr : found;
}

Result<FolderPlan> plan_folder(const ModelSource& source, const FolderScheme& scheme) {
  PAGODA_ASSIGN_OR_RETURN(const auto info, read_model_config(source));
  const WeightNames names = info.names(ModelFormat::hugging_face);
  if (names.transposed)
    return unimplemented("a model that stores its matrices [in, out] cannot be quantised");
  const auto how = read_quantization_files(source.config_json(),
                                           [&](std::string_view name) { return source.side_file(name); });
  if (!how) return how.error();
  if (how->method != QuantizationMethod::none)
    return unimplemented(concat("the model is quantised already: ", how->text()));
  FolderPlan plan;
  for (const std::string& name : source.tensor_names()) {
    const TensorView& tensor = *source.find(name);
    const bool plain =
        tensor.dtype == DType::f32 || tensor.dtype == DType::f16 || tensor.dtype == DType::bf16;
    if (is_quantized(tensor.dtype))
      return unimplemented(concat("tensor '", printable(name), "' is quantised already"));
    const auto part = part_of(names, name.ends_with(kWeightSuffix) ? module_name(name) : name);
    const bool wanted = part && is_sublayer_part(part->part);
    if (wanted && tensor.shape.size() > 2)
      return unimplemented(
          concat("experts stacked in one tensor ('", printable(name), "') cannot be quantised"));
    if (!plain || !name.ends_with(kWeightSuffix) || tensor.shape.size() != 2) continue;
    if (wanted && can_store(scheme.rows, tensor))
      plan.quantised.push_back(name);
    else
      plan.kept.push_back(module_name(name));
  }
  if (plan.quantised.empty())
    return unimplemented(concat("no matrix of the model can be stored as ", scheme.name));
  if (std::ranges::find(plan.kept, "lm_head") == plan.kept.end()) plan.kept.push_back("lm_head");
  if (scheme.rows == RowScheme::int4) plan.group = group_size(source, plan.quantised);
  return plan;
}

Result<Quantized> quantize_folder(const ModelSource& source, const FolderScheme& scheme,
                                  const std::string& to, ThreadPool& pool,
                                  const std::function<void(std::int64_t)>& on_progress) {
  PAGODA_ASSIGN_OR_RETURN(const FolderPlan plan, plan_folder(source, scheme));
  // Ordered by element size, so that all are aligned: shapes, float32, codes and scales, the rest.
  std::vector<std::string> wide, narrow;
  for (const std::string& name : source.tensor_names()) {
    if (std::ranges::binary_search(plan.quantised, name)) continue;
    (source.find(name)->dtype == DType::f32 ? wide : narrow).push_back(name);
  }
  std::vector<SafetensorsEntry> entries;
  if (scheme.rows == RowScheme::int4)
    for (const std::string& name : plan.quantised) entries.push_back({name + "_shape", "I64", {2}, 16});
  const auto add_plain = [&](const std::string& name) {
    const TensorView& tensor = *source.find(name);
    entries.push_back({name, std::string(plain_type(tensor.dtype)), tensor.shape, tensor.bytes()});
  };
  std::ranges::for_each(wide, add_plain);
  for (const std::string& name : plan.quantised)
    std::ranges::move(entries_of(name, *source.find(name), scheme.rows, plan.group),
                      std::back_inserter(entries));
  std::ranges::for_each(narrow, add_plain);

  Quantized result;
  for (const SafetensorsEntry& entry : entries) result.bytes_after += entry.bytes;
  NewFolder folder(to);
  PAGODA_RETURN_IF_ERROR(folder.make());
  PAGODA_ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::create(to, std::move(entries)));
  if (scheme.rows == RowScheme::int4)
    for (const std::string& name : plan.quantised)
      PAGODA_RETURN_IF_ERROR(writer->write(std::as_bytes(std::span(source.find(name)->shape))));
  const auto copy = [&](const std::vector<std::string>& names) -> Status {
    for (const std::string& name : names) {
      const TensorView& tensor = *source.find(name);
      PAGODA_RETURN_IF_ERROR(writer->write(stored_bytes(tensor)));
      source.give_back(tensor);
      on_progress(result.bytes_before += tensor.bytes());
    }
    return ok_status();
  };
  PAGODA_RETURN_IF_ERROR(copy(wide));
  for (const std::string& name : plan.quantised) {
    const TensorView& tensor = *source.find(name);
    Matrix matrix(name, tensor, scheme.rows, plan.group, pool);
    PAGODA_RETURN_IF_ERROR(source.bring_in(tensor, &pool));
    PAGODA_RETURN_IF_ERROR(
        matrix.write_to(*writer, [&](std::int64_t bytes) { on_progress(result.bytes_before + bytes); }));
    source.give_back(tensor);
    result.bytes_before += tensor.bytes();
  }
  PAGODA_RETURN_IF_ERROR(copy(narrow));
  PAGODA_RETURN_IF_ERROR(writer->finish());
  PAGODA_RETURN_IF_ERROR(copy_side_files(source.path(), folder));
  PAGODA_RETURN_IF_ERROR(write_config(source, scheme, plan, folder));
  folder.keep();
  return result;
}

}  // namespace pagoda
