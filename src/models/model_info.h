#pragma once
// ModelInfo: what a model's files say about it: the decoder that the family's reader builds, plus names,
// special tokens and options that do not affect the computation. read_config.h finds the family.
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
  std::string type;          // the file's own name: model_type of config.json, or GGUF's architecture
  std::string name;          // for display: general.name, or the folder's name
  std::string weight_type;   // for display: "Q4_1", "F32"; mixed types with shares by bytes

  DecoderConfig decoder;
  NameWeights own_names = nullptr,
              own_gguf_names = nullptr;  // replace the family's, if its reader sets them
  // Width of dense feed-forwards in the file, even if every layer has a mixture; the largest, if layers
  // differ.
  std::int32_t intermediate_size = 0;

  std::int32_t bos_token_id = -1;  // -1: none
  std::vector<std::int32_t> eos_token_ids;
  std::int32_t pad_token_id = -1;

  std::vector<std::string> unknown_options;         // for messages: unknown fields of the file
  std::vector<std::int32_t> unknown_eos_token_ids;  // for messages: ids outside the vocabulary, ignored

  WeightNames names(ModelFormat format) const;
};

// Bounds that every real model satisfies and later arithmetic relies on. corrupt_data names the first size
// out of bounds.
Status check_decoder(const DecoderConfig& decoder);

// "unknown options of the model are ignored: a, b"; "" if there are none.
std::string describe_unknown_options(const ModelInfo& model);
// The same for "eos_token_id" values outside the vocabulary.
std::string describe_unknown_ends(const ModelInfo& model);

}  // namespace pagoda
