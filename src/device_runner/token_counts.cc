#include "device_runner/token_counts.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda::device_runner {

Result<TokenCounts> TokenCounts::create(device::Device& device, std::int32_t lines, std::int32_t vocab_size) {
  TokenCounts made;
  auto counts = device::DeviceArray<std::uint32_t>::create(device, std::int64_t{lines} * vocab_size,
                                                           "counts of tokens");
  if (!counts) return counts.error();
  made.counts_ = *std::move(counts);
  made.lines_.resize(static_cast<std::size_t>(lines));
  return made;
}

void TokenCounts::begin() {
  ++launch_;
  rows_.clear();
  tokens_.clear();
}

std::size_t TokenCounts::free_line() const {
  const auto oldest = std::ranges::min_element(lines_, {}, &Line::used);
  CHECK(oldest != lines_.end() && oldest->used < launch_);
  return static_cast<std::size_t>(oldest - lines_.begin());
}

std::int32_t TokenCounts::line_of(SequenceId id, std::span<const TokenId> prompt,
                                  std::span<const TokenId> output) {
  const auto begins_with = [&](const Line& line) {
    return line.used < launch_ && line.id == id && line.prompt == prompt.size() &&
           line.tokens.size() <= prompt.size() + output.size() &&
           std::equal(prompt.begin(), prompt.end(), line.tokens.begin()) &&
           std::equal(line.tokens.begin() + std::ssize(prompt), line.tokens.end(), output.begin());
  };
  const auto known = line_of_.find(id);
  const bool goes_on = known != line_of_.end() && begins_with(lines_[known->second]);
  const std::size_t at = goes_on ? known->second : free_line();
  Line& line = lines_[at];
  device::CountRow row = {.line = static_cast<std::int32_t>(at), .first = std::ssize(tokens_)};
  if (!goes_on) {
    if (const auto owner = line_of_.find(line.id); owner != line_of_.end() && owner->second == at)
      line_of_.erase(owner);
    line_of_[id] = at;
    line.id = id;
    line.tokens.assign(prompt.begin(), prompt.end());
    line.prompt = prompt.size();
    tokens_.insert(tokens_.end(), prompt.begin(), prompt.end());
    row.reset = 1;
    row.prompt = static_cast<std::int32_t>(prompt.size());
  }
  line.used = launch_;
  const auto added = output.subspan(line.tokens.size() - line.prompt);
  line.tokens.insert(line.tokens.end(), added.begin(), added.end());
  tokens_.insert(tokens_.end(), added.begin(), added.end());
  row.output = static_cast<std::int32_t>(added.size());
  if (row.reset != 0 || row.output > 0) rows_.push_back(row);
  return row.line;
}

}  // namespace pagoda::device_runner
