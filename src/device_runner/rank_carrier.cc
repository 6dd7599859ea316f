#include "device_runner/rank_carrier.h"

#include <algorithm>

#include "base/strings.h"

namespace pagoda::device_runner {

std::int64_t RankCarrier::half_for(std::int64_t widest) { return std::max(std::int64_t{256} << 10, widest); }

Status RankCarrier::begin_group(std::byte* words, std::int64_t half) {
  if (parallel_.size() > device::kMostRanks)
    return unimplemented(concat("devices: at most ", device::kMostRanks, " ranks, not ", parallel_.size()));
  auto zeros = device::PinnedArray<std::uint32_t>::create(device_, device::kWordsOfWindow);
  if (!zeros) return zeros.error();
  words_ = *std::move(zeros);
  std::fill_n(words_.data(), device::kWordsOfWindow, 0);
  PAGODA_RETURN_IF_ERROR(
      device_.copy_in(stream_, words, words_.bytes(), device::kWordsOfWindow * sizeof(std::uint32_t)));
  PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
  device::RankGroup& group = ranks_.group;
  group.rank = parallel_.rank();
  group.size = parallel_.size();
  group.half = half;
  group.own = reinterpret_cast<device::WindowWords*>(words);
  return ok_status();
}

}  // namespace pagoda::device_runner
