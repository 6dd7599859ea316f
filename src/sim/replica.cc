#include "sim/replica.h"

#include <algorithm>
#include <utility>

#include "base/assign_or_return.h"
#include "base/check.h"
#include "base/random.h"

namespace pagoda {
namespace {

void add(const MapStats& from, MapStats& to) {
  to.calls += from.calls;
  to.pages += from.pages;
  to.calls_ahead += from.calls_ahead;
  to.pages_ahead += from.pages_ahead;
  to.seconds += from.seconds;
  to.seconds_ahead += from.seconds_ahead;
  to.steps_delayed += from.steps_delayed;
}

}  // namespace

// Receives one request's tokens and records their times.
class Replica::Sink final : public OutputSink {
 public:
  Sink(Replica& replica, SimulatedOutcome outcome, std::int64_t uncached_tokens)
      : replica_(replica), outcome_(std::move(outcome)), uncached_tokens_(uncached_tokens) {
    replica_.uncached_tokens_ += uncached_tokens_;
  }
  ~Sink() override { replica_.uncached_tokens_ -= uncached_tokens_; }

  void on_output(RequestOutput output) override {
    CHECK(!finished_);
    std::int64_t tokens = 0;
    std::string_view reason = "abort";
    for (const SequenceDelta& delta : output.deltas) {
      tokens += std::ssize(delta.token_ids);
      if (delta.finish_reason && *delta.finish_reason != FinishReason::abort)
        reason = finish_reason_name(*delta.finish_reason);
      if (static_cast<std::size_t>(delta.index) >= lengths_.size())
        lengths_.resize(static_cast<std::size_t>(delta.index) + 1);
      lengths_[static_cast<std::size_t>(delta.index)] += static_cast<std::int32_t>(delta.token_ids.size());
    }
    const TimeNs now = replica_.now();
    if (tokens > 0) {
      outcome_.output_tokens += tokens;
      if (last_ == 0)
        outcome_.first_token_s = seconds_since_start(now);
      else
        replica_.sums_.inter_token.add(to_seconds(now - last_));
      last_ = now;
    }
    outcome_.cached_tokens = output.num_cached_tokens;
    if (!output.finished) return;
    finished_ = true;
    replica_.uncached_tokens_ -= std::exchange(uncached_tokens_, 0);
    outcome_.finish_s = seconds_since_start(now);
    if (!lengths_.empty()) outcome_.longest_output = *std::ranges::max_element(lengths_);
    if (!output.error.ok()) reason = "error";
    replica_.finish(outcome_, reason);
  }

 private:
  Replica& replica_;
  SimulatedOutcome outcome_;
  std::int64_t uncached_tokens_;
  std::vector<std::int32_t> lengths_;  // by answer
  TimeNs last_ = 0;
  bool finished_ = false;
};

Replica::Replica(const SimulationOptions& options, std::int32_t number,
                 std::function<void(const SimulatedOutcome&)> on_outcome)
    : options_(options), number_(number), on_outcome_(std::move(on_outcome)) {}

Replica::~Replica() = default;

Result<std::unique_ptr<Replica>> Replica::create(const SimulationOptions& options, std::int32_t number,
                                                 std::function<void(const SimulatedOutcome&)> on_outcome,
                                                 decltype(SimulationCallbacks::on_step) on_step) {
  std::unique_ptr<Replica> out(new Replica(options, number, std::move(on_outcome)));
  out->on_step_ = std::move(on_step);
  EngineConfig config = options.engine;
  config.seed = random_bits(config.seed, 0, static_cast<std::uint64_t>(number));
  config.log_stats = false;
  PAGODA_ASSIGN_OR_RETURN(
      auto parts, options.make_parts(options.modes, config, options.num_blocks, options.num_swap_blocks));
  auto runner = std::make_unique<SimulatedModelRunner>(
      options.cost, config.kv_groups.value_or(one_full_group(config.block_size)), out->clock_, config.seed,
      reads_through_block_tables(options.modes), options.map_tensors, options.tiers);
  out->runner_ = runner.get();
  parts.runner = std::move(runner);
  out->core_ = std::make_unique<EngineCore>(config, std::move(parts), out->clock_, out->metrics_);
  out->core_->add_observer(*out);
  if (options.on_live && number == 0) {
    out->live_ = std::make_unique<LiveFeed>();
    out->core_->add_observer(*out->live_);
  }
  return out;
}

void Replica::move_clock_to(TimeNs time) {
  if (time > clock_.now()) clock_.advance_to(time);
}

void Replica::submit(Request request, TimeNs time, SimulatedOutcome count_as, std::int64_t uncached_tokens) {
  if (core_->idle()) move_clock_to(time);
  count_as.replica = number_;
  request.arrival_time = time;
  const SimulatedOutcome refused = count_as;
  const std::int64_t waiting = core_->requests().num_waiting();
  Status status = ok_status();
  if (waiting >= options_.engine.max_waiting)
    status = resource_exhausted("The queue is full.");
  else if (request.deadline != 0 || options_.engine.max_queue_s > 0)
    status = check_in_time(core_->load(), request, now(), options_.engine.max_queue_s);
  if (status.ok())
    status = core_->submit(std::move(request),
                           std::make_shared<Sink>(*this, std::move(count_as), uncached_tokens));
  if (status.ok()) return;
  SimulatedOutcome outcome = refused;
  outcome.finish_s = outcome.arrival_s;
  finish(outcome, "refused");
}

void Replica::abort(RequestId id, TimeNs time) {
  if (core_->idle()) return;
  move_clock_to(time);
  core_->abort(id);
}

void Replica::abort_sequence(RequestId id, std::int32_t index, TimeNs time) {
  if (core_->idle()) return;
  move_clock_to(time);
  core_->abort_sequence(id, index);
}

void Replica::pin_or_drop_prefix(std::int32_t num_tokens) {
  class NullSink final : public OutputSink {
    void on_output(RequestOutput) override {}
  };
  const std::string name = "fault";
  if (std::exchange(prefix_asked_for_, !prefix_asked_for_)) {
    (void)core_->prefixes().drop(name);  // it may never have been pinned
    return;
  }
  std::vector<TokenId> tokens(static_cast<std::size_t>(num_tokens), 1);
  (void)core_->prefixes().add(name, std::move(tokens), std::make_shared<NullSink>());
}

void Replica::step() {
  if (options_.faults) {
    const SimulatedFaults& faults = *options_.faults;
    const auto stream = static_cast<std::uint64_t>(number_) + 100;
    const auto draw = [&] { return random_uniform(faults.seed, stream, ++fault_draws_); };
    if (draw() < faults.stall_share) runner_->stall(static_cast<TimeNs>(draw() * faults.max_stall_s * 1e9));
    if (draw() < faults.failure_share) runner_->fail_next();
  }
  core_->step();
  if (live_ != nullptr) {
    const auto snapshot = std::make_shared<EngineSnapshot>(core_->snapshot(SnapshotDetail::lean));
    live_->take(*snapshot);
    options_.on_live(snapshot);
  }
  if (options_.check_invariants && core_->status().ok()) core_->check_invariants();
  if (!core_->status().ok()) core_->fail_all(core_->status());
}

void Replica::on_step(const StepReport& report) {
  if (on_step_) on_step_(report, report.refs);
  const auto sequences = static_cast<double>(report.batch.sequences.size());
  double requests = 0;
  const SequenceGroup* last = nullptr;
  for (const ScheduledRef& ref : report.refs) {  // the entries of a group are adjacent
    requests += ref.group != last ? 1 : 0;
    last = ref.group;
  }
  const double seconds = to_seconds(report.finished - report.started);
  const double waiting = static_cast<double>(core_->requests().num_waiting());
  ++sums_.num_steps;
  add(report.result.mapping, sums_.mapping);
  sums_.computed_tokens += report.batch.num_tokens;
  totals_.steps += 1;
  totals_.seconds += seconds;
  totals_.sequences += sequences;
  totals_.sequence_seconds += sequences * seconds;
  totals_.requests += requests;
  totals_.request_seconds += requests * seconds;
  totals_.waiting_seconds += waiting * seconds;
  const KvManager& kv = core_->kv();
  const double usage = 1 - static_cast<double>(kv.num_free_blocks()) /
                               static_cast<double>(std::max<std::int64_t>(1, kv.num_blocks()));
  timeline_.add(seconds_since_start(report.started), seconds_since_start(report.finished), requests, waiting,
                usage);
}

void Replica::on_usage(const KvUsage& usage) {
  if (usage.blocks_in_use == 0) return;
  totals_.token += static_cast<double>(usage.token_slots);
  totals_.reserved += static_cast<double>(usage.reserved_slots);
  totals_.internal += static_cast<double>(usage.internal_slots);
  totals_.external += static_cast<double>(usage.external_slots);
  totals_.in_use += static_cast<double>(usage.allocated_slots);
  totals_.total += static_cast<double>(usage.total_slots);
  totals_.saved += static_cast<double>(usage.blocks_without_sharing - usage.blocks_in_use);
  totals_.without_sharing += static_cast<double>(usage.blocks_without_sharing);
}

void Replica::finish(SimulatedOutcome& outcome, std::string_view reason) {
  outcome.reason = reason;
  if (outcome.first_token_s > 0) outcome.first_token_s += options_.cost.outside_s;
  outcome.finish_s += options_.cost.outside_s;
  sums_.duration_s = std::max(sums_.duration_s, outcome.finish_s);
  sums_.output_tokens += outcome.output_tokens;
  sums_.cached_tokens += outcome.cached_tokens;
  if (reason == "refused") {
    ++sums_.refused;
  } else if (reason == "abort") {
    ++sums_.aborted;
  } else if (reason == "error") {
    ++sums_.failed;
  } else {
    ++sums_.completed;
    sums_.prompt_tokens += outcome.prompt_tokens;
    const double latency = outcome.finish_s - outcome.arrival_s;
    sums_.latency.add(latency);
    sums_.ttft.add(outcome.first_token_s - outcome.arrival_s);
    sums_.normalized_latency.add(outcome.normalized_latency_s());
    if (outcome.longest_output > 1)
      sums_.tpot.add((outcome.finish_s - outcome.first_token_s) / (outcome.longest_output - 1));
  }
  if (on_outcome_) on_outcome_(outcome);
}

SimulationSummary summarize(const std::vector<std::unique_ptr<Replica>>& replicas) {
  SimulationSummary out;
  decltype(Replica::totals_) totals;
  for (const auto& replica : replicas) {
    const SimulationSummary& sums = replica->sums_;
    out.completed += sums.completed;
    out.aborted += sums.aborted;
    out.failed += sums.failed;
    out.refused += sums.refused;
    out.unfinished += replica->load().requests;
    out.duration_s = std::max(out.duration_s, sums.duration_s);
    out.prompt_tokens += sums.prompt_tokens;
    out.cached_tokens += sums.cached_tokens;
    out.output_tokens += sums.output_tokens;
    out.computed_tokens += sums.computed_tokens;
    out.num_steps += sums.num_steps;
    add(sums.mapping, out.mapping);
    out.busy_s += replica->runner_->busy_seconds();
    for (const auto member :
         {&SimulationSummary::normalized_latency, &SimulationSummary::ttft, &SimulationSummary::tpot,
          &SimulationSummary::inter_token, &SimulationSummary::latency})
      (out.*member).merge(sums.*member);
    const auto& from = replica->totals_;
    totals.steps += from.steps;
    totals.seconds += from.seconds;
    totals.sequences += from.sequences;
    totals.sequence_seconds += from.sequence_seconds;
    totals.requests += from.requests;
    totals.request_seconds += from.request_seconds;
    totals.waiting_seconds += from.waiting_seconds;
    totals.token += from.token;
    totals.reserved += from.reserved;
    totals.internal += from.internal;
    totals.external += from.external;
    totals.in_use += from.in_use;
    totals.total += from.total;
    totals.saved += from.saved;
    totals.without_sharing += from.without_sharing;
    const SchedulerCounts counts = replica->core_->scheduler().counts();
    out.preemptions += counts.preemptions;
    out.preemptions_by_swap += counts.preemptions_by_swap;
    out.blocks_swapped_out += counts.blocks_swapped_out;
    out.blocks_swapped_in += counts.blocks_swapped_in;
    const PrefixCacheStats cache = replica->core_->kv().inspection().prefix_cache_stats();
    out.prefix_queries += cache.queries;
    out.prefix_hits += cache.hits;
    out.external_queries += cache.external_queries;
    out.external_hits += cache.external_hits;
  }
  const auto ratio = [](double part, double whole) { return whole > 0 ? part / whole : 0; };
  out.batch_by_step = ratio(totals.sequences, totals.steps);
  out.batch_by_time = ratio(totals.sequence_seconds, totals.seconds);
  out.requests_by_step = ratio(totals.requests, totals.steps);
  out.requests_by_time = ratio(totals.request_seconds, totals.seconds);
  out.mean_waiting = ratio(totals.waiting_seconds, totals.seconds);
  const double accounted = totals.token + totals.reserved + totals.internal + totals.external;
  out.kv_token_share = ratio(totals.token, accounted);
  out.kv_reserved_share = ratio(totals.reserved, accounted);
  out.kv_internal_share = ratio(totals.internal, accounted);
  out.kv_external_share = ratio(totals.external, accounted);
  out.kv_in_use_share = ratio(totals.in_use, totals.total);
  out.shared_block_share = ratio(totals.saved, totals.without_sharing);
  if (!replicas.empty()) out.timeline = replicas.front()->timeline_;
  return out;
}

}  // namespace pagoda
