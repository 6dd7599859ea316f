#pragma once
// Shared by the files of families/: readers of fields common to many families, and the shapes and names that
// many are variants of. Private to models/. A reader gets the file's fields and fills in model.decoder; with
// `gguf` in its name it reads GGUF metadata, with neither format in its name the fields that both formats
// share. read_common() and similar readers create all layers alike; later readers change some of them.
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "loader/hyperparameters.h"
#include "loader/printable.h"
#include "models/family.h"
#include "models/shapes.h"

namespace pagoda {

// Reads the fields of config.json that most families have, including rotation. Sizes may have GPT-2's and
// other names (reading/common.cc).
void read_common(Hyperparameters& h, ModelInfo& model);
// Sizes that a family reads in its own way.
struct KnownSizes {
  std::optional<std::int32_t> layers = {}, inner = {};
  std::optional<std::string_view> activation = {};
  bool plain_heads = false;  // each head has its own keys, and all heads make up the hidden size
};
void read_layers(Hyperparameters& h, ModelInfo& model, const KnownSizes& known = {});  // without rotation
// The same for GPT-2, BERT and their relatives: heads make up the hidden size, and feed-forwards are four
// times as wide unless the file says otherwise.
void read_plain_layers(Hyperparameters& h, ModelInfo& model, KnownSizes known = {});
void read_gpt2(Hyperparameters& h, ModelInfo& model);  // and models configured like it
void read_gguf_gpt2(Hyperparameters& h, ModelInfo& model);
void read_granite_moe(Hyperparameters& h, ModelInfo& model);
void read_granite_scales(Hyperparameters& h, ModelInfo& model);
void read_gguf_granite(Hyperparameters& h, ModelInfo& model);  // only the scales
void read_cohere(Hyperparameters& h, ModelInfo& model);
void read_bert(Hyperparameters& h, ModelInfo& model, const KnownSizes& known = {});

std::int32_t times(std::int32_t a, std::int32_t b);  // saturates on overflow

// Every layer starts with Llama's attention, without rotation, and a gated feed-forward.
struct LayerSizes {
  std::int32_t num_heads = 0, num_kv_heads = 0, head_size = 0, intermediate_size = 0;
  float norm_eps = 1e-5f;
  std::string_view activation = "silu";
};
// Returns the layers for which `chosen(layer)` is true.
template <class Chosen>
std::vector<bool> layers_where(const ModelInfo& model, const Chosen& chosen) {
  std::vector<bool> layers;
  for (std::int32_t layer = 0; layer < model.decoder.num_layers(); ++layer) layers.push_back(chosen(layer));
  return layers;
}
// Returns the field's list with an entry per layer. Null if the field is absent, or malformed (then `h` has
// failed).
const json::array* list_of_layers(Hyperparameters& h, std::string_view name, const ModelInfo& model);

// Requires the decoder's sizes. An implausible number of layers is refused, and a single layer is made.
void make_layers(Hyperparameters& h, std::int32_t count, const LayerSizes& sizes, ModelInfo& model);
void set_intermediate_size(std::int32_t size, ModelInfo& model);

// Reads the keys that most families have. A layer has a mixture if the file has a router for it; in a file
// without tensors, if its metadata say so.
void read_gguf_common(Hyperparameters& h, const GgufTraits& family, ModelInfo& model);
MixtureConfig read_gguf_mixture(Hyperparameters& h, const GgufExperts& family, const ModelInfo& model);
bool has_query_norm(const Hyperparameters& h);                // as the tensors show
void read_token_types(Hyperparameters& h, ModelInfo& model);  // as the tensors show

// Rotation of all layers, or of those with full attention. `partial`: the rotated share of a head. With
// neither `partial` nor a family default, whole heads are rotated, whatever the file says.
void read_rope(Hyperparameters& h, ModelInfo& model, float theta = 10000.0f, float partial = 0);
// The same if layers with windows have a rotation of their own.
void read_rope_by_layer(Hyperparameters& h, ModelInfo& model, float theta, float local_theta);
void read_gguf_rope(Hyperparameters& h, ModelInfo& model);  // windows must be known
// Queries at position p are scaled by 1 + beta * ln(1 + floor(p / positions)).
void set_query_temperature(float beta, std::int32_t positions, DecoderConfig& decoder);
// Rotates whole heads in all layers with base `theta`.
RopeConfig& begin_rotation(DecoderConfig& decoder, float theta);
// Returns rope_scaling or, if absent or empty, rope_parameters; null if neither exists.
const json::object* rope_object(Hyperparameters& h);
// True if config.json has no rotation scaling.
bool has_plain_rope(Hyperparameters& h);
// YaRN's scale of cosines and sines for a context `factor` times as long, with mscale `weight`.
float yarn_scale(float factor, float weight);
// yarn's scale of cosines and sines: the file's, or `otherwise`, which follows from its factor.
float gguf_yarn_scale(Hyperparameters& h, float otherwise);
// Raises the model's context to at least original_positions * factor, as vLLM does if the file names the
// original context.
void stretch_context(DecoderConfig& decoder);
// Layers with a window use this base without scaling, and this rotary size; 0: the same size as the others.
void rotate_windows_by(float theta, ModelInfo& model, std::int32_t rotary_size = 0);
void rotate_layers(Hyperparameters& h, const std::vector<bool>& which, DecoderConfig& decoder);

// Gives a window to the layers in `which`, or to all if it is empty. A window of 0 means none.
void use_windows(Hyperparameters& h, std::int32_t window, const std::vector<bool>& which, ModelInfo& model);
std::int32_t read_window(Hyperparameters& h);  // 0: no window
// Qwen's window, which a file may name but not use.
std::int32_t read_optional_window(Hyperparameters& h);
// Qwen's windows: from a given layer on, or listed per layer.
void read_qwen_windows(Hyperparameters& h, ModelInfo& model);
// Layers that "layer_types" calls `name`; `others` are the other valid names. Empty if the field is absent.
std::vector<bool> read_layers_called(Hyperparameters& h, std::string_view name,
                                     std::initializer_list<std::string_view> others, const ModelInfo& model);
// Layers with windows; without "layer_types", those for which `otherwise(layer)` is true.
std::vector<bool> read_window_layers(Hyperparameters& h, const ModelInfo& model);
template <class Otherwise>
std::vector<bool> read_window_layers_or(Hyperparameters& h, const ModelInfo& model,
                                        const Otherwise& otherwise) {
  return h.find("layer_types") != nullptr ? read_window_layers(h, model) : layers_where(model, otherwise);
}
void read_listed_windows(Hyperparameters& h, ModelInfo& model);
// Layers with windows as listed, or all except every `period`-th. `window` overrides the field. Either
// format.
void read_window_pattern(Hyperparameters& h, std::int32_t period, ModelInfo& model,
                         std::optional<std::int32_t> window = std::nullopt);
// Requires the window; sets which layers have it. Of `period` layers the first or the last has full
// attention.
enum class SeesAll { last, first };
void read_gguf_window_pattern(Hyperparameters& h, std::int32_t period, ModelInfo& model,
                              SeesAll which = SeesAll::last);
// The same if the file has a window at all; layers without a window are then not rotated.
void read_gguf_rotating_windows(Hyperparameters& h, ModelInfo& model);
// Windows that extend half the file's value to each side, with their own rotation.
void read_windows_to_both_sides(Hyperparameters& h, std::int32_t period, ModelInfo& model,
                                SeesAll which = SeesAll::last);
// "layer_rope_theta": one base for layers with a window and one for the others; 0: the layer is not rotated.
// Call after use_windows().
void read_layer_thetas(Hyperparameters& h, const std::vector<bool>& windows, ModelInfo& model);

// Mixtures of experts.
// Returns the first of these fields that the file has; otherwise the first that has a default.
std::int32_t integer_of(Hyperparameters& h, std::initializer_list<std::string_view> names);
// Reads an integer, or a list with the same value for each layer.
std::int32_t one_of(Hyperparameters& h, std::string_view name, std::int32_t otherwise = 0);
// Several shared experts are stored as one of that many times the width.
std::int32_t shared_size(Hyperparameters& h, std::string_view name, const MixtureConfig& mixture);
// Reads the number of experts, experts per token and width under their usual names. Without a default, the
// width is that of dense feed-forwards.
MixtureConfig read_experts(Hyperparameters& h, const ModelInfo& model);
// Experts plus a gated expert shared by all tokens.
MixtureConfig read_gated_experts(Hyperparameters& h, const ModelInfo& model);
// Replaces the dense feed-forwards of these layers, or of all if `layers` is empty.
void use_mixtures(MixtureConfig mixture, const std::vector<bool>& layers, ModelInfo& model);
// DeepSeek-like mixtures: a score (sigmoid unless the family has a default), an optional correction, groups,
// shared experts, and dense layers first.
void read_deepseek_like(Hyperparameters& h, ModelInfo& model);
// All layers after the first `dense`.
std::vector<bool> layers_after(std::int32_t dense, const ModelInfo& model);
// Layers with a mixture: as listed in "mlp_layer_types", or all after the first `dense`.
std::vector<bool> read_mlp_types(Hyperparameters& h, std::int32_t dense, const ModelInfo& model);
// Every `step`-th layer has a mixture, except the listed ones.
std::vector<bool> read_sparse_layers(Hyperparameters& h, const ModelInfo& model);

// Replaces attention by latent attention. Everything else must be known.
void read_latent(Hyperparameters& h, ModelInfo& model);
void read_gguf_latent(Hyperparameters& h, ModelInfo& model);
void read_gguf_deepseek(Hyperparameters& h, ModelInfo& model);  // including mixtures
void latent_names(WeightNames& names);

// States instead of keys and values. use_mixer() replaces attention in these layers.
void use_mixer(Hyperparameters& h, const MixerConfig& mixer, const std::vector<bool>& layers,
               ModelInfo& model);
void read_delta_net(Hyperparameters& h, ModelInfo& model);
void read_gguf_delta_net(Hyperparameters& h, bool tiled_heads, ModelInfo& model);
void delta_net_shape(DecoderConfig& decoder);
void delta_net_names(WeightNames& names);
void delta_net_gguf_names(WeightNames& names);
// As Granite and Falcon-H1 name the fields; `width` is that of all heads together.
LinearAttentionConfig read_mamba(Hyperparameters& h, std::int64_t width);
void read_step_limit(Hyperparameters& h, LinearAttentionConfig& states);  // folders: a pair of bounds
LinearAttentionConfig read_state_heads(Hyperparameters& h);               // GGUF
std::vector<bool> layers_with_states(const Hyperparameters& h, const ModelInfo& model);  // GGUF
// The kind of each layer, from its name in "layers_block_type" or its letter in "hybrid_override_pattern".
enum class Block { mamba, attention, dense, experts };
std::vector<Block> read_blocks(Hyperparameters& h);
void mamba2_names(WeightNames& names, std::string_view mixer);
// Mamba-1. The rank of its steps may be "auto": derived from the hidden size.
std::int32_t read_step_rank(Hyperparameters& h, std::string_view name, const ModelInfo& model);
SelectiveScanConfig read_gguf_scan(Hyperparameters& h);  // without norms
void mamba1_names(WeightNames& names, std::string_view mixer);
// Models whose layers are all states: Mamba 1 and 2, Falcon Mamba.
void read_states_alone(Hyperparameters& h, ModelInfo& model);  // everything except the states
void use_states_alone(const MixerConfig& states, ModelInfo& model);
void read_scans(Hyperparameters& h, ModelInfo& model, SelectiveScanConfig::Norms norms, float norm_eps);
void states_alone_names(WeightNames& names);
void states_alone_gguf_names(WeightNames& names);
void beside_states_names(WeightNames& names);  // names of the other parts of layers with states

Result<Activation> activation_named(std::string_view name);         // transformers' spelling
std::string_view activation_name(Activation activation);            // transformers' spelling
void read_query_scale(Hyperparameters& h, DecoderConfig& decoder);  // Gemma's "query_pre_attn_scalar"
// ALiBi: scores decrease with distance. If the number of heads is no power of two, the slopes of the next
// lower power come first, or those of the next higher.
enum class AlibiOrder { lower_first, higher_first };
void use_alibi(Hyperparameters& h, float largest_exponent, AlibiOrder order, DecoderConfig& decoder);
// The last `count` layers use the keys and values of the last earlier layer of their kind.
void share_kv(Hyperparameters& h, std::int32_t count, DecoderConfig& decoder);

// Folder names, derived from Llama's.
void gemma2_names(WeightNames& names);
void layer_input_names(WeightNames& names);  // Gemma 2's, with per-layer inputs
void post_norm_names(WeightNames& names);
void hunyuan_names(WeightNames& names);
void glm_names(WeightNames& names);
void lfm_names(WeightNames& names);
void gpt2_names(WeightNames& names);
void bert_names(WeightNames& names);
void bloom_names(WeightNames& names);
// GGUF names, derived from gguf_names().
void post_attention_gguf_names(WeightNames& names);  // the feed-forward's norm is named after attention
void encoder_gguf_names(WeightNames& names);
void lfm_gguf_names(WeightNames& names);
void granite_gguf_names(WeightNames& names);
std::vector<ExpertNames> granitemoe_experts();  // in folders
std::vector<ExpertNames> mixtral_experts();     // in folders

}  // namespace pagoda
