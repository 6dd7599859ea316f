#pragma once
// Filling in the middle: a text before and a text after -> the prompt that asks for what stands between, with
// the special tokens that the model was trained with. Found in the tokenizer by their names; most models have
// none. What stands before and after stays text: special tokens in it are not parsed. Threads: any. Source:
// the model cards of Qwen2.5-Coder, StarCoder2, CodeLlama, DeepSeek-Coder, Granite Code and Codestral.
#include <string_view>
#include <vector>

#include "api/api_context.h"
#include "base/status.h"

namespace pagoda {

bool fills_in_middle(const Tokenizer& tokenizer);

// unimplemented, with `param`: this model cannot.
Result<std::vector<TokenId>> fill_in_middle_tokens(const ApiContext& context, std::string_view param,
                                                   std::string_view before, std::string_view after);

}  // namespace pagoda
