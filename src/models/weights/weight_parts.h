#pragma once
// Maps a decoder's matrices by part to a checkpoint's modules and back, using the family's WeightNames:
// "model.layers.3.mlp.down_proj" is the down matrix of layer 3. Adapters and quantisers' ignore lists name
// modules; this reads them without a table per family. Norms, biases and other vectors are not covered.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "models/weight_names.h"

namespace pagoda {

// A part is identified by its member in the names: &WeightNames::down.
using WeightName = std::string WeightNames::*;
using LinearName = std::string LinearAttentionNames::*;
using ExpertName = std::string ExpertNames::*;
using WeightPart = std::variant<WeightName, LinearName, ExpertName>;

struct ModulePart {
  WeightPart part = &WeightNames::head;
  std::int32_t layer = -1;   // -1: a part of the whole model
  std::int32_t expert = -1;  // -1: not an expert's, or all experts' together

  bool operator==(const ModulePart&) const = default;
};

// Returns the module's most common name, without ".weight"; empty if the family has no such part. For experts
// stored in several forms: the name in the first form that has the part.
std::string module_of(const WeightNames& names, const ModulePart& part);

// `module` is named as in a file: with the family's prefix or one of its alternatives, optionally behind a
// multimodal model's prefix. nullopt if it is not a matrix of the decoder.
std::optional<ModulePart> part_of(const WeightNames& names, std::string_view module);

// True for matrices of attention and feed-forwards, including experts.
bool is_sublayer_part(const WeightPart& part);

// Removes `pattern`, whose "{}" matches a number, from the front of `text`. `number` is unchanged if there is
// no "{}".
bool take_front(std::string_view& text, std::string_view pattern, std::int32_t& number);

}  // namespace pagoda
