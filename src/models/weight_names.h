#pragma once
// WeightNames: the names of a decoder's tensors in a file. In folders they depend on the family; GGUF files
// use common names, with a few exceptions.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

// "{}" in a name stands for a number.
inline bool is_numbered(std::string_view name) { return name.find("{}") != name.npos; }
inline std::string numbered(std::string name, std::int64_t number) {  // a name without "{}" is unchanged
  const std::size_t at = name.find("{}");
  return at == name.npos ? name : name.replace(at, 2, std::to_string(number));
}

// Prefixes of a language model's names inside a multimodal model: before all names, or replacing the prefix
// of layer and embedding names. Longest first.
std::span<const std::string_view> wrapper_prefixes();

// True if a convolution's weights have MLX's shape, [channels, taps, 1].
inline bool has_mlx_taps(const std::vector<std::int64_t>& shape) {
  return shape.size() == 3 && shape[1] > 1 && shape[2] == 1;
}

// Names of a mixture's tensors, after `layer`; as in WeightNames.
struct ExpertNames {
  std::string router = {};
  std::string correction = {};  // full name
  // With "{}" (the expert's number): a tensor per expert; otherwise one for all: [experts, rows, columns].
  std::string gate = {}, up = {}, down = {};
  std::string gate_up = {};                        // instead of gate and up
  std::string weight = ".weight", bias = ".bias";  // suffixes of tensors for all experts
  bool transposed = false;                         // tensors for all experts are [experts, columns, rows]
  bool interleaved = false;  // gate_up alternates rows of gate and up; otherwise gate is above up
  bool joined = false;       // tensors for all experts are matrices, [experts * rows, columns]
  bool down_transposed = false;
  // Full names: the weight of the router's own norm, and the factors of the experts' weights.
  std::string router_norm = {}, expert_scales = {};
  std::string sum_bias = {};  // full name; bias of the sum of a token's experts
  std::string shared_gate = {}, shared_up = {}, shared_down = {}, shared_gate_up = {}, shared_router = {};

  bool separate() const { return is_numbered(down); }
};

// Names of a mixture's experts in a folder: a tensor per expert or one for all; transformers writes both.
struct ExpertPlaces {
  std::string mixture = "mlp";               // prefix of all names
  std::string shared = {};                   // after it: the expert for all tokens
  std::string router = {}, correction = {};  // full names, if not DeepSeek's
};
std::vector<ExpertNames> hf_expert_names(const ExpertPlaces& places);
// MLX's form of `names`: tensors for all experts at `place`, with separate gate and up.
ExpertNames mlx_experts(ExpertNames names, const std::string& place);

// Names of a dense feed-forward's matrices; "" if absent.
struct DenseNames {
  std::string gate = {}, up = {}, down = {};
  std::string gate_up = {};  // instead of gate and up
};

// Names of the parts of linear attention, after `layer`; as in WeightNames. A file has its products in one of
// these forms.
struct LinearAttentionNames {
  std::string qkv = {}, gate = {}, weight = {}, decay = {};  // separate; qkv: all queries, keys, values
  std::string by_key_head = {};                              // [query | key | values | gates] per key head
  std::string gates_by_key_head = {};   // [weights | decays] of the heads of each key head
  std::string in = {};                  // Mamba-2: everything; Mamba-1: [values | gates]
  std::string scanned = {}, step = {};  // Mamba-1: [step | B | C]; the channels' steps, with a bias
  std::string step_norm = {}, key_norm = {}, query_norm = {};  // Mamba-1: norms of step, B and C
  std::string rate = {}, step_bias = {};                       // full names; rate: of the decay
  bool rate_is_log = false;                                    // the logarithm of minus the rate
  std::string skip = {};                                       // full name; Mamba's
  std::string norm = {}, out = {};
};

// Names of tensors without ".weight" and ".bias". "" means that the family has no such tensor. "{}" in
// `layer` is the layer's number; `layer` is the prefix of all names below it.
struct WeightNames {
  std::string prefix = {};                       // prefix of all names except the head's: "model."
  std::vector<std::string> other_prefixes = {};  // alternatives to `prefix` in some files: ""
  std::string token_embedding = {}, position_embedding = {}, project_in = {}, project_out = {};
  std::string type_embedding = {};  // embedding of token types
  std::string embedding_norm = {}, final_norm = {}, head = {};
  std::string other_head = {};  // the head's name in newer files
  // Full names of divisors of the rotation frequencies: for all contexts, or for short and for long ones.
  std::string rope_factors = {}, rope_factors_short = {}, rope_factors_long = {};
  // Full names of tensors of heads without logits: for pooling, or used only in training.
  std::vector<std::string> of_other_heads = {};
  std::string layer = {};
  // Norms of a sublayer's input, or of the sum after it; and of its output.
  std::string attention_norm = {}, attention_branch_norm = {}, mlp_norm = {}, mlp_branch_norm = {};
  bool bare_mlp_norm = false;  // GGUF: the full name of its weight; readers also accept it with ".weight"
  std::string query = {}, key = {}, value = {}, attention_output = {};
  std::string query_norm = {}, key_norm = {};  // with "{}": a tensor per head
  // Norms before the last matrix of a sublayer.
  std::string attention_inner_norm = {}, mlp_inner_norm = {};
  std::string fused_qkv = {};    // instead of query, key, value
  bool qkv_by_group = false;     // the rows of each key-value head are contiguous
  std::string sinks = {};        // full name
  std::string output_gate = {};  // "": each head's gates follow its queries, in one matrix
  // Latent attention: query_b makes queries from the result of `query_a`, kv_a the stored row. Keys and
  // values of all heads are one matrix (kv_b); in newer GGUF files and in MLX they are separate, with a
  // matrix per head.
  std::string query_a = {}, query_a_norm = {}, query_b = {}, kv_a = {}, kv_a_norm = {}, kv_b = {};
  std::string key_b = {}, value_b = {};
  std::string conv_in = {}, conv = {}, conv_out = {};  // a short convolution
  LinearAttentionNames linear_attention = {};          // its convolution is `conv`
  std::string gate = {}, up = {}, down = {};
  std::string fused_gate_up = {};         // instead of gate and up
  bool gate_in_up = true;                 // GGUF: a folder's fused matrix stays fused there, named `up`
  DenseNames other_dense = {};            // alternative names, in a file that has this `down`
  std::string curve = {};                 // parameters of a learned activation (xIELU)
  bool transposed = false;                // linear weights are stored [in, out]
  std::vector<ExpertNames> experts = {};  // a file has one of these forms
  // A mixture beside a dense feed-forward: norms of the mixture's input, and of both results.
  std::string mixture_norm = {}, mixture_branch_norm = {}, dense_branch_norm = {};
  std::string output_scale = {};  // full name
  // Per-layer inputs: tensors for all layers, and for each layer.
  std::string input_table = {}, input_projection = {}, input_norm = {};
  std::string input_gate = {}, input_output = {}, input_branch_norm = {};
  // A learned residual: its two matrices and its norm.
  std::string residual_down = {}, residual_up = {}, residual_norm = {};
  // Residual streams: a matrix for each stream except the first, in one tensor, or with "{}" in one per
  // stream; the other names follow `layer`.
  std::string streams_enter = {}, streams_leave = {};
  std::string streams_router = {}, streams_router_norm = {}, streams_predict = {}, streams_correct = {};
  std::string streams_scale = {};  // full name

  std::string layer_prefix(std::int32_t index) const { return numbered(layer, index); }
};
WeightNames llama_names();  // in folders
// llama.cpp's table for all families; includes names of parts that a model may lack.
WeightNames gguf_names();
// Changes one of these tables into the names of other models.
using NameWeights = void (*)(WeightNames& names);

}  // namespace pagoda
