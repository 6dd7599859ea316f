#pragma once
// ModelSource: a model on disk behind one face, whatever its format: what it says of itself, tensors by the
// file's own names, and the texts that describe tokenizer and chat template. Knows no family of models and
// what it means by these: that is models/families/.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "loader/gguf.h"
#include "tensor/linear_arithmetic.h"
#include "tensor/tensor_view.h"

namespace pagoda {

enum class ModelFormat { gguf, hugging_face };

// The bytes of a tensor of a file, or of rows of one.
inline std::span<const std::byte> stored_bytes(const TensorView& tensor) {
  return {tensor.data, static_cast<std::size_t>(tensor.bytes())};
}

// The folders in which models named ORG/NAME are looked for. cli/ fills it from the environment
// (cli/assembly/hub_paths.h).
struct HubPaths {
  std::vector<std::string> cache_dirs;  // folders of the form ~/.cache/huggingface/hub, searched in order
};

// A user's values instead of those of the model's files.
struct ModelOverrides {
  std::string config = {};    // a JSON object of fields of config.json (json_overrides.h, gguf_overrides.h)
  std::string rope = {};      // one of fields of its rope_scaling, wherever the file has those
  std::string metadata = {};  // GGUF metadata: KEY=TYPE:VALUE,...
  bool quantize_activations = true;  // false: ModelSource::inputs_of() is own for all
};

class ModelSource {
 public:
  // MODEL, the first that fits: a folder (Hugging Face layout, or with exactly one .gguf); a .gguf or
  // .safetensors file; ORG/NAME[@REV] in the local Hugging Face cache. not_found names every place tried.
  // Weights of a quantised folder have the names and shapes of unquantised ones (quantized_tensors.h).
  // .bin/.pt (pickle) weights are refused by name, and so is any tensor of a type that is not run.
  // invalid_argument: overrides that are not understood.
  static Result<std::unique_ptr<ModelSource>> open(const std::string& model, const HubPaths& hub = {},
                                                   const ModelOverrides& overrides = {});
  virtual ~ModelSource() = default;

  virtual ModelFormat format() const = 0;
  // The text of config.json, with what the user says instead; empty of GGUF files, whose metadata gguf() has.
  virtual std::string_view config_json() const { return {}; }
  virtual std::string name() const { return {}; }  // for people: the folder's, or the file's
  virtual std::string weight_type() const {
    return {};
  }  // likewise: "Q4_1", "F32", mixed ones by share of bytes
  virtual const TensorView* find(std::string_view name) const = 0;  // null when there is none
  virtual std::vector<std::string> tensor_names() const = 0;        // sorted
  // The same of a tensor that is no weight but the scale of keys or values in 8 bits, which is none of the
  // above.
  virtual const TensorView* find_kv_scale(std::string_view name) const {
    (void)name;
    return nullptr;
  }
  virtual const GgufFile* gguf() const { return nullptr; }
  // Hugging Face: the text of a file in the folder ("tokenizer.json"), or one below it
  // ("1_Pooling/config.json"); nullopt when there is none.
  virtual std::optional<std::string> side_file(std::string_view name) const {
    (void)name;
    return std::nullopt;
  }
  virtual const std::string& path() const = 0;  // resolved folder or file
  // A file that the folder's index names and that is not there, so that its tensors are none; empty: none.
  virtual std::string absent_file() const { return {}; }

  // Tells this model from any other and from its own files before a change; empty: cannot tell.
  virtual std::string identity() const { return {}; }
  // Whether the files still are what was opened; see MappedFile::unchanged.
  virtual bool unchanged() const { return true; }
  // The inputs that a quantised folder's scheme multiplies a tensor of this source, or rows of one, with;
  // own: it does not say, or the user wants none.
  virtual LinearArithmetic inputs_of(const TensorView& tensor) const {
    (void)tensor;
    return {};
  }
  // The bytes of a tensor of this source, or of rows of one, are about to be read: those of a quantised
  // folder's weights are made now, on the threads of `pool`, if it is not null. corrupt_data: what they are
  // made of is damaged.
  virtual Status bring_in(const TensorView& tensor, ThreadPool* pool = nullptr) const {
    (void)tensor, (void)pool;
    return ok_status();
  }
  // They are not needed for now.
  virtual void give_back(const TensorView& tensor) const { (void)tensor; }
  // Rows of a tensor that was brought in have been read, and those behind them come next: what is mapped from
  // a file leaves memory now, while the rest of the tensor is being read. give_back() follows.
  virtual void has_read(const TensorView& rows) const { (void)rows; }
};

}  // namespace pagoda
