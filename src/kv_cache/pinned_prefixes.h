#pragma once
// PinnedPrefixes: the token sequences whose blocks stay in the pool until they are unpinned (Fig. 10). Each
// has a holder, a sequence that nobody runs and that keeps the blocks; who holds what is the manager's.
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
  void remove(SequenceId holder);  // CHECKs that it is there

  // The longest one of this variant that `tokens` begins with, of more than `num_tokens` tokens, less the
  // last token of `tokens`, which must be computed. Use::whole leaves out those that lose a token so: what is
  // kept at a prefix's end alone is of no use one token before it.
  std::optional<Match> longest(std::span<const TokenId> tokens, std::string_view variant,
                               std::int32_t num_tokens, Use use) const;

  struct Prefix {
    SequenceId holder{};
    std::vector<TokenId> tokens;
    std::string variant = {};
  };
  std::span<const Prefix> all() const { return prefixes_; }

 private:
  std::vector<Prefix> prefixes_;  // in the order in which they were pinned: the first of equals is used
};

}  // namespace pagoda
