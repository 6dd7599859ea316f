#pragma once
// FakeEngine, for tests only: answers requests from a separate thread. An answer repeats the prompt's tokens,
// one per step, up to max_tokens. With pause_ms, each step takes that long, so that clients can disconnect in
// the meantime.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "engine/client.h"

namespace pagoda {

class FakeEngine final : public EngineClient {
 public:
  FakeEngine() {
    limits_.max_model_len = 4096;
    limits_.vocab_size = 260;
    thread_ = std::thread([this] { run(); });
  }
  ~FakeEngine() override {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
    if (adder_.joinable()) adder_.join();
  }

  std::atomic<int> pause_ms{0};
  std::atomic<std::size_t> capacity{1000};
  std::atomic<bool> is_healthy{true};
  Status fault;  // cause of its failure; set before is_healthy
  std::atomic<bool> draining{false};
  std::atomic<int> num_aborted{0};
  std::atomic<int> last_adapter{0};  // adapter of the latest request; 0: none
  // Requests end within submit(), with a token and then an error, before the client's connection runs again.
  std::atomic<bool> fails_at_once{false};

  // While held, accepts requests but computes nothing.
  void hold(bool held) {
    {
      std::lock_guard lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }

  // Snapshots are not answered until the test calls answer_snapshots().
  void snapshot(SnapshotDone done) override {
    std::lock_guard lock(mutex_);
    snapshots_.push_back(std::move(done));
  }
  std::size_t num_snapshots() const {
    std::lock_guard lock(mutex_);
    return snapshots_.size();
  }
  void answer_snapshots() {
    std::vector<SnapshotDone> asked;
    {
      std::lock_guard lock(mutex_);
      asked.swap(snapshots_);
    }
    for (const auto& done : asked) done(std::make_shared<const EngineSnapshot>());
  }

  // Sleeps and wakes immediately; records the latest orders.
  void sleep(const SleepOrder& order, ControlDone done) override {
    slept = order;
    sleeping = true;
    done(ok_status());
  }
  void wake_up(const WakeOrder& order, ControlDone done) override {
    woken = order;
    sleeping = false;
    done(ok_status());
  }
  bool is_sleeping() const override { return sleeping; }
  void reset_prefix_cache(ControlDone done) override {
    ++num_resets;
    done(ok_status());
  }
  void erase_cached(const CacheOwner& owner, ControlDone done) override {
    erased = owner;
    ++num_erases;
    done(ok_status());
  }
  CacheOwner erased;
  std::atomic<int> num_erases{0};
  SleepOrder slept;
  WakeOrder woken;
  std::atomic<bool> sleeping{false};
  std::atomic<int> num_resets{0};

  const EngineLimits& limits() const override { return limits_; }
  bool healthy() const override { return is_healthy; }
  Status failure() const override { return fault; }
  std::size_t num_running() const {
    std::lock_guard lock(mutex_);
    return running_.size();
  }

  Status submit(Request request, std::shared_ptr<OutputSink> sink) override {
    last_adapter = request.adapter == nullptr ? 0 : static_cast<int>(request.adapter->id);
    if (draining) return unavailable("The engine is draining.");
    if (fails_at_once) {
      Running running;
      running.request = std::move(request);
      running.over = {false};
      sink->on_output(next_output(running));
      RequestOutput failed;
      failed.id = running.request.id;
      failed.error = invalid_argument("A dead end.");
      failed.finished = true;
      sink->on_output(std::move(failed));
      return {};
    }
    {
      std::lock_guard lock(mutex_);
      if (running_.size() >= capacity) return resource_exhausted("The queue of waiting requests is full.");
      Running running;
      running.request = std::move(request);
      running.sink = std::move(sink);
      running.over.resize(static_cast<std::size_t>(running.request.sampling.n));
      running_.emplace(running.request.id, std::move(running));
    }
    changed_.notify_all();
    return {};
  }
  std::optional<Refusal> refuse_unread(std::string_view tenant) override {
    std::lock_guard lock(mutex_);
    if (tenant != too_late_) return std::nullopt;
    return Refusal{.status = resource_exhausted("Too late.").with_reason("queue_time"), .wait_s = 6.2};
  }
  // From now on, refuses all requests of `tenant` because they would wait too long.
  void refuse_all_of(std::string tenant) {
    std::lock_guard lock(mutex_);
    too_late_ = std::move(tenant);
  }
  void abort(RequestId id) override {
    std::lock_guard lock(mutex_);
    if (const auto it = running_.find(id); it != running_.end() && !std::exchange(it->second.aborted, true))
      ++num_aborted;
    changed_.notify_all();
  }
  void abort_sequence(RequestId id, std::int32_t index) override {
    std::lock_guard lock(mutex_);
    if (const auto it = running_.find(id); it != running_.end())
      it->second.over[static_cast<std::size_t>(index)] = true;
  }

  // The prefix is reported as computed after the pause. A prefix of the single token 0 cannot be pinned.
  Status add_prefix(std::string name, std::vector<TokenId> tokens,
                    std::shared_ptr<OutputSink> sink) override {
    if (draining) return unavailable("The engine is draining.");
    RequestOutput output;
    output.finished = true;
    {
      std::lock_guard lock(mutex_);
      const bool taken = prefixes_.contains(name);
      if (taken) output.error = already_exists("There is one.").with_param("name");
      if (tokens == std::vector<TokenId>{0}) output.error = invalid_argument("No room.").with_param("prompt");
      if (output.error.ok())
        prefixes_[name] = {
            .name = name, .num_tokens = static_cast<std::int32_t>(tokens.size()), .num_blocks = 1};
    }
    if (adder_.joinable()) adder_.join();
    adder_ = std::thread([this, sink = std::move(sink), output = std::move(output)]() mutable {
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
      sink->on_output(std::move(output));
    });
    return {};
  }
  std::vector<PrefixInfo> list_prefixes() const override {
    std::lock_guard lock(mutex_);
    std::vector<PrefixInfo> out;
    for (const auto& [name, info] : prefixes_) out.push_back(info);
    return out;
  }
  Status drop_prefix(const std::string& name) override {
    std::lock_guard lock(mutex_);
    return prefixes_.erase(name) > 0 ? Status() : not_found("There is none.");
  }

 private:
  struct Running {
    Request request;
    std::shared_ptr<OutputSink> sink;
    std::int32_t step = 0;
    bool aborted = false;
    std::vector<bool> over;
  };

  static RequestOutput next_output(Running& running) {
    RequestOutput output;
    output.id = running.request.id;
    const SamplingParams& sampling = running.request.sampling;
    const auto& prompt = running.request.prompt_token_ids;
    ++running.step;
    bool any = false;
    for (std::int32_t i = 0; i < sampling.n; ++i) {
      const auto index = static_cast<std::size_t>(i);
      SequenceDelta delta;
      delta.index = i;
      if (!running.over[index] && !running.aborted) {
        const TokenId token = prompt[static_cast<std::size_t>(running.step) % prompt.size()];
        delta.token_ids = {token};
        if (sampling.logprobs)
          delta.logprobs = {{.chosen = {.token = token, .logprob = -0.25f, .rank = 1}, .top = {}}};
        delta.cumulative_logprob = -0.25 * running.step;
        if (running.step >= sampling.max_tokens) delta.finish_reason = FinishReason::length;
        any = any || !delta.finish_reason;
      } else {
        delta.finish_reason = FinishReason::abort;
      }
      output.deltas.push_back(std::move(delta));
    }
    output.finished = !any;
    return output;
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      const auto may_run = [this] { return ended_ || (!running_.empty() && !held_); };
      if (!may_run()) {
        changed_.wait(lock, may_run);
        continue;
      }
      std::vector<std::pair<std::shared_ptr<OutputSink>, RequestOutput>> outputs;
      for (auto it = running_.begin(); it != running_.end();) {
        RequestOutput output = next_output(it->second);
        const bool last = output.finished;
        outputs.emplace_back(it->second.sink, std::move(output));
        it = last ? running_.erase(it) : std::next(it);
      }
      lock.unlock();
      for (auto& [sink, output] : outputs) sink->on_output(std::move(output));
      outputs.clear();
      if (pause_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
      lock.lock();
    }
  }

  EngineLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Running> running_;
  std::map<std::string, PrefixInfo> prefixes_;
  std::vector<SnapshotDone> snapshots_;
  std::string too_late_;  // a tenant whose requests are all refused
  bool ended_ = false, held_ = false;
  std::thread thread_, adder_;
};

}  // namespace pagoda
