#pragma once
// The effect of a field that no reader asked for; the single list of known options.
#include <string_view>

namespace pagoda {

enum class FieldEffect { none, computes, unknown };

FieldEffect effect_of(std::string_view name);      // a field of config.json
FieldEffect effect_of_key(std::string_view name);  // a key of GGUF metadata without the architecture

}  // namespace pagoda
