#pragma once
// Shared by the files of families/: readers of fields that many families have, descriptions and names that
// many are variants of. Of models/ alone. A reader gets the file's fields and fills a ModelConfig; with
// `gguf` in its name it reads GGUF metadata, with neither format in its name the fields that both formats
// share.
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "loader/hyperparameters.h"
#include "loader/printable.h"
#include "models/family.h"
#include "models/model_config.h"

namespace pagoda {

// transformers' values for absent fields.
struct Defaults {
  std::int32_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0, num_heads = 0;
  std::int32_t num_kv_heads = 0;  // 0: as many as num_heads
  std::int32_t max_positions = 0;
  float norm_eps = 1e-5f, rope_theta = 10000.0f;
  std::int32_t bos = -1, eos = -1, pad = -1;  // -1: none
  bool tied = false;
  std::int32_t head_size = 0;  // 0: the hidden size's share
  float partial = 0;           // share of a head that is rotated; 0: all of it, whatever the file
  float local_theta = 0;       // base of layers with windows, where they have one of their own
  std::string_view eps_name = "rms_norm_eps", activation = "silu";
};
// The fields of config.json that most families have under the same names, rotation among them.
void read_common(Hyperparameters& h, const Defaults& absent, ModelConfig& config);
// The same under GPT-2's names, which differ.
void read_heads(Hyperparameters& h, ModelConfig& config, std::string_view hidden, std::string_view layers,
                std::string_view heads, const Defaults& absent);
void read_granite(Hyperparameters& h, ModelConfig& config);
void read_granite_moe(Hyperparameters& h, ModelConfig& config);
void read_granite_scales(Hyperparameters& h, ModelConfig& config);
void read_olmo2(Hyperparameters& h, ModelConfig& config);
void read_glm(Hyperparameters& h, ModelConfig& config);
void read_hunyuan(Hyperparameters& h, ModelConfig& config);
void read_cohere_like(Hyperparameters& h, Defaults absent, ModelConfig& config);
void read_bert_like(Hyperparameters& h, ModelConfig& config, std::int32_t vocab_size, std::int32_t pad);

std::int32_t times(std::int32_t a, std::int32_t b);  // or the most that there is

// How a family's experts are chosen where a GGUF file does not say so.
struct GgufExperts {
  bool known = false;
  ExpertScore score = ExpertScore::softmax;
  bool renormalize = true;
};
// Traits that GGUF metadata leave out because all models of a family share them.
struct GgufTraits {
  std::string_view activation = "silu";
  bool layer_norm = false;
  bool may_have_rms_norms = false;  // instead
  bool rotates = true;
  bool interleaved_rows = false;  // q/k rows stored for adjacent-pair rotation
  bool parallel = false;          // the feed-forward sees what attention sees
  bool encoder = false;           // every token attends to all others
  bool may_be_parallel = false;   // as use_parallel_residual says
  // The family's default width, for converters that write the width because config.json has no such field.
  std::int32_t context_instead_of_width = 0;
  bool latent = false;  // latent attention: heads of keys and values may differ in size
  GgufExperts experts = {};
};
// The keys that most families have.
void read_gguf_common(Hyperparameters& h, const GgufTraits& family, ModelConfig& config);
void read_query_key_norm(Hyperparameters& h, ModelConfig& config);  // by the tensors
void read_token_types(Hyperparameters& h, ModelConfig& config);     // likewise

// Rotation. head_size is known. Rotation of all layers, or of those that attend to all.
void read_rope(Hyperparameters& h, ModelConfig& config, float default_theta = 10000.0f,
               float default_partial = 0);
// The same where layers with windows have one of their own.
void read_rope_by_layer(Hyperparameters& h, ModelConfig& config, float default_theta,
                        float default_local_theta, float default_partial = 0);
// One such object, which `h` has under the name `where`.
void read_rope_object(Hyperparameters& h, Hyperparameters& rope, std::string_view where, ModelConfig& config,
                      bool may_be_partial = false);
void read_gguf_rope(Hyperparameters& h, ModelConfig& config);  // sliding_window is known
// yarn's factor of cosines and sines: the file's, or `otherwise`, which follows from its factor.
float gguf_yarn_scale(Hyperparameters& h, float otherwise);

// Windows. Qwen's, which the file may name and leave unused; 0: there is none.
std::int32_t read_optional_window(Hyperparameters& h);
// Either from a layer on, or written out layer by layer.
void read_qwen_windows(Hyperparameters& h, std::int32_t absent_first, ModelConfig& config);
// num_layers is known. Which layers have windows, where they are written out one by one; false: they are not.
// `other_name` of a layer with a window is a family's own.
bool read_layer_types(Hyperparameters& h, ModelConfig& config, std::string_view other_name = {});
void read_listed_windows(Hyperparameters& h, std::int32_t otherwise, ModelConfig& config);
// sliding_window is known. Which layers have it: written out, or all but every `period`-th.
void read_window_pattern(Hyperparameters& h, ModelConfig& config, std::int32_t period);
void read_gguf_window_pattern(Hyperparameters& h, std::int32_t period, ModelConfig& config);
void read_windows_to_both_sides(Hyperparameters& h, std::int32_t period, ModelConfig& config);
void read_local_theta(Hyperparameters& h, ModelConfig& config);  // windows with a base, and mixtures
// No window at all where no layer has one.
void finish_windows(Hyperparameters& h, ModelConfig& config);
void rotate_windows_alone(ModelConfig& config);
void rotate_three_of_four(ModelConfig& config);
void rotate_nothing(ModelConfig& config);
// window_layers is known. "layer_rope_theta": one base for layers with a window and one for the others; 0:
// such a layer does not rotate.
void read_layer_thetas(Hyperparameters& h, ModelConfig& config);
// A nonsensical number of layers is refused later.
std::int32_t listed_layers(const ModelConfig& config);

// Mixtures of experts. transformers writes some fields under either of two names.
std::int32_t integer_of(Hyperparameters& h, std::initializer_list<std::string_view> names,
                        std::int32_t otherwise);
std::int32_t num_experts(Hyperparameters& h, std::int32_t otherwise);
// An integer, or a list of equal ones, a layer each.
std::int32_t one_of(Hyperparameters& h, std::string_view name, std::int32_t otherwise);
// Several shared experts are one of so many times the width.
std::int32_t shared_size(Hyperparameters& h, std::string_view name, std::int32_t otherwise,
                         const ExpertsConfig& experts);
// Mixtures as DeepSeek's: a score and perhaps a correction, groups, shared experts, and dense layers first.
struct DeepSeekDefaults {
  std::int32_t count, per_token, shared, dense;
  bool renormalize;
  std::int32_t groups = 1, groups_used = 1;
  ExpertScore score = ExpertScore::sigmoid;
  std::int32_t intermediate = 1408;  // width of an expert
};
void read_deepseek_like(Hyperparameters& h, const DeepSeekDefaults& absent, ModelConfig& config);
// Experts and one that all tokens go through, by a gate.
void read_gated_experts(Hyperparameters& h, std::int32_t count, std::int32_t per_token, ModelConfig& config);
// num_layers is known. Which layers have a mixture: "mlp_layer_types", or all behind the first `dense`.
void read_mlp_types(Hyperparameters& h, std::int32_t dense, ModelConfig& config);
// num_layers is known. Layers of which every `step`-th has a mixture, but for those named.
void read_sparse_layers(Hyperparameters& h, ModelConfig& config);
void read_layers_with_routers(Hyperparameters& h, ModelConfig& config);  // GGUF: by the tensors
void read_experts(Hyperparameters& h, const GgufExperts& family, ModelConfig& config);  // likewise

// Latent attention.
void read_latent(Hyperparameters& h, const LatentConfig& absent, ModelConfig& config);
void read_gguf_latent(Hyperparameters& h, ModelConfig& config);
Result<DecoderConfig> latent_description(const ModelConfig& config);
WeightNames latent_names(ModelFormat format);

// States instead of keys and values. Layers called `recurrent` keep a state, those of full attention do not;
// empty: not told.
std::vector<bool> recurrent_layers(Hyperparameters& h, std::string_view recurrent, const ModelConfig& config);
void read_delta_net(Hyperparameters& h, ModelConfig& config);
void read_gguf_delta_net(Hyperparameters& h, ModelConfig& config);
Result<DecoderConfig> delta_net_description(const ModelConfig& config);
WeightNames delta_net_names(ModelFormat format);
// As Granite and Falcon-H1 name it; `width` is that of all heads together.
void read_mamba(Hyperparameters& h, std::int64_t width, ModelConfig& config);
void read_state_heads(Hyperparameters& h, ModelConfig& config);  // GGUF
void read_kv_heads(Hyperparameters& h, ModelConfig& config);     // likewise
// The kind of each layer, by its name in "layers_block_type" or its letter in "hybrid_override_pattern".
enum class Block { mamba, attention, dense, experts };
std::vector<Block> read_blocks(Hyperparameters& h);
LinearAttentionConfig mamba2_of(const ModelConfig& config);
Result<DecoderConfig> mamba2_description(const ModelConfig& config);  // layers without a state have attention
WeightNames with_mamba2(WeightNames names, ModelFormat format, const std::string& mixer);

// Descriptions. Layers of attention and a gated feed-forward with norms before them, in the sizes, rotations,
// windows and scales that ModelConfig has.
Result<DecoderConfig> common_description(const ModelConfig& config);
// The same with layer norms, and with those and a feed-forward without a gate.
Result<DecoderConfig> layer_norm_description(const ModelConfig& config);
Result<DecoderConfig> plain_layer_norm_description(const ModelConfig& config);
// Layer norms, and in models that have query_key_norm one of every query and key head.
Result<DecoderConfig> each_head_description(const ModelConfig& config);
Result<Activation> activation_named(std::string_view name);
Result<DecoderConfig> qwen3_description(const ModelConfig& config);  // queries and keys normed, head by head
Result<DecoderConfig> hunyuan_description(const ModelConfig& config);  // the same behind the rotation
Result<DecoderConfig> olmoe_description(const ModelConfig& config);    // normed, all heads together
Result<DecoderConfig> gated_description(const ModelConfig& config, OutputGate gate);  // Qwen 3 with a gate
// Norms behind each half instead of before it, and of queries and keys.
Result<DecoderConfig> norms_behind_description(const ModelConfig& config, QueryKeyNorm query_key_norm);
// A scaled embedding; with norms on both sides of each half; and with norms of queries and keys.
Result<DecoderConfig> gemma_description(const ModelConfig& config);
Result<DecoderConfig> sandwich_gemma_description(const ModelConfig& config);
Result<DecoderConfig> gemma3_description(const ModelConfig& config);
// Scores that fall with the distance. Of numbers of heads that are no power of two, the slopes of the next
// lower power come first, or those of the next higher.
enum class AlibiOrder { lower_first, higher_first };
Result<DecoderConfig> alibi_description(const ModelConfig& config, AlibiOrder order);
Result<DecoderConfig> bert_description(const ModelConfig& config);
// The last `shared_kv_layers` read the keys and values of the last layer of their kind before them.
Result<DecoderConfig> share_kv(const ModelConfig& config, DecoderConfig decoder);

// Names.
WeightNames llama_names(ModelFormat format);
WeightNames gemma2_names(ModelFormat format);
WeightNames layer_input_names(ModelFormat format);  // Gemma 2's with inputs of layers
WeightNames norms_behind_names(ModelFormat format);
WeightNames hunyuan_names(ModelFormat format);
WeightNames glm_names(ModelFormat format);
WeightNames qwen3_moe_names(ModelFormat format);
WeightNames bert_names(ModelFormat format);
WeightNames encoder_gguf_names();
WeightNames fused_gguf_names();
WeightNames plain_fused_gguf_names();
// Names below "mlp.experts", whose tensors are one for each expert or one of all, as transformers writes
// both.
std::vector<ExpertNames> hf_expert_names(const std::string& mixture, const std::string& shared);
std::vector<ExpertNames> granitemoe_experts();  // folders
std::vector<ExpertNames> mixtral_experts();     // likewise

}  // namespace pagoda
