#include "loader/field_effects.h"

#include <algorithm>
#include <array>

namespace pagoda {
namespace {

// Fields of other families: a reader that skips one of them would compute a wrong result.
constexpr std::string_view kComputing =
    "attention_multiplier attn_logit_softcapping clip_qkv embedding_multiplier final_logit_softcapping "
    "hidden_size_per_layer_input kv_lora_rank layer_types llama_4_scaling_beta logit_scale logits_scaling "
    "num_experts num_kv_shared_layers num_local_experts query_pre_attn_scalar residual_multiplier "
    "router_logit_softcapping scale_depth scale_emb use_sliding_window";

// Fields of training, of text generation, of libraries; and fields about tensors, whose presence says the
// same.
constexpr std::string_view kHarmless =
    "_attn_implementation _attn_implementation_autoset _commit_hash _name_or_path add_cross_attention "
    "architectures attention_bias attention_dropout attention_probs_dropout_prob attn_implementation "
    "attn_pdrop auto_map aux_loss_alpha bad_words_ids begin_suppress_tokens bos_token_id "
    "cache_implementation chunk_size_feed_forward classifier_activation classifier_bias "
    "classifier_dropout classifier_pooling cls_token_id cross_attention_hidden_size decoder_bias "
    "decoder_start_token_id diversity_penalty do_sample dropout dtype early_stopping emb_pdrop embd_pdrop "
    "embedding_dropout embedding_fraction encoder_no_repeat_ngram_size eod_token_id eos_token_id ep_size "
    "exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id "
    "gradient_checkpointing head_type hidden_dropout hidden_dropout_prob id2label init_device init_std "
    "initializer_cutoff_factor initializer_factor initializer_range is_composition is_decoder "
    "is_encoder_decoder is_llama_config keys_to_ignore_at_inference label2id layerdrop length_penalty "
    "max_length mamba_chunk_size mamba_conv_bias mamba_ssm_dtype max_window_layers min_length mlp_bias "
    "mlp_dropout model_type mtp_loss_weight n_ctx no_repeat_ngram_size norm_bias num_beam_groups "
    "num_beams num_labels num_logits_to_keep num_nextn_predict_layers num_return_sequences "
    "output_attentions output_gate_type output_hidden_states output_router_logits output_scores "
    "pad_token_id prefix pretraining_tp problem_type pruned_heads qk_head_dim quantization "
    "quantization_config compression_config remove_invalid_values repetition_penalty resid_pdrop "
    "residual_dropout return_dict return_dict_in_generate rope_interleaved rotary router_aux_loss_coef "
    "router_jitter_noise router_z_loss_coef sep_token_id seq_aux sparse_pred_ignore_index "
    "summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj "
    "suppress_tokens task_specific_params temperature tf_legacy_loss tie_encoder_decoder "
    "tie_word_embeddings tokenizer_class top_k top_p torch_dtype torchscript transformers_version "
    "typical_p unsloth_fixed unsloth_version use_bfloat16 use_bias use_cache use_expert_bias use_qkv_bias "
    "vision_config";

// The same for GGUF metadata: keys without effect, or implied by other keys and the tensors.
constexpr std::string_view kHarmlessKeys =
    "vocab_size context_length embedding_length block_count feed_forward_length attention.head_count "
    "attention.head_count_kv attention.key_length attention.value_length attention.layer_norm_epsilon "
    "attention.layer_norm_rms_epsilon attention.sliding_window attention.causal rope.dimension_count "
    "rope.freq_base rope.freq_base_swa rope.scale_linear rope.scaling.type rope.scaling.factor "
    "rope.scaling.attn_factor rope.scaling.yarn_attn_factor rope.scaling.yarn_beta_fast "
    "rope.scaling.yarn_beta_slow rope.scaling.yarn_ext_factor rope.scaling.yarn_log_multiplier "
    "rope.dimension_sections attention.sliding_window_pattern rope.scaling.original_context_length "
    "rope.scaling.finetuned tensor_data_layout use_parallel_residual expert_count expert_used_count "
    "n_deepstack_layers nextn_predict_layers pooling_type";

// GGUF keys that affect the computation, as prefixes or whole names.
constexpr auto kComputingBeginnings = std::to_array<std::string_view>(
    {"altup.", "attention.", "expert_", "kda.", "rope.", "shortconv.", "ssm.", "time_", "wkv.", "xielu."});
constexpr std::string_view kComputingKeys =
    "attn_logit_softcapping decoder_block_count embedding_length_per_layer_input embedding_scale "
    "experts_per_group final_logit_softcapping full_attention_interval interleave_moe_layer_step "
    "leading_dense_block_count logit_scale moe_every_n_layers rescale_every_n_layers residual_scale "
    "router_logit_softcapping swin_norm token_shift_count use_parallel_residual";

// True if `name` is in `names`, which are separated by spaces.
bool is_in(std::string_view names, std::string_view name) {
  if (name.empty() || name.find(' ') != name.npos) return false;
  for (std::size_t at = names.find(name); at != names.npos; at = names.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || names[at - 1] == ' ') && (end == names.size() || names[end] == ' ')) return true;
  }
  return false;
}

// True for fields of other parts of a model (positions in the text), and of layers that may draft tokens.
bool is_of_others(std::string_view name) {
  return name.ends_with("_token_id") || name.ends_with("_token_ids") || name.ends_with("_token_index") ||
         name.starts_with("mtp_") || name.ends_with("_config");
}

}  // namespace

FieldEffect effect_of(std::string_view name) {
  if (is_in(kComputing, name)) return FieldEffect::computes;
  return is_in(kHarmless, name) || is_of_others(name) ? FieldEffect::none : FieldEffect::unknown;
}

FieldEffect effect_of_key(std::string_view name) {
  if (is_in(kHarmlessKeys, name)) return FieldEffect::none;
  const bool computes = is_in(kComputingKeys, name) ||
                        std::ranges::any_of(kComputingBeginnings,
                                            [&](std::string_view begin) { return name.starts_with(begin); });
  return computes ? FieldEffect::computes : FieldEffect::unknown;
}

}  // namespace pagoda
