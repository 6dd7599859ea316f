#pragma once
// Describes a file for `pagoda inspect`: models that can be run, models that cannot (and why), and the JSON
// files beside them. Reads headers only; loads no weights.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "loader/gguf.h"
#include "loader/model_source.h"
#include "models/model_info.h"

namespace pagoda {

struct DescribedTensor {
  std::string name, type;
  std::vector<std::int64_t> shape;  // outermost first
  std::int64_t bytes = 0;
};

// Bytes of keys and values, in each type in which they may be kept; int8 0: not in that.
struct KvBytes {
  std::int64_t float32 = 0, bfloat16 = 0, int8 = 0, fp8 = 0;
};

// Memory that a model keeps of each sequence in layers of one kind.
struct DescribedKvGroup {
  std::int32_t num_layers = 0, window = 0;  // window 0: they have full attention
  bool state = false;                       // instead: a state, of the same size whatever the length
  KvBytes per_1024_tokens,
      full_context;  // the second is one whole sequence's, as long as the model's context
};

// Facts that need more than the model's files; the caller fills them in.
struct ServingFacts {
  std::string family, checked;  // name for people; the program it was compared with
  std::vector<DescribedKvGroup> kv_groups;
  // In which types it is computed, and keys and values are kept, where no flag says otherwise.
  std::string default_dtype, default_kv_dtype;
  std::int32_t scaled_layers = 0;      // for whose keys and values the files have scales in 8-bit floats
  std::int64_t active_bytes = 0;       // weights that a token's step reads
  double memory_bytes_per_second = 0;  // measured just now; 0: it was not
};

struct Description {
  std::string path = {};
  std::string format = {};  // "gguf", "hugging_face", "safetensors", "tokenizer.json", "config.json", "json"
  std::uint32_t version = 0;      // GGUF's; 0 elsewhere
  std::string architecture = {};  // by the file's own name; may be empty
  bool is_model = false;          // false: a part of one; the next three say nothing then
  bool supported = false;         // Pagoda can run it
  std::string reason = {};        // why not, in one line
  std::optional<ModelInfo> model = {};
  std::optional<ServingFacts> facts = {};
  std::vector<std::pair<std::string, GgufValue>> metadata = {};
  std::vector<DescribedTensor> tensors = {};  // in the file's order
  // As the model reads them: quantised weights of a folder under their own names, with the bytes that they
  // have once packed. Empty: as `tensors`.
  std::vector<DescribedTensor> weights = {};
  std::string quantised_types = {};  // stored_types() of a quantised folder, else empty

  // Keeps the strings inside metadata arrays valid.
  std::vector<std::shared_ptr<MappedFile>> files = {};

  const std::vector<DescribedTensor>& read_tensors() const { return weights.empty() ? tensors : weights; }
  std::int64_t parameters() const;    // elements of all tensors
  std::int64_t weight_bytes() const;  // as stored
  std::map<std::string, std::int64_t> bytes_by_type() const;
  std::string stored_types() const;  // "F32 (71 %), BF16 (28 %)"; a quantised folder's by its method
};

// `path`: a folder, a .gguf or .safetensors file, ORG/NAME in the hub cache, config.json, tokenizer.json
// or another JSON file. corrupt_data: it is malformed.
Result<Description> describe(const std::string& path, const HubPaths& hub = {});

// One JSON object, indented not at all; bytes that are not UTF-8 become U+FFFD, long arrays their start.
std::string describe_json(const Description& description);
// A table for people, ending in a newline.
std::string describe_table(const Description& description);

}  // namespace pagoda
