#pragma once
// Shared by the files of families/: readers of fields that many families have, shapes and names that many are
// variants of. Of models/ alone. A reader gets the file's fields and fills model.decoder; with `gguf` in its
// name it reads GGUF metadata, with neither format in its name the fields that both formats share. All layers
// are there, alike, once read_common() or its like has returned; what is read later changes some of them.
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

// The fields of config.json that most families have, rotation among them. Sizes may have GPT-2's names and
// others (reading/common.cc).
void read_common(Hyperparameters& h, ModelInfo& model);
// Sizes that a family reads in a way of its own.
struct KnownSizes {
  std::optional<std::int32_t> layers = {}, inner = {};
  std::optional<std::string_view> activation = {};
  bool plain_heads = false;  // each has keys of its own, and all make up the hidden size
};
void read_layers(Hyperparameters& h, ModelInfo& model, const KnownSizes& known = {});  // without rotation
// The same of GPT-2, BERT and their relatives, whose heads make up the hidden size, and whose feed-forwards
// are four times as wide as that where the file does not say it.
void read_plain_layers(Hyperparameters& h, ModelInfo& model, KnownSizes known = {});
void read_gpt2(Hyperparameters& h, ModelInfo& model);  // and those that are configured like it
void read_gguf_gpt2(Hyperparameters& h, ModelInfo& model);
void read_granite_moe(Hyperparameters& h, ModelInfo& model);
void read_granite_scales(Hyperparameters& h, ModelInfo& model);
void read_gguf_granite(Hyperparameters& h, ModelInfo& model);  // the scales
void read_cohere(Hyperparameters& h, ModelInfo& model);
void read_bert(Hyperparameters& h, ModelInfo& model, const KnownSizes& known = {});

std::int32_t times(std::int32_t a, std::int32_t b);  // or the most that there is

// All layers begin with Llama's attention, without rotation, and a gated feed-forward.
struct LayerSizes {
  std::int32_t num_heads = 0, num_kv_heads = 0, head_size = 0, intermediate_size = 0;
  float norm_eps = 1e-5f;
  std::string_view activation = "silu";
};
// Which layers `chosen(layer)` names.
template <class Chosen>
std::vector<bool> layers_where(const ModelInfo& model, const Chosen& chosen) {
  std::vector<bool> layers;
  for (std::int32_t layer = 0; layer < model.decoder.num_layers(); ++layer) layers.push_back(chosen(layer));
  return layers;
}
// The field's list, with an entry for each layer; null: the field is absent, or is no such list and failed.
const json::array* list_of_layers(Hyperparameters& h, std::string_view name, const ModelInfo& model);

// Sizes of the decoder are known. A number of layers that no model has is refused, and one layer is made.
void make_layers(Hyperparameters& h, std::int32_t count, const LayerSizes& sizes, ModelInfo& model);
void set_intermediate_size(std::int32_t size, ModelInfo& model);

// The keys that most families have. A layer has a mixture if the file has a router for it, or of a file
// without tensors as its metadata say.
void read_gguf_common(Hyperparameters& h, const GgufTraits& family, ModelInfo& model);
MixtureConfig read_gguf_mixture(Hyperparameters& h, const GgufExperts& family, const ModelInfo& model);
bool has_query_norm(const Hyperparameters& h);                // by the tensors
void read_token_types(Hyperparameters& h, ModelInfo& model);  // likewise

// Rotation of all layers, or of those that attend to all. `partial`: share of a head that is rotated; without
// one, and without a default of it, it is all of it, whatever the file.
void read_rope(Hyperparameters& h, ModelInfo& model, float theta = 10000.0f, float partial = 0);
// The same where layers with windows have one of their own.
void read_rope_by_layer(Hyperparameters& h, ModelInfo& model, float theta, float local_theta);
void read_gguf_rope(Hyperparameters& h, ModelInfo& model);  // windows are known
// Queries at position p are scaled by 1 + beta * ln(1 + floor(p / positions)).
void set_query_temperature(float beta, std::int32_t positions, DecoderConfig& decoder);
// All layers rotate whole heads by this base.
RopeConfig& begin_rotation(DecoderConfig& decoder, float theta);
// The object that says how: rope_scaling or, where that is absent or empty, rope_parameters. Null: neither.
const json::object* rope_object(Hyperparameters& h);
// config.json says nothing of how rotation is stretched.
bool has_plain_rope(Hyperparameters& h);
// YaRN's scale of cosines and sines where the context is `factor` times as long, to the power of `weight`.
float yarn_scale(float factor, float weight);
// yarn's factor of cosines and sines: the file's, or `otherwise`, which follows from its factor.
float gguf_yarn_scale(Hyperparameters& h, float otherwise);
// The file says which context its rotation stretches: the model's is at least what becomes of that, as in
// vLLM.
void stretch_context(DecoderConfig& decoder);
// Layers with a window turn by this base, unscaled, and this much of their heads; 0: as much as others.
void rotate_windows_by(float theta, ModelInfo& model, std::int32_t rotary_size = 0);
void rotate_layers(Hyperparameters& h, const std::vector<bool>& which, DecoderConfig& decoder);

// Windows. Layers that `which` names have one, or all where it is empty; a window of 0 is none.
void use_windows(Hyperparameters& h, std::int32_t window, const std::vector<bool>& which, ModelInfo& model);
std::int32_t read_window(Hyperparameters& h);  // 0: there is none
// Qwen's, which the file may name and leave unused.
std::int32_t read_optional_window(Hyperparameters& h);
// Either from a layer on, or written out layer by layer.
void read_qwen_windows(Hyperparameters& h, ModelInfo& model);
// Which layers "layer_types" calls `name`, where others may be called otherwise; empty: it is not written.
std::vector<bool> read_layers_called(Hyperparameters& h, std::string_view name,
                                     std::initializer_list<std::string_view> others, const ModelInfo& model);
// Which have windows; where it is not written, those of which `otherwise(layer)` says so.
std::vector<bool> read_window_layers(Hyperparameters& h, const ModelInfo& model);
template <class Otherwise>
std::vector<bool> read_window_layers_or(Hyperparameters& h, const ModelInfo& model,
                                        const Otherwise& otherwise) {
  return h.find("layer_types") != nullptr ? read_window_layers(h, model) : layers_where(model, otherwise);
}
void read_listed_windows(Hyperparameters& h, ModelInfo& model);
// Written out, or all but every `period`-th; `window`: instead of the field's. Either format.
void read_window_pattern(Hyperparameters& h, std::int32_t period, ModelInfo& model,
                         std::optional<std::int32_t> window = std::nullopt);
// The window is known: which layers have it. `first`: that layer of so many sees all, else the last.
enum class SeesAll { last, first };
void read_gguf_window_pattern(Hyperparameters& h, std::int32_t period, ModelInfo& model,
                              SeesAll which = SeesAll::last);
// The same where the file has a window at all; layers without one do not rotate then.
void read_gguf_rotating_windows(Hyperparameters& h, ModelInfo& model);
// As wide to each side as half of what the file says, with a rotation of their own.
void read_windows_to_both_sides(Hyperparameters& h, std::int32_t period, ModelInfo& model,
                                SeesAll which = SeesAll::last);
// "layer_rope_theta": one base for layers with a window and one for the others; 0: such a layer does not
// rotate. Call it behind use_windows().
void read_layer_thetas(Hyperparameters& h, const std::vector<bool>& windows, ModelInfo& model);

// Mixtures of experts.
// The first of these fields that the file has or, where it has none of them, that has a default.
std::int32_t integer_of(Hyperparameters& h, std::initializer_list<std::string_view> names);
// An integer, or a list of equal ones, a layer each.
std::int32_t one_of(Hyperparameters& h, std::string_view name, std::int32_t otherwise = 0);
// Several shared experts are one of so many times the width.
std::int32_t shared_size(Hyperparameters& h, std::string_view name, const MixtureConfig& mixture);
// Experts whose number, share of a token and width the file has under their usual names; without a default,
// the width is that of dense feed-forwards.
MixtureConfig read_experts(Hyperparameters& h, const ModelInfo& model);
// Experts and one that all tokens go through, by a gate.
MixtureConfig read_gated_experts(Hyperparameters& h, const ModelInfo& model);
// Instead of the dense feed-forwards of these layers; of all where `layers` is empty.
void use_mixtures(MixtureConfig mixture, const std::vector<bool>& layers, ModelInfo& model);
// Mixtures as DeepSeek's: a score (the sigmoid, where there is no other default) and perhaps a correction,
// groups, shared experts, and dense layers first.
void read_deepseek_like(Hyperparameters& h, ModelInfo& model);
// Layers but for the first `dense`.
std::vector<bool> layers_after(std::int32_t dense, const ModelInfo& model);
// Which layers have a mixture: "mlp_layer_types", or all behind the first `dense`.
std::vector<bool> read_mlp_types(Hyperparameters& h, std::int32_t dense, const ModelInfo& model);
// Layers of which every `step`-th has a mixture, but for those named.
std::vector<bool> read_sparse_layers(Hyperparameters& h, const ModelInfo& model);

// Latent attention instead of attention. The rest is known.
void read_latent(Hyperparameters& h, ModelInfo& model);
void read_gguf_latent(Hyperparameters& h, ModelInfo& model);
void read_gguf_deepseek(Hyperparameters& h, ModelInfo& model);  // with mixtures
void latent_names(WeightNames& names);

// States instead of keys and values.
// In these layers instead of attention.
void use_mixer(Hyperparameters& h, const MixerConfig& mixer, const std::vector<bool>& layers,
               ModelInfo& model);
void read_delta_net(Hyperparameters& h, ModelInfo& model);
void read_gguf_delta_net(Hyperparameters& h, bool tiled_heads, ModelInfo& model);
void delta_net_shape(DecoderConfig& decoder);
void delta_net_names(WeightNames& names);
void delta_net_gguf_names(WeightNames& names);
// As Granite and Falcon-H1 name it; `width` is that of all heads together.
LinearAttentionConfig read_mamba(Hyperparameters& h, std::int64_t width);
void read_step_limit(Hyperparameters& h, LinearAttentionConfig& states);                 // folders: a pair
LinearAttentionConfig read_state_heads(Hyperparameters& h);                              // GGUF
std::vector<bool> layers_with_states(const Hyperparameters& h, const ModelInfo& model);  // likewise
// The kind of each layer, by its name in "layers_block_type" or its letter in "hybrid_override_pattern".
enum class Block { mamba, attention, dense, experts };
std::vector<Block> read_blocks(Hyperparameters& h);
void mamba2_names(WeightNames& names, std::string_view mixer);
// Mamba-1. Its steps' rank may be written "auto": it follows from the hidden size.
std::int32_t read_step_rank(Hyperparameters& h, std::string_view name, const ModelInfo& model);
SelectiveScanConfig read_gguf_scan(Hyperparameters& h);  // without norms
void mamba1_names(WeightNames& names, std::string_view mixer);
// Models all of whose layers have states and nothing else: Mamba 1 and 2, Falcon Mamba.
void read_states_alone(Hyperparameters& h, ModelInfo& model);  // all but the states
void use_states_alone(const MixerConfig& states, ModelInfo& model);
void read_scans(Hyperparameters& h, ModelInfo& model, SelectiveScanConfig::Norms norms, float norm_eps);
void states_alone_names(WeightNames& names);
void states_alone_gguf_names(WeightNames& names);
void beside_states_names(WeightNames& names);  // the other parts of layers with states

Result<Activation> activation_named(std::string_view name);         // as transformers writes it
std::string_view activation_name(Activation activation);            // likewise
void read_query_scale(Hyperparameters& h, DecoderConfig& decoder);  // Gemma's, by "query_pre_attn_scalar"
// Scores that fall with the distance. Of numbers of heads that are no power of two, the slopes of the next
// lower power come first, or those of the next higher.
enum class AlibiOrder { lower_first, higher_first };
void use_alibi(Hyperparameters& h, float largest_exponent, AlibiOrder order, DecoderConfig& decoder);
// The last `count` layers read the keys and values of the last layer of their kind before them.
void share_kv(Hyperparameters& h, std::int32_t count, DecoderConfig& decoder);

// Names of folders, changed from Llama's.
void gemma2_names(WeightNames& names);
void layer_input_names(WeightNames& names);  // Gemma 2's with per-layer inputs
void post_norm_names(WeightNames& names);
void hunyuan_names(WeightNames& names);
void glm_names(WeightNames& names);
void lfm_names(WeightNames& names);
void gpt2_names(WeightNames& names);
void bert_names(WeightNames& names);
void bloom_names(WeightNames& names);
// Names of GGUF files, changed from gguf_names().
void post_attention_gguf_names(WeightNames& names);  // the feed-forward's norm is named after attention
void encoder_gguf_names(WeightNames& names);
void lfm_gguf_names(WeightNames& names);
void granite_gguf_names(WeightNames& names);
std::vector<ExpertNames> granitemoe_experts();  // folders
std::vector<ExpertNames> mixtral_experts();     // likewise

}  // namespace pagoda
