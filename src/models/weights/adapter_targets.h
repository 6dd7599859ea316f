#pragma once
// AdapterTargets: which rows of which tensors the packed matrices of a loaded model are made of, as far as
// adapters that requests choose may add to their products. A WeightLoader writes it down while it packs, and
// AdapterSet cuts an adapter's factors by it, so that these know nothing of families, of fused matrices or of
// the order of rotated rows. Plain data. Threads: any may read.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "loader/model_source.h"

namespace pagoda {

// The order of rotated rows: rows 2i and 2i + 1 of each of `num_heads` heads, counted from `begin`, become i
// and i + rotary_size / 2. No heads: rows stay as they are.
struct RowPairs {
  std::int64_t num_heads = 0, head_size = 0, rotary_size = 0, begin = 0;

  // The row that comes to lie at `row`.
  std::int64_t source(std::int64_t row) const {
    if (row >= num_heads * head_size) return row;
    const std::int64_t first = row / head_size * head_size + begin, at = row - first, half = rotary_size / 2;
    return at < 0 || at >= rotary_size ? row : first + 2 * (at % half) + at / half;
  }
};

// Rows of a tensor as rows of a packed matrix.
struct AdapterTargetPart {
  std::string tensor;  // as adapters call it (plain_tensor_name())
  std::int64_t tensor_rows = 0, columns = 0;
  bool transposed = false;        // the file has it as [columns, tensor_rows]
  std::int64_t first_output = 0;  // the matrix's row where these begin
  std::int64_t first_row = 0, rows = 0;
  RowPairs pairs = {};
  float factor = 1;  // the matrix has the tensor times this
};

struct AdapterTargets {
  ModelFormat format = ModelFormat::hugging_face;
  std::string architecture;                              // a GGUF file's
  std::vector<std::vector<AdapterTargetPart>> matrices;  // by PackedLinear::adapter_slot()
  std::set<std::string, std::less<>> names;              // all of the model's tensors
  std::set<std::string, std::less<>> unread;             // those without a part in the results
};

}  // namespace pagoda
