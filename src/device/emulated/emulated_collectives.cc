// EmulatedDevice's sums and gathers among ranks, by a library with NCCL's calls that works on host memory,
// such as the tests' fake. A running call waits for the other ranks, as a GPU's kernel would.
#include <utility>

#include "base/strings.h"
#include "device/emulated/emulated_device.h"

namespace pagoda::device::emulated {

Status EmulatedDevice::open_collectives() {
  if (nccl_) return ok_status();
  if (options_.nccl.empty())
    return unavailable("an emulated device has no NCCL (nccl=FILE names a library with its calls)");
  const char* const name = options_.nccl.c_str();
  auto opened = Nccl::open(std::span(&name, 1));
  if (!opened) return opened.error();
  nccl_ = *std::move(opened);
  return ok_status();
}

// A group uses memory of the device, as NCCL's communicators do.
Status EmulatedDevice::join_group(const GroupName& name, std::int32_t rank, std::int32_t size,
                                  std::chrono::milliseconds timeout) {
  constexpr std::size_t kGroupBytes = std::size_t{1} << 20;
  group_size_ = size;
  PAGODA_RETURN_IF_ERROR(nccl_->join(name, rank, size, timeout, [] {}));
  const auto taken = allocate(kGroupBytes, "a group of ranks");
  return taken ? ok_status() : taken.error();
}

Status EmulatedDevice::put_exchange(StreamId stream, std::string_view name, const float* own,
                                    std::int64_t count, float* all, std::int64_t all_count) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(lost_);
  if (!queues_.has(stream)) return lose(concat(name, " in a stream that is none"));
  if (group_size_ == 0 || count <= 0) return lose(concat(name, " of no rank, or of nothing"));
  const auto run = [=, this]() -> Status {
    const DeviceMemory::Open open(memory_);
    for (const auto& [part, floats] :
         {std::pair(own, count), std::pair<const float*, std::int64_t>(all, all_count)})
      if (const std::string wrong = wrong_range(reinterpret_cast<const std::byte*>(part), Side::device,
                                                static_cast<std::size_t>(floats) * sizeof(float));
          !wrong.empty())
        return internal_error(concat("an exchange reads or writes ", floats, " floats ", wrong));
    PAGODA_RETURN_IF_ERROR(own == all ? nccl_->all_reduce(nullptr, all, count)
                                      : nccl_->all_gather(nullptr, own, all, count));
    ++exchanges_;
    return ok_status();
  };
  return put(stream, name, run,
             {reinterpret_cast<std::uintptr_t>(own), reinterpret_cast<std::uintptr_t>(all)});
}

Status EmulatedDevice::sum_over_group(StreamId stream, float* data, std::int64_t count) {
  return put_exchange(stream, "a sum over ranks", data, count, data, count);
}

Status EmulatedDevice::gather_of_group(StreamId stream, const float* own, float* all, std::int64_t count) {
  return put_exchange(stream, "a gather of ranks", own, count, all, count * group_size_);
}

}  // namespace pagoda::device::emulated
