#pragma once
// FolderTensors: a folder's tensors on their way into a GGUF file. Each tensor is taken once by its name in
// the folder, and listed under its name in the file with the changes to its rows. add_tensors() and the
// functions below it decide which tensors there are and how each part is changed, from the model's
// description and both formats' names, without knowing the family. Metadata: gguf_fields.h; bytes:
// quantize_gguf.h.
// Threads: one.
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "models/model_info.h"
#include "models/quantize/quantize_gguf.h"
#include "models/weights/weight_parts.h"
#include "models/weights/weight_reader.h"

namespace pagoda {

// The form of a file's tensors, where the file's description differs from the folder's.
struct GgufForm {
  float norm_offset = 0;       // added to the weights of norms
  bool by_neighbours = false;  // rows of queries and keys are ordered for rotation of adjacent pairs
  bool tiled_heads = false;    // as in LinearAttentionConfig
  bool scales_folded = false;  // the scales of embedding and logits are multiplied into embedding and head
};

// Contiguous rows of a stored tensor; count -1: all rows from `first` on.
struct RowRun {
  std::int64_t first = 0, count = -1;
  float factor = 1;
};

// Changes to a module's tensors.
struct RowChange {
  std::vector<RowRun> rows = {};  // these rows, in this order; empty: all
  float input_factor = 1;         // part of the rows' factors that is not applied to biases
  std::int64_t head_size = 0, rotary_begin = 0, rotary_size = 0;  // as in GgufRows
  std::vector<std::int64_t> column_blocks = {};                   // as in GgufRows, for the weight
  float offset = 0;                                               // as in GgufRows
  bool transposed = false;                                        // the weight is transposed first
  std::vector<std::int64_t> weight_shape = {};                    // the weight's new shape; empty: as stored
};
inline RowChange times(float factor, float input_factor = 1) {
  return {.rows = {{.factor = factor}}, .input_factor = input_factor};
}

class FolderTensors {
 public:
  // All arguments must outlive the object.
  FolderTensors(const ModelSource& folder, const ModelInfo& info, const WeightNames& from,
                const WeightNames& to, const GgufForm& form)
      : info(info),
        from(from),
        to(to),
        form(form),
        folder_(folder),
        reader_(folder, from.prefix, from.other_prefixes) {}

  const ModelInfo& info;
  const WeightNames &from, &to;
  const GgufForm& form;

  bool has(const std::string& name) const { return reader_.has(name); }
  const TensorView* find(const std::string& name) const { return reader_.find(name); }
  // Returns null if the tensor is absent, or was taken under another part's name.
  const TensorView* take(const std::string& name);
  void ignore(const std::string& name) { reader_.ignore(name); }
  std::vector<float> values(const std::string& name, std::int64_t count) {
    return reader_.values(name, count);
  }
  bool is_same(const TensorView& a, const TensorView& b);  // bit by bit

  void add(GgufRows tensor) { tensors_.push_back(std::move(tensor)); }
  void add_values(std::string to_name, std::vector<float> values, std::vector<std::int64_t> shape = {});
  // Adds one tensor made of rows of another.
  void add_rows(const TensorView& stored, std::string to_name, const RowChange& change);
  // The same for the tensor of this name, if it exists.
  void add_whole(const std::string& from_name, const std::string& to_name, const RowChange& change = {});
  // Adds a module's weight and bias, if the folder has them, and returns whether it has. Names may be empty:
  // the folder has no such part, or the file no place for it.
  bool add_module(const std::string& from_name, const std::string& to_name, const RowChange& change = {});

  template <class... Why>
  void refuse(const Why&... why) {
    fail(unimplemented(concat(why...)));
  }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  const Status& status() const { return status_.ok() ? reader_.status() : status_; }
  std::vector<std::string> unused() const { return reader_.unused(); }
  std::vector<GgufRows> take_tensors() { return std::move(tensors_); }

 private:
  const ModelSource& folder_;
  WeightReader reader_;
  std::vector<GgufRows> tensors_;
  std::set<std::string> taken_;
  Status status_;
};

// A layer's name prefixes in the folder and in the file.
struct LayerNames {
  std::string from, to;
};

// Adds all tensors of the model. Returns true if the file has a separate head.
bool add_tensors(FolderTensors& out);
// Both add a layer's sublayer without its norms.
void add_mixer(const LayerConfig& layer, const LayerNames& names, FolderTensors& out);
void add_feed_forward(const LayerConfig& layer, const LayerNames& names, FolderTensors& out);

}  // namespace pagoda
