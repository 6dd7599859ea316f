#pragma once
// The chat template of a model that brings tekken.json and no template: Mistral's own programs write such
// prompts by the file's version, without one. Source: mistral_common's tokens/tokenizers/instruct.py.
#include <string>
#include <string_view>

namespace pagoda {

// Empty: the file says no version whose prompts are known.
std::string template_of_tekken(std::string_view tekken_json);

}  // namespace pagoda
