#pragma once
// ChunkFacts: what a load generator wants from one chunk of a stream, found without building a tree of it:
// which choices got how much, the usage, an error. Reads completions and chats, whole answers of them, too,
// and the streams of Responses, Messages, Ollama and llama.cpp, whose one choice has the index 0. Threads:
// none.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

struct ChoiceFacts {
  std::int64_t index = 0;
  std::string_view text;            // as in the JSON, escapes and all; text, content or reasoning_content
  std::int64_t num_token_ids = -1;  // -1: the chunk has no token ids
  bool finished = false;            // has a finish_reason
};

struct ChunkFacts {
  std::vector<ChoiceFacts> choices;
  std::optional<std::int64_t> prompt_tokens, completion_tokens;  // from `usage`
  bool finished = false;                                         // the chunk is the last of a stream
  std::optional<std::string> error;                              // message of `error`
};

// The views live as long as `json`. False: this is not a JSON object, or not closed; `facts` is then
// unusable. Reuses the memory of `facts`.
bool scan_chunk(std::string_view json, ChunkFacts& facts);

// A string's raw JSON text with its escapes resolved; what is malformed becomes U+FFFD.
std::string unescape_json(std::string_view raw);

}  // namespace pagoda
