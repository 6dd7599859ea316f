#pragma once
// A decoder's sizes and options as GGUF metadata, under the keys that llama.cpp's converter writes. Which of
// them a family's files have, and what else they leave out, its reader says: whoever writes a file reads the
// result again and compares (folder_as_gguf.h). Threads: any.
#include <optional>
#include <string_view>
#include <vector>

#include "loader/gguf_writer.h"
#include "models/family.h"
#include "models/model_info.h"

namespace pagoda {

// How a family's files say what its embedding, branches and logits are multiplied by.
enum class GgufScales {
  left_out,       // all models of the family have the same
  logits_times,   // under logit_scale, as Cohere's
  logits_divide,  // under logit_scale, as Granite's
  folded,         // not at all: they are in embedding and head
};

// The files that a model's fields are for.
struct GgufKind {
  std::string_view architecture;
  const GgufTraits& traits;
  const WeightNames& names;
  GgufScales scales;
  bool lists_windows = false;  // which layers have one, where that is not the family's pattern
};

std::vector<GgufEntry> gguf_fields(const ModelInfo& model, const GgufKind& kind);

// The divisors of a rotation's frequencies that GGUF files have as tensors; empty: there are none.
struct RopeDivisors {
  std::vector<float> all, short_contexts, long_contexts;
};
RopeDivisors rope_divisors(const DecoderConfig& decoder);

}  // namespace pagoda
