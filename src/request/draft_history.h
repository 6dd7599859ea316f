#pragma once
// DraftHistory: how draft tokens of one sequence have fared so far, in classes of how much spoke for them;
// recent ones count more. Plain data of decoding/draft_policy.h.
#include <array>
#include <cstdint>

namespace pagoda {

struct DraftHistory {
  static constexpr std::size_t kNumClasses = 3;
  struct Class {
    float tried = 0, accepted = 0;  // drafts, up to and with the first wrong one of each step
  };
  std::array<Class, kNumClasses> classes{};
  std::uint8_t latest = 0;  // class of Sequence::draft
};

}  // namespace pagoda
