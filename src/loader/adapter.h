#pragma once
// Adapter: what a LoRA adapter changes of its model's tensors, by the tensors' names: a PEFT folder
// (adapter_config.json, adapter_model.safetensors) or a GGUF file of llama.cpp's. Only what the file says;
// the sums are models/weights/adapted_weights.h. Source: PEFT's LoraConfig and tuners/lora (0.21);
// llama.cpp's convert_lora_to_gguf.py and llama-adapter.cpp. Threads: any may read.
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

// A matrix of an adapter, read as it is stored or with rows and columns exchanged.
struct AdapterMatrix {
  TensorView stored;
  bool transposed = false;

  std::int64_t rows() const { return transposed ? stored.columns() : stored.rows(); }
  std::int64_t columns() const { return transposed ? stored.rows() : stored.columns(); }
};

// The new values of one tensor: `whole` instead of the model's, if it is there; to that `scale * left *
// right` or `scale * sum` is added, and then each row is given the length that `row_lengths` has (DoRA).
struct TensorChange {
  std::optional<TensorView> whole;
  bool whole_is_models = false;  // `whole` is what PEFT saved of the model itself, beside factors of it
  std::optional<AdapterMatrix> left, right;
  std::optional<TensorView> sum, row_lengths;
  float scale = 1;
};

class Adapter {
 public:
  // PATH: a folder, one of its files, a .gguf file, or ORG/NAME in the local Hugging Face cache. `scale` is
  // the user's, beside the adapter's own. unimplemented: what is not plain LoRA or DoRA, by name;
  // corrupt_data.
  static Result<Adapter> open(const std::string& path, float scale, const HubPaths& hub);
  // The same of what its files hold, without a path: PEFT's, whose configuration is `config`, or llama.cpp's.
  static Result<Adapter> parse(std::string config, const SafetensorsFile& file, float scale);
  static Result<Adapter> parse(const GgufFile& file, float scale);

  const std::string& path() const { return path_; }
  ModelFormat format() const { return format_; }
  // GGUF: the architecture that its model must have.
  const std::string& architecture() const { return architecture_; }
  // By the names of the model's tensors, as the adapter has them: "model.layers.0.self_attn.q_proj.weight".
  const std::map<std::string, TensorChange, std::less<>>& changes() const { return changes_; }
  // PEFT's `ensure_weight_tying`: a head that is the embedding stays it.
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

// `name` of a tensor without what programs put before a model's own names: "base_model.model.model.",
// "language_model."; two names of one tensor are then the same.
std::string_view plain_tensor_name(std::string_view name);

}  // namespace pagoda
