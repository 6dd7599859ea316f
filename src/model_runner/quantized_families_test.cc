// Goal: every family runs when its matrices are quantised as hubs have them, whatever it joins, cuts, stacks
// or transposes: with the bits of the model of the dequantised weights. Each fixture of
// tests/fixtures/families is written twice, quantised and not.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "model_runner/family_model.h"
#include "models/read_config.h"
#include "tensor/half_floats.h"
#include "tensor/small_floats.h"

namespace pagoda::testing {
namespace {

struct StoredTensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

void write_folder(const std::string& folder, const boost::json::object& config,
                  const std::vector<StoredTensor>& tensors) {
  boost::json::object header;
  std::string data;
  for (const StoredTensor& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", tensor.dtype},
        {"shape", boost::json::value_from(tensor.shape)},
        {"data_offsets", boost::json::array{data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  const std::string text = boost::json::serialize(header);
  const std::uint64_t length = text.size();
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << boost::json::serialize(config);
  std::ofstream(folder + "/model.safetensors", std::ios::binary)
          .write(reinterpret_cast<const char*>(&length), sizeof length)
      << text << data;
}

// A matrix, or stacked ones, of `values`, which become those of the quantised weights.
struct Matrix {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;

  std::int64_t columns() const { return shape.back(); }
  std::int64_t rows() const { return shape[shape.size() - 2]; }
};
using Quantise = std::vector<StoredTensor> (*)(Matrix&);

// A scale for so many rows and columns, the last of which may be fewer.
std::vector<StoredTensor> fp8(Matrix& matrix, std::int64_t block_rows, std::int64_t block_columns,
                              std::string_view scale_name) {
  const std::int64_t columns = matrix.columns(), rows = matrix.rows(),
                     down = (rows + block_rows - 1) / block_rows,
                     across = (columns + block_columns - 1) / block_columns,
                     matrices = std::ssize(matrix.values) / (rows * columns);
  std::vector<float> scales(static_cast<std::size_t>(matrices * down * across));
  const auto scale_at = [&](std::int64_t at) -> float& {
    const std::int64_t row = at / columns, column = at % columns;
    const std::int64_t block =
        ((row / rows) * down + row % rows / block_rows) * across + column / block_columns;
    return scales[static_cast<std::size_t>(block)];
  };
  for (std::int64_t at = 0; at < std::ssize(matrix.values); ++at)
    scale_at(at) =
        std::max(scale_at(at), std::fabs(matrix.values[static_cast<std::size_t>(at)]) / 448 + 1e-6f);
  std::vector<std::uint8_t> codes;
  for (std::int64_t at = 0; at < std::ssize(matrix.values); ++at) {
    float& value = matrix.values[static_cast<std::size_t>(at)];
    codes.push_back(nearest_e4m3(value / scale_at(at)));
    value = e4m3_value(codes.back()) * scale_at(at);
  }
  std::vector<std::int64_t> shape = matrix.shape;
  shape[shape.size() - 2] = down;
  shape.back() = across;
  return {{matrix.name, "F8_E4M3", matrix.shape, bytes_of(codes)},
          {matrix.name + std::string(scale_name), "F32", shape, bytes_of(scales)}};
}

// As FP8 folders of DeepSeek, Qwen and MiniMax; as those with a scale for a row, which stay 8 bits in memory.
std::vector<StoredTensor> fp8_blocks(Matrix& matrix) { return fp8(matrix, 24, 16, "_scale_inv"); }
std::vector<StoredTensor> fp8_rows(Matrix& matrix) { return fp8(matrix, 1, matrix.columns(), "_scale"); }

// As AutoGPTQ's: eight inputs of an output to a word, and zero points less one, eight outputs to a word.
// Groups of 32 stay 4 bits in memory. Scales are in half precision, whose products with numbers of 4 bits are
// exact.
std::vector<StoredTensor> gptq(Matrix& matrix) {
  const std::int64_t columns = matrix.columns(), rows = matrix.rows(), group = columns % 32 == 0 ? 32 : 8,
                     groups = columns / group;
  const auto at = [&](std::int64_t row, std::int64_t column) -> float& {
    return matrix.values[static_cast<std::size_t>(row * columns + column)];
  };
  std::vector<std::uint32_t> codes(static_cast<std::size_t>(columns / 8 * rows)),
      zeros(static_cast<std::size_t>(groups * rows / 8));
  std::vector<std::uint16_t> scales(static_cast<std::size_t>(groups * rows));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t g = 0; g < groups; ++g) {
      float low = 0, high = 0;
      for (std::int64_t column = g * group; column < (g + 1) * group; ++column) {
        low = std::min(low, at(row, column));
        high = std::max(high, at(row, column));
      }
      const std::uint16_t stored = float_to_half((high - low) / 15 + 1e-4f);
      const float scale = half_to_float(stored);
      const auto zero = std::clamp<std::int64_t>(std::lround(-low / scale), 1, 15);
      scales[static_cast<std::size_t>(g * rows + row)] = stored;
      zeros[static_cast<std::size_t>((g * rows + row) / 8)] |= static_cast<std::uint32_t>(zero - 1)
                                                               << row % 8 * 4;
      for (std::int64_t column = g * group; column < (g + 1) * group; ++column) {
        const auto code = std::clamp<std::int64_t>(std::lround(at(row, column) / scale) + zero, 0, 15);
        codes[static_cast<std::size_t>(column / 8 * rows + row)] |= static_cast<std::uint32_t>(code)
                                                                    << column % 8 * 4;
        at(row, column) = scale * (static_cast<float>(code) - static_cast<float>(zero));
      }
    }
  const std::string module = matrix.name.substr(0, matrix.name.rfind('.'));
  return {{module + ".qweight", "I32", {columns / 8, rows}, bytes_of(codes)},
          {module + ".qzeros", "I32", {groups, rows / 8}, bytes_of(zeros)},
          {module + ".scales", "F16", {groups, rows}, bytes_of(scales)}};
}

struct Method {
  std::string name, config;
  bool stacked;  // also of experts in one tensor
  Quantise quantise;
};
const Method kMethods[] = {
    {"Fp8Blocks", R"({"quant_method":"fp8","weight_block_size":[24,16]})", true, fp8_blocks},
    {"Fp8Rows", R"({"quant_method":"fp8"})", true, fp8_rows},
    {"Gptq",
     R"({"quant_method":"gptq","bits":4,"group_size":8,"sym":false,"dynamic":{"+:.*":{"group_size":32}}})",
     false, gptq},
};

// Matrices of layers, as quantisers take them: no embedding, head, router or convolution.
bool is_quantised(const FamilyTensor& tensor, bool stacked) {
  static const std::set<std::string_view> kModules = {"fc1",
                                                      "fc2",
                                                      "w1",
                                                      "w2",
                                                      "w3",
                                                      "wo",
                                                      "wqkv",
                                                      "Wqkv",
                                                      "dense",
                                                      "c_attn",
                                                      "c_fc",
                                                      "c_fc_0",
                                                      "c_fc_1",
                                                      "down",
                                                      "up",
                                                      "fc_in",
                                                      "fc_out",
                                                      "query_key_value",
                                                      "dense_4h_to_h",
                                                      "dense_h_to_4h",
                                                      "input_linear",
                                                      "output_linear",
                                                      "in_proj_qkv",
                                                      "in_proj_qkvz",
                                                      "in_proj_z",
                                                      "per_layer_input_gate",
                                                      "per_layer_projection"};
  std::string_view name = tensor.name;
  const std::size_t dimensions = tensor.shape.size();
  const bool weight = name.ends_with(".weight");
  if (weight) name.remove_suffix(7);
  if (dimensions != 2 && !(dimensions == 3 && stacked)) return false;
  if (dimensions == 2 && !weight) return false;
  if (name.find("layers.") == name.npos && name.find(".h.") == name.npos && name.find("blocks.") == name.npos)
    return false;
  for (std::size_t axis = dimensions - 2; axis < dimensions; ++axis)
    if (tensor.shape[axis].to_number<std::int64_t>() % 8 != 0) return false;
  const bool expert = name.find("experts.") != name.npos;
  name = name.substr(name.rfind('.') + 1);
  return name.ends_with("_proj") || kModules.contains(name) || (expert && name == "gate");
}

class QuantizedFamily : public ::testing::TestWithParam<std::tuple<std::string, Method>> {};

TEST_P(QuantizedFamily, HasTheBitsOfTheDequantisedModel) {
  const auto& [name, method] = GetParam();
  const boost::json::object family = read_family(name);
  boost::json::object config = family.at("config").as_object();
  if (config.contains("quantization_config")) GTEST_SKIP() << "quantised by itself";
  std::vector<StoredTensor> plain, quantised;
  std::size_t count = 0;
  for (const FamilyTensor& tensor : family_tensors(family)) {
    Matrix matrix{tensor.name,
                  boost::json::value_to<std::vector<std::int64_t>>(boost::json::value(tensor.shape)),
                  tensor.values};
    if (is_quantised(tensor, method.stacked)) {
      for (StoredTensor& part : method.quantise(matrix)) quantised.push_back(std::move(part));
      ++count;
    } else {
      quantised.push_back({matrix.name, "F32", matrix.shape, bytes_of(matrix.values)});
    }
    plain.push_back({matrix.name, "F32", matrix.shape, bytes_of(matrix.values)});
  }
  ASSERT_GT(count, 2u);
  const std::string folder = ::testing::TempDir() + "quantized_family_" + std::to_string(::getpid());
  write_folder(folder + "/plain", config, plain);
  config["quantization_config"] = boost::json::parse(method.config);
  write_folder(folder + "/quantised", config, quantised);
  const auto drawn = [&](const std::string& which) {
    TestSequence sequence =
        greedy(ids_of(family.at("goldens").as_array().front().as_object().at("prompt_ids")));
    const auto runner =
        new_runner(ModelSource::open(folder + which, {}, {.quantize_activations = false}), family_options());
    if (runner == nullptr) return sequence;
    EXPECT_TRUE(runner->ignored_tensors().empty()) << runner->ignored_tensors().front();
    EXPECT_TRUE(Driver(*runner).generate({&sequence}, 4).ok());
    return sequence;
  };
  const TestSequence expected = drawn("/plain"), actual = drawn("/quantised");
  std::filesystem::remove_all(folder);
  expect_same_draws(actual, expected);
}

INSTANTIATE_TEST_SUITE_P(Families, QuantizedFamily,
                         ::testing::Combine(::testing::ValuesIn(families_of_every_kind()),
                                            ::testing::ValuesIn(kMethods)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace pagoda::testing
