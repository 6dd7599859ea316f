#pragma once
// The token that is forced where a mask (token_constraint.h) allows only one; it is known without computing
// logits. Threads: any.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "request/token_constraint.h"

namespace pagoda {

// The only token of `vocab_size` that the mask allows; -1 if it allows none or several.
inline TokenId forced_token(std::span<const MaskWord> mask, std::int32_t vocab_size) {
  const std::size_t words = mask_words(vocab_size);
  TokenId only = -1;
  for (std::size_t i = 0; i < words; ++i) {
    MaskWord word = mask[i];
    if (word == 0) continue;
    if (i + 1 == words && vocab_size % 32 != 0) word &= (MaskWord{1} << (vocab_size % 32)) - 1;
    if (word == 0) break;
    if (only >= 0 || (word & (word - 1)) != 0) return -1;
    only = static_cast<TokenId>(i * 32) + std::countr_zero(word);
  }
  return only;
}

}  // namespace pagoda
