#pragma once
// Recorder: a StepObserver that writes an engine's events to a run log (run_log.h). If the log cannot be
// written any more, the recorder logs one warning and stops writing; serving continues. Threads: the engine
// thread; created and destroyed while that thread is not running.
#include <deque>

#include "sim/run_log.h"

namespace pagoda {

class Recorder final : public StepObserver {
 public:
  // Borrows `clock`, the clock of the recorded engine.
  static Result<std::unique_ptr<Recorder>> create(const std::string& path, const RunHeader& header,
                                                  const Clock& clock);
  ~Recorder() override;  // writes the end record

  void on_submit(const Request& request) override;
  void on_abort(RequestId id) override { write(LoggedAbort{id}); }
  void on_abort_sequence(RequestId id, std::int32_t index) override { write(LoggedAbortSequence{id, index}); }
  void on_add_prefix(const std::string& name, std::span<const TokenId> tokens) override {
    write(LoggedAddPrefix{name, {tokens.begin(), tokens.end()}});
  }
  void on_drop_prefix(const std::string& name) override { write(LoggedDropPrefix{name}); }
  void on_reset_prefix_cache() override { write(LoggedResetCache{}); }
  void on_erase_cached(const CacheOwner& owner) override { write(LoggedEraseCached{owner}); }
  void on_drafts_chosen(SequenceId id, std::span<const TokenId> left) override {
    write(LoggedDrafts{id, {left.begin(), left.end()}});
  }
  void on_scheduled(std::int64_t step, const ScheduledBatch& batch,
                    std::span<SequenceGroup* const> preempted) override;
  void on_step(const StepReport& report) override;
  // The system's answer to a memory manager's request for more pages.
  void on_grant(bool granted) { write(LoggedGrant{granted}); }

 private:
  Recorder(std::unique_ptr<RunLogWriter> writer, const Clock& clock)
      : writer_(std::move(writer)), clock_(clock), start_(clock.now()) {}
  void write(const LogEvent& event) {
    if (writer_) writer_->write(event);
  }

  std::unique_ptr<RunLogWriter> writer_;  // null: writing has stopped
  const Clock& clock_;
  const TimeNs start_;
  std::int64_t num_steps_ = 0;
  std::deque<LoggedStep> decisions_;  // one entry for each step in flight
};

}  // namespace pagoda
