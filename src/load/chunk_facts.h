#pragma once
// ChunkFacts: the parts of a stream's chunk that a load generator needs, extracted without building a JSON
// tree: text and tokens per choice, usage, errors. Reads streams and whole answers of completions and chats,
// and the streams of Responses, Messages, Ollama and llama.cpp, whose only choice has index 0. Threads: none.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

struct ChoiceFacts {
  std::int64_t index = 0;
  std::string_view text;            // raw JSON text with escapes; text, content or reasoning_content
  std::int64_t num_token_ids = -1;  // -1: the chunk has no token ids
  bool finished = false;            // has a finish_reason
};

struct ChunkFacts {
  std::vector<ChoiceFacts> choices;
  std::optional<std::int64_t> prompt_tokens, completion_tokens;  // from `usage`
  bool finished = false;                                         // this is the last chunk of a stream
  std::optional<std::string> error;                              // message of `error`
};

// The views point into `json`. Returns false if `json` is not a complete JSON object; the contents of `facts`
// are then unspecified. Reuses the memory of `facts`.
bool scan_chunk(std::string_view json, ChunkFacts& facts);

// Resolves the escapes in a string's raw JSON text. Malformed parts become U+FFFD.
std::string unescape_json(std::string_view raw);

}  // namespace pagoda
