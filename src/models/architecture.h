#pragma once
// Architecture: what one family of models calls its parts: how its hyperparameters read as a
// DecoderConfig, and under which names its weights lie in a file. The registry is the list of all.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/model_source.h"
#include "models/decoder_config.h"

namespace pagoda {

// Names of tensors without ".weight" and ".bias". "" means that the family has no such tensor; "{}" in
// `layer` is the layer's number, and `layer` stands before each of the names below it.
struct WeightNames {
  std::string prefix = {};                       // in front of all names but the head's: "model."
  std::vector<std::string> other_prefixes = {};  // instead of which a file may have these: ""
  std::string token_embedding = {}, position_embedding = {}, project_in = {}, project_out = {};
  std::string final_norm = {}, head = {};
  std::string rope_factors = {};  // whole name: divisors of the rotation frequencies
  std::string layer = {};
  // Of a half's input or, behind it, of the sum; and of the branch alone.
  std::string attention_norm = {}, attention_branch_norm = {}, mlp_norm = {}, mlp_branch_norm = {};
  std::string query = {}, key = {}, value = {}, attention_output = {}, query_norm = {}, key_norm = {};
  std::string fused_qkv = {};  // instead of query, key, value
  std::string gate = {}, up = {}, down = {};
  std::string fused_gate_up = {};  // instead of gate and up
  bool transposed = false;         // linear weights are stored [in, out]

  std::string layer_prefix(std::int32_t index) const;
};

struct Architecture {
  std::string_view name;  // as in ModelConfig::architecture
  Result<DecoderConfig> (*describe)(const ModelConfig& config);
  WeightNames (*names)(ModelFormat format);
};

std::span<const Architecture> architectures();

// unimplemented: names the architecture and all that are supported.
Result<const Architecture*> find_architecture(std::string_view name);

// What the families' files share: layers of attention and a gated feed-forward with norms before them, in the
// sizes, rotations, windows and scales that ModelConfig has.
Result<DecoderConfig> common_description(const ModelConfig& config);
Result<Activation> activation_named(std::string_view name);
WeightNames llama_names(ModelFormat format);

extern const Architecture kGemma3, kGpt2, kGranite, kLlama, kMistral, kOlmo2, kOpt, kPhi3, kQwen2, kQwen3,
    kSmolLm3;

}  // namespace pagoda
