#pragma once
// For tests: the small models of tests/fixtures/families, written into a folder of their own. A fixture says which
// tensors there are; what is in them follows from their names (tests/fixtures/make_families.py).
#include <gtest/gtest.h>

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

// A folder with config.json and model.safetensors, made anew.
inline std::string write_family(const std::string& name, const std::string& where) {
  const boost::json::object family = read_family(name);
  std::filesystem::create_directories(where);
  std::ofstream(where + "/config.json") << boost::json::serialize(family.at("config"));
  boost::json::object header;
  std::vector<float> data;
  for (const boost::json::value& each : family.at("tensors").as_array()) {
    const boost::json::array& tensor = each.as_array();
    const std::string tensor_name(tensor[0].as_string());
    std::int64_t count = 1;
    for (const boost::json::value& extent : tensor[1].as_array()) count *= extent.to_number<std::int64_t>();
    const std::size_t begin = data.size() * sizeof(float);
    const std::vector<float> values =
        family_weights(family.at("seed").to_number<std::int64_t>(), tensor_name, count,
                       tensor[2].to_number<double>(), tensor[3].to_number<double>());
    data.insert(data.end(), values.begin(), values.end());
    header[tensor_name] = {{"dtype", "F32"},
                           {"shape", tensor[1]},
                           {"data_offsets", boost::json::array{begin, data.size() * sizeof(float)}}};
  }
  std::string text = boost::json::serialize(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::ofstream file(where + "/model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text;
  file.write(reinterpret_cast<const char*>(data.data()),
             static_cast<std::streamsize>(data.size() * sizeof(float)));
  return where;
}

}  // namespace pagoda::testing
