#include "device_runner/written_memory.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"
#include "device/device_array.h"

namespace pagoda::device_runner {

std::size_t WrittenMemory::size() const {
  std::size_t bytes = 0;
  for (const Part& part : parts_) bytes += part.memory.size();
  return bytes;
}

Status WrittenMemory::copy(Way way, std::span<std::byte> content) const {
  constexpr std::size_t kStage = std::size_t{4} << 20;
  auto stage = device::PinnedArray<std::byte>::create(
      *device_, static_cast<std::int64_t>(std::min(kStage, content.size())));
  if (!stage) return stage.error();
  for (const Part& part : parts_) {
    for (std::size_t at = 0; at < part.memory.size(); at += kStage) {
      const std::span<std::byte> there = part.memory.subspan(at, std::min(kStage, part.memory.size() - at));
      if (way == Way::in) {
        std::memcpy(stage->data(), content.data(), there.size());
        PAGODA_RETURN_IF_ERROR(device_->copy_in(stream_, there.data(), stage->data(), there.size()));
      } else {
        PAGODA_RETURN_IF_ERROR(device_->copy_out(stream_, stage->data(), there.data(), there.size()));
      }
      PAGODA_RETURN_IF_ERROR(device_->synchronize(stream_));
      if (way == Way::out) std::memcpy(content.data(), stage->data(), there.size());
      content = content.subspan(there.size());
    }
  }
  return ok_status();
}

Result<std::vector<std::byte>> WrittenMemory::read() const {
  std::vector<std::byte> content(size());
  PAGODA_RETURN_IF_ERROR(copy(Way::out, content));
  return content;
}

Status WrittenMemory::write(std::span<const std::byte> content) const {
  CHECK(content.size() == size());
  std::vector<std::byte> own(content.begin(), content.end());
  return copy(Way::in, own);
}

std::string WrittenMemory::describe_difference(std::span<const std::byte> one,
                                               std::span<const std::byte> other) const {
  CHECK(one.size() == size() && other.size() == size());
  for (const Part& part : parts_) {
    const auto here = one.first(part.memory.size()), there = other.first(part.memory.size());
    if (const auto [at, _] = std::ranges::mismatch(here, there); at != here.end())
      return concat("other bytes into the ", part.name, " (at ", at - here.begin(), " of ", here.size(), ")");
    one = one.subspan(part.memory.size());
    other = other.subspan(part.memory.size());
  }
  return {};
}

}  // namespace pagoda::device_runner
