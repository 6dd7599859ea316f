#include "models/weights/weight_loader.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/strings.h"
#include "kernels/tiles.h"
#include "models/weights/weight_copies.h"

namespace pagoda {
namespace {

// Rows of a transposed tensor each read all of it; it counts once.
void note_read(Matrices& matrices, const TensorView& read) {
  const auto has = [&](const TensorView& each) {
    return each.data == read.data && each.bytes() >= read.bytes();
  };
  if (std::none_of(matrices.read.begin(), matrices.read.end(), has)) matrices.read.push_back(read);
}

// Adds a [rows, columns] view that `copy` will make from `read`.
template <class Copy>
void add_copy(Matrices& matrices, const TensorView& read, TensorView view, const Copy& copy) {
  view.data = nullptr;
  matrices.to_copy.push_back([copy, read, at = matrices.views.size()](Matrices& to) {
    std::vector<std::byte>& bytes = to.copies.emplace_back();
    copy(read, bytes);
    to.views[at].data = bytes.data();
  });
  matrices.views.push_back(std::move(view));
  note_read(matrices, read);
}

std::string text(Range range) { return concat("[", range.first, "+", range.count, "]"); }

// Drops empty ranges and joins adjacent ones.
std::vector<Range> joined(std::span<const Range> ranges) {
  std::vector<Range> result;
  for (const Range& range : ranges) {
    if (!result.empty() && result.back().end() == range.first)
      result.back().count += range.count;
    else if (range.count > 0)
      result.push_back(range);
  }
  return result;
}

}  // namespace

TensorView with_rows(const TensorView& matrix, Range range) {
  return {matrix.dtype,
          {range.count, matrix.columns()},
          matrix.data + dtype_bytes(matrix.dtype, range.first * matrix.columns())};
}

TensorView part_at(const TensorView& all, std::int64_t index) {
  TensorView one = {all.dtype, {all.shape.begin() + 1, all.shape.end()}, all.data};
  one.data += index * one.bytes();
  return one;
}

std::vector<float> WeightLoader::norm_vector(const std::string& name, std::int64_t size,
                                             const NormConfig& config) {
  if (!config.weighted) return std::vector<float>(static_cast<std::size_t>(size), 1.0f);
  // Falcon-H1's GGUF files name one norm without ".weight".
  const bool bare = !reader_.has(name + ".weight") && reader_.has(name);
  std::vector<float> weight = reader_.vector(bare ? name : name + ".weight", size);
  if (config.weight_offset != 0)
    for (float& value : weight) value += config.weight_offset;
  return weight;
}

KvScales WeightLoader::kv_scales(std::string_view prefix) const {
  const auto scales = kv_scales_of_layer(source_, reader_, names_, prefix);
  return scales ? *scales : KvScales{};
}

NormWeights WeightLoader::norm(const std::string& name, std::int64_t size, const NormConfig& config) {
  NormWeights weights;
  weights.weight = norm_vector(name, size, config);
  if (config.kind == NormKind::layer && config.weighted)
    weights.bias = reader_.optional_vector(name + ".bias", size);
  return weights;
}

// Returns the tensor of a linear layer as stored: [rows, columns], or transposed.
TensorView WeightLoader::stored(const std::string& weight, std::int64_t rows, std::int64_t columns) {
  if (!names_.transposed) return reader_.matrix(weight, rows, columns);
  TensorView view = reader_.matrix(weight, columns, rows);
  if (reader_.status().ok() && multiplies_in_int8(view.dtype))
    reader_.fail(unimplemented(concat("tensor '", weight, "' is quantised and stored [in, out]")));
  return view;
}

// Copies some rows at a time, releasing the source's memory after each piece.
void WeightLoader::copy_stored(const TensorView& matrix, std::byte* to) const {
  constexpr std::int64_t kAtOnce = std::int64_t{32} << 20;
  const std::int64_t row_bytes = dtype_bytes(matrix.dtype, matrix.columns());
  const std::int64_t at_once = std::max<std::int64_t>(1, kAtOnce / std::max<std::int64_t>(1, row_bytes));
  for (std::int64_t row = 0; row < matrix.rows(); row += at_once) {
    const TensorView part = with_rows(matrix, {row, std::min(at_once, matrix.rows() - row)});
    for_ranges(context_, part.rows(), 64, [&](std::int64_t first, std::int64_t last) {
      std::memcpy(to + (row + first) * row_bytes, part.data + first * row_bytes,
                  static_cast<std::size_t>((last - first) * row_bytes));
    });
    source_.has_read(part);
    store_.note_read(part.bytes());
  }
}

void WeightLoader::add_rows(Matrices& matrices, const TensorView& matrix, const std::string& name,
                            Range range) {
  if (!reader_.status().ok()) return;
  matrices.recipe += concat(" ", name, text(range));
  matrices.views.push_back(with_rows(matrix, range));
  matrices.read.push_back(matrices.views.back());
}

void WeightLoader::add_picked(Matrices& matrices, const TensorView& stored, const std::string& name,
                              Range rows, std::int64_t step, bool transposed) {
  if (!reader_.status().ok()) return;
  if (!transposed && step == 1) return add_rows(matrices, stored, name, rows);
  if (transposed && multiplies_in_int8(stored.dtype))
    return reader_.fail(unimplemented(concat("tensor '", name, "' is quantised and stored [in, out]")));
  matrices.recipe += concat(" ", name, text(rows), " by ", step, transposed ? " transposed" : "");
  const std::int64_t columns = transposed ? stored.rows() : stored.columns();
  const bool float8 =
      transposed && stored.dtype == DType::fp8 && stored.shape.size() == 2 && columns % 32 == 0;
  if (float8) matrices.recipe += " as float8";
  const DType type = transposed && !float8 ? transposed_type(stored.dtype) : stored.dtype;
  add_copy(matrices, stored, {type, {rows.count, columns}, nullptr},
           [=](const TensorView& from, std::vector<std::byte>& to) {
             float8       ? transpose_float8(from, rows, to, step)
             : transposed ? transpose(from, rows, to, step)
                          : copy_rows(from, rows, step, to);
           });
}

void WeightLoader::add_transposed(Matrices& matrices, const TensorView& stored, const std::string& name) {
  if (!reader_.status().ok()) return;
  if (!is_quantized(stored.dtype))
    return add_picked(matrices, stored, name, {0, stored.columns()}, 1, /*transposed=*/true);
  matrices.recipe += concat(" ", name, " transposed as float32");
  add_copy(
      matrices, stored, {DType::f32, {stored.columns(), stored.rows()}, nullptr},
      [](const TensorView& from, std::vector<std::byte>& to) { transpose(from, {0, from.columns()}, to); });
}

void WeightLoader::add(Matrices& matrices, const std::string& name, std::int64_t rows, std::int64_t columns,
                       std::span<const Range> ranges, float factor, float input_factor) {
  const std::size_t first_view = matrices.views.size(), first_bias = matrices.bias.size();
  const TensorView whole = stored(name + ".weight", rows, columns);
  const std::vector<float> bias = reader_.optional_vector(name + ".bias", rows);
  const std::vector<float> scales = nvfp4_scales(name, whole.dtype, 1);
  if (!reader_.status().ok()) return;
  for (const Range& range : joined(ranges)) {
    std::int64_t before = 0;
    for (const TensorView& view : matrices.views) before += view.rows();
    if (names_.transposed) {
      matrices.recipe += concat(" ", name, text(range), " transposed");
      add_copy(matrices, whole, {transposed_type(whole.dtype), {range.count, columns}, nullptr},
               [range](const TensorView& from, std::vector<std::byte>& to) { transpose(from, range, to); });
    } else {
      add_rows(matrices, whole, name, range);
    }
    matrices.adapted.emplace_back(matrices.views.size() - 1,
                                  AdapterTargetPart{.tensor = name_for_adapters(name + ".weight"),
                                                    .tensor_rows = rows,
                                                    .columns = columns,
                                                    .transposed = names_.transposed,
                                                    .first_row = range.first,
                                                    .rows = range.count,
                                                    .factor = factor});
    if (bias.empty() && matrices.bias.empty()) continue;
    matrices.bias.resize(static_cast<std::size_t>(before), 0.0f);  // zeros for matrices above without a bias
    if (!bias.empty())
      matrices.bias.insert(matrices.bias.end(), bias.begin() + range.first, bias.begin() + range.end());
    matrices.bias.resize(static_cast<std::size_t>(before + range.count), 0.0f);
  }
  for (std::size_t i = first_bias; i < matrices.bias.size(); ++i) matrices.bias[i] *= factor / input_factor;
  scale_from(matrices, first_view, factor * scales.front());
}

std::vector<float> WeightLoader::nvfp4_scales(const std::string& name, DType stored, std::int64_t count) {
  std::vector<float> none(static_cast<std::size_t>(count), 1.0f);
  if (stored != DType::nvfp4 || source_.format() != ModelFormat::gguf) return none;
  reader_.ignore(name + ".input_scale");  // only for activations in 4 bits
  return reader_.has(name + ".scale") ? reader_.vector(name + ".scale", count) : none;
}

void WeightLoader::scale_from(Matrices& matrices, std::size_t first_view, float factor) {
  if (!reader_.status().ok() || factor == 1) return;
  matrices.recipe += concat(" from ", first_view, " times ", factor);
  for (std::size_t i = first_view; i < matrices.views.size(); ++i) {
    if (matrices.views[i].dtype == DType::nvfp4) {
      matrices.recipe += " as scaled floats";
      matrices.to_copy.push_back([i, factor](Matrices& to) {
        TensorView& view = to.views[i];
        copy_scaled({DType::nvfp4, view.shape, view.data}, factor, to.copies.emplace_back());
        view.data = to.copies.back().data();
      });
      matrices.views[i].dtype = DType::nvfp4_scaled;
      continue;
    }
    matrices.to_copy.push_back([i, factor, stored = matrices.views[i].dtype](Matrices& to) {
      TensorView& view = to.views[i];
      const TensorView from = {stored, view.shape, view.data};
      std::vector<std::byte>& copy = to.copies.emplace_back();
      copy_values(from, {0, from.columns()}, copy);
      auto* const values = reinterpret_cast<float*>(copy.data());
      for (std::int64_t at = 0; at < from.rows() * from.columns(); ++at) values[at] *= factor;
      view.data = copy.data();
    });
    matrices.views[i].dtype = DType::f32;
  }
}

void WeightLoader::add_columns(Matrices& matrices, const TensorView& matrix, const std::string& weight,
                               Range range) {
  matrices.recipe += concat(" ", weight, " columns ", text(range));
  const DTypeInfo& info = dtype_info(matrix.dtype);
  if (range.first % info.block_elements == 0 && range.count % info.block_elements == 0) {
    return add_copy(
        matrices, matrix, {matrix.dtype, {matrix.rows(), range.count}, nullptr},
        [range](const TensorView& from, std::vector<std::byte>& to) { copy_columns(from, range, to); });
  }
  const auto type = choose_linear_type(dtype_, matrix.dtype, context_.level);
  if (!type || (*type == LinearType::int8 && is_quantized(matrix.dtype))) {
    return reader_.fail(unimplemented(concat("tensor '", weight, "' cannot be cut at column ", range.first,
                                             ", inside a block of ", info.name)));
  }
  add_copy(matrices, matrix, {DType::f32, {matrix.rows(), range.count}, nullptr},
           [range](const TensorView& from, std::vector<std::byte>& to) { copy_values(from, range, to); });
}

PackedLinear WeightLoader::last_linear(const std::string& name, std::int64_t rows, std::int64_t columns,
                                       Range own, const LayerShard& shard, float factor) {
  Matrices matrices;
  if (shard.exchange == ExchangeKind::gather || own.count == columns) {
    const Range range = shard.exchange == ExchangeKind::gather ? shard.hidden : Range{0, rows};
    add(matrices, name, rows, columns, std::array{range}, factor);
    return pack(std::move(matrices), name, LinearForm::stacked, RowsAdapt::yes);
  }
  const std::string weight = name + ".weight";
  const TensorView whole = stored(weight, rows, columns);
  std::vector<float> bias = reader_.optional_vector(name + ".bias", rows);
  const std::vector<float> scales = nvfp4_scales(name, whole.dtype, 1);
  if (!reader_.status().ok()) return {};
  if (rank_ == 0) matrices.bias = std::move(bias);
  for (float& value : matrices.bias) value *= factor;
  if (names_.transposed) {
    // Columns of [out, in] are rows of the stored tensor.
    matrices.recipe = concat(" ", weight, " rows ", text(own), " transposed");
    add_copy(matrices, with_rows(whole, own), {transposed_type(whole.dtype), {rows, own.count}, nullptr},
             [rows](const TensorView& from, std::vector<std::byte>& to) { transpose(from, {0, rows}, to); });
  } else {
    add_columns(matrices, whole, weight, own);
  }
  scale_from(matrices, 0, factor * scales.front());
  return pack(std::move(matrices), name);
}

void WeightLoader::reorder_rows(Matrices& matrices, std::size_t view, std::int64_t num_heads,
                                std::int64_t head_size, std::int64_t rotary_size, std::int64_t first_bias,
                                std::int64_t begin) {
  if (!reader_.status().ok()) return;
  matrices.recipe += concat(" interleaved ", view, " ", num_heads, " ", head_size, " ", rotary_size);
  if (begin > 0) matrices.recipe += concat(" from ", begin);
  for (auto& [of, part] : matrices.adapted)
    if (of == view) part.pairs = {num_heads, head_size, rotary_size, begin};
  const auto each_row = [=](const auto& move) {
    for (std::int64_t head = 0; head < num_heads; ++head) {
      for (std::int64_t i = 0; i < rotary_size / 2; ++i) {
        for (std::int64_t part = 0; part < 2; ++part) {
          const std::int64_t first = head * head_size + begin;
          move(first + 2 * i + part, first + part * (rotary_size / 2) + i);
        }
      }
    }
  };
  matrices.to_copy.push_back([=](Matrices& to_move) {
    TensorView& tensor = to_move.views[view];
    const auto row_bytes = static_cast<std::size_t>(dtype_bytes(tensor.dtype, tensor.columns()));
    std::vector<std::byte>& copy = to_move.copies.emplace_back(tensor.data, tensor.data + tensor.bytes());
    each_row([&](std::int64_t from, std::int64_t to) {
      std::memcpy(copy.data() + static_cast<std::size_t>(to) * row_bytes,
                  tensor.data + static_cast<std::size_t>(from) * row_bytes, row_bytes);
    });
    tensor.data = copy.data();
  });
  if (matrices.bias.empty()) return;
  std::vector<float> bias = matrices.bias;
  each_row([&](std::int64_t from, std::int64_t to) {
    bias[static_cast<std::size_t>(first_bias + to)] =
        matrices.bias[static_cast<std::size_t>(first_bias + from)];
  });
  matrices.bias = std::move(bias);
}

Status WeightLoader::bring_in(Matrices& matrices) const {
  for (const TensorView& tensor : matrices.read)
    PAGODA_RETURN_IF_ERROR(source_.bring_in(tensor, context_.pool));
  for (const auto& copy : matrices.to_copy) copy(matrices);
  return ok_status();
}

void WeightLoader::give_back(const Matrices& matrices) const {
  for (const TensorView& tensor : matrices.read) source_.give_back(tensor);
}

PackedLinear WeightLoader::pack(Matrices matrices, const std::string& name, LinearForm form,
                                RowsAdapt adapt) {
  return pack_as(std::move(matrices), name, form, dtype_, adapt);
}

LinearArithmetic WeightLoader::inputs_of(const Matrices& matrices) const {
  if (matrices.own_inputs || matrices.read.empty()) return {};
  LinearArithmetic common = source_.inputs_of(matrices.read.front());
  for (const TensorView& tensor : matrices.read) {
    LinearArithmetic each = source_.inputs_of(tensor);
    each.scale = common.scale = std::max(each.scale, common.scale);
    if (each != common) return {};
  }
  return common;
}

PackedLinear WeightLoader::pack_as(Matrices matrices, const std::string& name, LinearForm form,
                                   std::string_view dtype, RowsAdapt adapt) {
  if (!reader_.status().ok()) return {};
  DType stored = matrices.views.front().dtype;
  PackedShape shape = {.type = LinearType::float32, .n = 0, .k = matrices.views.front().columns()};
  for (const TensorView& view : matrices.views) {
    if (multiplies_in_int8(view.dtype)) stored = view.dtype;
    shape.n += view.rows();
  }
  if (form == LinearForm::gated) shape.n = matrices.views.front().rows();
  const auto type = choose_linear_type(dtype, stored, context_.level);
  if (!type) {
    reader_.fail(type.error());
    return {};
  }
  shape.type = *type;
  const std::string recipe = concat(form == LinearForm::gated ? "gated" : "stacked", matrices.recipe);
  auto packed = store_.matrix(recipe, shape, [&]() -> Result<PackedLinear> {
    PAGODA_RETURN_IF_ERROR(bring_in(matrices));
    // Copies may be larger or smaller than their sources.
    double read = 0, given = 0;
    for (const TensorView& tensor : matrices.read) read += static_cast<double>(tensor.bytes());
    for (const TensorView& view : matrices.views) given += static_cast<double>(view.bytes());
    const auto on_packed = [&](const TensorView& rows) {
      source_.has_read(rows);
      store_.note_read(static_cast<std::int64_t>(static_cast<double>(rows.bytes()) * read / given));
    };
    auto made = PackedLinear::pack(context_, *type, matrices.views, std::move(matrices.bias), form,
                                   arithmetic_with(*type, inputs_of(matrices)), on_packed);
    give_back(matrices);
    return made;
  });
  if (!packed) {
    reader_.fail(packed.error().annotate(concat("tensor '", name, "'")));
    return {};
  }
  packed_bytes_ += packed->packed_bytes();
  if (adapt == RowsAdapt::yes) {
    packed->set_adapter_slot(static_cast<std::int32_t>(adapted_.size()));
    note_adapted(matrices);
  }
  return *std::move(packed);
}

PackedLinear WeightLoader::linear(const std::string& name, std::int64_t rows, std::int64_t columns,
                                  float factor, RowsAdapt adapt) {
  Matrices matrices;
  add(matrices, name, rows, columns, std::array{Range{0, rows}}, factor);
  return pack(std::move(matrices), name, LinearForm::stacked, adapt);
}

PackedLinear WeightLoader::exact_linear(const std::string& name, std::int64_t rows, std::int64_t columns) {
  Matrices matrices;
  add(matrices, name, rows, columns, std::array{Range{0, rows}});
  return pack_exact(std::move(matrices), name);
}

PackedLinear WeightLoader::pack_exact(Matrices matrices, const std::string& name, RowsAdapt adapt) {
  matrices.own_inputs = true;
  return pack_as(std::move(matrices), name, LinearForm::stacked, "float32", adapt);
}

}  // namespace pagoda
