#pragma once
// How each family writes what it has beside what all have into GGUF metadata: a row of gguf_families.cc. What
// follows from the keys of all is in gguf_config.cc. Of loader/ alone.
#include <array>
#include <set>
#include <span>
#include <string_view>

#include "loader/gguf_keys.h"
#include "loader/model_config.h"

namespace pagoda {

// How a family's experts are chosen where the file does not say so.
struct GgufExperts {
  bool known = false;
  ExpertScore score = ExpertScore::softmax;
  bool renormalize = true;
};

struct GgufFamily {
  std::string_view name;
  std::string_view activation = "silu";
  bool layer_norm = false;
  bool may_have_rms_norms = false;  // instead
  bool rotates = true;
  bool interleaved_rows = false;  // q/k rows stored for adjacent-pair rotation
  bool parallel = false;          // the feed-forward sees what attention sees
  bool encoder = false;           // every token attends to all others
  bool may_be_parallel = false;   // as use_parallel_residual says
  // Where converters write the width because config.json has no such field: what the family's default is.
  std::int32_t context_instead_of_width = 0;
  bool latent = false;  // latent attention; read() reads the sizes of heads
  void (*read)(const GgufFile& file, Keys& keys, ModelConfig& config) = nullptr;
  std::array<std::string_view, 12> own_keys = {};
  GgufExperts experts = {};
};
std::span<const GgufFamily> gguf_families();

// For the readers. Names live as long as the file.
std::set<std::string_view> tensor_names(const GgufFile& file);
bool has_tensor(const GgufFile& file, std::string_view name);
void read_layers_with_routers(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_granite(const GgufFile& file, Keys& keys, ModelConfig& config);
// Every `period`-th layer sees everything, or as an array says, one entry for each layer.
void read_window_pattern(const GgufFile& file, Keys& keys, std::int32_t period, ModelConfig& config);

// Rotation (gguf_rope.cc). sliding_window is known.
void read_gguf_rope(const GgufFile& file, Keys& keys, ModelConfig& config);
// What yarn scales cosines and sines by: what the file says, or `otherwise`, which follows from its factor.
float gguf_yarn_scale(Keys& keys, float otherwise);

// Gemma's (gguf_gemma.cc).
void read_gguf_gemma2(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_gguf_gemma3(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_gguf_gemma3n(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_gguf_gemma4(const GgufFile& file, Keys& keys, ModelConfig& config);

// OLMo's (gguf_olmo.cc).
void read_gguf_olmo(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_gguf_olmo2(const GgufFile& file, Keys& keys, ModelConfig& config);

// Families with windows (gguf_windows.cc).
void read_gguf_afmoe(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_gguf_granite_swa(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_gguf_mellum(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_gguf_laguna(const GgufFile& file, Keys& keys, ModelConfig& config);

// Encoders (gguf_encoders.cc).
void read_gguf_bert(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_gguf_nomic_bert_moe(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_gguf_modern_bert(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_gguf_gemma_embedding(const GgufFile& file, Keys& keys, ModelConfig& config);

// Of families with recurrent layers (gguf_hybrids.cc).
void read_gguf_lfm2(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_gguf_granite_hybrid(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_gguf_falcon_h1(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_gguf_nemotron_h(const GgufFile& file, Keys& keys, ModelConfig& config);
void read_gguf_delta_net(const GgufFile& file, Keys& keys, ModelConfig& config);

}  // namespace pagoda
