#pragma once
// DecoderConfig: the decoder-only transformer of which every supported architecture is a variant, layer by
// layer. A family's file (families/) fills it in; decoder.cc runs it. Holds no weights.
//    x = embedding[token] * embedding_scale (-> project_in) (+ position[p]) (-> norm)
//    each layer: x += mixer(x); x += feed_forward(x), norms where NormPlaces says; or both of the same x
//    logits = softcap(logit_scale * head (project_out ->) (final_norm(x)) (+ bias))
// With streams, each layer has several x. A new kind of mixer or feed-forward is a struct here, an
// alternative of its variant, and a file with its class (layer_part.h). LayerState is a layer's share of the
// KV cache.
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
  float weight_offset = 0;  // added to the weight in the file
  bool weighted = true;     // false: the file has neither a weight nor a bias for the norm
  bool operator==(const NormConfig&) const = default;
};

// Positions of norms around a sublayer: x = sum(x + residual_scale * branch(sublayer(input(x)))).
struct NormPlaces {
  bool input = true;    // Llama
  bool branch = false;  // without `input`: OLMo 2; with `input`: Gemma's sandwich
  bool sum = false;     // OPT-350m
  bool operator==(const NormPlaces&) const = default;
};

enum class RopeScaling { none, linear, llama3, yarn, longrope, dynamic };

struct RopeConfig {
  float theta = 10000.0f;
  std::int32_t rotary_size = 0;  // rotated dimensions of a head
  RopeScaling scaling = RopeScaling::none;
  float factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  std::int32_t original_positions = 0;
  float beta_fast = 32, beta_slow = 1;    // yarn: blends between these rotations within original_positions
  bool truncate = true;                   // yarn: the blend begins and ends at whole dimensions
  std::int32_t turned = 0;                // dimensions of rotary_size with a nonzero frequency; 0: all
  std::vector<float> divisors = {};       // divisor of each pair's frequency (longrope); empty: none
  std::vector<float> long_divisors = {};  // the same for sequences that may exceed original_positions
  float attention_factor = 1;             // factor of cosines and sines
  bool operator==(const RopeConfig&) const = default;
};

constexpr std::int32_t kNoRope = -1;

// True if sequences that may exceed original_positions are rotated differently: all in the same way, or each
// depending on its length.
inline bool depends_on_length(const RopeConfig& rope) {
  return rope.scaling == RopeScaling::dynamic || rope.scaling == RopeScaling::longrope;
}

enum class QueryKeyNorm {
  none,
  per_head,             // an RMS norm per query and key head, before rotation
  whole,                // one RMS norm over all query heads, one over all key heads
  per_head_unweighted,  // like per_head, without weights
  each_head,            // a layer norm per head, each with its own weights
};

// The function of a product of the layer's input that scales attention's output, element by element; with
// ..._of_head all elements of a head have the same factor.
enum class OutputGate { none, sigmoid, softplus, sigmoid_of_head, softplus_of_head };

struct AttentionConfig {
  std::int32_t num_heads = 0, num_kv_heads = 0, head_size = 0;
  OutputGate output_gate = OutputGate::none;
  bool causal = true;               // false: tokens also attend to later ones, and no K/V is kept (encoders)
  std::int32_t sliding_window = 0;  // attends to the last W tokens, itself included; 0: all
  bool chunks = false;              // chunks of W tokens instead: attends only within its chunk
  std::int32_t rope = 0;            // index in DecoderConfig::ropes, or kNoRope
  float scale = 1;                  // factor of the products of queries and keys
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  bool norm_after_rope = false;
  float softcap = 0;               // if > 0: scores become softcap * tanh(score / softcap)
  bool sinks = false;              // each head has an extra score without a value
  float clip = 0;                  // if > 0, clip_qkv: bound of queries, keys and values before rotation
  std::vector<float> slopes = {};  // per head: score penalty per token of distance (ALiBi); empty: none
  // Queries at position p are scaled by 1 + beta * ln(1 + floor((p + offset) / positions)). beta 0: not
  // scaled.
  float temperature_beta = 0;
  std::int32_t temperature_offset = 0;
  std::int32_t temperature_positions = 1;
  bool value_norm = false;     // an unweighted RMS norm per value head
  bool inner_norm = false;     // an RMS norm over all heads, before the output matrix
  bool key_is_value = false;   // values are the keys before norm and rotation
  std::int32_t kv_layer = -1;  // uses the keys and values of this earlier layer; -1: its own
  float query_factor = 1, key_factor = 1, value_factor = 1, output_factor = 1;  // factors of these products
  float input_factor = 1;  // factor of the input of query, key and value, not applied to biases

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

// Heads that keep a matrix per sequence instead of keys and values (kernels/linear_attention.h), with a short
// convolution of their inputs before them and a gated norm after them:
//   gated delta net   queries and keys of length one, weight a sigmoid, decay exp(rate * softplus(a + bias))
//   Mamba-2           key B, query C, weight softplus(dt + bias), decay exp(rate * weight)
struct LinearAttentionConfig {
  bool delta_rule = true;
  std::int32_t num_heads = 0, num_key_heads = 0;  // Mamba-2: groups of B and C
  std::int32_t key_size = 0, value_size = 0;      // per head; Mamba-2: state size, head size
  std::int32_t num_taps = 0;                      // taps of the convolution
  bool tiled_heads = false;  // head h has key head h % num_key_heads; otherwise consecutive heads share one
  // Only Mamba-2; a delta net has a norm per head, all with the same weights, followed by the gate.
  float least_step = 0, most_step = std::numeric_limits<float>::infinity();
  std::int32_t norm_groups = 0;  // 0: gated without a norm
  bool gate_first = true;
  std::array<float, 5> in_factors = {1, 1, 1, 1, 1};  // gate, value, B, C, step
  float input_factor = 1;                             // factor of the same products, not applied to biases
  float out_factor = 1;

  std::int32_t key_width() const { return num_key_heads * key_size; }
  std::int32_t value_width() const { return num_heads * value_size; }
  // Channels of the convolution.
  std::int32_t num_channels() const { return 2 * key_width() + value_width(); }
  bool operator==(const LinearAttentionConfig&) const = default;
};

// Channels that each keep a vector per sequence, whose elements decay at their own rates
// (kernels/selective_scan.h): Mamba-1. After a short convolution one product computes [step | B | C] for all
// channels, and another one each channel's own step.
struct SelectiveScanConfig {
  std::int32_t num_channels = 0, state_size = 0;
  std::int32_t step_rank = 0;  // size of the low-rank step vector
  std::int32_t num_taps = 0;   // taps of the convolution
  enum class Norms { none, unweighted, weighted };
  Norms norms = Norms::none;  // separate RMS norms of step, B and C
  float norm_eps = 1e-6f;

  bool operator==(const SelectiveScanConfig&) const = default;
};

// Multi-head latent attention: all heads share one stored row per token, a latent vector and a rotated part.
// A query head has nope_size elements for the latent vector and rope_size rotated elements.
struct LatentAttentionConfig {
  std::int32_t num_heads = 0;
  std::int32_t query_rank = 0;  // size of the normed vector that queries are made from; 0: the layer's input
  std::int32_t latent_size = 0, nope_size = 0, rope_size = 0, value_size = 0;
  std::int32_t rope = 0;  // index in DecoderConfig::ropes
  float scale = 1;        // factor of the products of queries and rows
  float norm_eps = 1e-6f;
  // As in AttentionConfig; the offset is 0.
  float temperature_beta = 0;
  std::int32_t temperature_positions = 1;

  std::int32_t query_size() const { return nope_size + rope_size; }  // size of a query head
  std::int32_t row_size() const { return latent_size + rope_size; }
  bool operator==(const LatentAttentionConfig&) const = default;
};

// A short convolution between two gates: out = W_out (c * conv(b * x)), [b | c | x] = W_in h (LFM2).
struct ShortConvConfig {
  std::int32_t num_channels = 0;  // equals the hidden size
  std::int32_t num_taps = 0;
  bool operator==(const ShortConvConfig&) const = default;
};

struct DenseFeedForwardConfig {
  std::int32_t intermediate_size = 0;
  Activation activation = Activation::silu;
  bool gated = true;
  float gate_factor = 1, down_factor = 1;  // factors of these products
  bool inner_norm = false;                 // an RMS norm before the last matrix
  bool operator==(const DenseFeedForwardConfig&) const = default;
};

// A gated feed-forward with GELU in which each row keeps only features whose gate is at least this many
// standard deviations above the mean of the row's gates (sparse_feed_forward.cc).
struct SparseFeedForwardConfig {
  std::int32_t intermediate_size = 0;
  float deviations = 0;
  bool operator==(const SparseFeedForwardConfig&) const = default;
};

// Two matrices with a learned activation between them (dense_feed_forward.cc). Its parameters are here if the
// file has them outside its tensors.
struct XieluConfig {
  std::int32_t intermediate_size = 0;
  float alpha_p = 0.8f, alpha_n = 0.8f, beta = 0.5f, eps = -1e-6f;
  bool operator==(const XieluConfig&) const = default;
};

// Experts, some of which are chosen per token, and optionally an expert shared by all tokens.
struct MixtureConfig {
  RoutingRule routing;
  DenseFeedForwardConfig expert;              // each expert
  bool weigh_input = false;                   // the routing weight scales the expert's input (Llama 4)
  std::int32_t shared_intermediate_size = 0;  // 0: no shared expert
  float shared_scale = 1;                     // factor of the shared expert's result
  bool shared_gate = false;                   // the shared expert is scaled by the sigmoid of a product
  bool router_norm = false;                   // the router reads the layer's x through its own RMS norm
  bool routes_early = false;                  // the router reads the unnormed x at the layer's input
  bool expert_scales = false;  // weights of chosen experts are multiplied by a factor per expert
  bool operator==(const MixtureConfig&) const = default;
};

// Both read the same x: y += norm(dense(norm(x))) + norm(mixture(norm(x))), each norm with its own weight.
struct MixtureBesideDenseConfig {
  DenseFeedForwardConfig dense;
  MixtureConfig mixture;
  bool operator==(const MixtureBesideDenseConfig&) const = default;
};

// Both read the same input, and their outputs are added (Falcon-H1).
struct ParallelMixersConfig {
  AttentionConfig attention;
  LinearAttentionConfig linear;
  bool operator==(const ParallelMixersConfig&) const = default;
};

// For layers that have only the other sublayer (Nemotron-H).
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
  float branch_norm_eps = 0;          // epsilon of branch norms; 0: as in `norm`
  float residual_scale = 1;           // factor of both branches
  bool parallel = false;              // the feed-forward reads the mixer's input
  bool output_scale = false;          // the layer's output is scaled by its own factor
  std::int32_t learned_residual = 0;  // rank of the path around the mixer (learned_residual.h); 0: none

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
  std::int32_t size = 0;  // features per layer
  std::int32_t rows = 0;  // rows of the table; tokens beyond it read token 0; 0: the vocabulary's size
  Activation activation = Activation::gelu_tanh;
  bool operator==(const LayerInputConfig&) const = default;
};

// Residual streams of which layers compute only the first (residual_streams.h).
struct StreamsConfig {
  std::int32_t count = 0;  // at most kMaxStreams
  bool scaled = false;     // per-layer inputs read the first stream scaled elementwise
  bool operator==(const StreamsConfig&) const = default;
};
constexpr std::int64_t kMaxStreams = 8;

constexpr std::int32_t kMaxLayers = 4096;

struct DecoderConfig {
  std::int32_t vocab_size = 0, hidden_size = 0, embedding_size = 0, max_positions = 0;
  std::vector<LayerConfig> layers;

  float embedding_scale = 1;
  bool scale_as_embedding = false;  // embedding_scale is rounded to the embedding's stored type
  bool learned_positions = false;
  std::int32_t position_offset = 0;  // learned: table row of position 0
  std::int32_t token_types = 0;  // rows of an added table, indexed by which of two texts a token belongs to
  // Rotations used by layers. Frequency divisors in a file apply to the first.
  std::vector<RopeConfig> ropes;
  bool interleaved_rows = false;  // q/k rows stored for rotation of adjacent pairs; reordered at load

  std::optional<NormConfig> embedding_norm, final_norm;
  std::optional<LayerInputConfig> layer_input;
  std::optional<StreamsConfig> streams;
  float logit_scale = 1;
  float logit_softcap = 0;  // if > 0: logits become logit_softcap * tanh(logit / logit_softcap)
  bool tied_head = false;
  bool head = true;  // false: no head is loaded, since no logits are needed

  std::int32_t num_layers() const { return static_cast<std::int32_t>(layers.size()); }
  bool operator==(const DecoderConfig&) const = default;
};

// The most heads in any layer, and the largest head size; latent attention counts as one key-value head.
// Zeros if no layer attends.
struct HeadSizes {
  std::int32_t num_heads = 0, num_kv_heads = 0, head_size = 0;
};
HeadSizes head_sizes(const DecoderConfig& config);

// True if every token attends to all others of its text and nothing is kept.
bool is_encoder(const DecoderConfig& config);

// The data that a layer keeps per sequence between steps.
struct LayerState {
  // Keys and values of all tokens; of the last `window`; nothing; or only a state.
  enum class Kind { full, window, none, state };
  Kind kind = Kind::full;
  std::int32_t window = 0;  // tokens visible from a position, itself included
  std::int32_t num_kv_heads = 0, head_size = 0;
  std::int32_t latent_size = 0;  // if > 0: keys only, whose first latent_size elements are the values
  std::int32_t of_layer = -1;    // keeps nothing itself; reads what this earlier layer keeps
  // Sizes of the state's pieces in floats, with or without keys and values. A piece is contiguous within one
  // page of the cache, and pages must hold the largest piece; so there is a piece per head instead of one for
  // all heads.
  std::vector<std::int64_t> pieces = {};
  bool operator==(const LayerState&) const = default;
};
std::vector<LayerState> layer_states(const DecoderConfig& config);

// The heads of every layer in the cache; nullopt if layers differ.
struct KvHeads {
  std::int32_t num_kv_heads = 0, head_size = 0;
};
std::optional<KvHeads> kv_heads(std::span<const LayerState> layers);
std::optional<KvHeads> kv_heads(const DecoderConfig& config);

}  // namespace pagoda
