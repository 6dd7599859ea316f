#pragma once
// PinnedPrefixes: the token sequences whose blocks stay in the pool until they are unpinned (Fig. 10). Each
// has a holder: a sequence that never runs and keeps the blocks. The manager tracks the blocks themselves.
// Threads: none; owned by the engine thread.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "request/ids.h"

namespace pagoda {

class PinnedPrefixes {
 public:
  enum class Use { any_part, whole };
  struct Match {
    SequenceId holder{};
    std::int32_t num_tokens = 0;
  };

  // `variant` as in CacheUse.
  void add(SequenceId holder, std::span<const TokenId> tokens, std::string_view variant = {});
  void remove(SequenceId holder);  // CHECKs that it is present

  // Finds the longest prefix of this variant that `tokens` starts with and that is longer than `num_tokens`
  // tokens, not counting the last token of `tokens`, which must be computed. Use::whole skips prefixes that
  // would lose their last token this way: a state kept only at a prefix's end is useless one token earlier.
  std::optional<Match> longest(std::span<const TokenId> tokens, std::string_view variant,
                               std::int32_t num_tokens, Use use) const;

  struct Prefix {
    SequenceId holder{};
    std::vector<TokenId> tokens;
    std::string variant = {};
  };
  std::span<const Prefix> all() const { return prefixes_; }

 private:
  std::vector<Prefix> prefixes_;  // in the order of pinning: the first of equals is used
};

}  // namespace pagoda
