#pragma once
// The chat template for a model with tekken.json and without a template. Mistral's own programs build prompts
// from the version in the file instead of a template. Source: mistral_common's tokens/tokenizers/instruct.py.
#include <string>
#include <string_view>

namespace pagoda {

// Empty if the file has no version with a known prompt format.
std::string template_of_tekken(std::string_view tekken_json);

}  // namespace pagoda
