#pragma once
// Matrices of a decoder by part, and the modules of a checkpoint that hold them, answered both ways out of
// the family's WeightNames: "model.layers.3.mlp.down_proj" is the down matrix of layer 3. Adapters and
// quantisers' ignore lists name modules; no table by family is needed to read them. Norms, biases and other
// vectors are not here.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/weight_names.h"

namespace pagoda {

enum class WeightPart {
  token_embedding,
  position_embedding,
  type_embedding,
  project_in,
  project_out,
  head,
  layer_input_table,
  layer_input_projection,
  query,
  key,
  value,
  query_key_value,
  attention_output,
  output_gate,
  query_a,
  query_b,
  kv_a,
  kv_b,
  key_b,
  value_b,
  conv_in,
  conv_out,
  linear_qkv,
  linear_gate,
  linear_weight,
  linear_decay,
  linear_by_key_head,
  linear_gates_by_key_head,
  linear_in,
  linear_out,
  gate,
  up,
  gate_up,
  down,
  router,
  expert_gate,
  expert_up,
  expert_gate_up,
  expert_down,
  shared_gate,
  shared_up,
  shared_gate_up,
  shared_down,
  shared_router,
  layer_input_gate,
  layer_input_output,
  residual_down,
  residual_up,
  streams_router,
  streams_predict,
  streams_correct,
};

struct ModulePart {
  WeightPart part = WeightPart::head;
  std::int32_t layer = -1;   // -1: a part of the whole model
  std::int32_t expert = -1;  // -1: no expert's, or all experts' together

  bool operator==(const ModulePart&) const = default;
};

// The module's name without ".weight", as most files have it; empty: the family has no such part. Of experts
// that files store in several forms, the first form that has the part.
std::string module_of(const WeightNames& names, const ModulePart& part);

// `module` is named as in a file: with the family's prefix or another of its prefixes, and behind those of
// models that also see or hear. nullopt: no matrix of the decoder.
std::optional<ModulePart> part_of(const WeightNames& names, std::string_view module);

// Takes `pattern`, whose "{}" is a number, off the front of `text`. `number` keeps its value without one.
bool take_front(std::string_view& text, std::string_view pattern, std::int32_t& number);

}  // namespace pagoda
