#include "server/live_desk.h"

#include <openssl/rand.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/strings.h"
#include "page/live_frames.h"

namespace pagoda {
namespace {

constexpr std::chrono::milliseconds kBetweenFrames{100};
constexpr std::chrono::milliseconds kLookAround{250};  // for new readers, while the engine is idle
constexpr std::size_t kStepsRoom = 8;                  // factor on max_pending for readers of every step

std::string draw_boot() {
  unsigned char bytes[8];
  CHECK(RAND_bytes(bytes, sizeof bytes) == 1);
  std::string out;
  for (const unsigned char byte : bytes)
    out.append({"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]});
  return out;
}

std::string event(std::string frame) { return concat("data: ", frame, "\n\n"); }

}  // namespace

bool LiveReader::take(std::string& out) {
  std::lock_guard lock(mutex_);
  out.append(pending_);
  pending_.clear();
  return !ended_;
}

LiveDesk::LiveDesk(EngineClient& engine, std::size_t max_readers, std::size_t max_pending)
    : engine_(engine), max_readers_(max_readers), max_pending_(max_pending), boot_(draw_boot()) {}

LiveDesk::~LiveDesk() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<std::shared_ptr<LiveReader>> LiveDesk::subscribe(LivePace pace, std::function<void()> ring) {
  auto reader = std::make_shared<LiveReader>();
  reader->pace_ = pace;
  reader->ring_ = std::move(ring);
  std::lock_guard lock(mutex_);
  std::erase_if(readers_, [](const auto& known) { return known.expired(); });
  if (readers_.size() >= max_readers_)
    return resource_exhausted(
               concat("The live view already has ", readers_.size(), " readers; close one of them."))
        .with_reason("live_readers");
  readers_.push_back(reader);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  wake_.notify_all();
  return reader;
}

std::vector<std::shared_ptr<LiveReader>> LiveDesk::readers() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<LiveReader>> out;
  for (const auto& known : readers_)
    if (auto reader = known.lock()) out.push_back(std::move(reader));
  return out;
}

void LiveDesk::ask(std::int64_t seen) {
  engine_.live_state(seen, [answer = answer_](Result<EngineClient::LiveStates> states) {
    std::lock_guard lock(answer->mutex);
    answer->states.emplace(std::move(states));
    answer->arrived.notify_all();
  });
}

std::optional<Result<EngineClient::LiveStates>> LiveDesk::wait_a_while() {
  std::unique_lock lock(answer_->mutex);
  (void)answer_->arrived.wait_for(lock, kLookAround, [this] { return answer_->states.has_value(); });
  return std::exchange(answer_->states, std::nullopt);
}

// The fastest pace that any reader wants.
void LiveDesk::choose_pace() {
  LivePace wanted = LivePace::tenths;
  for (const std::shared_ptr<LiveReader>& reader : readers()) wanted = std::max(wanted, reader->pace_);
  if (std::exchange(pace_, wanted) == wanted) return;
  every_step_ = false;
  engine_.live_every_step(wanted == LivePace::every_step);
}

// A reader that has too much pending, or nothing yet, gets a new snapshot. A reader of every step starts only
// once the engine delivers every step.
void LiveDesk::publish(const State& before, const State& after) {
  const bool changed = before != after && (before == nullptr || !live_unchanged(*before, *after));
  if (changed) ++number_;
  std::string delta, greeting;
  for (const std::shared_ptr<LiveReader>& reader : readers()) {
    std::lock_guard lock(reader->mutex_);
    const bool steps = reader->pace_ == LivePace::every_step;
    if (reader->wants_snapshot_ && steps && !every_step_) continue;
    const std::size_t room = max_pending_ * (steps ? kStepsRoom : 1);
    if (reader->wants_snapshot_ || before == nullptr || reader->pending_.size() > room) {
      if (greeting.empty())
        greeting = event(live_hello(*after, boot_)) + event(live_snapshot(*after, number_));
      reader->pending_ = greeting;
      reader->wants_snapshot_ = false;
    } else if (changed) {
      if (delta.empty()) delta = event(live_delta(*before, *after, number_));
      reader->pending_.append(delta);
    } else {
      continue;
    }
    reader->news_ = true;
  }
}

void LiveDesk::ring() {
  for (const std::shared_ptr<LiveReader>& reader : readers()) {
    {
      std::lock_guard lock(reader->mutex_);
      if (!std::exchange(reader->news_, false)) continue;
    }
    reader->ring_();
  }
}

void LiveDesk::end_all() {
  for (const std::shared_ptr<LiveReader>& reader : readers()) {
    {
      std::lock_guard lock(reader->mutex_);
      reader->ended_ = true;
    }
    reader->ring_();
  }
}

void LiveDesk::run() {
  State last;
  bool asked = false;  // a request is pending; until it is answered, `last` is current
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const auto someone = [this] {
        return std::ranges::any_of(readers_, [](const auto& known) { return !known.expired(); });
      };
      while (!stopping_ && !someone()) {
        if (!asked) last = nullptr;
        wake_.wait(lock);
      }
      if (stopping_) break;
    }
    choose_pace();
    if (!std::exchange(asked, true)) ask(last == nullptr ? -1 : last->step);
    const std::optional<Result<EngineClient::LiveStates>> states = wait_a_while();
    if (!states) {
      if (last != nullptr) publish(last, last);  // for readers that subscribed in the meantime
      ring();
      continue;
    }
    if (!*states) break;
    asked = false;
    for (const State& state : **states) {
      every_step_ = state->every_step;
      publish(std::exchange(last, state), state);
    }
    ring();
    std::unique_lock lock(mutex_);
    (void)wake_.wait_for(lock, kBetweenFrames, [this] { return stopping_; });
  }
  end_all();
}

}  // namespace pagoda
