#pragma once
// The length limits shared by all endpoints that take a prompt.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/api_context.h"
#include "base/status.h"

namespace pagoda {

// Maximum prompts per call, and maximum prompts times answers per prompt.
inline constexpr std::size_t kMaxPrompts = 1024;
// Maximum log-probabilities per call.
inline constexpr std::int64_t kMaxLogprobEntries = 8'000'000;

// True if a text is too long to tokenize: it has more bytes than the longest possible prompt. Bounds the work
// that one request can cause.
bool exceeds_byte_bound(const ApiContext& context, std::size_t bytes);

// "This model's maximum context length is N tokens…", which clients look for. `detail` is appended.
Status context_length_exceeded(const ApiContext& context, std::string_view param, std::string_view detail);

}  // namespace pagoda
