#pragma once
// DraftHistory: the acceptance record of one sequence's draft tokens, by class of evidence for the draft.
// Recent drafts count more. Plain data for decoding/draft_policy.h.
#include <array>
#include <cstdint>

namespace pagoda {

struct DraftHistory {
  static constexpr std::size_t kNumClasses = 3;
  struct Class {
    float tried = 0, accepted = 0;  // drafts up to and including the first wrong one of each step
  };
  std::array<Class, kNumClasses> classes{};
  std::uint8_t latest = 0;  // class of Sequence::draft
};

}  // namespace pagoda
