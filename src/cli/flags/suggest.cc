#include "cli/flags/suggest.h"

#include <algorithm>
#include <cstddef>

#include "base/edit_distance.h"

namespace pagoda {

std::string suggestion(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kLongestWord = 64;  // bounds the work; no flag is longer
  constexpr std::size_t kShortestWord = 3;  // shorter ones are near every flag of one letter
  if (word.size() > kLongestWord || word.size() < kShortestWord) return {};
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() * 2 / 5) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = &candidate;
    }
  }
  return best == nullptr ? std::string() : "; did you mean " + *best + "?";
}

}  // namespace pagoda
