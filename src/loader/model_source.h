#pragma once
// ModelSource: a uniform interface to a model on disk, whatever its format: its configuration, tensors by the
// file's own names, and the texts that describe tokenizer and chat template. Knows nothing about families of
// models; models/families/ interprets these.
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

// The bytes of a file's tensor, or of some of its rows.
inline std::span<const std::byte> stored_bytes(const TensorView& tensor) {
  return {tensor.data, static_cast<std::size_t>(tensor.bytes())};
}

// Folders to search for models named ORG/NAME. cli/ fills it in from the environment
// (cli/assembly/hub_paths.h).
struct HubPaths {
  std::vector<std::string> cache_dirs;  // folders of the form ~/.cache/huggingface/hub, searched in order
};

// User-supplied values that override those in the model's files.
struct ModelOverrides {
  std::string config = {};    // a JSON object of fields of config.json (json_overrides.h, gguf_overrides.h)
  std::string rope = {};      // a JSON object of fields of its rope_scaling, wherever they are
  std::string metadata = {};  // GGUF metadata: KEY=TYPE:VALUE,...
  bool quantize_activations = true;  // false: ModelSource::inputs_of() returns own for all tensors
};

class ModelSource {
 public:
  // MODEL is the first of these that matches: a folder (Hugging Face layout, or with exactly one .gguf); a
  // .gguf or .safetensors file; ORG/NAME[@REV] in the local Hugging Face cache. not_found names every place
  // searched. Weights of a quantised folder have the names and shapes of unquantised ones
  // (quantized_tensors.h). .bin/.pt (pickle) weights and tensors of unsupported types are refused by name.
  // invalid_argument: invalid overrides.
  static Result<std::unique_ptr<ModelSource>> open(const std::string& model, const HubPaths& hub = {},
                                                   const ModelOverrides& overrides = {});
  virtual ~ModelSource() = default;

  virtual ModelFormat format() const = 0;
  // Returns config.json with the user's overrides; empty for GGUF files, whose metadata are in gguf().
  virtual std::string_view config_json() const { return {}; }
  virtual std::string name() const { return {}; }  // for display: the folder's or file's name
  // For display: "Q4_1", "F32"; mixed types with their shares of bytes.
  virtual std::string weight_type() const { return {}; }
  virtual const TensorView* find(std::string_view name) const = 0;  // null if absent
  virtual std::vector<std::string> tensor_names() const = 0;        // sorted
  // The same for the scale of 8-bit keys or values, which find() and tensor_names() do not list.
  virtual const TensorView* find_kv_scale(std::string_view name) const {
    (void)name;
    return nullptr;
  }
  virtual const GgufFile* gguf() const { return nullptr; }
  // Hugging Face: returns the text of a file in the folder ("tokenizer.json"), or in a subfolder
  // ("1_Pooling/config.json"); nullopt if absent.
  virtual std::optional<std::string> side_file(std::string_view name) const {
    (void)name;
    return std::nullopt;
  }
  virtual const std::string& path() const = 0;  // resolved folder or file
  // A file that the folder's index names but that is missing, with its tensors; empty: none.
  virtual std::string absent_file() const { return {}; }

  // Identifies the model and its files' content; empty if that is not possible.
  virtual std::string identity() const { return {}; }
  // True if the files are still those that were opened; see MappedFile::unchanged.
  virtual bool unchanged() const { return true; }
  // Returns how a quantised folder's scheme quantises the inputs multiplied by a tensor of this source, or by
  // some of its rows. own: not specified, or disabled by the user.
  virtual LinearArithmetic inputs_of(const TensorView& tensor) const {
    (void)tensor;
    return {};
  }
  // Must be called before the bytes of a tensor of this source, or of some of its rows, are read: dequantises
  // a quantised folder's weights, on the threads of `pool` if it is not null. corrupt_data: the stored data
  // are damaged.
  virtual Status bring_in(const TensorView& tensor, ThreadPool* pool = nullptr) const {
    (void)tensor, (void)pool;
    return ok_status();
  }
  // The bytes are not needed for now.
  virtual void give_back(const TensorView& tensor) const { (void)tensor; }
  // Rows of a tensor that was brought in have been read, and the rows after them come next: mapped bytes of
  // the read rows leave memory while the rest is being read. give_back() must still follow.
  virtual void has_read(const TensorView& rows) const { (void)rows; }
};

}  // namespace pagoda
