#pragma once
// AdapterTargets: the tensor rows that make up each packed matrix of a loaded model, for the matrices that
// per-request adapters may change. A WeightLoader records them while it packs; AdapterSet cuts an adapter's
// factors accordingly, and needs no knowledge of families, fused matrices or the order of rotated rows. Plain
// data.
// Threads: any may read.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "loader/model_source.h"

namespace pagoda {

// The order of rotated rows: in each of `num_heads` heads, rows 2i and 2i + 1, counted from `begin`, become i
// and i + rotary_size / 2. No heads: rows keep their order.
struct RowPairs {
  std::int64_t num_heads = 0, head_size = 0, rotary_size = 0, begin = 0;

  // Returns the source row of packed row `row`.
  std::int64_t source(std::int64_t row) const {
    if (row >= num_heads * head_size) return row;
    const std::int64_t first = row / head_size * head_size + begin, at = row - first, half = rotary_size / 2;
    return at < 0 || at >= rotary_size ? row : first + 2 * (at % half) + at / half;
  }
};

// Rows of a tensor that are rows of a packed matrix.
struct AdapterTargetPart {
  std::string tensor;  // the adapters' name for it (plain_tensor_name())
  std::int64_t tensor_rows = 0, columns = 0;
  bool transposed = false;        // stored as [columns, tensor_rows]
  std::int64_t first_output = 0;  // first row in the packed matrix
  std::int64_t first_row = 0, rows = 0;
  RowPairs pairs = {};
  float factor = 1;  // the packed matrix has the tensor multiplied by this
};

struct AdapterTargets {
  ModelFormat format = ModelFormat::hugging_face;
  std::string architecture;                              // only for GGUF files
  std::vector<std::vector<AdapterTargetPart>> matrices;  // by PackedLinear::adapter_slot()
  std::set<std::string, std::less<>> names;              // all tensors of the model
  std::set<std::string, std::less<>> unread;             // tensors that do not affect results
};

}  // namespace pagoda
