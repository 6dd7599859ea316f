#include "engine/engine_thread.h"

#include <algorithm>

#include "base/compute_beats.h"
#include "base/log.h"
#include "base/strings.h"

namespace pagoda {
namespace {
constexpr std::int64_t kSpare = 2;  // factor on max_waiting, for tenants below their share
constexpr std::chrono::milliseconds kRestBeforePreparing{100};
constexpr TimeNs kLiveEndsNs = 5'000'000'000;                                       // without live-view calls
constexpr std::size_t kMaxLiveStates = 1024, kMaxLiveBytes = std::size_t{8} << 20;  // unfetched
const Status kEngineDead = unavailable("The engine has failed; the server must be restarted.");

// Approximate; used for a bound only.
std::size_t bytes_of(const EngineSnapshot& state) {
  return sizeof(EngineSnapshot) + state.requests.size() * sizeof(RequestSnapshot) +
         state.sequences.size() * sizeof(SequenceSnapshot) + state.steps.size() * sizeof(StepSnapshot) +
         state.events.size() * sizeof(EventSnapshot) + state.ended.size() * sizeof(EndedSnapshot) +
         (state.blocks.size() + state.cached.size()) * sizeof(BlockId);
}

std::string name_of(std::int32_t engine) {  // in vLLM's form
  std::string number = std::to_string(engine);
  number.insert(0, number.size() < 3 ? 3 - number.size() : 0, '0');
  return concat("Engine ", number, ": ");
}
}  // namespace

EngineThread::EngineThread(const EngineConfig& config, std::unique_ptr<EngineCore> core)
    : config_(config),
      core_(std::move(core)),
      name_(name_of(config.engine)),
      inbox_(static_cast<std::size_t>(kSpare * config.max_waiting)),
      gate_(config.max_queue_s) {
  core_->on_tier_news([this] { inbox_.push_control(TierNews{}); });
  thread_ = std::thread([this] { loop(); });
}

EngineThread::~EngineThread() { stop(); }

Status EngineThread::submit(Request request, std::shared_ptr<OutputSink> sink) {
  if (!healthy()) return kEngineDead;
  if (draining_.load(std::memory_order_acquire)) return unavailable("The server is shutting down.");
  PAGODA_RETURN_IF_ERROR(core_->validate(request));
  const auto push = [&](Request admitted, std::int64_t waiting, std::int64_t num_tenants) {
    const bool few = facts(config_.scheduling_policy).queue == QueueOrder::turns &&
                     (waiting + 1) * num_tenants <= config_.max_waiting;
    return accept(Submit{std::move(admitted), std::move(sink)},
                  few ? kSpare * config_.max_waiting : config_.max_waiting);
  };
  const Status status = gate_.admit(std::move(request), core_->clock().now(), push);
  if (!status.ok()) core_->metrics().on_refused(status);
  return status;
}

std::optional<EngineThread::Refusal> EngineThread::refuse_unread(std::string_view tenant) {
  if (!healthy() || draining_.load(std::memory_order_acquire)) return std::nullopt;
  auto refused = gate_.refuse_any(tenant, core_->clock().now());
  if (!refused) return std::nullopt;
  core_->metrics().on_refused(refused->first);
  return Refusal{.status = std::move(refused->first), .wait_s = refused->second};
}

double EngineThread::expected_wait(std::string_view tenant, std::int32_t priority) const {
  Request like;
  like.prompt_token_ids = {0};
  like.tenant = tenant;
  like.priority = priority;
  return gate_.expected_wait(like, core_->clock().now());
}

Status EngineThread::accept(Message message, std::int64_t max_waiting) {
  const std::int64_t accepted = num_accepted_.fetch_add(1) + 1;
  if (accepted - num_started_.load() <= max_waiting && inbox_.try_push(std::move(message)))
    return ok_status();
  num_accepted_.fetch_sub(1);
  if (!healthy()) return kEngineDead;
  if (inbox_.closed()) return unavailable("The server is shutting down.");
  return resource_exhausted(
             concat("The queue is full: ", config_.max_waiting, " requests are waiting. Try again later."))
      .with_reason("queue_full");
}

Status EngineThread::add_prefix(std::string name, std::vector<TokenId> tokens,
                                std::shared_ptr<OutputSink> sink) {
  if (!healthy()) return kEngineDead;
  if (draining_.load(std::memory_order_acquire)) return unavailable("The server is shutting down.");
  return accept(AddPrefix{std::move(name), std::move(tokens), std::move(sink)}, config_.max_waiting);
}

Status EngineThread::drop_prefix(const std::string& name) {
  if (!core_->prefixes().hide(name))
    return not_found(concat("There is no prefix with the name \"", name, "\"."));
  inbox_.push_control(DropPrefix{name});
  return ok_status();
}

void EngineThread::abort(RequestId id) { inbox_.push_control(Abort{id}); }

void EngineThread::abort_sequence(RequestId id, std::int32_t index) {
  inbox_.push_control(AbortSequence{id, index});
}

void EngineThread::snapshot(SnapshotDone done) {
  if (!healthy() || !inbox_.push_control(Snapshot{done})) done(kEngineDead);
}

void EngineThread::live_state(std::int64_t seen, LiveDone done) {
  if (!healthy() || !inbox_.push_control(Live{seen, done})) done(kEngineDead);
}

void EngineThread::live_every_step(bool wanted) { inbox_.push_control(LiveEveryStep{wanted}); }

void EngineThread::ask_live(Live&& live) {
  if (live_ == nullptr) {
    live_ = std::make_unique<LiveFeed>();
    core_->add_observer(*live_);
  }
  live_requested_at_ = wall_.now();
  live_asks_.push_back(std::move(live));
}

// Events not taken here stay in the feed and are part of the next snapshot.
void EngineThread::keep_live_state() {
  const auto state = std::make_shared<EngineSnapshot>(core_->snapshot(SnapshotDetail::lean));
  live_->take(*state);
  state->every_step = live_every_step_;
  live_changed_ = false;
  live_step_ = state->step;
  live_bytes_ += bytes_of(*state);
  live_states_.push_back(state);
}

// Answers live-view calls that have news; removes the feed if there have been no calls for a while.
void EngineThread::answer_live() {
  const std::int64_t step = core_->steps().num_steps();
  if (live_every_step_ && live_step_ != step && live_states_.size() < kMaxLiveStates &&
      live_bytes_ < kMaxLiveBytes)
    keep_live_state();
  if (live_asks_.empty()) {
    if (wall_.now() - live_requested_at_ < kLiveEndsNs) return;
    core_->remove_observer(*live_);
    live_.reset();
    live_states_.clear();
    live_bytes_ = 0;
    return;
  }
  const auto waits = [&](const Live& live) { return !live_changed_ && live.seen == step; };
  if (std::ranges::all_of(live_asks_, waits)) return;
  if (live_changed_ || live_states_.empty()) keep_live_state();
  live_bytes_ = 0;
  const LiveStates states = std::exchange(live_states_, {});
  for (const Live& live : std::exchange(live_asks_, {})) live.done(states);
}

void EngineThread::handle(Message&& message) {
  if (handle_control(message) || hold_back(message)) {
    live_changed_ = true;
    return;
  }
  if (auto* submit = std::get_if<Submit>(&message)) {
    const RequestId id = submit->request.id;
    ++num_taken_;
    const Status status = core_->submit(std::move(submit->request), submit->sink);
    if (!status.ok()) fail(id, *submit->sink, status);
  } else if (const auto* abort = std::get_if<Abort>(&message)) {
    core_->abort(abort->id);
  } else if (const auto* sequence = std::get_if<AbortSequence>(&message)) {
    core_->abort_sequence(sequence->id, sequence->index);
  } else if (const auto* snapshot = std::get_if<Snapshot>(&message)) {
    snapshot->done(std::make_shared<const EngineSnapshot>(core_->snapshot(SnapshotDetail::full)));
  } else if (auto* live = std::get_if<Live>(&message)) {
    ask_live(std::move(*live));
    return;
  } else if (const auto* steps = std::get_if<LiveEveryStep>(&message)) {
    live_every_step_ = steps->wanted;
  } else if (auto* add = std::get_if<AddPrefix>(&message)) {
    const Status status = core_->prefixes().add(add->name, std::move(add->tokens), add->sink);
    if (!status.ok()) fail(RequestId{}, *add->sink, status);
  } else if (std::holds_alternative<TierNews>(message)) {
    return;
  } else if (const auto* drop = std::get_if<DropPrefix>(&message)) {
    (void)core_->prefixes().drop(drop->name);  // already gone if two callers drop it at once
  }
  live_changed_ = true;
}

void EngineThread::fail(RequestId id, OutputSink& sink, const Status& error) {
  ++num_refused_late_;
  RequestOutput output;
  output.id = id;
  output.error = error;
  output.finished = true;
  sink.on_output(std::move(output));
}

void EngineThread::publish_progress() {
  num_started_.store(core_->requests().num_started() + num_refused_late_);
  const std::int64_t ended = core_->requests().num_finished() + num_refused_late_;
  if (num_ended_.exchange(ended) == ended) return;
  {
    std::lock_guard lock(idle_mutex_);
  }  // a waiter has not checked yet, or is asleep
  idle_.notify_all();
}

void EngineThread::refuse(Message& message, const Status& error) {
  if (auto* submit = std::get_if<Submit>(&message)) fail(submit->request.id, *submit->sink, error);
  if (auto* add = std::get_if<AddPrefix>(&message)) fail(RequestId{}, *add->sink, error);
  if (auto* snapshot = std::get_if<Snapshot>(&message)) snapshot->done(error);
  if (auto* live = std::get_if<Live>(&message)) live->done(error);
  if (auto* sleep = std::get_if<Sleep>(&message)) sleep->done(error);
  if (auto* wake = std::get_if<WakeUp>(&message)) wake->done(error);
  if (auto* reset = std::get_if<ResetCache>(&message)) reset->done(error);
  if (auto* erase = std::get_if<EraseCached>(&message)) erase->done(error);
}

void EngineThread::loop() {
  count_compute_beats(num_beats_);
  serve();
  const Status failure = core_->status();
  if (!failure.ok()) {
    log_error("engine", concat(name_, "the model runner failed: ", failure.message()));
    die(failure);  // before any client is notified
  }
  core_->on_tier_news(nullptr);
  // The inbox accepts nothing from here on; remaining messages are answered below.
  inbox_.close();
  core_->fail_all(failure.ok() ? unavailable("The server is shutting down.") : failure);
  if (failure.ok() && core_->requests().empty()) core_->step();  // pass the remaining tier moves to the tiers
  const Status error = failure.ok() ? unavailable("The server is shutting down.") : kEngineDead;
  if (falling_asleep_) falling_asleep_->done(error);
  for (Message& message : std::exchange(held_, {})) refuse(message, error);
  for (Message& message : inbox_.drain()) refuse(message, error);
  for (const Live& live : std::exchange(live_asks_, {})) live.done(kEngineDead);
  publish_progress();
}

// Returns false if no more work can come: the inbox is closed, or the runner has failed.
bool EngineThread::wait_for_work() {
  // The next request often arrives at once, and the first one right after startup: both cores are left to it.
  if (const std::optional<bool> ready = inbox_.wait_for(kRestBeforePreparing)) return *ready;
  while (inbox_.size() == 0 && !inbox_.closed() && !core_->asleep() && core_->steps().prepare_ahead()) {
  }
  if (!core_->idle()) {  // asleep or waiting for tiers, with requests left: some may be past their deadline
    core_->steps().heartbeat();
    return !inbox_.closed();
  }
  const std::chrono::milliseconds interval = core_->steps().heartbeat_interval();
  if (interval.count() == 0) return inbox_.wait();
  for (;;) {
    if (const std::optional<bool> ready = inbox_.wait_for(interval)) return *ready;
    core_->steps().heartbeat();
    if (!core_->status().ok()) return false;
  }
}

void EngineThread::serve() {
  // Before any request: learn which rows the tiers have kept.
  if (core_->steps().has_tier_news()) core_->step();
  while (!stopping_.load(std::memory_order_acquire)) {
    num_turns_.fetch_add(1, std::memory_order_relaxed);
    if (core_->idle() || core_->asleep() || !ran_) {
      busy_.store(false, std::memory_order_relaxed);
      const bool more = wait_for_work();
      busy_.store(true, std::memory_order_relaxed);
      if (!more) return;
    }
    for (Message& message : inbox_.drain()) handle(std::move(message));
    gate_.publish(core_->load(), num_taken_);
    ran_ = core_->step();
    if (falling_asleep_) fall_asleep();
    if (core_->idle()) gate_.publish(core_->load(), num_taken_);
    publish_progress();
    if (live_ != nullptr) answer_live();
    if (!core_->status().ok()) return;
    if (!config_.log_stats) continue;
    const auto take = [this] { return core_->snapshot(SnapshotDetail::lean); };
    if (const auto line = stats_log_.line(wall_.now(), take)) log_info("engine", concat(name_, *line));
  }
}

// Keeps the first reason.
void EngineThread::die(const Status& failure) {
  const std::lock_guard lock(failure_mutex_);
  if (failure_.ok()) failure_ = failure;
  dead_.store(true, std::memory_order_release);
}

Status EngineThread::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

std::optional<std::uint64_t> EngineThread::beat() const {
  if (!busy_.load(std::memory_order_relaxed)) return std::nullopt;
  return num_turns_.load(std::memory_order_relaxed) + num_beats_.load(std::memory_order_relaxed);
}

bool EngineThread::wait_idle(std::chrono::milliseconds timeout) {
  std::unique_lock lock(idle_mutex_);
  return idle_.wait_for(lock, timeout, [this] { return num_ended_.load() >= num_accepted_.load(); });
}

void EngineThread::stop() {
  std::lock_guard lock(stop_mutex_);
  draining_.store(true, std::memory_order_release);
  stopping_.store(true, std::memory_order_release);
  inbox_.close();
  if (thread_.joinable()) thread_.join();
}

}  // namespace pagoda
