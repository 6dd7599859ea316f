#pragma once
// TokenCounts: on the device, which tokens a sequence has, for penalties: a line of counts for each sequence
// that asks for them, kept from step to step, so that a step brings the tokens that are new alone. A line is
// a sequence's as long as its tokens begin with those that were counted; where there is none, the line that
// was not asked for longest is counted anew. Threads: the device's caller.
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "device/device_array.h"
#include "device/kernel_table.h"
#include "request/ids.h"

namespace pagoda::device_runner {

class TokenCounts {
 public:
  TokenCounts() = default;
  // So many lines at once.
  static Result<TokenCounts> create(device::Device& device, std::int32_t lines, std::int32_t vocab_size);

  // Forgets what the last launch counted; lines may be used for others.
  void begin();
  // The line of a sequence with these tokens, for one sequence of a launch. At most as many as there are
  // lines; ids may be the same.
  std::int32_t line_of(SequenceId id, std::span<const TokenId> prompt, std::span<const TokenId> output);

  // Rows to count before the lines are read.
  const std::vector<device::CountRow>& rows() const { return rows_; }
  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  std::uint32_t* data() const { return counts_.data(); }
  std::int64_t size_bytes() const { return counts_.size_bytes(); }

 private:
  struct Line {
    std::vector<TokenId> tokens;  // counted
    std::size_t prompt = 0;       // so many of them are the prompt's
    SequenceId id{};
    std::uint64_t used = 0;  // the launch
  };
  std::size_t free_line() const;

  device::DeviceArray<std::uint32_t> counts_;  // [lines, vocabulary]
  std::vector<Line> lines_;
  std::unordered_map<SequenceId, std::size_t> line_of_;
  std::uint64_t launch_ = 0;
  std::vector<device::CountRow> rows_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace pagoda::device_runner
