#include "engine/engine_thread.h"

#include "base/log.h"
#include "base/strings.h"

namespace pagoda {
namespace {
constexpr TimeNs kLogIntervalNs = 10'000'000'000;
constexpr std::chrono::milliseconds kRestBeforePreparing{100};
const Status kEngineDead = unavailable("The engine has failed; the server must be restarted.");
}  // namespace

EngineThread::EngineThread(const EngineConfig& config, std::unique_ptr<EngineCore> core)
    : config_(config),
      core_(std::move(core)),
      inbox_(static_cast<std::size_t>(config.max_waiting)),
      gate_(config.max_queue_s) {
  thread_ = std::thread([this] { loop(); });
}

EngineThread::~EngineThread() { stop(); }

Status EngineThread::submit(Request request, std::shared_ptr<OutputSink> sink) {
  if (!healthy()) return kEngineDead;
  if (draining_.load(std::memory_order_acquire)) return unavailable("The server is shutting down.");
  PAGODA_RETURN_IF_ERROR(core_->validate(request));
  const Status status = gate_.admit(std::move(request), core_->clock().now(), [&](Request admitted) {
    return accept(Submit{std::move(admitted), std::move(sink)});
  });
  if (!status.ok()) core_->metrics().on_refused(status);
  return status;
}

double EngineThread::expected_wait(std::string_view tenant, std::int32_t priority) const {
  Request like;
  like.prompt_token_ids = {0};
  like.tenant = tenant;
  like.priority = priority;
  return gate_.expected_wait(like, core_->clock().now());
}

Status EngineThread::accept(Message message) {
  const std::int64_t accepted = num_accepted_.fetch_add(1) + 1;
  if (accepted - num_started_.load() <= config_.max_waiting && inbox_.try_push(std::move(message)))
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
  return accept(AddPrefix{std::move(name), std::move(tokens), std::move(sink)});
}

Status EngineThread::drop_prefix(const std::string& name) {
  if (!core_->hide_prefix(name)) return not_found(concat("There is no prefix of the name \"", name, "\"."));
  inbox_.push_control(DropPrefix{name});
  return ok_status();
}

void EngineThread::abort(RequestId id) { inbox_.push_control(Abort{id}); }

void EngineThread::abort_sequence(RequestId id, std::int32_t index) {
  inbox_.push_control(AbortSequence{id, index});
}

void EngineThread::debug_snapshot(std::function<void(Result<DebugSnapshot>)> done) {
  if (!healthy() || !inbox_.push_control(Snapshot{done})) done(kEngineDead);
}

void EngineThread::handle(Message&& message) {
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
    snapshot->done(core_->debug_snapshot());
  } else if (auto* add = std::get_if<AddPrefix>(&message)) {
    const Status status = core_->add_prefix(add->name, std::move(add->tokens), add->sink);
    if (!status.ok()) fail(RequestId{}, *add->sink, status);
  } else if (const auto* drop = std::get_if<DropPrefix>(&message)) {
    (void)core_->drop_prefix(drop->name);  // gone already when two drop it at once
  }
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
  num_started_.store(core_->num_started() + num_refused_late_);
  const std::int64_t ended = core_->num_finished() + num_refused_late_;
  if (num_ended_.exchange(ended) == ended) return;
  {
    std::lock_guard lock(idle_mutex_);
  }  // a waiter is before its check, or asleep
  idle_.notify_all();
}

void EngineThread::loop() {
  serve();
  const Status failure = core_->status();
  if (!failure.ok()) {
    log_error("engine", concat("the model runner failed: ", failure.message()));
    dead_.store(true, std::memory_order_release);  // before anyone is told
  }
  // From here on nobody can put anything in; what is in gets its answer.
  inbox_.close();
  core_->fail_all(failure.ok() ? unavailable("The server is shutting down.") : failure);
  for (Message& message : inbox_.drain()) {
    const Status error = failure.ok() ? unavailable("The server is shutting down.") : kEngineDead;
    if (auto* submit = std::get_if<Submit>(&message)) fail(submit->request.id, *submit->sink, error);
    if (auto* add = std::get_if<AddPrefix>(&message)) fail(RequestId{}, *add->sink, error);
    if (auto* snapshot = std::get_if<Snapshot>(&message)) snapshot->done(error);
  }
  publish_progress();
}

// False when there will be none: the inbox is closed, or the runner is lost.
bool EngineThread::wait_for_work() {
  // The next request often comes at once, the first one right after the start: it has both cores.
  if (const std::optional<bool> ready = inbox_.wait_for(kRestBeforePreparing)) return *ready;
  while (inbox_.size() == 0 && !inbox_.closed() && core_->prepare_ahead()) {
  }
  const std::chrono::milliseconds interval = core_->heartbeat_interval();
  if (interval.count() == 0) return inbox_.wait();
  for (;;) {
    if (const std::optional<bool> ready = inbox_.wait_for(interval)) return *ready;
    core_->heartbeat();
    if (!core_->status().ok()) return false;
  }
}

void EngineThread::serve() {
  while (!stopping_.load(std::memory_order_acquire)) {
    if (core_->idle() && !wait_for_work()) return;
    for (Message& message : inbox_.drain()) handle(std::move(message));
    gate_.publish(core_->load(), num_taken_);
    core_->step();
    if (core_->idle()) gate_.publish(core_->load(), num_taken_);
    publish_progress();
    if (!core_->status().ok()) return;
    log_stats();
  }
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

void EngineThread::log_stats() {
  if (!config_.log_stats) return;
  const TimeNs now = wall_.now();
  if (last_log_ == 0 || (now - last_log_ >= 2 * kLogIntervalNs)) {  // first step, or first after idling
    last_log_ = now;
    logged_prompt_tokens_ = core_->metrics().prompt_tokens();
    logged_generation_tokens_ = core_->metrics().generation_tokens();
    logged_cache_ = core_->kv().prefix_cache_stats();
    return;
  }
  if (now - last_log_ < kLogIntervalNs) return;
  const double seconds = to_seconds(now - last_log_);
  const double prompt = core_->metrics().prompt_tokens(), generation = core_->metrics().generation_tokens();
  const SchedulerCounts counts = core_->scheduler().counts();
  const KvManager& kv = core_->kv();
  const PrefixCacheStats cache = kv.prefix_cache_stats();
  const std::int64_t queries = cache.queries - logged_cache_.queries, hits = cache.hits - logged_cache_.hits;
  log_info(
      "engine",
      concat("Avg prompt throughput: ", fixed((prompt - logged_prompt_tokens_) / seconds, 1),
             " tokens/s, Avg generation throughput: ",
             fixed((generation - logged_generation_tokens_) / seconds, 1), " tokens/s, Running: ",
             counts.running_groups, " reqs, Waiting: ", counts.waiting_groups, " reqs, KV cache usage: ",
             fixed(100.0 * (1.0 -
                            static_cast<double>(kv.num_free_blocks()) / static_cast<double>(kv.num_blocks())),
                   1),
             "%, Prefix cache hit rate: ",
             fixed(queries > 0 ? 100.0 * static_cast<double>(hits) / static_cast<double>(queries) : 0.0, 1),
             "%"));
  last_log_ = now;
  logged_prompt_tokens_ = prompt;
  logged_generation_tokens_ = generation;
  logged_cache_ = cache;
}

}  // namespace pagoda
