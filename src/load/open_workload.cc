// Builds a workload from a spec: a source of lengths or a trace, then arrivals, then the decoding variant.
#include <cmath>

#include "base/assign_or_return.h"
#include "base/random.h"
#include "base/strings.h"
#include "load/arrivals.h"
#include "load/conversations.h"
#include "load/workload_spec.h"

namespace pagoda {
namespace {

constexpr std::int64_t kDefaultRequests = 1000;
constexpr std::int32_t kDefaultMaxModelLen = 2048;

Status check_spec(const WorkloadSpec& spec) {
  const auto range_ok = [](TokenRange r) {
    return r.low >= 1 && r.low <= r.high && r.high <= kMaxTraceTokens;
  };
  if (!range_ok(spec.input)) return invalid_argument("input: must be a range of at least 1 token");
  if (!range_ok(spec.output)) return invalid_argument("output: must be a range of at least 1 token");
  if (spec.rate && !(*spec.rate > 0)) return invalid_argument("rate: must be above 0, or inf");
  if (!(spec.burstiness > 0)) return invalid_argument("burstiness: must be above 0");
  if (spec.duration_s && !(*spec.duration_s >= 0)) return invalid_argument("duration: must not be negative");
  if (spec.num_requests && *spec.num_requests < 0) return invalid_argument("requests: must not be negative");
  if (!(spec.time_scale > 0) || std::isinf(spec.time_scale))
    return invalid_argument("scale: must be above 0");
  if (spec.n < 1 || spec.best_of < 0 || spec.beam_width < 0)
    return invalid_argument("n, best_of and beam: must not be negative");
  if (spec.beam_width > 0 && (spec.n > 1 || spec.best_of > 1))
    return invalid_argument("beam: cannot be combined with n or best_of");
  if (spec.best_of > 0 && spec.best_of < spec.n) return invalid_argument("best_of: must be at least n");
  if (spec.prefix_tokens < 0 || spec.num_prefixes < 1 || spec.prefix_tokens > kMaxTraceTokens)
    return invalid_argument("prefix: must not be negative, and prefixes at least 1");
  if (spec.rounds < 1 || spec.history_tokens < 1) return invalid_argument("rounds and history: at least 1");
  if (spec.new_share && !(*spec.new_share > 0 && *spec.new_share <= 1))
    return invalid_argument("new: must be a probability above 0");
  if (spec.new_share && spec.rounds == 1) return invalid_argument("new: needs rounds");
  if (!(spec.quantum_s >= 0) || spec.quantum_s > 3600)
    return invalid_argument("quantum: must be seconds, not negative");
  if (spec.rounds > 1 && spec.prefix_tokens > 0)
    return invalid_argument("prefix: cannot be combined with rounds");
  if (spec.ramp) {
    const auto above_zero = [](double rate) { return rate > 0 && !std::isinf(rate); };
    if (!above_zero(spec.ramp->start) || !above_zero(spec.ramp->end))
      return invalid_argument("ramp-up: rates must be above 0");
    if (!spec.num_requests || (spec.rate && !std::isinf(*spec.rate)) || spec.rounds > 1)
      return invalid_argument("ramp-up: needs a number of requests, no other rate, and no rounds");
  }
  const bool trace = spec.source == WorkloadSpec::Source::trace;
  const bool all_at_once = !spec.rate || std::isinf(*spec.rate);
  if (!trace && spec.duration_s && !spec.num_requests && all_at_once)
    return invalid_argument("duration: needs a rate");
  if (spec.repeat_trace && (!spec.rate || !spec.num_requests))
    return invalid_argument("repeat_trace: needs a rate and a number of requests");
  if (spec.exact_duration && (!spec.rate || !spec.num_requests))
    return invalid_argument("exact_duration: needs a rate and a number of requests");
  return ok_status();
}

// Sets n, best_of, beam and the shared prefix, for every source.
void apply_variant(const WorkloadSpec& spec, std::uint64_t index, WorkloadRequest& request) {
  request.n = spec.n;
  request.best_of = spec.best_of > 0 ? spec.best_of : spec.n;
  request.beam_width = spec.beam_width;
  if (spec.prefix_tokens == 0) return;
  Draws draws(spec.seed, Draws::Stream::prefix, index);
  request.prompt.clear();  // the text does not have this prefix; only lengths remain
  request.prefix_hash_ids.clear();
  request.prompt_tokens = static_cast<std::int32_t>(
      std::min<std::int64_t>(std::int64_t{request.prompt_tokens} + spec.prefix_tokens, kMaxTraceTokens));
  request.shared_prefix_tokens = spec.prefix_tokens;
  const auto prefix = static_cast<std::uint64_t>(draws.between(0, spec.num_prefixes - 1));
  request.shared_prefix_id = random_bits(spec.seed, 0, prefix);
}

RequestLengths draw_lengths(const WorkloadSpec& spec, std::uint64_t index) {
  Draws draws(spec.seed, Draws::Stream::length, index);
  const std::int32_t most = spec.max_model_len > 0 ? spec.max_model_len : kDefaultMaxModelLen;
  switch (spec.source) {
    case WorkloadSpec::Source::sharegpt:
      return draw_sharegpt_lengths(draws, most);
    case WorkloadSpec::Source::alpaca:
      return draw_alpaca_lengths(draws, most);
    default:
      return draw_uniform_lengths(draws, spec.input, spec.output);
  }
}

ConversationOptions conversation_options(const WorkloadSpec& spec) {
  // The artifact leaves 8 tokens of the model's window free.
  constexpr std::int64_t kFree = 8;
  const std::int64_t window =
      std::max<std::int64_t>(spec.max_model_len > 0 ? spec.max_model_len : kDefaultMaxModelLen,
                             std::int64_t{2} * spec.history_tokens);
  ConversationOptions out;
  out.mean_rounds = spec.rounds;
  out.new_share = spec.new_share.value_or(1.0 / spec.rounds);
  out.history_tokens = spec.history_tokens;
  out.max_answer_tokens =
      static_cast<std::int32_t>(std::max<std::int64_t>(1, window - spec.history_tokens - kFree));
  out.seed = spec.seed;
  return out;
}

double in_quanta(const WorkloadSpec& spec, double arrival_s) {
  return spec.quantum_s > 0 ? std::floor(arrival_s / spec.quantum_s) * spec.quantum_s : arrival_s;
}

std::optional<std::int64_t> exact_count(const WorkloadSpec& spec) {
  return spec.exact_duration ? spec.num_requests : std::nullopt;
}

ArrivalProcess make_arrivals(const WorkloadSpec& spec, double rate) {
  if (spec.ramp) {
    RateRamp ramp = *spec.ramp;
    ramp.num_requests = std::max<std::int64_t>(1, *spec.num_requests);
    return ArrivalProcess(ramp, spec.burstiness, spec.seed);
  }
  return ArrivalProcess(rate, spec.burstiness, spec.seed, exact_count(spec));
}

double generator_rate(const WorkloadSpec& spec) {
  return spec.rate.value_or(std::numeric_limits<double>::infinity());
}

class GeneratedWorkload final : public Workload {
 public:
  explicit GeneratedWorkload(const WorkloadSpec& spec)
      : spec_(spec), arrivals_(make_arrivals(spec, generator_rate(spec))) {
    if (!spec_.num_requests && !spec_.duration_s) spec_.num_requests = kDefaultRequests;
    if (spec_.rounds > 1) {
      conversations_.emplace(conversation_options(spec_),
                             [this](std::uint64_t index) { return draw_lengths(spec_, index); });
    }
  }

  Result<std::optional<WorkloadRequest>> next() override {
    if (spec_.num_requests && index_ >= *spec_.num_requests) return std::optional<WorkloadRequest>();
    WorkloadRequest request;
    const auto index = static_cast<std::uint64_t>(index_);
    const double arrival_s = in_quanta(spec_, arrivals_.next());
    if (conversations_) {
      request = conversations_->next(arrival_s);
    } else {
      const RequestLengths lengths = draw_lengths(spec_, index);
      request.arrival_s = arrival_s;
      request.prompt_tokens = lengths.prompt_tokens;
      request.output_tokens = lengths.output_tokens;
    }
    if (spec_.duration_s && request.arrival_s > *spec_.duration_s) return std::optional<WorkloadRequest>();
    apply_variant(spec_, index, request);
    ++index_;
    return std::optional(std::move(request));
  }

  std::optional<std::int64_t> size() const override {
    return spec_.duration_s ? std::nullopt : spec_.num_requests;
  }

 private:
  WorkloadSpec spec_;
  ArrivalProcess arrivals_;
  std::optional<Conversations> conversations_;
  std::int64_t index_ = 0;
};

class TraceWorkload final : public Workload {
 public:
  TraceWorkload(const WorkloadSpec& spec, const TraceOptions& options, std::unique_ptr<Workload> trace)
      : spec_(spec), options_(options), trace_(std::move(trace)) {
    if (spec_.rate || spec_.ramp) arrivals_.emplace(make_arrivals(spec_, generator_rate(spec_)));
  }

  Result<std::optional<WorkloadRequest>> next() override {
    if (spec_.num_requests && index_ >= *spec_.num_requests) return std::optional<WorkloadRequest>();
    for (;;) {
      PAGODA_ASSIGN_OR_RETURN(auto request, next_of_trace());
      if (!request) return std::optional<WorkloadRequest>();
      WorkloadRequest& given = *request;
      if (spec_.max_model_len > 0 &&
          std::int64_t{given.prompt_tokens} + given.output_tokens + spec_.prefix_tokens > spec_.max_model_len)
        continue;
      ++taken_in_turn_;
      if (arrivals_)
        given.arrival_s = in_quanta(spec_, arrivals_->next());
      else if (std::isnan(given.arrival_s))
        return invalid_argument(concat(spec_.trace_file, ": arrival_s: the trace has no times; give a rate ",
                                       "(rate=2, rate=inf)"))
            .with_reason(kNoArrivalTimes);
      else
        given.arrival_s = in_quanta(spec_, given.arrival_s * spec_.time_scale);
      if (spec_.duration_s && given.arrival_s > *spec_.duration_s) return std::optional<WorkloadRequest>();
      apply_variant(spec_, static_cast<std::uint64_t>(index_++), given);
      return request;
    }
  }

 private:
  Result<std::optional<WorkloadRequest>> next_of_trace() {
    const bool turn_is_full =
        spec_.repeat_trace && spec_.requests_a_turn && taken_in_turn_ >= *spec_.requests_a_turn;
    if (!turn_is_full) {
      auto request = trace_->next();
      if (!request || *request) {
        if (request && turn_ > 0)
          for (std::uint64_t& id : (*request)->prefix_hash_ids) id = random_bits(id, turn_, 0);
        return request;
      }
    }
    if (!spec_.repeat_trace || taken_in_turn_ == 0) return std::optional<WorkloadRequest>();
    PAGODA_ASSIGN_OR_RETURN(trace_, open_trace(spec_.trace_file, options_));
    taken_in_turn_ = 0;
    ++turn_;
    return next_of_trace();
  }

  WorkloadSpec spec_;
  TraceOptions options_;
  std::unique_ptr<Workload> trace_;
  std::optional<ArrivalProcess> arrivals_;
  std::int64_t index_ = 0;
  std::int64_t taken_in_turn_ = 0;
  std::uint64_t turn_ = 0;
};

}  // namespace

Result<std::unique_ptr<Workload>> open_workload(const WorkloadSpec& spec, const TraceOptions& trace) {
  PAGODA_RETURN_IF_ERROR(check_spec(spec));
  if (spec.source != WorkloadSpec::Source::trace)
    return std::unique_ptr<Workload>(std::make_unique<GeneratedWorkload>(spec));
  TraceOptions options = trace;
  options.form = spec.form;
  options.max_rounds = spec.rounds;
  options.max_history_tokens = spec.history_tokens;
  PAGODA_ASSIGN_OR_RETURN(auto reader, open_trace(spec.trace_file, options));
  return std::unique_ptr<Workload>(std::make_unique<TraceWorkload>(spec, options, std::move(reader)));
}

Result<std::unique_ptr<Workload>> open_workload(std::string_view text, const TraceOptions& trace) {
  PAGODA_ASSIGN_OR_RETURN(const auto spec, parse_workload_spec(text));
  return open_workload(spec, trace);
}

}  // namespace pagoda
