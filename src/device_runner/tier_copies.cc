#include "device_runner/tier_copies.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace pagoda::device_runner {
namespace {

constexpr std::size_t kMostRoomBytes = std::size_t{8} << 20;

}  // namespace

// A lane in exclusive use.
class TierCopies::Taken {
 public:
  explicit Taken(TierCopies& all) : all_(all) {
    std::unique_lock lock(all.mutex_);
    const auto free = [&] { return std::ranges::find(all.lanes_, false, &Lane::taken); };
    all.left_.wait(lock, [&] { return free() != all.lanes_.end(); });
    lane_ = &*free();
    lane_->taken = true;
  }
  ~Taken() {
    const std::lock_guard lock(all_.mutex_);
    lane_->taken = false;
    all_.left_.notify_one();
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  const Lane& lane() const { return *lane_; }

 private:
  TierCopies& all_;
  Lane* lane_;
};

Result<std::unique_ptr<TierCopies>> TierCopies::create(device::Device& device, std::size_t page_bytes,
                                                       std::int32_t most_pages, Address page) {
  CHECK(page_bytes > 0 && most_pages > 0);
  std::unique_ptr<TierCopies> copies(new TierCopies(device, page_bytes, std::move(page)));
  copies->room_pages_ =
      std::clamp<std::size_t>(kMostRoomBytes / page_bytes, 1, static_cast<std::size_t>(most_pages));
  for (Lane& lane : copies->lanes_) {
    auto stream = device.create_stream();
    if (!stream) return stream.error();
    lane.stream = *stream;
    auto room = device::PinnedArray<std::byte>::create(
        device, static_cast<std::int64_t>(copies->room_pages_ * page_bytes));
    if (!room) return room.error();
    lane.room = *std::move(room);
  }
  return copies;
}

template <class Copy>
bool TierCopies::copy(std::span<const BlockId> pages, const Copy& some) {
  const std::shared_lock running(running_);
  const Taken taken(*this);
  for (std::size_t first = 0; first < pages.size(); first += room_pages_)
    if (!some(taken.lane(), pages.subspan(first, std::min(room_pages_, pages.size() - first)),
              first * page_bytes_)
             .ok())
      return false;
  return true;
}

bool TierCopies::read(std::span<const BlockId> pages, std::span<std::byte> to) {
  return copy(pages, [&](const Lane& lane, std::span<const BlockId> some, std::size_t at) -> Status {
    std::byte* const room = lane.room.data();
    for (std::size_t i = 0; i < some.size(); ++i)
      PAGODA_RETURN_IF_ERROR(
          device_->copy_out(lane.stream, room + i * page_bytes_, page_(some[i]), page_bytes_));
    PAGODA_RETURN_IF_ERROR(device_->synchronize(lane.stream));
    std::memcpy(to.data() + at, room, some.size() * page_bytes_);
    return ok_status();
  });
}

bool TierCopies::write(std::span<const BlockId> pages, std::span<const std::byte> from) {
  return copy(pages, [&](const Lane& lane, std::span<const BlockId> some, std::size_t at) -> Status {
    std::byte* const room = lane.room.data();
    std::memcpy(room, from.data() + at, some.size() * page_bytes_);
    for (std::size_t i = 0; i < some.size(); ++i)
      PAGODA_RETURN_IF_ERROR(
          device_->copy_in(lane.stream, page_(some[i]), room + i * page_bytes_, page_bytes_));
    return device_->synchronize(lane.stream);
  });
}

}  // namespace pagoda::device_runner
