#pragma once
// WeightNames: what a file calls the parts of a decoder. Of a folder the family says it; GGUF files call the
// parts of all families alike, but for some.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

// "{}" in a name stands for a number.
inline bool is_numbered(std::string_view name) { return name.find("{}") != name.npos; }
inline std::string numbered(std::string name, std::int64_t number) {  // a name without "{}" as it is
  const std::size_t at = name.find("{}");
  return at == name.npos ? name : name.replace(at, 2, std::to_string(number));
}

// Prefixes before a language model's names inside of a model that also sees or hears: before all of them, or
// before those of layers and embedding in place of their own prefix. The longest first.
std::span<const std::string_view> wrapper_prefixes();

// Whether a convolution's weights lie as MLX has them, [channels, taps, 1].
inline bool has_mlx_taps(const std::vector<std::int64_t>& shape) {
  return shape.size() == 3 && shape[1] > 1 && shape[2] == 1;
}

// Names of a mixture's tensors, after `layer`; as in WeightNames.
struct ExpertNames {
  std::string router = {};
  std::string correction = {};  // whole name
  // With "{}", which is the expert's number, a tensor for each; else one of all: [experts, rows, columns].
  std::string gate = {}, up = {}, down = {};
  std::string gate_up = {};                        // instead of gate and up
  std::string weight = ".weight", bias = ".bias";  // how the names of tensors of all end
  bool transposed = false;                         // tensors of all are [experts, columns, rows]
  bool interleaved = false;  // gate_up alternates rows of gate and up, else gate above up
  bool joined = false;       // tensors of all are matrices, [experts * rows, columns]
  bool down_transposed = false;
  // Whole names: of the weight of the router's own norm, and of what the experts' weights are scaled by.
  std::string router_norm = {}, expert_scales = {};
  std::string sum_bias = {};  // whole name; of the sum of a token's experts
  std::string shared_gate = {}, shared_up = {}, shared_down = {}, shared_gate_up = {}, shared_router = {};

  bool separate() const { return is_numbered(down); }
};

// Places of a mixture's experts in a folder: a tensor for each or one of all, as transformers writes both.
struct ExpertPlaces {
  std::string mixture = "mlp";               // before the names of all
  std::string shared = {};                   // behind it: the expert for all tokens
  std::string router = {}, correction = {};  // whole names, where they are not as DeepSeek's
};
std::vector<ExpertNames> hf_expert_names(const ExpertPlaces& places);
// The form of MLX's folders beside that of `names`: tensors of all experts at `place`, gate and up apart.
ExpertNames mlx_experts(ExpertNames names, const std::string& place);

// Names of a dense feed-forward's matrices; "" for one that it lacks.
struct DenseNames {
  std::string gate = {}, up = {}, down = {};
  std::string gate_up = {};  // instead of gate and up
};

// Names of the parts of linear attention, after `layer`; as in WeightNames. A file has the
// products in one of the forms.
struct LinearAttentionNames {
  std::string qkv = {}, gate = {}, weight = {}, decay = {};  // each by itself; qkv: all queries, keys, values
  std::string by_key_head = {};         // [query | key | values | gates] of each key head
  std::string gates_by_key_head = {};   // [weights | decays] of each key head's heads
  std::string in = {};                  // Mamba-2: all of it; Mamba-1: [values | gates]
  std::string scanned = {}, step = {};  // Mamba-1: [step | B | C]; the channels' steps, with a bias
  std::string step_norm = {}, key_norm = {}, query_norm = {};  // likewise: norms of these three
  std::string rate = {}, step_bias = {};                       // whole names; rate: of the decay
  bool rate_is_log = false;                                    // the logarithm of minus the rate
  std::string skip = {};                                       // whole name; of Mamba
  std::string norm = {}, out = {};
};

// Names of tensors without ".weight" and ".bias". "" means that the family has no such tensor; "{}" in
// `layer` is the layer's number, and `layer` stands before each of the names below it.
struct WeightNames {
  std::string prefix = {};                       // in front of all names but the head's: "model."
  std::vector<std::string> other_prefixes = {};  // instead of which a file may have these: ""
  std::string token_embedding = {}, position_embedding = {}, project_in = {}, project_out = {};
  std::string type_embedding = {};  // embedding of token types
  std::string embedding_norm = {}, final_norm = {}, head = {};
  std::string other_head = {};  // newer files' name of the head
  // Whole names of divisors of the rotation frequencies: of all contexts, or of short and of long ones.
  std::string rope_factors = {}, rope_factors_short = {}, rope_factors_long = {};
  // Whole names of tensors of heads that give no logits: of what pools, or of how the model was trained.
  std::vector<std::string> of_other_heads = {};
  std::string layer = {};
  // Norms of a sublayer's input or of the sum after it; and of its output alone.
  std::string attention_norm = {}, attention_branch_norm = {}, mlp_norm = {}, mlp_branch_norm = {};
  bool bare_mlp_norm = false;  // GGUF: the whole name of its weight, which readers know with ".weight", too
  std::string query = {}, key = {}, value = {}, attention_output = {};
  std::string query_norm = {}, key_norm = {};  // with "{}" a tensor for each head
  // Norms before the last matrix of a sublayer.
  std::string attention_inner_norm = {}, mlp_inner_norm = {};
  std::string fused_qkv = {};    // instead of query, key, value
  bool qkv_by_group = false;     // each key-value head's rows stand together
  std::string sinks = {};        // whole name
  std::string output_gate = {};  // "": each head's gates follow its queries, in one matrix
  // Latent attention: makes queries out of the result of `query_a`, and the row that is kept; keys and values
  // of all heads in one matrix, or in newer GGUF files and in MLX's apart, a matrix for each head.
  std::string query_a = {}, query_a_norm = {}, query_b = {}, kv_a = {}, kv_a_norm = {}, kv_b = {};
  std::string key_b = {}, value_b = {};
  std::string conv_in = {}, conv = {}, conv_out = {};  // a short convolution's
  LinearAttentionNames linear_attention = {};          // whose convolution is `conv`
  std::string gate = {}, up = {}, down = {};
  std::string fused_gate_up = {};         // instead of gate and up
  bool gate_in_up = true;                 // GGUF: such a matrix of a folder is one there, too, named `up`
  DenseNames other_dense = {};            // other names: those of a file that has this `down`
  std::string curve = {};                 // parameters of a learned activation (xIELU)
  bool transposed = false;                // linear weights are stored [in, out]
  std::vector<ExpertNames> experts = {};  // a file has one of these forms
  // A mixture beside a dense feed-forward: norms of the mixture's input, and of each of the two results.
  std::string mixture_norm = {}, mixture_branch_norm = {}, dense_branch_norm = {};
  std::string output_scale = {};  // whole name
  // Inputs of layers: of all together, and of each layer.
  std::string input_table = {}, input_projection = {}, input_norm = {};
  std::string input_gate = {}, input_output = {}, input_branch_norm = {};
  // A learned residual: its two matrices and its norm.
  std::string residual_down = {}, residual_up = {}, residual_norm = {};
  // Residual streams: a matrix of each but the first, in one tensor or with "{}" in one each; and behind
  // `layer` the others.
  std::string streams_enter = {}, streams_leave = {};
  std::string streams_router = {}, streams_router_norm = {}, streams_predict = {}, streams_correct = {};
  std::string streams_scale = {};  // whole name

  std::string layer_prefix(std::int32_t index) const { return numbered(layer, index); }
};
WeightNames llama_names();  // in folders
// llama.cpp's table for all families: parts that a model lacks have a name, too.
WeightNames gguf_names();
// Changes one of these into the names of other models.
using NameWeights = void (*)(WeightNames& names);

}  // namespace pagoda
