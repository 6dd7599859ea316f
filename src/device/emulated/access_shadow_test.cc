// Goal: races are found, and only races. Method: random accesses of a few threads with random barriers,
// against a model that remembers every access.
#include "device/emulated/access_shadow.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace pagoda::device::emulated {
namespace {

bool ordered(const AccessStamp& a, const AccessStamp& b) {
  if (a.block != b.block) return false;
  return a.thread == b.thread || a.block_phase < b.block_phase ||
         (a.thread / 32 == b.thread / 32 && a.warp_phase < b.warp_phase);
}

TEST(AccessShadow, AgreesWithAModelOnWholeGranules) {
  int races = 0;
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    AccessShadow shadow(8);
    std::vector<AccessStamp> all;
    std::uint32_t block_phase = 0, warp_phase[2] = {};
    for (std::uint64_t step = 0; step < 15; ++step) {
      const std::uint64_t what = random_bits(seed, step, 0) % 6;
      if (what == 0) ++block_phase;
      if (what == 1 || what == 2) ++warp_phase[what - 1];
      constexpr std::uint16_t kThreads[] = {0, 1, 32, 33};
      AccessStamp now = {.launch = 1, .block_phase = block_phase};
      now.thread = kThreads[random_bits(seed, step, 1) % 4];
      now.warp_phase = warp_phase[now.thread / 32];
      now.block = random_bits(seed, step, 3) % 8 == 0 ? 1 : 0;
      now.kind = random_bits(seed, step, 2) % 3 == 0 ? AccessKind::write : AccessKind::read;
      bool race = false;
      for (const AccessStamp& then : all) {
        const bool reads = then.kind == AccessKind::read && now.kind == AccessKind::read;
        race = race || (!reads && !ordered(then, now));
      }
      const bool found = shadow.note(4, 4, now).has_value();
      ASSERT_EQ(found, race) << "seed " << seed << ", step " << step;
      races += race ? 1 : 0;
      if (race) break;
      all.push_back(now);
    }
  }
  EXPECT_GT(races, 1000);
}

TEST(AccessShadow, AtomicsRaceWithOthersAlone) {
  AccessShadow shadow(4);
  const AccessStamp first = {.launch = 1, .block = 1, .kind = AccessKind::atomic};
  AccessStamp second = first;
  second.block = 2;
  EXPECT_FALSE(shadow.note(0, 4, first));
  EXPECT_FALSE(shadow.note(0, 4, second));
  AccessStamp read = first;
  read.kind = AccessKind::read;
  EXPECT_TRUE(shadow.note(0, 4, read));
}

TEST(AccessShadow, BytesAndLaunchesApartAreNoRace) {
  AccessShadow shadow(6);
  const AccessStamp write = {.launch = 1, .thread = 0, .kind = AccessKind::write};
  const AccessStamp other = {.launch = 1, .thread = 7, .kind = AccessKind::write};
  EXPECT_FALSE(shadow.note(0, 2, write));
  EXPECT_FALSE(shadow.note(2, 2, other));
  EXPECT_TRUE(shadow.note(3, 2, write));  // into the other's, over the edge of a granule
  AccessStamp later = other;
  later.launch = 2;
  later.block = 5;
  EXPECT_FALSE(shadow.note(0, 6, later));
  AccessStamp block = later;
  block.block = 6;
  EXPECT_TRUE(shadow.note(5, 1, block));  // nothing orders blocks
}

}  // namespace
}  // namespace pagoda::device::emulated
