#pragma once
// Filling in the middle: a prefix and a suffix -> the prompt that asks for the text between them, with the
// special tokens that the model was trained with. These tokens are looked up in the tokenizer by name; most
// models have none. Prefix and suffix stay text: special tokens in them are not parsed. Threads: any. Source:
// the model cards of Qwen2.5-Coder, StarCoder2, CodeLlama, DeepSeek-Coder, Granite Code and Codestral.
#include <string_view>
#include <vector>

#include "api/api_context.h"
#include "base/status.h"

namespace pagoda {

bool fills_in_middle(const Tokenizer& tokenizer);

// unimplemented, naming `param`, if the model cannot fill in the middle.
Result<std::vector<TokenId>> fill_in_middle_tokens(const ApiContext& context, std::string_view param,
                                                   std::string_view before, std::string_view after);

}  // namespace pagoda
