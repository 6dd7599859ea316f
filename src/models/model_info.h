#pragma once
// ModelInfo: what a model's files say of it: the decoder that a family's reader makes of them, and beside it
// names, special tokens and options that do not change what it computes. read_config.h finds the family.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "loader/model_source.h"
#include "models/decoder_config.h"
#include "models/weight_names.h"

namespace pagoda {

struct Family;

struct ModelInfo {
  const Family* family = nullptr;
  std::string architecture;  // "llama", "opt", "gpt2", "mistral", "qwen2", "qwen3", "gemma3", ...
  std::string type;          // as the file calls it: config.json's model_type, or GGUF's architecture
  std::string name;          // for people: general.name, or the folder's
  std::string weight_type;   // for people: "Q4_1", "F32", mixed ones by share of bytes

  DecoderConfig decoder;
  NameWeights own_names = nullptr,
              own_gguf_names = nullptr;  // instead of the family's, if its reader says so
  // Width of dense feed-forwards as the file says it, also where every layer has a mixture; the largest.
  std::int32_t intermediate_size = 0;

  std::int32_t bos_token_id = -1;  // -1: none
  std::vector<std::int32_t> eos_token_ids;
  std::int32_t pad_token_id = -1;

  std::vector<std::string> unknown_options;         // for people: of the file, which nobody here knows
  std::vector<std::int32_t> unknown_eos_token_ids;  // for people: outside the vocabulary, left aside

  WeightNames names(ModelFormat format) const;
};

// Bounds that every real model keeps and that later arithmetic relies on. corrupt_data names the first size
// that is off.
Status check_decoder(const DecoderConfig& decoder);

// "unknown options of the model are ignored: a, b"; "" if there are none.
std::string describe_unknown_options(const ModelInfo& model);
// The same of "eos_token_id" outside the vocabulary.
std::string describe_unknown_ends(const ModelInfo& model);

}  // namespace pagoda
