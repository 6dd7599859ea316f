#include "load/lengths.h"

#include <algorithm>
#include <span>

#include "load/length_tables.h"

namespace pagoda {
namespace {

constexpr int kMaxRedraws = 1000;  // in case max_model_len is far below the lengths in the table

RequestLengths draw(std::span<const LengthPair> table, Draws& draws, std::int32_t max_model_len) {
  for (int i = 0; i < kMaxRedraws; ++i) {
    const auto place = static_cast<std::size_t>(draws.between(0, std::ssize(table) - 1));
    const LengthPair& pair = table[place];
    if (pair.prompt_tokens + pair.output_tokens <= max_model_len)
      return {pair.prompt_tokens, pair.output_tokens};
  }
  return {std::max(1, max_model_len / 2), std::max(1, max_model_len - max_model_len / 2)};
}

}  // namespace

RequestLengths draw_sharegpt_lengths(Draws& draws, std::int32_t max_model_len) {
  return draw(sharegpt_lengths(), draws, max_model_len);
}

RequestLengths draw_alpaca_lengths(Draws& draws, std::int32_t max_model_len) {
  return draw(alpaca_lengths(), draws, max_model_len);
}

RequestLengths draw_uniform_lengths(Draws& draws, TokenRange input, TokenRange output) {
  const auto prompt = static_cast<std::int32_t>(draws.between(input.low, input.high));
  return {prompt, static_cast<std::int32_t>(draws.between(output.low, output.high))};
}

}  // namespace pagoda
