#include "text/stop_matcher.h"

#include <algorithm>

#include "base/utf8.h"

namespace pagoda {

StopMatcher::StopMatcher(std::vector<std::string> stop_strings, bool include_in_output)
    : stop_strings_(std::move(stop_strings)), include_in_output_(include_in_output) {
  std::erase(stop_strings_, std::string());
}

StopMatcher::Outcome StopMatcher::push(std::string_view text, bool may_stop) {
  Outcome outcome;
  // held_ never contains a whole stop string, so a new match ends in `text`.
  const std::size_t num_held = held_.size();
  held_ += text;
  if (may_stop) {
    // The stop string that is complete first, however the text is split; of those that end together, the
    // longest.
    std::size_t best_begin = 0, best_end = std::string::npos;
    for (const std::string& stop : stop_strings_) {
      const std::size_t from = num_held >= stop.size() ? num_held - stop.size() + 1 : 0;
      const std::size_t found = held_.find(stop, from);
      if (found == std::string::npos) continue;
      const std::size_t end = found + stop.size();
      if (end < best_end || (end == best_end && found < best_begin)) {
        best_begin = found, best_end = end;
        outcome.stop_string = stop;
      }
    }
    if (outcome.stop_string) {
      held_.resize(include_in_output_ ? best_end : best_begin);
      outcome.text = std::move(held_);
      held_.clear();
      return outcome;
    }
  }
  // Holds back the longest suffix that is a proper prefix of a stop string; a complete one was ignored above.
  std::size_t keep = 0;
  for (const std::string& stop : stop_strings_) {
    std::size_t length = std::min(stop.size() - 1, held_.size());
    while (length > keep &&
           !std::string_view(stop).starts_with(std::string_view(held_).substr(held_.size() - length)))
      --length;
    keep = std::max(keep, length);
  }
  // A stop string may begin inside a character only if it is not UTF-8; never emit half of one.
  while (keep < held_.size() && keep > 0 && is_utf8_continuation(held_[held_.size() - keep])) ++keep;
  outcome.text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return outcome;
}

std::string StopMatcher::finish() {
  std::string out = std::move(held_);
  held_.clear();
  return out;
}

}  // namespace pagoda
