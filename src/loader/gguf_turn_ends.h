#pragma once
// Tokens of a GGUF file that end an answer because of their name. Converters write one eos id, which is often
// the end of a document; the token that ends a turn is recognisable only by its spelling.
// Source: llama.cpp, src/llama-vocab.cpp (special_eog_ids), with its exceptions. Threads: any.
#include <cstdint>
#include <vector>

#include "loader/gguf.h"

namespace pagoda {

// In ascending order; empty if the file has no vocabulary.
std::vector<std::int32_t> gguf_turn_ends(const GgufFile& file);

}  // namespace pagoda
