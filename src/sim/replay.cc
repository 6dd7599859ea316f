#include "sim/replay.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "engine/live_feed.h"
#include "sim/virtual_clock.h"

namespace pagoda {
namespace {

// Returns the recorded answers if the batch is the recorded one.
class ReplayRunner final : public ModelRunner {
 public:
  ReplayRunner(VirtualClock& clock, std::int32_t vocab_size) : clock_(clock), vocab_size_(vocab_size) {}

  const LoggedStep* recorded = nullptr;  // the next step to retire; null: none
  std::string difference;
  Status corrupt;

  bool has_tier_news() const override { return recorded != nullptr; }  // the recorded engine ran this step
  std::int32_t max_in_flight() const override {
    return recorded != nullptr && recorded->next_planned ? 2 : 1;
  }

  StepResult run(const ScheduledBatch& batch) override {
    submit(batch);
    return wait();
  }
  void submit(const ScheduledBatch& batch) override {
    Given& given = given_.emplace_back(decisions_of(batch), batch.sequences, StepResult());
    given.result.sequences.resize(batch.sequences.size());
    for (std::size_t i = 0; i < batch.sequences.size(); ++i)
      if (batch.sequences[i].prompt_logprobs >= 0)
        add_prompt_logprobs(batch.sequences[i], given.result.sequences[i]);
  }
  StepResult wait() override {
    const Given given = std::move(given_.front());
    given_.pop_front();
    StepResult out;
    if (recorded == nullptr) {
      out.status = internal_error("the replay is over");
      return out;
    }
    difference = first_difference(*recorded, given.decisions);
    if (!difference.empty() || recorded->failed) {
      out.status = internal_error("the replay ends here");
      return out;
    }
    clock_.advance(recorded->finished - recorded->started);
    out.swap_seconds = recorded->swap_seconds;
    out.tier_news = recorded->tier_news;
    out.sequences = given.result.sequences;
    for (std::size_t i = 0; i < given.sequences.size(); ++i) {
      if (!answer(given.sequences[i], recorded->sequences[i], out.sequences[i])) {
        corrupt = corrupt_data("answers that the model cannot have given");
        out.status = corrupt;
        return out;
      }
    }
    return out;
  }

 private:
  struct Given {
    LoggedStep decisions;
    std::vector<ScheduledSequence> sequences;  // shallow copies
    StepResult result;                         // log-probabilities of prompts
  };
  bool answer(const ScheduledSequence& sequence, const LoggedSequence& from, SequenceResult& out) const {
    if (!sequence.sample) return true;
    const std::size_t num_candidates = sequence.spec.num_candidates;
    // The constraint of a beam may have left fewer candidates.
    const std::size_t wanted = num_candidates + static_cast<std::size_t>(sequence.num_draft_tokens);
    const bool fits = from.beam ? from.tokens.size() <= wanted && !(from.tokens.empty() && from.dead_row < 0)
                                : from.tokens.size() == wanted;
    if (!fits || from.dead_row > sequence.num_draft_tokens) return false;
    out.dead_end = from.dead_row == 0;
    for (std::size_t i = 0; i < from.tokens.size(); ++i) {
      Candidate candidate;
      candidate.token = from.tokens[i];
      if (vocab_size_ > 0 && candidate.token >= vocab_size_) return false;
      if (from.beam) candidate.logprob = from.logprobs[i];
      SequenceResult& row = i < num_candidates ? out : out.after_drafts.emplace_back();
      row.candidates.push_back(candidate);
      row.dead_end = row.dead_end || (from.dead_row > 0 && i >= num_candidates &&
                                      i - num_candidates + 1 == static_cast<std::size_t>(from.dead_row));
    }
    for (const std::int32_t at : from.ends) {
      const auto i = static_cast<std::size_t>(at);
      (i < num_candidates ? out.candidates[i] : out.after_drafts[i - num_candidates].candidates.front())
          .ends = true;
    }
    return true;
  }
  static void add_prompt_logprobs(const ScheduledSequence& sequence, SequenceResult& out) {
    const auto first = static_cast<std::size_t>(sequence.num_computed_tokens);
    const auto prompt = static_cast<std::size_t>(std::max(0, sequence.num_prompt_tokens));
    for (std::size_t i = first; i < first + sequence.tokens.size() && i + 1 < prompt; ++i)
      out.prompt_logprobs.push_back({.chosen = {sequence.all_tokens[i + 1], 0.0f, 0}, .top = {}});
  }

  VirtualClock& clock_;
  const std::int32_t vocab_size_;
  std::deque<Given> given_;
};

// Replaces drafts by the recorded ones where a constraint or a draft model changed them.
class RecordedDrafts final : public DraftProposer {
 public:
  explicit RecordedDrafts(std::unique_ptr<DraftProposer> inner) : inner_(std::move(inner)) {}
  void propose(std::span<const DraftableSequence> sequences, std::int32_t num_decodes) override {
    if (inner_) inner_->propose(sequences, num_decodes);
    for (const DraftableSequence& one : sequences) {
      const auto recorded = next.find(one.sequence->id);
      if (recorded == next.end()) continue;
      std::vector<TokenId>& draft = one.sequence->draft;
      draft = recorded->second;
      if (std::cmp_greater(draft.size(), one.limit)) draft.resize(static_cast<std::size_t>(one.limit));
    }
  }
  void verified(Sequence& sequence, std::int32_t tried, std::int32_t accepted) override {
    if (inner_) inner_->verified(sequence, tried, accepted);
  }
  std::map<SequenceId, std::vector<TokenId>> next;  // drafts of the next step

 private:
  std::unique_ptr<DraftProposer> inner_;
};

class NullSink final : public OutputSink {
 public:
  void on_output(RequestOutput) override {}
};

// Records when a request received its tokens, for the report.
class TimingSink final : public OutputSink {
 public:
  TimingSink(const VirtualClock& clock, ReplayReport& report, std::size_t request, TimeNs arrival)
      : clock_(clock), report_(report), request_(request), arrival_(arrival) {}

  void on_output(RequestOutput output) override {
    std::int64_t tokens = 0;
    bool aborted = !output.error.ok();
    for (const SequenceDelta& delta : output.deltas) {
      tokens += std::ssize(delta.token_ids);
      aborted |= delta.finish_reason == FinishReason::error;
    }
    const TimeNs now = clock_.now();
    ReplayedRequest& request = report_.requests[request_];
    if (tokens > 0) {
      if (last_ == 0)
        report_.ttft.add(to_seconds(now - arrival_));
      else
        report_.inter_token.add(to_seconds(now - last_));
      last_ = now;
      request.asked.output_tokens += static_cast<std::int32_t>(tokens);
      report_.duration_s = std::max(report_.duration_s, to_seconds(now - VirtualClock::kStart));
    }
    if (!output.finished || aborted) return;
    request.completed = last_ != 0;
    if (request.completed) report_.latency.add(to_seconds(now - arrival_));
  }

 private:
  const VirtualClock& clock_;
  ReplayReport& report_;
  const std::size_t request_;
  const TimeNs arrival_;
  TimeNs last_ = 0;
};

class Player final : public StepObserver {
 public:
  static Result<std::unique_ptr<Player>> create(const RunHeader& header, const PartsFactory& make_parts,
                                                ReplayReport& report) {
    auto out = std::make_unique<Player>(report);
    EngineModes modes = header.modes;
    modes.may_create = [&grants = out->grants_](std::int64_t) {
      if (grants.empty()) return true;  // the recorded engine did not ask here: its decisions will differ
      const bool granted = grants.front();
      grants.pop_front();
      return granted;
    };
    PAGODA_ASSIGN_OR_RETURN(auto parts,
                            make_parts(modes, header.engine, header.num_blocks, header.num_swap_blocks));
    auto runner = std::make_unique<ReplayRunner>(out->clock_, header.engine.vocab_size);
    out->runner_ = runner.get();
    parts.runner = std::move(runner);
    out->core_ = std::make_unique<EngineCore>(header.engine, std::move(parts), out->clock_, out->metrics_);
    out->core_->add_observer(*out);
    auto recorded = std::make_unique<RecordedDrafts>(out->core_->steps().drafts().take_proposer());
    out->drafts_ = recorded.get();
    out->core_->steps().drafts().set_proposer(std::move(recorded));
    return out;
  }
  explicit Player(ReplayReport& report) : report_(report) {}
  // Set before the first event. May be empty (no observer).
  void watch(std::function<void(std::shared_ptr<const EngineSnapshot>)> on_live) {
    on_live_ = std::move(on_live);
    if (on_live_) core_->add_observer(live_);
  }
  ~Player() override {
    if (core_) core_->fail_all(unavailable("the replay is over"));
  }

  const std::string& difference() const { return difference_; }
  std::int64_t num_steps() const { return num_steps_; }
  std::int64_t num_requests() const { return num_requests_; }

  Status play(Request& request) {
    ++num_requests_;
    const auto id = static_cast<std::uint64_t>(request.id);
    // The clock starts slightly later than the log.
    const TimeNs arrival = std::max<TimeNs>(1, VirtualClock::kStart + request.arrival_time);
    ReplayedRequest& noted = report_.requests.emplace_back();
    noted.asked.arrival_s = std::max(0.0, to_seconds(request.arrival_time));
    noted.asked.prompt_tokens = static_cast<std::int32_t>(request.prompt_token_ids.size());
    noted.asked.n = request.sampling.n;
    noted.asked.best_of = request.sampling.best_of;
    noted.asked.beam_width = request.sampling.use_beam_search ? request.sampling.width() : 0;
    request.arrival_time = arrival;
    const Status status =
        core_->submit(std::move(request),
                      std::make_shared<TimingSink>(clock_, report_, report_.requests.size() - 1, arrival));
    if (!status.ok())
      return corrupt_data(concat("request ", id, " cannot have been accepted: ", status.message()));
    return ok_status();
  }
  Status play(const LoggedAbort& abort) {
    core_->abort(abort.id);
    return ok_status();
  }
  Status play(const LoggedAbortSequence& abort) {
    core_->abort_sequence(abort.id, abort.index);
    return ok_status();
  }
  Status play(LoggedAddPrefix& prefix) {
    const Status status = core_->prefixes().add(prefix.name, std::move(prefix.tokens), sink_);
    if (!status.ok())
      return corrupt_data(
          concat("prefix \"", prefix.name, "\" cannot have been accepted: ", status.message()));
    return ok_status();
  }
  Status play(const LoggedDropPrefix& prefix) {
    (void)core_->prefixes().drop(prefix.name);
    return ok_status();
  }
  Status play(const LoggedResetCache&) {
    core_->reset_prefix_cache();
    return ok_status();
  }
  Status play(const LoggedEraseCached& erase) {
    core_->erase_cached(erase.owner, [](const Status&) {});
    return ok_status();
  }
  Status play(const LoggedGrant& grant) {
    grants_.push_back(grant.granted);
    return ok_status();
  }
  Status play(LoggedDrafts& drafts) {
    drafts_->next[drafts.id] = std::move(drafts.tokens);
    return ok_status();
  }
  Status play(const LoggedEnd&) { return ok_status(); }

  Status play(const LoggedStep& step) {
    if (!core_->status().ok()) return corrupt_data("a step after the model runner failed");
    if (VirtualClock::kStart + step.started > clock_.now())
      clock_.advance_to(VirtualClock::kStart + step.started);
    runner_->recorded = &step;
    const std::int64_t before = core_->steps().num_steps();
    core_->step();
    runner_->recorded = nullptr;
    if (on_live_) {
      const auto snapshot = std::make_shared<EngineSnapshot>(core_->snapshot(SnapshotDetail::lean));
      live_.take(*snapshot);
      on_live_(snapshot);
    }
    drafts_->next.clear();
    const bool ran = core_->steps().num_steps() > before;
    if (ran) ++num_steps_;
    if (!runner_->corrupt.ok()) return runner_->corrupt;
    std::string what = runner_->difference;
    if (!ran) what = "the recorded engine runs a step, this one has nothing to run";
    if (what.empty() && step.preempted != preempted_) what = describe_preempted(step.preempted);
    if (!what.empty()) difference_ = concat("step ", num_steps_ + (ran ? 0 : 1), ": ", what);
    return ok_status();
  }

 private:
  void on_step(const StepReport& report) override {
    preempted_.clear();
    for (const SequenceGroup* group : report.preempted) preempted_.push_back(group->request.id);
  }
  std::string describe_preempted(const std::vector<RequestId>& recorded) const {
    const auto list = [](const std::vector<RequestId>& ids) {
      std::string out;
      for (const RequestId id : ids) out += concat(out.empty() ? "" : ", ", static_cast<std::uint64_t>(id));
      return out.empty() ? std::string("nobody") : "request " + out;
    };
    return concat("the recorded step preempts ", list(recorded), ", this one ", list(preempted_));
  }

  ReplayReport& report_;
  VirtualClock clock_;
  MetricsRegistry metrics_;
  LiveFeed live_;
  std::function<void(std::shared_ptr<const EngineSnapshot>)> on_live_;
  ReplayRunner* runner_ = nullptr;    // owned by the core
  RecordedDrafts* drafts_ = nullptr;  // owned by the core
  std::unique_ptr<EngineCore> core_;
  std::shared_ptr<NullSink> sink_ = std::make_shared<NullSink>();
  std::deque<bool> grants_;           // for the next step
  std::vector<RequestId> preempted_;  // by the last step
  std::string difference_;
  std::int64_t num_steps_ = 0, num_requests_ = 0;
};

}  // namespace

Result<ReplayReport> replay(const std::string& path, const PartsFactory& make_parts,
                            std::function<void(std::shared_ptr<const EngineSnapshot>)> on_live) {
  PAGODA_ASSIGN_OR_RETURN(auto log, RunLogReader::open(path));
  ReplayReport report;
  report.header = log->header();
  auto player = Player::create(report.header, make_parts, report);
  if (!player) return player.error().annotate(path);
  (*player)->watch(std::move(on_live));
  while (!report.complete) {
    PAGODA_ASSIGN_OR_RETURN(auto event, log->next());
    if (!event) break;
    report.complete = std::holds_alternative<LoggedEnd>(*event);
    const Status status = std::visit([&](auto& e) { return (*player)->play(e); }, *event);
    if (!status.ok())
      return corrupt_data(concat(path, ": record ", log->num_records(), ": ", status.message()));
    report.num_steps = (*player)->num_steps();
    report.num_requests = (*player)->num_requests();
    report.difference = (*player)->difference();
    if (!report.difference.empty()) break;
  }
  player->reset();  // ends the remaining requests, which updates the report
  return report;
}

}  // namespace pagoda
