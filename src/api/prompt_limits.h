#pragma once
// The length rules that every endpoint with a prompt shares.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/api_context.h"
#include "base/status.h"

namespace pagoda {

// Prompts of a call, and its prompts times the answers to each.
inline constexpr std::size_t kMaxPrompts = 1024;
// Log-probabilities of a call.
inline constexpr std::int64_t kMaxLogprobEntries = 8'000'000;

// Too long to be worth tokenising: more bytes than the longest possible prompt can have. Bounds the
// work that one request causes.
bool exceeds_byte_bound(const ApiContext& context, std::size_t bytes);

// "This model's maximum context length is N tokens…", which clients look for. `detail` ends it.
Status context_length_exceeded(const ApiContext& context, std::string_view param, std::string_view detail);

}  // namespace pagoda
