#pragma once
// DecoderConfig: the one decoder-only transformer that every supported architecture is a variant of. An
// architecture's file fills it from a ModelConfig; decoder.cc carries it out. Holds no weights.
//
//   x = embedding[token] (-> project_in) (+ position[p])
//   each layer:   pre-norm    x += attention(norm(x));        x += mlp(norm(x))
//                 post-norm   x = norm(x + attention(x));     x = norm(x + mlp(x))      (OPT-350m)
//   logits = head (project_out ->) (final_norm(x))
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/activation.h"
#include "loader/model_config.h"

namespace pagoda {

enum class NormKind { rms, layer };
enum class NormPlace { before, after };  // of the sublayer
enum class PositionKind { rope, learned };

struct RopeConfig {
  float theta = 10000.0f;
  std::int32_t rotary_size = 0;  // dimensions of a head that are rotated
  RopeScaling scaling = RopeScaling::none;
  float factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  std::int32_t original_positions = 0;
};

struct DecoderConfig {
  std::int32_t vocab_size = 0, hidden_size = 0, embedding_size = 0, intermediate_size = 0;
  std::int32_t num_layers = 0, num_heads = 0, num_kv_heads = 0, head_size = 0;

  NormKind norm = NormKind::rms;
  NormPlace norm_place = NormPlace::before;
  float norm_eps = 1e-5f;
  bool final_norm = true;

  PositionKind position = PositionKind::rope;
  std::int32_t max_positions = 0;
  std::int32_t position_offset = 0;  // learned: row of position 0 in its table
  RopeConfig rope;
  bool interleaved_rows = false;  // q/k rows stored for adjacent-pair rotation; reordered at load

  bool query_key_norm = false;  // RMS norm of every query and key head before rotation
  Activation activation = Activation::silu;
  bool gated_mlp = true;
  bool tied_head = false;
  std::vector<std::int32_t> sliding_window;  // per layer; 0: attends to all

  std::int32_t query_size() const { return num_heads * head_size; }
  std::int32_t kv_size() const { return num_kv_heads * head_size; }
  std::int32_t qkv_size() const { return query_size() + 2 * kv_size(); }
};

}  // namespace pagoda
