#pragma once
// Recorder: writes what an engine tells its observer into a run's log (run_log.h). A log that can no longer
// be written is given up with one warning; serving goes on. Threads: the engine thread's; made and destroyed
// when that does not run.
#include <deque>

#include "sim/run_log.h"

namespace pagoda {

class Recorder final : public StepObserver {
 public:
  // Borrows `clock`, the recorded engine's.
  static Result<std::unique_ptr<Recorder>> create(const std::string& path, const RunHeader& header,
                                                  const Clock& clock);
  ~Recorder() override;  // writes the end

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
  // The system's answer to a manager that asked for more pages.
  void on_grant(bool granted) { write(LoggedGrant{granted}); }

 private:
  Recorder(std::unique_ptr<RunLogWriter> writer, const Clock& clock)
      : writer_(std::move(writer)), clock_(clock), start_(clock.now()) {}
  void write(const LogEvent& event) {
    if (writer_) writer_->write(event);
  }

  std::unique_ptr<RunLogWriter> writer_;  // null: given up
  const Clock& clock_;
  const TimeNs start_;
  std::int64_t num_steps_ = 0;
  std::deque<LoggedStep> decisions_;  // for each step in flight
};

}  // namespace pagoda
