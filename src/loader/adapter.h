#pragma once
// Adapter: the changes that a LoRA adapter makes to its model's tensors, by tensor name. Read from a PEFT
// folder (adapter_config.json, adapter_model.safetensors) or a GGUF file in llama.cpp's form. Only the file's
// content; the sums are computed in models/weights/adapted_weights.h.
// Source: PEFT's LoraConfig and tuners/lora (0.21); llama.cpp's convert_lora_to_gguf.py and
// llama-adapter.cpp. Threads: any may read.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/gguf.h"
#include "loader/model_source.h"
#include "loader/safetensors.h"
#include "loader/tensor_file.h"
#include "tensor/tensor_view.h"

namespace pagoda {

// A matrix of an adapter, as stored or transposed.
struct AdapterMatrix {
  TensorView stored;
  bool transposed = false;

  std::int64_t rows() const { return transposed ? stored.columns() : stored.rows(); }
  std::int64_t columns() const { return transposed ? stored.rows() : stored.columns(); }
};

// The new values of one tensor: `whole`, if present, replaces the model's; then `scale * left * right` or
// `scale * sum` is added; then each row is rescaled to its length in `row_lengths` (DoRA).
struct TensorChange {
  std::optional<TensorView> whole;
  bool whole_is_models = false;  // `whole` is PEFT's copy of the model's own tensor, saved beside its factors
  std::optional<AdapterMatrix> left, right;
  std::optional<TensorView> sum, row_lengths;
  float scale = 1;
};

class Adapter {
 public:
  // PATH: a folder, one of its files, a .gguf file, or ORG/NAME in the local Hugging Face cache. `scale` is
  // the user's, in addition to the adapter's own. unimplemented, by name: anything but plain LoRA or DoRA;
  // corrupt_data.
  static Result<Adapter> open(const std::string& path, float scale, const HubPaths& hub);
  // The same for the files' content, without a path: PEFT's with configuration `config`, or llama.cpp's.
  static Result<Adapter> parse(std::string config, const SafetensorsFile& file, float scale);
  static Result<Adapter> parse(const GgufFile& file, float scale);

  const std::string& path() const { return path_; }
  ModelFormat format() const { return format_; }
  // GGUF: the architecture required of the model.
  const std::string& architecture() const { return architecture_; }
  // By the adapter's names of the model's tensors: "model.layers.0.self_attn.q_proj.weight".
  const std::map<std::string, TensorChange, std::less<>>& changes() const { return changes_; }
  // PEFT's `ensure_weight_tying`: a tied head stays tied.
  bool keeps_tied_head() const { return keeps_tied_head_; }
  std::string identity() const;
  bool unchanged() const;

 private:
  static Result<Adapter> open_folder(const std::string& folder, float scale);
  static Result<Adapter> open_gguf(const std::string& path, float scale);

  std::string path_, architecture_, config_;
  ModelFormat format_ = ModelFormat::hugging_face;
  std::map<std::string, TensorChange, std::less<>> changes_;
  bool keeps_tied_head_ = false;
  float scale_ = 1;
  std::vector<TensorFile> files_;  // keep the mappings alive
};

// Returns a tensor's name without the prefixes that programs add to a model's own names
// ("base_model.model.model.", "language_model."), so that two names of one tensor become equal.
std::string_view plain_tensor_name(std::string_view name);

}  // namespace pagoda
