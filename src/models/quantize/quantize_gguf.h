#pragma once
// Writes a model as a GGUF file with its matrices in another type, as llama-quantize does: a piece at a time.
// Which tensor gets which type is decided first, as data. Of a GGUF file metadata and tokenizer stay as they
// are; what a folder becomes, folder_as_gguf.h says. Threads: one caller, which may lend a pool. Owner:
// whoever calls.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "loader/gguf_writer.h"
#include "loader/model_source.h"
#include "tensor/dtype.h"

namespace pagoda {

// Rows of the source's that lie together in a tensor of the file.
struct GgufPart {
  TensorView stored = {};
  float factor = 1;         // each value times this
  bool transposed = false;  // its columns are the file's rows
};

// A tensor of the file, and what its rows are made of.
struct GgufRows {
  std::string name = {};
  std::vector<std::int64_t> shape = {};  // outermost first
  DType kept = DType::f32;               // its type where it is not to get another one
  std::vector<GgufPart> parts = {};      // rows follow on each other
  // Each head has `rotary_size` rows that, from `rotary_begin` on, turn by halves and are put so that
  // neighbours turn together; 0: they stay.
  std::int64_t head_size = 0, rotary_begin = 0, rotary_size = 0;
  float offset = 0;  // is added to each value
  // Rows are as many equal blocks of columns, which are put in this order; empty: they stay.
  std::vector<std::int64_t> column_blocks = {};
  // The values of the only part, where they are not the source's.
  std::shared_ptr<const std::vector<float>> own = {};

  std::int64_t bytes() const;  // the sum of its parts'
};
struct GgufModel {
  std::vector<GgufEntry> metadata;
  std::vector<GgufRows> tensors;
  std::int64_t alignment = 32;
};
GgufModel model_of(const GgufFile& file);

// Each tensor's type in the new file for Q4_K, Q6_K, Q8_0, Q4_0, BF16, F16 or F32. Norms, routers,
// convolutions and what has one axis stay as they are; the head (or the embedding that is one) is at least
// Q6_K; where rows are not whole blocks, the next larger type that fits.
std::vector<DType> plan_quantization(const GgufModel& model, DType type);

struct Quantized {
  std::int64_t bytes_before = 0, bytes_after = 0;  // all tensors
  std::int64_t twice = 0;  // bytes of tensors that were quantised already, to another type
};
// `model` is of `source`. `on_progress` is told how many of its tensors' bytes are done.
Result<Quantized> quantize_gguf(const ModelSource& source, const GgufModel& model, DType type,
                                const std::string& to, ThreadPool& pool,
                                const std::function<void(std::int64_t)>& on_progress);

// `count` rows of a tensor, which `load` fills in and `store` takes, in parallel; for folders, too.
// corrupt_data: one of its weights is not a finite number.
using OfRow = std::function<void(std::int64_t row, std::span<float> values)>;
Status convert_rows(const std::string& tensor, std::int64_t count, std::int64_t columns, ThreadPool& pool,
                    const OfRow& load, const OfRow& store);

}  // namespace pagoda
