#pragma once
// Charsmap: SentencePiece's precompiled character map, a Darts double array over byte strings and a pool of
// replacements. Lookups check every index: the bytes come from a file.
// Source of the format: sentencepiece normalizer.cc and darts.h (darts-clone units).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pagoda {

class Charsmap {
 public:
  // corrupt_data if the sizes do not match. Empty bytes give an empty map.
  static Result<Charsmap> parse(std::string_view bytes);

  struct Match {
    std::size_t length;            // bytes of text to replace
    std::string_view replacement;  // valid as long as the map
  };
  std::optional<Match> shortest(std::string_view text) const { return search(text, true); }
  std::optional<Match> longest(std::string_view text) const { return search(text, false); }
  bool empty() const { return units_.empty(); }

 private:
  std::optional<Match> search(std::string_view text, bool first) const;
  std::vector<std::uint32_t> units_;
  std::string replacements_;  // each ends with a zero byte
};

}  // namespace pagoda
