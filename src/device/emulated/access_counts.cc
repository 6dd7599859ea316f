#include "device/emulated/access_counts.h"

#include <algorithm>
#include <set>

namespace pagoda::device::emulated {
namespace {

constexpr std::uintptr_t kBanks = 32, kWord = 4, kSector = 32;

// Calls with each unit of `unit` bytes that a lane's access touches.
template <class Use>
void for_units(std::uintptr_t address, std::size_t size, std::uintptr_t unit, const Use& use) {
  for (std::uintptr_t i = address / unit; i <= (address + size - 1) / unit; ++i) use(i);
}

}  // namespace

void AccessCounts::note(std::uint32_t warp, std::uint32_t lane, const void* site, Memory memory,
                        std::uintptr_t address, std::size_t size) {
  Site& at = warps_[warp][site];
  const std::uint32_t time = at.times[lane]++;
  if (time >= at.accesses.size()) at.accesses.resize(time + 1);
  Access& access = at.accesses[time];
  access.memory = memory;
  access.size = size;
  access.address[lane] = address;
  access.lanes |= 1u << lane;
}

void AccessCounts::meet(std::uint32_t warp, const std::string& kernel) {
  const auto found = warps_.find(warp);
  if (found == warps_.end()) return;
  Counts& counts = counts_[kernel];
  for (const auto& [site, at] : found->second)
    for (const Access& access : at.accesses)
      access.memory == Memory::shared ? add_shared(access, counts) : add_global(access, counts);
  warps_.erase(found);
}

// Accesses of 8 or 16 bytes per lane are served by halves or quarters of the warp.
void AccessCounts::add_shared(const Access& access, Counts& counts) {
  const std::uint32_t at_once = access.size > 8 ? kWarp / 4 : access.size > 4 ? kWarp / 2 : kWarp;
  for (std::uint32_t first = 0; first < kWarp; first += at_once) {
    std::set<std::uintptr_t> words;
    for (std::uint32_t lane = first; lane < first + at_once; ++lane)
      if ((access.lanes >> lane & 1) != 0)
        for_units(access.address[lane], access.size, kWord, [&](std::uintptr_t word) { words.insert(word); });
    if (words.empty()) continue;
    std::array<std::int64_t, kBanks> of_bank = {};
    for (const std::uintptr_t word : words) ++of_bank[word % kBanks];
    counts.wavefronts += *std::ranges::max_element(of_bank);
    counts.least_wavefronts += static_cast<std::int64_t>((words.size() + kBanks - 1) / kBanks);
  }
}

void AccessCounts::add_global(const Access& access, Counts& counts) {
  std::set<std::uintptr_t> sectors, bytes;
  for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
    if ((access.lanes >> lane & 1) == 0) continue;
    for_units(access.address[lane], access.size, kSector, [&](std::uintptr_t i) { sectors.insert(i); });
    for_units(access.address[lane], access.size, 1, [&](std::uintptr_t i) { bytes.insert(i); });
  }
  counts.sectors += static_cast<std::int64_t>(sectors.size());
  counts.least_sectors += static_cast<std::int64_t>((bytes.size() + kSector - 1) / kSector);
}

}  // namespace pagoda::device::emulated
