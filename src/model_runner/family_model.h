#pragma once
// For tests: the small models of tests/fixtures/families, written into a folder of their own. A fixture says
// which tensors there are; what is in them follows from their names (tests/fixtures/make_families.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
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

struct FamilyTensor {
  std::string name;
  boost::json::array shape;
  std::vector<float> values;
};

inline std::vector<FamilyTensor> family_tensors(const boost::json::object& family) {
  std::vector<FamilyTensor> tensors;
  for (const boost::json::value& each : family.at("tensors").as_array()) {
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

inline void write_floats(std::ofstream& file, const std::vector<float>& values) {
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(float)));
}

// A folder with config.json and model.safetensors, made anew.
inline std::string write_family(const std::string& name, const std::string& where) {
  const boost::json::object family = read_family(name);
  std::filesystem::create_directories(where);
  std::ofstream(where + "/config.json") << boost::json::serialize(family.at("config"));
  boost::json::object header;
  std::vector<float> data;
  for (const FamilyTensor& tensor : family_tensors(family)) {
    const std::size_t begin = data.size() * sizeof(float);
    data.insert(data.end(), tensor.values.begin(), tensor.values.end());
    header[tensor.name] = {{"dtype", "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", boost::json::array{begin, data.size() * sizeof(float)}}};
  }
  std::string text = boost::json::serialize(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::ofstream file(where + "/model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text;
  write_floats(file, data);
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

// What converters do to a tensor on its way into GGUF.
inline std::vector<float> converted(const FamilyTensor& tensor, const boost::json::array& what) {
  std::vector<float> values = tensor.values;
  if (what.empty()) return values;
  const std::string_view kind = what[0].as_string();
  if (kind == "plus") {
    for (float& value : values) value += what[1].to_number<float>();
    return values;
  }
  if (kind == "half") {  // of the rows of each matrix: gate, or up
    const std::size_t rows = tensor.shape[tensor.shape.size() - 2].to_number<std::size_t>(),
                      columns = tensor.shape.back().to_number<std::size_t>();
    const auto part = what[1].to_number<std::size_t>();
    std::vector<float> half;
    for (std::size_t begin = 0; begin < values.size(); begin += rows * columns)
      half.insert(half.end(), values.begin() + static_cast<std::ptrdiff_t>(begin + part * rows / 2 * columns),
                  values.begin() + static_cast<std::ptrdiff_t>(begin + (part + 1) * rows / 2 * columns));
    return half;
  }
  const std::size_t rows = tensor.shape[0].to_number<std::size_t>(), columns = values.size() / rows;
  std::size_t next = 0;
  const auto take = [&](std::size_t row) {
    std::copy_n(tensor.values.begin() + static_cast<std::ptrdiff_t>(row * columns), columns,
                values.begin() + static_cast<std::ptrdiff_t>(next++ * columns));
  };
  if (kind == "permute") {  // halves of a head become neighbours
    const std::size_t heads = what[1].to_number<std::size_t>(), half = rows / heads / 2;
    for (std::size_t head = 0; head < heads; ++head)
      for (std::size_t i = 0; i < half; ++i)
        for (const std::size_t part : {0, 1}) take((head * 2 + part) * half + i);
  } else {  // "ungroup": all queries, all keys, all values
    const auto heads = what[1].to_number<std::size_t>(), kv = what[2].to_number<std::size_t>(),
               size = what[3].to_number<std::size_t>(), group = heads / kv;
    for (std::size_t head = 0; head < heads; ++head)
      for (std::size_t i = 0; i < size; ++i) take((head / group * (group + 2) + head % group) * size + i);
    for (const std::size_t part : {group, group + 1})
      for (std::size_t head = 0; head < kv; ++head)
        for (std::size_t i = 0; i < size; ++i) take((head * (group + 2) + part) * size + i);
  }
  return values;
}

// The same model in GGUF, or "" where the fixture has none.
inline std::string write_family_gguf(const std::string& name, const std::string& folder) {
  const boost::json::object family = read_family(name);
  if (!family.contains("gguf")) return "";
  const boost::json::object& gguf = family.at("gguf").as_object();
  const std::vector<FamilyTensor> tensors = family_tensors(family);
  const std::string path = folder + "/model.gguf";
  std::ofstream file(path, std::ios::binary);
  file << from_base64(gguf.at("header").as_string());
  for (const boost::json::value& each : gguf.at("tensors").as_array()) {
    const boost::json::array &made = each.as_array(), &what = made[2].as_array();
    std::vector<float> values;
    if (!what.empty() && what[0] == "values") {
      for (std::size_t i = 1; i < what.size(); ++i) values.push_back(what[i].to_number<float>());
    } else if (!what.empty() && what[0] == "stack") {  // of a tensor for each expert
      for (std::int64_t expert = 0; expert < what[1].to_number<std::int64_t>(); ++expert) {
        std::string from(made[1].as_string());
        from.replace(from.find("{}"), 2, std::to_string(expert));
        const auto one = std::find_if(tensors.begin(), tensors.end(),
                                      [&](const FamilyTensor& each) { return each.name == from; });
        values.insert(values.end(), one->values.begin(), one->values.end());
      }
    } else {
      const std::string_view from = made[1].as_string();
      const auto tensor = std::find_if(tensors.begin(), tensors.end(),
                                       [&](const FamilyTensor& one) { return one.name == from; });
      values = converted(*tensor, what);
    }
    values.resize((values.size() + 7) / 8 * 8, 0.0f);  // each begins at a multiple of 32 bytes
    write_floats(file, values);
  }
  return path;
}

}  // namespace pagoda::testing
