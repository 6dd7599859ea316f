#pragma once
// The tokens of a GGUF file that end an answer by their name. Converters write one eos id, which is often the
// end of a document; the token that ends a turn is known by its spelling alone.
// Source: llama.cpp, src/llama-vocab.cpp (special_eog_ids), with its exceptions.
// Threads: any.
#include <cstdint>
#include <vector>

#include "loader/gguf.h"

namespace pagoda {

// Ids in ascending order; empty for a file without a vocabulary.
std::vector<std::int32_t> gguf_turn_ends(const GgufFile& file);

}  // namespace pagoda
