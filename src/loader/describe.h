#pragma once
// What a file holds, for `pagoda inspect`: models that can be run, models that cannot (and why), and the
// JSON files beside them. Reads headers only; loads no weights.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "loader/gguf.h"
#include "loader/model_config.h"
#include "loader/model_source.h"

namespace pagoda {

struct DescribedTensor {
  std::string name, type;
  std::vector<std::int64_t> shape;  // outermost first
  std::int64_t bytes = 0;
};

struct Description {
  std::string path;
  std::string format;  // "gguf", "hugging_face", "safetensors", "tokenizer.json", "config.json", "json"
  std::uint32_t version = 0;  // of GGUF; 0 elsewhere
  std::string architecture;   // by the file's own name; may be empty
  bool is_model = false;      // false: a part of one; the next three say nothing then
  bool supported = false;     // Pagoda can run it
  std::string reason;         // why not, in one line
  std::optional<ModelConfig> config;
  std::vector<std::pair<std::string, GgufValue>> metadata;
  std::vector<DescribedTensor> tensors;  // in the file's order

  // Keeps the strings inside metadata arrays valid.
  std::vector<std::shared_ptr<MappedFile>> files;

  std::int64_t parameters() const;    // elements of all tensors
  std::int64_t weight_bytes() const;  // as stored
  std::map<std::string, std::int64_t> bytes_by_type() const;
  // Key and value of one token in all layers; 0 without a config.
  std::int64_t kv_bytes_per_token(std::int64_t bytes_per_element) const;
  // With a scale for each key and value; 0: such a model keeps none in 8 bits.
  std::int64_t kv_bytes_per_token_int8() const;
  std::int64_t state_bytes() const;              // what recurrent layers keep of a sequence, in float32
};

// `path`: a folder, a .gguf or .safetensors file, ORG/NAME in the hub cache, config.json, tokenizer.json
// or another JSON file. corrupt_data: it is malformed.
Result<Description> describe(const std::string& path, const HubPaths& hub = {});

// One JSON object, indented not at all; bytes that are not UTF-8 become U+FFFD, long arrays their start.
std::string describe_json(const Description& description);
// A table for people, ending in a newline.
std::string describe_table(const Description& description);

}  // namespace pagoda
