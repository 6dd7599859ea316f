#include "device_runner/rank_library.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"

namespace pagoda::device_runner {
namespace {

// The time between two checks of a running step. Each check counts as this much time, however long it was, so
// that a machine that was suspended does not look like a rank that hangs.
constexpr RankTimeout kLook{50};

}  // namespace

Result<std::unique_ptr<RankLibrary>> RankLibrary::create(device::Device& device, device::StreamId stream,
                                                         const ParallelContext& parallel,
                                                         std::int64_t widest) {
  std::unique_ptr<RankLibrary> library(new RankLibrary(device, stream, parallel));
  const std::int64_t half = half_for(widest);
  auto room = device::DeviceArray<float>::create(
      device, device::kWordsOfWindow + (1 + parallel.size()) * half, "parts of ranks");
  if (!room) return room.error();
  library->room_ = *std::move(room);
  PAGODA_RETURN_IF_ERROR(library->begin_group(library->room_.bytes(), half));
  library->ranks_.library = true;
  return library;
}

RankLibrary::~RankLibrary() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ends_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// Makes one exchange of each kind, so that the work of the library's first call is done outside of steps and
// captures.
Status RankLibrary::connect() {
  Communicator& ranks = *parallel_.communicator;
  device::GroupName name;
  std::vector<std::byte> bytes;
  if (parallel_.rank() == 0) {
    auto named = device_.name_group();
    if (!named) return named.error();
    bytes.assign(named->bytes.begin(), named->bytes.end());
  }
  PAGODA_RETURN_IF_ERROR(ranks.broadcast(bytes, name.bytes.size(), kConnectTimeout));
  if (bytes.size() != name.bytes.size()) return corrupt_data("rank 0 runs another version of this program");
  std::ranges::copy(bytes, name.bytes.begin());
  PAGODA_RETURN_IF_ERROR(device_.join_group(name, parallel_.rank(), parallel_.size(), kConnectTimeout));
  thread_ = std::thread([this] { watch(); });
  begin();
  float* const own = room_.data() + device::kWordsOfWindow;
  PAGODA_RETURN_IF_ERROR(device_.gather_of_group(stream_, own, own + ranks_.group.half, 1));
  PAGODA_RETURN_IF_ERROR(device_.sum_over_group(stream_, own, 1));
  return check();
}

void RankLibrary::begin() {
  ++steps_;
  runs_ = true;
}

Status RankLibrary::check() {
  const Status done = device_.synchronize(stream_);
  runs_ = false;
  // The reason, if the group was left in the meantime.
  PAGODA_RETURN_IF_ERROR(device_.group_error());
  return done;
}

void RankLibrary::watch() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (ends_.wait_for(lock, kLook, [this] { return ended_; })) return;
    }
    const Status why = look();
    if (why.ok()) continue;
    device_.leave_group(why);
    return;
  }
}

Status RankLibrary::look() {
  const Progress now = {.steps = steps_.load(), .exchanges = device_.exchanges_done()};
  waited_ = runs_.load() && now == seen_ ? waited_ + kLook : RankTimeout(0);
  seen_ = now;
  if (!runs_.load()) return ok_status();
  PAGODA_RETURN_IF_ERROR(parallel_.communicator->aborted());
  PAGODA_RETURN_IF_ERROR(device_.group_error());
  if (parallel_.timeout == kNoTimeout || waited_ < parallel_.timeout) return ok_status();
  return {StatusCode::deadline_exceeded, concat("a rank did not deliver its part to rank ", parallel_.rank(),
                                                " within ", waited_.count(), " ms")};
}

}  // namespace pagoda::device_runner
