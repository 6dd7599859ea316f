#pragma once
// AdapterTargets: which rows of which tensors each packed matrix of a loaded model is made of, as far as
// adapters that requests choose may add to it. A WeightLoader writes it down while it packs; AdapterSet cuts
// an adapter's factors by it, so that they need to know nothing of families, fused matrices or the order of
// rotated rows. Plain data. Threads: any may read.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "loader/model_source.h"

namespace pagoda {

// Rows of a tensor as rows of a packed matrix.
struct AdapterTargetPart {
  std::string tensor;  // its plain name (loader/adapter.h)
  std::int64_t tensor_rows = 0, columns = 0;
  bool transposed = false;                // the file has it as [columns, tensor_rows]
  std::int64_t first_output = 0;          // the matrix's
  std::vector<std::int32_t> source_rows;  // the tensor's, of each output from there on
  float factor = 1;                       // the matrix's, and so that of what is added
};

struct AdapterTarget {
  std::vector<AdapterTargetPart> parts;
  bool open = false;  // its products take what rows have of adapters
};

struct AdapterTargets {
  ModelFormat format = ModelFormat::hugging_face;
  std::string architecture;                   // GGUF's
  std::vector<AdapterTarget> matrices;        // by PackedLinear::adapter_slot()
  std::set<std::string, std::less<>> names;   // plain names of all of the model's tensors
  std::set<std::string, std::less<>> unread;  // those that have no part in this model's results
};

}  // namespace pagoda
