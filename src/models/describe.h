#pragma once
// Describes files for `pagoda inspect`: models that Pagoda can run, models that it cannot (and why), and the
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
#include "loader/model_source.h"
#include "models/model_info.h"

namespace pagoda {

struct DescribedTensor {
  std::string name, type;
  std::vector<std::int64_t> shape;  // outermost first
  std::int64_t bytes = 0;
};

// Bytes of keys and values by storage type; int8 is 0 if not supported for the model.
struct KvBytes {
  std::int64_t float32 = 0, bfloat16 = 0, int8 = 0, fp8 = 0;
};

// Per-sequence memory of the layers of one kind.
struct DescribedKvGroup {
  std::int32_t num_layers = 0, window = 0;  // window 0: full attention
  bool state = false;                       // instead: a state of fixed size
  KvBytes per_1024_tokens,
      full_context;  // full_context: one sequence as long as the model's context
};

// Facts that need more than the model's files; filled in by the caller.
struct ServingFacts {
  std::string family, checked;  // display name; the program it was compared with
  std::vector<DescribedKvGroup> kv_groups;
  // Default types for computation and for keys and values.
  std::string default_dtype, default_kv_dtype;
  std::int32_t scaled_layers = 0;      // layers with scales for keys and values in 8-bit floats
  std::int64_t active_bytes = 0;       // bytes of weights read per decode step of one token
  double memory_bytes_per_second = 0;  // measured now; 0: not measured
};

struct Description {
  std::string path = {};
  std::string format = {};  // "gguf", "hugging_face", "safetensors", "tokenizer.json", "config.json", "json"
  std::uint32_t version = 0;      // GGUF's; 0 elsewhere
  std::string architecture = {};  // by the file's own name; may be empty
  bool is_model = false;          // false: only part of a model; the next three fields are meaningless then
  bool supported = false;         // Pagoda can run it
  std::string reason = {};        // why not, in one line
  std::optional<ModelInfo> model = {};
  std::optional<ServingFacts> facts = {};
  std::vector<std::pair<std::string, GgufValue>> metadata = {};
  std::vector<DescribedTensor> tensors = {};  // in the file's order
  // The tensors as the model reads them: quantised weights of a folder under their own names, with their
  // packed size. Empty: same as `tensors`.
  std::vector<DescribedTensor> weights = {};
  std::string quantised_types = {};  // stored_types() of a quantised folder; otherwise empty

  // Keeps the strings inside metadata arrays valid.
  std::vector<std::shared_ptr<MappedFile>> files = {};

  const std::vector<DescribedTensor>& read_tensors() const { return weights.empty() ? tensors : weights; }
  std::int64_t parameters() const;    // elements of all tensors
  std::int64_t weight_bytes() const;  // as stored
  std::map<std::string, std::int64_t> bytes_by_type() const;
  std::string stored_types() const;  // "F32 (71 %), BF16 (28 %)"; by method for a quantised folder
};

// `path`: a folder, a .gguf or .safetensors file, ORG/NAME in the hub cache, config.json, tokenizer.json or
// another JSON file. corrupt_data: malformed.
Result<Description> describe(const std::string& path, const HubPaths& hub = {});

// One JSON object without indentation. Bytes that are not UTF-8 become U+FFFD; long arrays are truncated.
std::string describe_json(const Description& description);
// A human-readable table, ending in a newline.
std::string describe_table(const Description& description);

}  // namespace pagoda
