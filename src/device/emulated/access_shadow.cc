#include "device/emulated/access_shadow.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "device/device.h"

namespace pagoda::device::emulated {
namespace {

constexpr std::size_t kGranule = 4;

bool same_warp(const AccessStamp& a, const AccessStamp& b) { return a.thread / kWarp == b.thread / kWarp; }

// True if `then` and `now` are ordered. `then` was recorded earlier.
bool ordered(const AccessStamp& then, const AccessStamp& now) {
  if (then.launch != now.launch) return true;
  if (then.block != now.block) return false;
  return then.thread == now.thread || then.block_phase < now.block_phase ||
         (same_warp(then, now) && then.warp_phase < now.warp_phase);
}

}  // namespace

AccessShadow::AccessShadow(std::size_t bytes) : count_((bytes + kGranule - 1) / kGranule) {
  // calloc: only the used pages of a large shadow become resident. All zeros is a granule without accesses.
  granules_ = static_cast<Granule*>(std::calloc(count_ > 0 ? count_ : 1, sizeof(Granule)));
  CHECK(granules_ != nullptr);
}

AccessShadow::~AccessShadow() { std::free(granules_); }

AccessShadow::AccessShadow(AccessShadow&& other) noexcept
    : granules_(std::exchange(other.granules_, nullptr)), count_(std::exchange(other.count_, 0)) {}

AccessShadow& AccessShadow::operator=(AccessShadow&& other) noexcept {
  std::swap(granules_, other.granules_);
  std::swap(count_, other.count_);
  return *this;
}

void AccessShadow::clear() {
  for (std::size_t i = 0; i < count_; ++i) granules_[i] = {};
}

std::optional<AccessStamp> AccessShadow::note(std::size_t offset, std::size_t size, AccessStamp now,
                                              const IsKnown& known) {
  std::optional<AccessStamp> race;
  for (const std::size_t end = offset + size; offset < end;) {
    const std::size_t begin = offset % kGranule;
    const std::size_t count = std::min(kGranule - begin, end - offset);
    now.bytes = static_cast<std::uint8_t>(((1u << count) - 1) << begin);
    if (const auto found = note(granules_[offset / kGranule], now);
        found && !race && (!known || !known(*found)))
      race = found;
    offset += count;
  }
  return race;
}

// True if all remembered readers precede `now`, in the same launch.
bool AccessShadow::readers_before(const Granule& granule, const AccessStamp& now) {
  const AccessStamp& read = granule.read;
  if (granule.readers == Readers::one) return ordered(read, now);
  if (granule.readers == Readers::of_launch || read.block != now.block) return false;
  return read.block_phase < now.block_phase ||
         (granule.readers == Readers::of_warp && same_warp(read, now) && read.warp_phase < now.warp_phase);
}

std::optional<AccessStamp> AccessShadow::note(Granule& granule, const AccessStamp& now) {
  AccessStamp &write = granule.write, &read = granule.read;
  std::optional<AccessStamp> race;
  const auto overlap = [&](const AccessStamp& then) {
    return then.launch == now.launch && (then.bytes & now.bytes) != 0;
  };
  const bool both_atomic = write.kind == AccessKind::atomic && now.kind == AccessKind::atomic;
  if (overlap(write) && !both_atomic && !ordered(write, now)) race = write;
  if (now.kind != AccessKind::read) {
    if (overlap(read) && !readers_before(granule, now)) race = read;
    write = now;
    return race;
  }
  if (read.launch != now.launch || readers_before(granule, now)) {
    granule.readers = Readers::one;
    read = now;
    return race;
  }
  if (read.block != now.block || granule.readers == Readers::of_launch)
    granule.readers = Readers::of_launch;
  else if (!same_warp(read, now) || granule.readers == Readers::of_block)
    granule.readers = Readers::of_block;
  else
    granule.readers = Readers::of_warp;
  const auto bytes = static_cast<std::uint8_t>(read.bytes | now.bytes);
  read = now;
  read.bytes = bytes;
  return race;
}

}  // namespace pagoda::device::emulated
