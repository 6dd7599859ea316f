#include "models/weights/weight_writer.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace pagoda {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kLowest = 19;
constexpr std::chrono::milliseconds kAskAgain{50};  // interval of polling `stop`

std::string seconds_since(Clock::time_point begin) {
  return concat(fixed(std::chrono::duration<double>(Clock::now() - begin).count(), 1), " s");
}

}  // namespace

void WeightWriting::begin() {
  const std::lock_guard lock(mutex_);
  if (begun_) return;
  begun_ = true;
  changed_.notify_all();
}

Status WeightWriting::finish(const std::function<bool(const State&)>& stop) {
  std::unique_lock lock(mutex_);
  begun_ = hurried_ = true;
  changed_.notify_all();
  while (active_ > 0) {
    if (stop(state_)) {
      given_up_ = true;
      changed_.notify_all();
      return {StatusCode::cancelled, "stopped while the weight cache was being written"};
    }
    changed_.wait_for(lock, kAskAgain);
  }
  return failure_;
}

void WeightWriting::watch(std::function<void(const State&)> on_change) {
  const std::lock_guard lock(mutex_);
  on_change_ = std::move(on_change);
  changed();
}

void WeightWriting::changed() {
  if (on_change_) on_change_(state_);
  changed_.notify_all();
}

WeightWriter::WeightWriter(std::shared_ptr<WeightWriting> shared, WeightCache cache, PackedFileHead head,
                           std::vector<WeightPiece> pieces, WritingReport report)
    : shared_(std::move(shared)),
      cache_(std::move(cache)),
      head_(std::move(head)),
      pieces_(std::move(pieces)),
      report_(std::move(report)) {
  for (const WeightPiece& piece : pieces_) bytes_ += static_cast<std::int64_t>(piece.bytes.size());
  {
    const std::lock_guard lock(shared_->mutex_);
    ++shared_->active_;
    shared_->state_.bytes += bytes_;
    shared_->changed();
  }
  thread_ = std::thread([this] { run(); });
}

WeightWriter::~WeightWriter() {
  {
    const std::lock_guard lock(shared_->mutex_);
    cancelled_ = true;
    shared_->changed_.notify_all();
  }
  thread_.join();
}

void WeightWriter::run() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()),
                kLowest);  // for this thread only, including its I/O
  Status status(StatusCode::cancelled, "the weights were released before they were written");
  if (wait_for_begin()) status = write();
  const bool failed = !status.ok() && status.code() != StatusCode::cancelled;
  if (failed) report_.warn(concat("packed weights are not kept on disk: ", status.message()));
  const std::lock_guard lock(shared_->mutex_);
  --shared_->active_;
  shared_->state_.bytes -= bytes_ - written_;
  if (failed) ++shared_->state_.failures;
  if (!status.ok() && shared_->failure_.ok()) shared_->failure_ = std::move(status);
  shared_->changed();
}

bool WeightWriter::wait_for_begin() {
  std::unique_lock lock(shared_->mutex_);
  shared_->changed_.wait_for(lock, WeightWriting::kGrace, [this] { return ends() || shared_->begun_; });
  return !ends();
}

bool WeightWriter::may_write(std::int64_t bytes) {
  std::unique_lock lock(shared_->mutex_);
  shared_->changed_.wait_until(lock, next_, [this] { return ends() || shared_->hurried_; });
  next_ = std::max(next_, Clock::now()) +
          std::chrono::nanoseconds(bytes * 1'000'000'000 / WeightWriting::kBytesPerSecond);
  if (ends()) return false;
  written_ += bytes;
  shared_->state_.written_bytes += bytes;
  if (shared_->on_change_) shared_->on_change_(shared_->state_);
  return true;
}

Status WeightWriter::write() {
  const Clock::time_point begin = Clock::now();
  if (cache_.has(head_.key)) return ok_status();
  auto making = cache_.begin(head_, bytes_);
  if (!making && making.error().code() == StatusCode::unavailable) {
    report_.say("another process is writing these packed weights to disk");
    return ok_status();
  }
  if (!making) return making.error();
  if (cache_.has(head_.key)) return ok_status();
  for (const WeightPiece& piece : pieces_)
    PAGODA_RETURN_IF_ERROR(making->writer().add(piece.recipe, piece.description, piece.bytes,
                                                [this](std::int64_t bytes) { return may_write(bytes); }));
  PAGODA_RETURN_IF_ERROR(cache_.commit(*std::move(making)));
  report_.say(concat("packed weights are on disk for later starts: ", bytes_ >> 20, " MiB, written in ",
                     seconds_since(begin)));
  return ok_status();
}

}  // namespace pagoda
