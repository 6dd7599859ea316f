#pragma once
// DecoderConfig: the one decoder-only transformer that every supported architecture is a variant of, layer by
// layer. A family's file (families/) fills it; decoder.cc carries it out. Holds no weights.
//     x = embedding[token] * embedding_scale (-> project_in) (+ position[p]) (-> norm)
//     each layer: x += mixer(x); x += feed_forward(x), norms where NormPlaces says; or both of the same x
//     logits = softcap(logit_scale * head (project_out ->) (final_norm(x)) (+ bias))
// With streams each layer has several x. A new kind of mixer or feed-forward is a struct here, an alternative
// of its variant, and a file with its class (layer_part.h). LayerState is a layer's share of the KV cache.
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "kernels/activation.h"
#include "kernels/routing_rule.h"

namespace pagoda {

enum class NormKind { rms, layer };

struct NormConfig {
  NormKind kind = NormKind::rms;
  float eps = 1e-5f;
  float weight_offset = 0;  // the weight is this much more than what the file has
  bool weighted = true;     // else the file has no weight for it, and no bias
  bool operator==(const NormConfig&) const = default;
};

// The places of norms around a sublayer: x = sum(x + residual_scale * branch(sublayer(input(x)))).
struct NormPlaces {
  bool input = true;    // Llama
  bool branch = false;  // alone: OLMo 2; with `input`: Gemma's sandwich
  bool sum = false;     // OPT-350m
  bool operator==(const NormPlaces&) const = default;
};

enum class RopeScaling { none, linear, llama3, yarn, longrope, dynamic };

struct RopeConfig {
  float theta = 10000.0f;
  std::int32_t rotary_size = 0;  // dimensions of a head that are rotated
  RopeScaling scaling = RopeScaling::none;
  float factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  std::int32_t original_positions = 0;
  float beta_fast = 32, beta_slow = 1;    // yarn: rotations within original_positions between which it blends
  bool truncate = true;                   // yarn: the blend begins and ends at whole dimensions
  std::int32_t turned = 0;                // dimensions of rotary_size that turn at all; 0: all
  std::vector<float> divisors = {};       // divisors of each pair's frequency (longrope); empty: none
  std::vector<float> long_divisors = {};  // the same in sequences that may pass original_positions
  float attention_factor = 1;             // factor of cosines and sines
  bool operator==(const RopeConfig&) const = default;
};

constexpr std::int32_t kNoRope = -1;

// Whether sequences that may pass original_positions are rotated in another way: all in the same one, or each
// as its length says.
inline bool depends_on_length(const RopeConfig& rope) {
  return rope.scaling == RopeScaling::dynamic || rope.scaling == RopeScaling::longrope;
}

enum class QueryKeyNorm {
  none,
  per_head,             // an RMS norm of every query and key head before rotation
  whole,                // one of all query heads together, one of all key heads
  per_head_unweighted,  // the first without weights
  each_head,            // a layer norm of every head, whose weights are its own
};

// By what of the layer's input, times a matrix, each element of what is attended is scaled.
// ..._of_head: all elements of a head by the same.
enum class OutputGate { none, sigmoid, softplus, sigmoid_of_head, softplus_of_head };

struct AttentionConfig {
  std::int32_t num_heads = 0, num_kv_heads = 0, head_size = 0;
  OutputGate output_gate = OutputGate::none;
  bool causal = true;               // else a token attends to later ones, and no K/V is kept (encoders)
  std::int32_t sliding_window = 0;  // attends to the last W tokens, itself included; 0: to all
  bool chunks = false;              // chunks of W tokens: attends to its own chunk alone
  std::int32_t rope = 0;            // which of DecoderConfig::ropes rotates queries and keys, or kNoRope
  float scale = 1;                  // factor of the products of queries and keys
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  bool norm_after_rope = false;
  float softcap = 0;               // above 0: scores become softcap * tanh(score / softcap)
  bool sinks = false;              // each head has a score without a value
  float clip = 0;                  // clip_qkv if above 0: bound of queries, keys and values before rotation
  std::vector<float> slopes = {};  // loss of each head's scores for a token of distance (ALiBi); empty: none
  // Queries at position p are scaled by 1 + beta * ln(1 + floor((p + offset) / positions)); beta 0: they are
  // not.
  float temperature_beta = 0;
  std::int32_t temperature_offset = 0;
  std::int32_t temperature_positions = 1;
  bool value_norm = false;     // an RMS norm without a weight of every value head
  bool inner_norm = false;     // an RMS norm of all heads together before the output matrix
  bool key_is_value = false;   // values are the keys before their norm and rotation
  std::int32_t kv_layer = -1;  // keys and values are those of this earlier layer; -1: its own
  float query_factor = 1, key_factor = 1, value_factor = 1, output_factor = 1;  // factors of these products
  float input_factor = 1;  // factor of the first three's input, which their biases do not have

  bool has_own_kv() const { return kv_layer < 0; }
  std::int32_t query_size() const { return num_heads * head_size; }
  std::int32_t kv_size() const { return num_kv_heads * head_size; }
  std::int32_t qkv_size() const { return query_size() + (has_own_kv() ? 2 * kv_size() : 0); }
  bool gates_whole_heads() const {
    return output_gate == OutputGate::sigmoid_of_head || output_gate == OutputGate::softplus_of_head;
  }
  std::int32_t gate_size() const {
    if (output_gate == OutputGate::none) return 0;
    return gates_whole_heads() ? num_heads : query_size();
  }
  bool operator==(const AttentionConfig&) const = default;
};

// Heads that keep a matrix of a sequence instead of keys and values (kernels/linear_attention.h), behind a
// short convolution of what they read, with a gated norm behind them:
//   gated delta net   queries and keys of length one, weight a sigmoid, decay exp(rate * softplus(a + bias))
//   Mamba-2           key B, query C, weight softplus(dt + bias), decay exp(rate * weight)
struct LinearAttentionConfig {
  bool delta_rule = true;
  std::int32_t num_heads = 0, num_key_heads = 0;  // Mamba-2: groups of B and C
  std::int32_t key_size = 0, value_size = 0;      // sizes of a head; Mamba-2: state size, head size
  std::int32_t num_taps = 0;                      // taps of the convolution
  bool tiled_heads = false;  // head h has key head h % num_key_heads; else consecutive ones have the same
  // Mamba-2 alone; of a delta net each head has a norm, all with the same weights, and the gate behind it.
  float least_step = 0, most_step = std::numeric_limits<float>::infinity();
  std::int32_t norm_groups = 0;  // 0: gated, not normed
  bool gate_first = true;
  std::array<float, 5> in_factors = {1, 1, 1, 1, 1};  // gate, value, B, C, step
  float input_factor = 1;                             // factor of these without their biases
  float out_factor = 1;

  std::int32_t key_width() const { return num_key_heads * key_size; }
  std::int32_t value_width() const { return num_heads * value_size; }
  // Channels of the convolution.
  std::int32_t num_channels() const { return 2 * key_width() + value_width(); }
  bool operator==(const LinearAttentionConfig&) const = default;
};

// Channels that each keep a vector of a sequence, whose elements decay at rates of their own
// (kernels/selective_scan.h): Mamba-1. Behind a short convolution one product gives [step | B | C] of all
// channels, and another the channels' own steps.
struct SelectiveScanConfig {
  std::int32_t num_channels = 0, state_size = 0;
  std::int32_t step_rank = 0;  // numbers that the steps are made of
  std::int32_t num_taps = 0;   // taps of the convolution
  enum class Norms { none, unweighted, weighted };
  Norms norms = Norms::none;  // RMS norms of step, B and C, each by itself
  float norm_eps = 1e-6f;

  bool operator==(const SelectiveScanConfig&) const = default;
};

// Attention whose heads share one kept row a token, a latent vector and a rotated part: multi-head latent
// attention. A head's query has nope_size elements that meet the latent vector and rope_size that are
// rotated.
struct LatentAttentionConfig {
  std::int32_t num_heads = 0;
  std::int32_t query_rank = 0;  // queries are made of so many numbers, normed; 0: of the layer's input
  std::int32_t latent_size = 0, nope_size = 0, rope_size = 0, value_size = 0;
  std::int32_t rope = 0;  // which of DecoderConfig::ropes
  float scale = 1;        // factor of the products of queries and rows
  float norm_eps = 1e-6f;
  // As AttentionConfig has them; the offset is 0.
  float temperature_beta = 0;
  std::int32_t temperature_positions = 1;

  std::int32_t query_size() const { return nope_size + rope_size; }  // size of a query head
  std::int32_t row_size() const { return latent_size + rope_size; }
  bool operator==(const LatentAttentionConfig&) const = default;
};

// A short convolution between two gates: out = W_out (c * conv(b * x)), [b | c | x] = W_in h (LFM2).
struct ShortConvConfig {
  std::int32_t num_channels = 0;  // as many as the hidden size
  std::int32_t num_taps = 0;
  bool operator==(const ShortConvConfig&) const = default;
};

struct DenseFeedForwardConfig {
  std::int32_t intermediate_size = 0;
  Activation activation = Activation::silu;
  bool gated = true;
  float gate_factor = 1, down_factor = 1;  // factors of these products
  bool inner_norm = false;                 // an RMS norm between its matrices
  bool operator==(const DenseFeedForwardConfig&) const = default;
};

// A gated one with GELU, of which each row keeps the features whose gate is so many standard deviations above
// the mean of the row's gates (sparse_feed_forward.cc).
struct SparseFeedForwardConfig {
  std::int32_t intermediate_size = 0;
  float deviations = 0;
  bool operator==(const SparseFeedForwardConfig&) const = default;
};

// Two matrices with a learned curve between them (dense_feed_forward.cc). Its numbers are here where a file
// has them beside its tensors.
struct XieluConfig {
  std::int32_t intermediate_size = 0;
  float alpha_p = 0.8f, alpha_n = 0.8f, beta = 0.5f, eps = -1e-6f;
  bool operator==(const XieluConfig&) const = default;
};

// Experts, of which each token goes through some, and one that all go through.
struct MixtureConfig {
  RoutingRule routing;
  DenseFeedForwardConfig expert;              // each expert
  bool weigh_input = false;                   // a token's weight is on what its expert reads (Llama 4)
  std::int32_t shared_intermediate_size = 0;  // 0: there is no shared expert
  float shared_scale = 1;                     // factor of the shared expert's result
  bool shared_gate = false;                   // a token takes the sigmoid of a product as its share of it
  bool router_norm = false;                   // the router reads the layer's x through an RMS norm of its own
  bool routes_early = false;                  // the router reads x as it enters the layer, not normed
  bool expert_scales = false;                 // weights of chosen experts times a number of each expert
  bool operator==(const MixtureConfig&) const = default;
};

// Both of the same x: y += norm(dense(norm(x))) + norm(mixture(norm(x))), each norm with a weight of its own.
struct MixtureBesideDenseConfig {
  DenseFeedForwardConfig dense;
  MixtureConfig mixture;
  bool operator==(const MixtureBesideDenseConfig&) const = default;
};

// Both read the same, and what they give is added (Falcon-H1).
struct ParallelMixersConfig {
  AttentionConfig attention;
  LinearAttentionConfig linear;
  bool operator==(const ParallelMixersConfig&) const = default;
};

// A layer with only the other sublayer (Nemotron-H).
struct NoMixerConfig {
  bool operator==(const NoMixerConfig&) const = default;
};
struct NoFeedForwardConfig {
  bool operator==(const NoFeedForwardConfig&) const = default;
};

using MixerConfig =
    std::variant<AttentionConfig, LatentAttentionConfig, ShortConvConfig, LinearAttentionConfig,
                 SelectiveScanConfig, ParallelMixersConfig, NoMixerConfig>;
using FeedForwardConfig = std::variant<DenseFeedForwardConfig, MixtureConfig, MixtureBesideDenseConfig,
                                       SparseFeedForwardConfig, XieluConfig, NoFeedForwardConfig>;

struct LayerConfig {
  MixerConfig mixer;
  FeedForwardConfig feed_forward;
  NormConfig norm;
  NormPlaces mixer_norms, feed_forward_norms;
  float branch_norm_eps = 0;          // eps of the norms of branches; 0: as `norm` has it
  float residual_scale = 1;           // factor of both branches
  bool parallel = false;              // the feed-forward sees what the mixer sees
  bool output_scale = false;          // the layer's output is scaled by a number of its own
  std::int32_t learned_residual = 0;  // rank of a way around the mixer (learned_residual.h); 0: there is none

  AttentionConfig* attention() { return std::get_if<AttentionConfig>(&mixer); }
  const AttentionConfig* attention() const { return std::get_if<AttentionConfig>(&mixer); }
  DenseFeedForwardConfig* dense() { return std::get_if<DenseFeedForwardConfig>(&feed_forward); }
  MixtureConfig* mixture() { return std::get_if<MixtureConfig>(&feed_forward); }
  const MixtureConfig* mixture() const { return std::get_if<MixtureConfig>(&feed_forward); }
  const DenseFeedForwardConfig* dense() const { return std::get_if<DenseFeedForwardConfig>(&feed_forward); }
  bool operator==(const LayerConfig&) const = default;
};

// A per-layer input of each token, added after the feed-forward (layer_inputs.h).
struct LayerInputConfig {
  std::int32_t size = 0;  // features of a layer
  std::int32_t rows = 0;  // rows of the table, which tokens beyond read as token 0; 0: the vocabulary's
  Activation activation = Activation::gelu_tanh;
  bool operator==(const LayerInputConfig&) const = default;
};

// Residual streams of which layers compute the first alone (residual_streams.h).
struct StreamsConfig {
  std::int32_t count = 0;  // at most kMaxStreams
  bool scaled = false;     // per-layer inputs read the first stream scaled, element by element
  bool operator==(const StreamsConfig&) const = default;
};
constexpr std::int64_t kMaxStreams = 8;

constexpr std::int32_t kMaxLayers = 4096;

struct DecoderConfig {
  std::int32_t vocab_size = 0, hidden_size = 0, embedding_size = 0, max_positions = 0;
  std::vector<LayerConfig> layers;

  float embedding_scale = 1;
  bool scale_as_embedding = false;  // embedding_scale is rounded to the type in which the embedding is stored
  bool learned_positions = false;
  std::int32_t position_offset = 0;  // learned: row of position 0 in its table
  std::int32_t token_types = 0;      // rows of a table that is added by which of two texts a token is of
  // The rotations of layers. A file with divisors of frequencies means those of the first.
  std::vector<RopeConfig> ropes;
  bool interleaved_rows = false;  // q/k rows stored for adjacent-pair rotation; reordered at load

  std::optional<NormConfig> embedding_norm, final_norm;
  std::optional<LayerInputConfig> layer_input;
  std::optional<StreamsConfig> streams;
  float logit_scale = 1;
  float logit_softcap = 0;  // above 0: logits become logit_softcap * tanh(logit / logit_softcap)
  bool tied_head = false;
  bool head = true;  // false: nobody asks for logits, and no head is loaded

  std::int32_t num_layers() const { return static_cast<std::int32_t>(layers.size()); }
  bool operator==(const DecoderConfig&) const = default;
};

// Heads of the layer that has the most, and the largest size of a head; of latent attention one for keys and
// values. None: no layer attends.
struct HeadSizes {
  std::int32_t num_heads = 0, num_kv_heads = 0, head_size = 0;
};
HeadSizes head_sizes(const DecoderConfig& config);

// Every token attends to all others of its text, and nothing is kept of it.
bool is_encoder(const DecoderConfig& config);

// A layer's state of each sequence from step to step.
struct LayerState {
  // Nothing; or keys and values of all its tokens, or of the last `window`; or a state alone.
  enum class Kind { full, window, none, state };
  Kind kind = Kind::full;
  std::int32_t window = 0;  // tokens that a position sees, itself included
  std::int32_t num_kv_heads = 0, head_size = 0;
  std::int32_t latent_size = 0;  // above 0: keys alone, of which the first so many elements are the values
  std::int32_t of_layer = -1;    // keeps nothing: reads what this earlier layer keeps
  // The sizes of a state's pieces, alone or beside keys and values, in floats. A piece is contiguous and lies
  // in one page of the cache (whose pages are as large as the largest): so there is one for each head, not
  // one for all of them.
  std::vector<std::int64_t> pieces = {};
  bool operator==(const LayerState&) const = default;
};
std::vector<LayerState> layer_states(const DecoderConfig& config);

// The heads that every layer of the cache has; nothing: they differ between layers.
struct KvHeads {
  std::int32_t num_kv_heads = 0, head_size = 0;
};
std::optional<KvHeads> kv_heads(std::span<const LayerState> layers);
std::optional<KvHeads> kv_heads(const DecoderConfig& config);

}  // namespace pagoda
