#pragma once
// TokenCounts: the tokens of sequences, counted on the device for penalties: a line of counts for each
// sequence that needs them, kept from step to step, so that a step only sends new tokens. A line belongs to a
// sequence as long as its tokens begin with the counted ones; without such a line, the least recently used
// one is counted anew. Threads: the device's caller.
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
  // `lines`: the number of lines.
  static Result<TokenCounts> create(device::Device& device, std::int32_t lines, std::int32_t vocab_size);

  // Begins another launch: lines may be used for other sequences.
  void begin();
  // The line of a sequence with these tokens, for one sequence of a launch. At most `lines` calls per launch;
  // ids may be equal.
  std::int32_t line_of(SequenceId id, std::span<const TokenId> prompt, std::span<const TokenId> output);

  // Rows to count before the lines are read.
  const std::vector<device::CountRow>& rows() const { return rows_; }
  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  std::uint32_t* data() const { return counts_.data(); }
  std::int64_t size_bytes() const { return counts_.size_bytes(); }

 private:
  struct Line {
    std::vector<TokenId> tokens;  // counted
    std::size_t prompt = 0;       // number of these that are the prompt's
    SequenceId id{};
    std::uint64_t used = 0;  // the last launch that used it
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
