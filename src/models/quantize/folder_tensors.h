#pragma once
// FolderTensors: a folder's tensors on their way into a GGUF file. Each is taken once, by the folder's name,
// and listed under the file's with what becomes of its rows. Which tensors there are, and what is done to
// those of which part, add_tensors() and the functions below it know, from the description of the model and
// both formats' names: no family. Not metadata (gguf_fields.h), nor bytes (quantize_gguf.h). Threads: one.
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

// The form of a file's tensors, where its description says something else than the folder's.
struct GgufForm {
  float norm_offset = 0;       // to be added to the weights of norms
  bool by_neighbours = false;  // rows of queries and keys are in the order of a rotation of neighbours
  bool tiled_heads = false;    // as LinearAttentionConfig has it
  bool scales_folded = false;  // the embedding's scale and the logits' are in embedding and head
};

// Rows of a stored tensor that lie together; -1: all behind `first`.
struct RowRun {
  std::int64_t first = 0, count = -1;
  float factor = 1;
};

// Changes of a module's tensors.
struct RowChange {
  std::vector<RowRun> rows = {};  // these, in this order; empty: all
  float input_factor = 1;         // the share of their factors that biases do not have
  std::int64_t head_size = 0, rotary_begin = 0, rotary_size = 0;  // as GgufRows has them
  std::vector<std::int64_t> column_blocks = {};                   // likewise, for the weight
  float offset = 0;                                               // likewise
  bool transposed = false;                      // the weight's rows and columns change places first
  std::vector<std::int64_t> weight_shape = {};  // with as many elements; empty: as stored
};
inline RowChange times(float factor, float input_factor = 1) {
  return {.rows = {{.factor = factor}}, .input_factor = input_factor};
}

class FolderTensors {
 public:
  // All must outlive it.
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
  // Null: it is not there, or was taken under another part's name.
  const TensorView* take(const std::string& name);
  void ignore(const std::string& name) { reader_.ignore(name); }
  std::vector<float> values(const std::string& name, std::int64_t count) {
    return reader_.values(name, count);
  }
  bool is_same(const TensorView& a, const TensorView& b);  // bit by bit

  void add(GgufRows tensor) { tensors_.push_back(std::move(tensor)); }
  void add_values(std::string to_name, std::vector<float> values, std::vector<std::int64_t> shape = {});
  // One tensor of these rows of another.
  void add_rows(const TensorView& stored, std::string to_name, const RowChange& change);
  // The same of the tensor of this name, where it is there.
  void add_whole(const std::string& from_name, const std::string& to_name, const RowChange& change = {});
  // A module of one weight, and its bias, where the folder has them. Returns whether it has. Names may be
  // empty: the folder has no such part, or the file no place for one.
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

// A layer of the folder and of the file: what stands before the names of its tensors.
struct LayerNames {
  std::string from, to;
};

// All tensors of the model. Returns whether the file has a head of its own.
bool add_tensors(FolderTensors& out);
void add_mixer(const LayerConfig& layer, const LayerNames& names, FolderTensors& out);  // but for norms
void add_feed_forward(const LayerConfig& layer, const LayerNames& names, FolderTensors& out);  // likewise

}  // namespace pagoda
