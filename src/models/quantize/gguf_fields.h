#pragma once
// A decoder's sizes and options as GGUF metadata, under the keys that llama.cpp's converter writes. Which of
// them a family's files have, and what they omit, is known only to its reader; so the writer of a file reads
// the result back and compares (folder_as_gguf.h).
// Threads: any.
#include <optional>
#include <string_view>
#include <vector>

#include "loader/gguf_writer.h"
#include "models/family.h"
#include "models/model_info.h"

namespace pagoda {

// How a family's files express the scales of embedding, branches and logits.
enum class GgufScales {
  left_out,       // all models of the family have the same scales
  logits_times,   // under logit_scale, as in Cohere
  logits_divide,  // under logit_scale, as in Granite
  folded,         // multiplied into embedding and head
};

// The kind of file that a model's fields are written for.
struct GgufKind {
  std::string_view architecture;
  const GgufTraits& traits;
  const WeightNames& names;
  GgufScales scales;
  bool lists_windows = false;  // the windows of layers are listed, if they differ from the family's pattern
};

std::vector<GgufEntry> gguf_fields(const ModelInfo& model, const GgufKind& kind);

// Divisors of rotation frequencies that GGUF files store as tensors; empty: none.
struct RopeDivisors {
  std::vector<float> all, short_contexts, long_contexts;
};
RopeDivisors rope_divisors(const DecoderConfig& decoder);

}  // namespace pagoda
