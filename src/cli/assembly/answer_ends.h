#pragma once
// Which tokens end an answer: the tokenizer's EOS and what the model's files name besides.
// Threads: any.
#include <span>
#include <string>
#include <vector>

#include "models/model_info.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// The tokenizer's EOS comes first, as in vLLM: an answer that ends with another one names it. `tokenizer` may
// be null.
std::vector<TokenId> answer_ends(const ModelInfo& model, const Tokenizer* tokenizer);

// A line of the log.
std::string describe_ends(std::span<const TokenId> ends, const Tokenizer& tokenizer);

}  // namespace pagoda
