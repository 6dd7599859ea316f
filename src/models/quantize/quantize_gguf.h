#pragma once
// Writes a model as a GGUF file with its matrices in another type, as llama-quantize does, piece by piece.
// The type of each tensor is chosen first, as data. Metadata and tokenizer of a GGUF file are kept;
// folder_as_gguf.h converts folders.
// Threads: one caller, which may lend a pool. Owner: the caller.
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

// Contiguous rows of a source tensor that become rows of a file tensor.
struct GgufPart {
  TensorView stored = {};
  float factor = 1;         // each value is multiplied by this
  bool transposed = false;  // its columns become the file's rows
};

// A tensor of the file, and the source rows that it consists of.
struct GgufRows {
  std::string name = {};
  std::vector<std::int64_t> shape = {};  // outermost first
  DType kept = DType::f32;               // its type if it is not converted
  std::vector<GgufPart> parts = {};      // in row order
  // The file orders a head's `rotary_size` rows from `rotary_begin` on for rotation of adjacent pairs, while
  // the source has them in halves. 0: the order is kept.
  std::int64_t head_size = 0, rotary_begin = 0, rotary_size = 0;
  float offset = 0;  // added to each value
  // Rows are divided into this many equal blocks of columns, written in this order; empty: the order is kept.
  std::vector<std::int64_t> column_blocks = {};
  // The values of the only part, if they are not from the source.
  std::shared_ptr<const std::vector<float>> own = {};

  std::int64_t bytes() const;  // total over its parts
};
struct GgufModel {
  std::vector<GgufEntry> metadata;
  std::vector<GgufRows> tensors;
  std::int64_t alignment = 32;
};
GgufModel model_of(const GgufFile& file);

// Returns each tensor's type in a file of type Q4_K, Q6_K, Q8_0, Q4_0, BF16, F16 or F32. Norms, routers,
// convolutions and tensors with one axis keep their type. The head (or a tied embedding) is at least Q6_K. If
// rows are not whole blocks, the next larger type that fits is used.
std::vector<DType> plan_quantization(const GgufModel& model, DType type);

struct Quantized {
  std::int64_t bytes_before = 0, bytes_after = 0;  // total over all tensors
  std::int64_t twice = 0;  // bytes of tensors that were already quantised, to another type
};
// `model` describes `source`. `on_progress` is called with the bytes of its tensors processed so far.
Result<Quantized> quantize_gguf(const ModelSource& source, const GgufModel& model, DType type,
                                const std::string& to, ThreadPool& pool,
                                const std::function<void(std::int64_t)>& on_progress);

// Converts `count` rows of a tensor in parallel: `load` fills in a row, `store` takes it. Also used for
// folders. corrupt_data: a weight is not finite.
using OfRow = std::function<void(std::int64_t row, std::span<float> values)>;
Status convert_rows(const std::string& tensor, std::int64_t count, std::int64_t columns, ThreadPool& pool,
                    const OfRow& load, const OfRow& store);

}  // namespace pagoda
