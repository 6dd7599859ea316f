#pragma once
// Matrices of a decoder by part, and the modules of a checkpoint that hold them, answered both ways out of
// the family's WeightNames: "model.layers.3.mlp.down_proj" is the down matrix of layer 3. Adapters and
// quantisers' ignore lists name modules; no table by family is needed to read them. Norms, biases and other
// vectors are not here.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "models/weight_names.h"

namespace pagoda {

// A part is what its family's names call it: &WeightNames::down.
using WeightName = std::string WeightNames::*;
using LinearName = std::string LinearAttentionNames::*;
using ExpertName = std::string ExpertNames::*;
using WeightPart = std::variant<WeightName, LinearName, ExpertName>;

struct ModulePart {
  WeightPart part = &WeightNames::head;
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

// Whether it is a matrix of attention or of a feed-forward, of an expert among them.
bool is_sublayer_part(const WeightPart& part);

// Takes `pattern`, whose "{}" is a number, off the front of `text`. `number` keeps its value without one.
bool take_front(std::string_view& text, std::string_view pattern, std::int32_t& number);

}  // namespace pagoda
