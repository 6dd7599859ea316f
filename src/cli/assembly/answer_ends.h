#pragma once
// The tokens that end an answer: the tokenizer's EOS and those named by the model's files.
// Threads: any.
#include <span>
#include <string>
#include <vector>

#include "models/model_info.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// The tokenizer's EOS comes first, as in vLLM: an answer that ends with another token reports that token.
// `tokenizer` may be null.
std::vector<TokenId> answer_ends(const ModelInfo& model, const Tokenizer* tokenizer);

// Returns a line for the log.
std::string describe_ends(std::span<const TokenId> ends, const Tokenizer& tokenizer);

}  // namespace pagoda
