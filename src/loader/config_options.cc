#include "loader/config_options.h"

#include <algorithm>
#include <array>
#include <span>

namespace pagoda {
namespace {

constexpr std::size_t kMostListed = 32;

// Of relatives: whoever does not read one of these computes without it.
constexpr std::array kComputing = std::to_array<std::string_view>({
    "attention_multiplier",
    "attn_logit_softcapping",
    "clip_qkv",
    "embedding_multiplier",
    "final_logit_softcapping",
    "hidden_size_per_layer_input",
    "kv_lora_rank",
    "layer_types",
    "llama_4_scaling_beta",
    "logit_scale",
    "logits_scaling",
    "num_experts",
    "num_kv_shared_layers",
    "num_local_experts",
    "query_pre_attn_scalar",
    "residual_multiplier",
    "router_logit_softcapping",
    "scale_depth",
    "scale_emb",
    "use_sliding_window",
});

// Of training, of how text is generated, of libraries; and of tensors, which say the same by being there.
constexpr std::array kHarmless = std::to_array<std::string_view>({
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "add_cross_attention",
    "architectures",
    "attention_bias",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_implementation",
    "attn_pdrop",
    "auto_map",
    "aux_loss_alpha",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_activation",
    "classifier_bias",
    "classifier_dropout",
    "classifier_pooling",
    "cls_token_id",
    "cross_attention_hidden_size",
    "decoder_bias",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dropout",
    "dtype",
    "early_stopping",
    "emb_pdrop",
    "embd_pdrop",
    "embedding_dropout",
    "embedding_fraction",
    "encoder_no_repeat_ngram_size",
    "eod_token_id",
    "eos_token_id",
    "ep_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "head_type",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "init_device",
    "init_std",
    "initializer_cutoff_factor",
    "initializer_factor",
    "initializer_range",
    "is_composition",
    "is_decoder",
    "is_encoder_decoder",
    "is_llama_config",
    "keys_to_ignore_at_inference",
    "label2id",
    "layerdrop",
    "length_penalty",
    "max_length",
    "mamba_chunk_size",
    "mamba_conv_bias",
    "mamba_ssm_dtype",
    "max_window_layers",
    "min_length",
    "mlp_bias",
    "mlp_dropout",
    "model_type",
    "mtp_loss_weight",
    "n_ctx",
    "no_repeat_ngram_size",
    "norm_bias",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_logits_to_keep",
    "num_nextn_predict_layers",
    "num_return_sequences",
    "output_attentions",
    "output_gate_type",
    "output_hidden_states",
    "output_router_logits",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "pruned_heads",
    "qk_head_dim",
    "quantization_config",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "residual_dropout",
    "return_dict",
    "return_dict_in_generate",
    "rope_interleaved",
    "rotary",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "router_z_loss_coef",
    "sep_token_id",
    "seq_aux",
    "sparse_pred_ignore_index",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tie_word_embeddings",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_bias",
    "use_cache",
    "use_expert_bias",
    "use_qkv_bias",
    "vision_config",
});

bool is_in(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Says that the option is not used, or what is so without it.
bool is_off(std::string_view name, const json::value& value) {
  if (value.is_null() || value == false || value == 0 || value == "") return true;
  if (const json::array* list = value.if_array())
    return std::ranges::all_of(*list, [&](const json::value& each) {
      return name == "layer_types" && (each == "full_attention" || each == "attention");
    });
  return value.is_object() && value.get_object().empty();
}

// Where other parts of a model stand in the text, and layers that may draft tokens.
bool is_of_others(std::string_view name) {
  return name.ends_with("_token_id") || name.ends_with("_token_ids") || name.ends_with("_token_index") ||
         name.starts_with("mtp_") || name.ends_with("_config");
}

}  // namespace

void sort_unasked(Fields& fields, std::string_view where, ModelConfig& config) {
  for (const auto& [key, value] : fields.object()) {
    const std::string_view name = key;
    if (fields.asked(name) || is_off(name, value)) continue;
    if (is_in(kComputing, name)) {
      fields.refuse(concat("config.json: '", where, name, "' = ", show(value),
                           " is not supported for this architecture"));
    } else if (!is_in(kHarmless, name) && !is_of_others(name) &&
               config.unknown_options.size() < kMostListed) {
      config.unknown_options.push_back(printable(concat(where, name), 100));
    }
  }
}

bool gguf_option_computes(std::string_view name) {
  static constexpr std::array kBeginnings = std::to_array<std::string_view>(
      {"altup.", "attention.", "expert_", "kda.", "rope.", "shortconv.", "ssm.", "time_", "wkv.", "xielu."});
  static constexpr std::array kNames = std::to_array<std::string_view>(
      {"attn_logit_softcapping", "decoder_block_count", "embedding_length_per_layer_input", "embedding_scale",
       "experts_per_group", "final_logit_softcapping", "full_attention_interval", "interleave_moe_layer_step",
       "leading_dense_block_count", "logit_scale", "moe_every_n_layers", "rescale_every_n_layers",
       "residual_scale", "router_logit_softcapping", "swin_norm", "token_shift_count",
       "use_parallel_residual"});
  return is_in(kNames, name) ||
         std::ranges::any_of(kBeginnings, [&](std::string_view begin) { return name.starts_with(begin); });
}

}  // namespace pagoda
