// GGUF metadata of OLMo's generations.
#include "base/strings.h"
#include "loader/gguf_families.h"

namespace pagoda {

// Converters move the rows of queries and keys to where adjacent pairs rotate, but leave their biases as they
// are, so that no file with biases can be right.
void read_gguf_olmo(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.attention_clip = keys.number("attention.clamp_kqv", 0.0f);
  for (const std::string_view name : {"blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_qkv.bias"})
    if (has_tensor(file, name))
      keys.fail(
          unimplemented(concat("tensor '", name,
                               "' is not supported: olmo has no attention biases in GGUF files; run the "
                               "Hugging Face folder instead")));
}

// OLMo 3 has the same name, with windows in three of four layers; only the layers without one scale their
// rotation.
void read_gguf_olmo2(const GgufFile& file, Keys& keys, ModelConfig& config) {
  if (config.sliding_window == 0) return;
  read_window_pattern(file, keys, 4, config);
  config.rope_local_theta = keys.number("rope.freq_base_swa", config.rope_theta);
}

}  // namespace pagoda
