// Putting an EngineThread to sleep and waking it: orders from other threads, and requests held back
// meanwhile.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "engine/engine_thread.h"

namespace pagoda {
namespace {
const Status kGone = unavailable("The engine has stopped.");
}  // namespace

void EngineThread::sleep(const SleepOrder& order, ControlDone done) {
  if (!healthy() || !inbox_.push_control(Sleep{order, done})) done(kGone);
}

void EngineThread::wake_up(const WakeOrder& order, ControlDone done) {
  if (!healthy() || !inbox_.push_control(WakeUp{order, done})) done(kGone);
}

void EngineThread::reset_prefix_cache(ControlDone done) {
  if (!healthy() || !inbox_.push_control(ResetCache{done})) done(kGone);
}

void EngineThread::erase_cached(const CacheOwner& owner, ControlDone done) {
  if (!healthy() || !inbox_.push_control(EraseCached{owner, done})) done(kGone);
}

bool EngineThread::handle_control(Message& message) {
  if (auto* sleep = std::get_if<Sleep>(&message)) {
    begin_sleep(std::move(*sleep));
  } else if (auto* reset = std::get_if<ResetCache>(&message)) {
    core_->reset_prefix_cache();
    reset->done(ok_status());
  } else if (auto* erase = std::get_if<EraseCached>(&message)) {
    core_->erase_cached(erase->owner, std::move(erase->done));
  } else if (auto* wake = std::get_if<WakeUp>(&message)) {
    if (falling_asleep_) {
      std::exchange(falling_asleep_, std::nullopt)
          ->done(unavailable("The engine was woken before it slept."));
      hand_over_held();
    }
    busy_.store(false, std::memory_order_relaxed);  // loading weights may take any time
    const Status woken = core_->wake_up(wake->order);
    busy_.store(true, std::memory_order_relaxed);
    sleeping_.store(core_->asleep(), std::memory_order_release);
    if (!woken.ok()) log_error("engine", concat("cannot wake up: ", woken.message()));
    if (!core_->asleep()) log_info("engine", "awake");
    wake->done(woken);
  } else {
    return false;
  }
  return true;
}

void EngineThread::begin_sleep(Sleep&& sleep) {
  if (falling_asleep_) return sleep.done(unavailable("The engine is already going to sleep."));
  if (sleep.order.running == SleepOrder::Running::abort)
    core_->fail_all(unavailable("The server has been put to sleep."));
  falling_asleep_ = std::move(sleep);
  if (falling_asleep_->order.running == SleepOrder::Running::keep || core_->idle() || core_->asleep())
    fall_asleep();
}

// Falls asleep once the engine has finished its work, unless requests are kept.
void EngineThread::fall_asleep() {
  const bool keeps = falling_asleep_->order.running == SleepOrder::Running::keep;
  if (!keeps && !core_->asleep() && !core_->idle()) return end_late_held();
  Sleep sleep = *std::exchange(falling_asleep_, std::nullopt);
  const Status status = core_->sleep(sleep.order.level);
  sleeping_.store(core_->asleep(), std::memory_order_release);
  if (status.ok()) log_info("engine", concat("sleeping, level ", sleep.order.level));
  hand_over_held();
  sleep.done(status);
}

// Holds new requests back while the engine finishes earlier ones before sleeping.
bool EngineThread::hold_back(Message& message) {
  if (!falling_asleep_) return false;
  if (std::holds_alternative<Submit>(message) || std::holds_alternative<AddPrefix>(message)) {
    held_.push_back(std::move(message));
    return true;
  }
  const auto* abort = std::get_if<Abort>(&message);
  if (abort == nullptr) return false;
  const auto place = std::ranges::find_if(held_, [&](const Message& held) {
    const auto* submit = std::get_if<Submit>(&held);
    return submit != nullptr && submit->request.id == abort->id;
  });
  if (place == held_.end()) return false;
  // The core can only end requests that it has taken: submit this one, and abort it at once.
  Message submit = std::move(*place);
  held_.erase(place);
  const std::optional<Sleep> asleep = std::exchange(falling_asleep_, std::nullopt);
  handle(std::move(submit));
  core_->abort(abort->id);
  falling_asleep_ = asleep;
  return true;
}

void EngineThread::hand_over_held() {
  for (Message& message : std::exchange(held_, {})) handle(std::move(message));
}

void EngineThread::end_late_held() {
  const TimeNs now = core_->clock().now();
  std::erase_if(held_, [&](Message& message) {
    auto* submit = std::get_if<Submit>(&message);
    if (submit == nullptr || submit->request.deadline == 0 || submit->request.deadline > now) return false;
    ++num_taken_;
    fail(submit->request.id, *submit->sink,
         Status(StatusCode::deadline_exceeded, "The request's time is up.").with_reason("deadline_exceeded"));
    return true;
  });
}

}  // namespace pagoda
