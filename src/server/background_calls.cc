#include "server/background_calls.h"

#include <utility>

namespace pagoda {
namespace {
constexpr std::size_t kPiece = std::size_t{64} << 10;
}

BackgroundCalls::BackgroundCalls(EngineClient& engine, std::size_t max_calls)
    : engine_(engine), max_calls_(max_calls), thread_([this] { run(); }) {}

BackgroundCalls::~BackgroundCalls() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Status BackgroundCalls::start(ApiGeneration call, MemoryReservation memory, std::uint64_t first_id,
                              TimeNs now, TimeNs deadline, std::function<void(const Generation&)> ended) {
  const std::string id = call.id;
  auto generation =
      std::make_shared<Generation>(std::move(call), engine_, std::move(memory), [this, id] { wake(id); });
  Status started;
  {
    const std::lock_guard lock(mutex_);
    if (calls_.size() + num_starting_ >= max_calls_)
      started = resource_exhausted("Too many background requests are running; please try again later.");
    else
      ++num_starting_;
  }
  if (!started.ok()) {
    generation->fail(started);
    return started;
  }
  started = generation->start(first_id, now, deadline);
  if (!started.ok()) {
    generation->fail(started);
    const std::lock_guard lock(mutex_);
    --num_starting_;
    return started;
  }
  // Wakes the call once, since wake() ignores calls that are not listed yet.
  {
    const std::lock_guard lock(mutex_);
    --num_starting_;
    calls_[id] = {.generation = std::move(generation), .ended = std::move(ended)};
    woken_.push_back(id);
  }
  changed_.notify_one();
  return {};
}

void BackgroundCalls::wake(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    const auto call = calls_.find(id);
    if (call == calls_.end() || std::exchange(call->second.woken, true)) return;
    woken_.push_back(id);
  }
  changed_.notify_one();
}

bool BackgroundCalls::cancel(std::string_view id) {
  {
    const std::lock_guard lock(mutex_);
    const auto call = calls_.find(id);
    if (call == calls_.end()) return false;
    call->second.cancelled = true;
    woken_.emplace_back(id);
  }
  changed_.notify_one();
  return true;
}

void BackgroundCalls::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !woken_.empty(); });
    if (stopping_) break;
    const std::string id = std::move(woken_.front());
    woken_.pop_front();
    const auto call = calls_.find(id);
    if (call == calls_.end()) continue;
    call->second.woken = false;
    const bool cancelled = call->second.cancelled;
    const std::shared_ptr<Generation> generation = call->second.generation;
    lock.unlock();
    std::string dropped;
    const bool more = !cancelled && generation->pump(dropped, kPiece);
    const bool over = cancelled || (!more && generation->finished());
    if (over) generation->cancel();
    lock.lock();
    if (more && !std::exchange(calls_[id].woken, true)) woken_.push_back(id);  // after the others
    if (!over) continue;
    Call ended = std::move(calls_[id]);
    calls_.erase(id);
    lock.unlock();
    if (ended.ended) ended.ended(*generation);
    ended = {};
    lock.lock();
  }
  std::map<std::string, Call, std::less<>> rest;
  rest.swap(calls_);
  lock.unlock();
  for (auto& [id, call] : rest) call.generation->cancel();
}

}  // namespace pagoda
