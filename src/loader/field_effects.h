#pragma once
// The effect on a model of a field that no reader asked for: the one list of the options that are known.
#include <string_view>

namespace pagoda {

enum class FieldEffect { none, computes, unknown };

FieldEffect effect_of(std::string_view name);      // a field of config.json
FieldEffect effect_of_key(std::string_view name);  // a key of GGUF metadata, behind the architecture's name

}  // namespace pagoda
