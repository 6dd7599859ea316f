#pragma once
// ModelConfig: what a family's reader takes out of a file, config.json or GGUF metadata alike, before it
// becomes a DecoderConfig. An option that changes the result and is not understood is refused by name where
// the file is read; one that nobody knows is listed.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/model_source.h"
#include "models/decoder_config.h"
#include "models/weight_names.h"

namespace pagoda {

enum class ExpertScore { softmax, softmax_of_chosen, sigmoid, sparse_mixer };

// The mixtures of experts that stand instead of dense feed-forwards; count 0: there are none.
struct ExpertsConfig {
  std::int32_t count = 0, per_token = 0;
  std::int32_t intermediate_size = 0;  // width of each expert
  // Width of the expert that all tokens go through; 0: there is none.
  std::int32_t shared_intermediate_size = 0;
  bool shared_gate = false;       // which each token takes by a share of its own
  std::vector<bool> layers = {};  // which have a mixture; empty: all
  ExpertScore score = ExpertScore::softmax;
  bool renormalize = false;
  float scale = 1, shared_scale = 1;  // factors of the chosen experts' sum, and of the shared one's result
  float near = 0;                     // sparse_mixer: how far below the best, as a share of it, still counts
  std::int32_t groups = 1, groups_used = 1;

  bool in_layer(std::int32_t layer) const {
    return count > 0 && (layers.empty() || layers[static_cast<std::size_t>(layer)]);
  }
};

// One layer's xIELU.
struct XieluNumbers {
  float alpha_p = 0, alpha_n = 0, beta = 0, eps = 0;
};

// Latent attention: what is kept of a token is a row for all heads; rank 0: the model has none.
struct LatentConfig {
  std::int32_t rank = 0;                                      // rank of the latent vector
  std::int32_t query_rank = 0;                                // 0: queries are made of the layer's input
  std::int32_t nope_size = 0, rope_size = 0, value_size = 0;  // sizes of a head; its queries are nope + rope
  float norm_eps = 1e-6f;                                     // eps of the norms within

  std::int32_t row_size() const { return rank + rope_size; }
};

// One layer's sizes, where layers differ.
struct LayerSizes {
  std::int32_t num_kv_heads = 0, head_size = 0, intermediate_size = 0;
  std::int32_t num_heads = 0;  // 0: as many as the model
};

// Heads that keep a matrix of a sequence: of gated delta nets, and of Mamba-2.
struct StateHeads {
  std::int32_t num_heads = 0, num_key_heads = 0;  // Mamba-2: groups
  std::int32_t key_size = 0, value_size = 0;      // Mamba-2: state size, head size
  bool tiled_heads = false;  // those of one key head stand num_key_heads apart; else side by side
  // Mamba-2 alone: bounds of its steps, groups of the norm behind it (0: there is none), whether the gate
  // comes before it; and factors of what it reads (gate, value, B, C, step) and of what it gives.
  float least_step = 0, most_step = std::numeric_limits<float>::infinity();
  std::int32_t norm_groups = 0;
  bool gate_first = true;
  std::array<float, 5> in_factors = {1, 1, 1, 1, 1};
  float input_factor = 1;  // factor of these without the biases
  float out_factor = 1;
};

// Factors of products (Falcon-H1), where a file's weights do not have them.
struct ProductFactors {
  float query = 1, key = 1, value = 1, attention_output = 1;
  float input = 1;  // factor of the first three without the biases
  float gate = 1, down = 1;
};

struct Family;

struct ModelConfig {
  const Family* family = nullptr;
  std::string architecture;  // "llama", "opt", "gpt2", "mistral", "qwen2", "qwen3", "gemma3", ...
  std::string type;          // as the file calls it: config.json's model_type, or GGUF's architecture
  std::string name;          // for people: general.name, or the folder's
  std::int32_t vocab_size = 0, hidden_size = 0, num_layers = 0;
  std::int32_t num_heads = 0, num_kv_heads = 0, head_size = 0;
  std::int32_t intermediate_size = 0;
  std::int32_t max_positions = 0;   // the longest context the model was made for
  std::int32_t embedding_size = 0;  // OPT-350m's word_embed_proj_dim; else hidden_size
  // Branch: norms of the results of a layer's halves; 0: the same.
  float norm_eps = 1e-5f, branch_norm_eps = 0;
  std::string activation;  // "silu", "relu", "relu2", "gelu_new", "gelu"
  bool tie_embeddings = false;
  bool attention_bias = false;      // informative: a bias is used where the tensor exists
  bool norm_before = true;          // OPT: do_layer_norm_before
  bool final_norm = true;           // OPT: not _remove_final_layer_norm
  std::int32_t sliding_window = 0;  // 0: none; itself included
  std::vector<bool> window_layers;  // which attend to the window alone; empty: all do

  float rope_theta = 10000.0f;
  bool rotates = true;                 // else it knows positions in another way
  std::int32_t rotary_size = 0;        // dimensions rotated; head_size unless partial
  bool rope_interleaved_rows = false;  // GGUF llama: q/k rows stored for adjacent-pair rotation
  RopeScaling rope_scaling = RopeScaling::none;
  float rope_factor = 1, rope_low_freq_factor = 1, rope_high_freq_factor = 4;
  std::int32_t rope_original_positions = 0;
  float rope_beta_fast = 32, rope_beta_slow = 1;             // yarn
  bool rope_truncate = true;                                 // yarn
  float rope_attention_factor = 1;                           // factor of cosines and sines
  std::vector<float> rope_short_factors, rope_long_factors;  // longrope: divisors of each pair's frequency
  std::int32_t rotary_dims = 0;  // proportional: dimensions of rotary_size that turn at all; 0: all
  float rope_local_theta = 0;    // layers with a window, unscaled; 0: as all others
  std::int32_t rope_local_rotary_size = 0;  // and how much of their heads; 0: as much as of all others

  float norm_weight_offset = 0;                    // added to the weights of norms
  float attention_softcap = 0, logit_softcap = 0;  // 0: none
  float attention_clip = 0;                        // bound on elements of queries, keys and values; 0: none
  float temperature_beta = 0;  // queries' temperature by position: see AttentionConfig; 0: none
  std::int32_t temperature_positions = 0;
  bool parallel = false;      // the feed-forward sees what attention sees
  float alibi_max = 0;        // ALiBi: the largest exponent of the slopes; 0: none
  float attention_scale = 0;  // factor of the products of queries and keys; 0: 1 / sqrt(head_size)
  float embedding_scale = 1, residual_scale = 1, logit_scale = 1;  // Granite
  std::vector<bool> rope_layers;  // which rotate queries and keys; empty: all

  // Encoders: every token attends to all others of its text, and nothing is kept of it.
  bool encoder = false;
  std::int32_t token_types = 0;      // 0: texts are not told apart
  std::int32_t position_offset = 0;  // row of learned position 0

  ExpertsConfig experts;
  LatentConfig latent;
  bool query_key_norm = false;  // for families that have models with and without
  bool head_gates = false;  // gates of the attended values, one for each head; else for each element (Laguna)

  std::vector<bool> recurrent_layers;  // which keep a state instead of keys and values; empty: none
  std::int32_t conv_taps = 0;          // tokens that their convolutions see, itself included
  StateHeads state;                    // states that are more than convolutions
  // If a layer is a mixer or a feed-forward, not both: the feed-forward layers. Empty: each layer is both.
  std::vector<bool> feed_forward_layers;
  ProductFactors factors;
  std::int64_t state_size = 0;   // numbers that each of them keeps of a sequence; for people
  bool state_beside_kv = false;  // they keep keys and values, too

  std::vector<LayerSizes> layer_sizes;  // empty: layers are alike, as num_kv_heads, ... say
  std::vector<XieluNumbers> xielu;      // by layer, in files that have them beside their tensors
  std::int32_t shared_kv_layers = 0;    // the last ones, which read the keys and values of earlier ones
  bool keys_are_values = false;         // in layers without a window
  // Width of each layer's own input of each token beside the stream; 0: none.
  std::int32_t layer_input_size = 0;
  std::int32_t layer_input_rows = 0;  // tokens of the table of it; 0: the vocabulary's
  std::int32_t num_streams = 1;       // residual streams (Gemma 3n)
  bool scaled_streams = false;        // the first stream is scaled where inputs of layers read it
  std::int32_t learned_residual = 0;  // rank of a way around each mixer; 0: there is none
  // By layer: how many standard deviations above the mean a gate counts from; -infinity: all count. Empty: so
  // in all layers.
  std::vector<float> sparse_cutoffs;

  std::string weight_type;         // for people: "Q4_1", "F32", mixed ones by share of bytes
  std::int32_t bos_token_id = -1;  // -1: none
  std::vector<std::int32_t> eos_token_ids;
  std::int32_t pad_token_id = -1;

  // The family's, or what its reader found in their place.
  Result<DecoderConfig> (*describe)(const ModelConfig& config) = nullptr;
  WeightNames (*names)(ModelFormat format) = nullptr;

  std::vector<std::string> unknown_options;  // for people: of the file, which nobody here knows

  bool is_recurrent(std::int32_t layer) const {
    return !recurrent_layers.empty() && recurrent_layers[static_cast<std::size_t>(layer)];
  }
  std::int32_t num_recurrent() const {
    return static_cast<std::int32_t>(std::count(recurrent_layers.begin(), recurrent_layers.end(), true));
  }
  bool keeps_kv(std::int32_t layer) const {
    return (!is_recurrent(layer) || state_beside_kv) &&
           (feed_forward_layers.empty() || !feed_forward_layers[static_cast<std::size_t>(layer)]);
  }
  bool has_window(std::int32_t layer) const {
    return sliding_window > 0 && (window_layers.empty() || window_layers[static_cast<std::size_t>(layer)]);
  }
};

// Bounds that every real model keeps and that later arithmetic relies on: positive sizes below 2^24,
// num_heads a multiple of num_kv_heads, an even rotary_size of at most head_size, positive finite
// floats. Drops special token ids outside the vocabulary. corrupt_data names the first field that is off.
Status finish_config(ModelConfig& config);

// YaRN's scale of cosines and sines where the context is `factor` times as long, to the power of `weight`.
float yarn_scale(float factor, float weight);

// The file says which context its rotation stretches: the model's is at least what becomes of that, as in
// vLLM.
void stretch_context(ModelConfig& config);

// conv_taps and state are known. state_size: the last inputs of a convolution, and the heads' matrices.
void set_state_size(ModelConfig& config);

// "silu" and so on for a name as transformers writes it; unimplemented names it and what is supported.
Result<std::string> normalize_activation(std::string_view name);

// "the file has 2 options that are not known, which were left aside: a, b"; "" if there are none.
std::string describe_unknown_options(const ModelConfig& config);

}  // namespace pagoda
