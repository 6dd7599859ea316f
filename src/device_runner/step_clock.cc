#include "device_runner/step_clock.h"

#include <utility>

#include "device/kernel_table.h"

namespace pagoda::device_runner {

Result<std::unique_ptr<StepClock>> StepClock::create(device::Device& device, device::StreamId stream) {
  std::unique_ptr<StepClock> clock(new StepClock(device, stream));
  auto there = device::DeviceArray<std::uint64_t>::create(device, 2, "times of steps");
  if (!there) return there.error();
  auto here = device::PinnedArray<std::uint64_t>::create(device, 4);
  if (!here) return here.error();
  clock->there_ = *std::move(there);
  clock->here_ = *std::move(here);
  return clock;
}

Status StepClock::note(std::size_t which) {
  return device::launch(*device_, stream_, device::kernel(*device_, device::KernelId::note_time),
                        {.grid = {}, .block = {device::kWarp}},
                        device::NoteTimeArgs{.time = there_.data() + which});
}

Status StepClock::note_end(std::size_t slot) {
  ended_[slot] = true;
  PAGODA_RETURN_IF_ERROR(note(1));
  constexpr std::size_t kBytes = 2 * sizeof(std::uint64_t);
  return device_->copy_out(stream_, here_.bytes() + slot * kBytes, there_.bytes(), kBytes);
}

std::optional<double> StepClock::take_idle(std::size_t slot) {
  const std::optional<std::uint64_t> before = std::exchange(last_end_, std::nullopt);
  if (!std::exchange(ended_[slot], false)) return std::nullopt;
  const std::uint64_t begin = here_.data()[2 * slot], end = here_.data()[2 * slot + 1];
  last_end_ = end;
  if (!before) return std::nullopt;
  return 1e-9 * static_cast<double>(static_cast<std::int64_t>(begin - *before));
}

}  // namespace pagoda::device_runner
