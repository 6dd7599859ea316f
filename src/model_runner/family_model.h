#pragma once
// For tests: writes the small models of tests/fixtures/families into folders. A fixture lists a model's
// tensors; their values are derived from their names (tests/fixtures/make_families.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "model_runner/test_sequences.h"

namespace pagoda::testing {

inline std::uint64_t family_hash(const std::string& text) {
  std::uint64_t value = 0xCBF29CE484222325u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return value;
}

inline std::vector<float> family_weights(std::int64_t seed, const std::string& name, std::int64_t count,
                                         double offset, double scale) {
  std::vector<float> values;
  std::uint64_t x = family_hash(std::to_string(seed) + "/" + name);
  for (std::int64_t i = 0; i < count; ++i, x += 0x9E3779B97F4A7C15u) {
    std::uint64_t y = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    y = (y ^ (y >> 27)) * 0x94D049BB133111EBu;
    y ^= y >> 31;
    values.push_back(static_cast<float>(offset + scale * (static_cast<double>(y >> 40) / 8388608.0 - 1)));
  }
  return values;
}

inline boost::json::object read_family(const std::string& name) {
  std::ifstream file(std::string(PAGODA_SOURCE_DIR) + "/tests/fixtures/families/" + name + ".json");
  return boost::json::parse(std::string(std::istreambuf_iterator<char>(file), {})).as_object();
}

// Returns the names of all fixtures, sorted.
inline std::vector<std::string> all_families() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(PAGODA_SOURCE_DIR "/tests/fixtures/families"))
    if (file.path().extension() == ".json") names.push_back(file.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

// One or two fixtures of each kind of layer, norm, rotation, mixture and state, for tests that serve a family
// in many ways; all fixtures where PAGODA_FULL_GOLDENS is set, as the tier `families` does. Whether a family
// computes what transformers computes is tested of all everywhere.
inline std::vector<std::string> families_of_every_kind() {
  if (std::getenv("PAGODA_FULL_GOLDENS") != nullptr) return all_families();
  return {"afmoe",         "apertus",        "bamba",      "bitnet",      "bloom",          "cohere2",
          "deepseek_v3",   "falcon",         "falcon_h1",  "flex_olmo",   "gemma2",         "gemma3n",
          "gemma4_moe",    "glm4",           "glm4_moe",   "gpt_bigcode", "gpt_neox",       "gpt_oss",
          "gpt_oss_mxfp4", "granite_hybrid", "jamba",      "laguna",      "lfm2",           "lfm3",
          "llama4_chunks", "llama_dynamic",  "llama_yarn", "mamba",       "mamba2",         "minicpm3",
          "minimax_m2",    "ministral3",     "mixtral",    "mpt",         "nemotron_h_moe", "olmo3",
          "phi",           "phi3_long",      "phimoe",     "qwen2_moe",   "qwen3_5_moe",    "qwen3_next",
          "smallthinker"};
}

struct FamilyTensor {
  std::string name;
  boost::json::array shape;
  std::vector<float> values;
};

inline std::vector<FamilyTensor> tensors_listed(const boost::json::object& family,
                                                const boost::json::value& list) {
  std::vector<FamilyTensor> tensors;
  for (const boost::json::value& each : list.as_array()) {
    const boost::json::array& tensor = each.as_array();
    std::int64_t count = 1;
    for (const boost::json::value& extent : tensor[1].as_array()) count *= extent.to_number<std::int64_t>();
    const std::string name(tensor[0].as_string());
    tensors.push_back({name, tensor[1].as_array(),
                       family_weights(family.at("seed").to_number<std::int64_t>(),
                                      tensor.size() > 4 ? std::string(tensor[4].as_string()) : name, count,
                                      tensor[2].to_number<double>(), tensor[3].to_number<double>())});
  }
  return tensors;
}

inline std::vector<FamilyTensor> family_tensors(const boost::json::object& family) {
  return tensors_listed(family, family.at("tensors"));
}

inline std::string_view floats_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// MXFP4 blocks and scales are stored as bytes: the values, rounded down.
inline bool are_bytes(std::string_view name) {
  return name.ends_with("_blocks") || name.ends_with("_scales");
}
inline std::string bytes_of(const FamilyTensor& tensor) {
  std::string bytes;
  for (const float value : tensor.values) bytes.push_back(static_cast<char>(static_cast<int>(value)));
  return bytes;
}

inline void write_safetensors(const std::string& path, const std::vector<FamilyTensor>& tensors) {
  boost::json::object header;
  std::string data;
  for (const FamilyTensor& tensor : tensors) {
    const std::size_t begin = data.size();
    data += are_bytes(tensor.name) ? std::string(bytes_of(tensor)) : std::string(floats_of(tensor.values));
    header[tensor.name] = {{"dtype", are_bytes(tensor.name) ? "U8" : "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", boost::json::array{begin, data.size()}}};
  }
  std::string text = boost::json::serialize(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text;
  file << data;
}

// Writes config.json and model.safetensors into `where`; for encoders also the files that
// sentence-transformers adds.
inline std::string write_family(const std::string& name, const std::string& where) {
  const boost::json::object family = read_family(name);
  std::filesystem::create_directories(where);
  std::ofstream(where + "/config.json") << boost::json::serialize(family.at("config"));
  write_safetensors(where + "/model.safetensors", family_tensors(family));
  if (!family.contains("files")) return where;
  for (const auto& [path, content] : family.at("files").as_object()) {
    const std::filesystem::path whole = where + "/" + std::string(path);
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << boost::json::serialize(content);
  }
  for (const auto& [folder, tensors] : family.at("module_tensors").as_object())
    write_safetensors(where + "/" + std::string(folder) + "/model.safetensors",
                      tensors_listed(family, tensors));
  return where;
}

inline std::string from_base64(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    const std::uint32_t digit = static_cast<std::uint32_t>(c >= 'a'   ? c - 'a' + 26
                                                           : c >= 'A' ? c - 'A'
                                                           : c >= '0' ? c - '0' + 52
                                                           : c == '+' ? 62
                                                                      : 63);
    bits = bits << 6 | digit;
    if ((count += 6) >= 8) out.push_back(static_cast<char>(bits >> (count -= 8) & 0xff));
  }
  return out;
}

// MXFP4 weights as converters write them: rows first, first + step, ... of each expert; a block's scale
// precedes it, and elements i and i + 16 share a byte.
inline std::string joined_mxfp4(const FamilyTensor& blocks, const FamilyTensor& scales, std::size_t first,
                                std::size_t step) {
  const std::string pairs = bytes_of(blocks), powers = bytes_of(scales);
  const auto extent = [&](std::size_t axis) { return blocks.shape[axis].to_number<std::size_t>(); };
  std::string out;
  for (std::size_t row = first; row < extent(0) * extent(1); row += step) {
    for (std::size_t block = row * extent(2); block < (row + 1) * extent(2); ++block) {
      std::uint8_t elements[32];
      for (std::size_t i = 0; i < 32; ++i)
        elements[i] = static_cast<std::uint8_t>(pairs[block * 16 + i / 2]) >> (i % 2 * 4) & 15;
      out.push_back(powers[block]);
      for (std::size_t i = 0; i < 16; ++i)
        out.push_back(static_cast<char>(elements[i] | elements[i + 16] << 4));
    }
  }
  return out;
}

// Returns a tensor's values as converters write them into GGUF. `what`: the kind of conversion and its
// arguments.
inline std::vector<float> converted(const FamilyTensor& tensor, const boost::json::array& what) {
  if (what.empty()) return tensor.values;
  const std::string_view kind = what[0].as_string();
  const auto number = [&](std::size_t index) { return what[index].to_number<std::size_t>(); };
  const auto extent = [&](std::size_t axis) { return tensor.shape[axis].to_number<std::size_t>(); };
  const std::size_t rows = extent(0), columns = tensor.values.size() / rows;
  std::vector<float> out;
  const auto take = [&](std::size_t first, std::size_t count) {
    const auto begin = tensor.values.begin() + static_cast<std::ptrdiff_t>(first);
    out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  if (kind == "plus") {
    for (const float value : tensor.values) out.push_back(value + what[1].to_number<float>());
  } else if (kind == "times_rows") {  // (number of rows, factor) pairs
    for (std::size_t i = 1; i + 1 < what.size(); i += 2)
      for (std::size_t left = number(i) * columns; left > 0; --left)
        out.push_back(tensor.values[out.size()] * what[i + 1].to_number<float>());
    take(out.size(), tensor.values.size() - out.size());
  } else if (kind == "from") {  // drops the first rows
    take(number(1) * columns, tensor.values.size() - number(1) * columns);
  } else if (kind == "half") {  // one half of each matrix's rows: gate or up
    const std::size_t matrix = extent(tensor.shape.size() - 2) * extent(tensor.shape.size() - 1);
    for (std::size_t begin = 0; begin < tensor.values.size(); begin += matrix)
      take(begin + number(1) * matrix / 2, matrix / 2);
  } else if (kind == "columns") {  // `count` of each expert's columns, as rows: first, first + step, ...
    const std::size_t width = extent(tensor.shape.size() - 1), height = columns / width;
    for (std::size_t expert = 0; expert < rows; ++expert)
      for (std::size_t i = 0; i < number(3); ++i)
        for (std::size_t row = 0; row < height; ++row)
          take((expert * height + row) * width + number(1) + i * number(2), 1);
  } else if (kind == "heads") {  // `count` rows of each head from an offset on, optionally transposed
    const std::size_t count = number(3), head_rows = rows / number(1);
    for (std::size_t head = 0; head < number(1); ++head)
      for (std::size_t i = 0; i < count * columns; ++i)
        take(
            (head * head_rows + number(2)) * columns + (number(4) != 0 ? i % count * columns + i / count : i),
            1);
  } else if (kind == "rows" || kind == "rate") {  // selected groups of rows; rate: -exp(value)
    for (std::size_t i = 2; i < what.size(); ++i) take(number(i) * number(1) * columns, number(1) * columns);
    if (kind == "rate")
      for (float& value : out) value = -std::exp(value);
  } else if (kind == "column_blocks") {  // blocks of columns, reordered
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t i = 2; i < what.size(); ++i) take(row * columns + number(i) * number(1), number(1));
  } else if (kind == "permute") {  // halves of a head become interleaved
    const std::size_t half = rows / number(1) / 2;
    for (std::size_t head = 0; head < number(1); ++head)
      for (std::size_t i = 0; i < half; ++i)
        for (const std::size_t part : {0, 1}) take(((head * 2 + part) * half + i) * columns, columns);
  } else {  // "ungroup": all queries, then all keys, then all values
    const std::size_t heads = number(1), kv = number(2), head_values = number(3) * columns,
                      group = heads / kv;
    for (std::size_t head = 0; head < heads; ++head)
      take((head / group * (group + 2) + head % group) * head_values, head_values);
    for (const std::size_t part : {group, group + 1})
      for (std::size_t head = 0; head < kv; ++head)
        take((head * (group + 2) + part) * head_values, head_values);
  }
  return out;
}

// Writes the same model as GGUF; returns its path, or "" if the fixture has no GGUF form.
inline std::string write_family_gguf(const std::string& name, const std::string& folder) {
  const boost::json::object family = read_family(name);
  if (!family.contains("gguf")) return "";
  const boost::json::object& gguf = family.at("gguf").as_object();
  std::vector<FamilyTensor> tensors = family_tensors(family);
  if (family.contains("module_tensors"))
    for (const auto& [folder, listed] : family.at("module_tensors").as_object())
      for (FamilyTensor& tensor : tensors_listed(family, listed)) {
        tensor.name = std::string(folder) + "." + tensor.name;
        tensors.push_back(std::move(tensor));
      }
  const std::string path = folder + "/model.gguf";
  std::ofstream file(path, std::ios::binary);
  file << from_base64(gguf.at("header").as_string());
  for (const boost::json::value& each : gguf.at("tensors").as_array()) {
    const boost::json::array &made = each.as_array(), &what = made[2].as_array();
    const auto tensor_named = [&](std::string_view wanted) -> const FamilyTensor& {
      return *std::ranges::find(tensors, wanted, &FamilyTensor::name);
    };
    const std::string from(made[1].as_string());
    if (!what.empty() && what[0] == "mxfp4") {
      std::string scales = from;
      scales.replace(scales.rfind("_blocks"), 7, "_scales");
      std::string bytes = joined_mxfp4(tensor_named(from), tensor_named(scales),
                                       what[1].to_number<std::size_t>(), what[2].to_number<std::size_t>());
      bytes.resize((bytes.size() + 31) / 32 * 32);
      file << bytes;
      continue;
    }
    std::vector<float> values;
    if (!what.empty() && what[0] == "values") {
      for (std::size_t i = 1; i < what.size(); ++i) values.push_back(what[i].to_number<float>());
    } else if (!what.empty() && what[0] == "stack") {  // one tensor per expert
      for (std::int64_t expert = 0; expert < what[1].to_number<std::int64_t>(); ++expert) {
        std::string one = from;
        one.replace(one.find("{}"), 2, std::to_string(expert));
        const FamilyTensor& tensor = tensor_named(one);
        values.insert(values.end(), tensor.values.begin(), tensor.values.end());
      }
    } else {
      values = converted(tensor_named(from), what);
    }
    values.resize((values.size() + 7) / 8 * 8, 0.0f);  // each tensor begins at a multiple of 32 bytes
    file << floats_of(values);
  }
  return path;
}

// Returns the options that the small models run with.
inline RunnerOptions family_options() {
  RunnerOptions options;
  options.dtype = "float32";
  options.threads = 1;
  options.num_blocks = 200;
  options.max_context = 128;
  return options;
}

// Returns a runner for a model; on an error adds a test failure and returns null.
inline std::unique_ptr<LocalModelRunner> new_runner(Result<std::unique_ptr<ModelSource>> source,
                                                    const RunnerOptions& options) {
  if (!source) {
    ADD_FAILURE() << source.error().message();
    return nullptr;
  }
  auto runner = LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
  if (!runner) ADD_FAILURE() << runner.error().message();
  return runner ? *std::move(runner) : nullptr;
}

}  // namespace pagoda::testing
