#include "cli/bench/bench_serve_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"

namespace pagoda {
namespace {

class WithOutputTokens final : public Workload {
 public:
  WithOutputTokens(std::unique_ptr<Workload> inner, std::int32_t tokens)
      : inner_(std::move(inner)), tokens_(tokens) {}
  Result<std::optional<WorkloadRequest>> next() override {
    auto request = inner_->next();
    if (request && *request) (*request)->output_tokens = tokens_;
    return request;
  }
  std::optional<std::int64_t> size() const override { return inner_->size(); }

 private:
  std::unique_ptr<Workload> inner_;
  std::int32_t tokens_;
};

}  // namespace

Result<double> parse_real(const std::string& flag, std::string_view text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || !(value > 0))
    return invalid_argument(concat(flag, ": '", text, "' is neither a number above 0 nor inf"));
  return value;
}

Result<BenchPlan> make_plan(const BenchServeArgs& args, TokenCounter count_tokens) {
  BenchPlan plan;
  if (count_tokens) plan.trace.count_tokens = std::move(count_tokens);
  plan.trace.default_output_tokens = args.output_len > 0 ? args.output_len : args.custom_output_len;
  plan.ignore_eos = args.ignore_eos;
  if (!args.workload.empty()) {
    PAGODA_ASSIGN_OR_RETURN(plan.spec, parse_workload_spec(args.workload));
    plan.ignore_eos = true;
    plan.output_tokens = args.output_len;
  } else if (args.dataset_name == "random") {
    const auto range = [&](std::int32_t length) {
      const double low = length * (1 - args.random_range_ratio),
                   high = length * (1 + args.random_range_ratio);
      return TokenRange{std::max(1, static_cast<std::int32_t>(low)),
                        static_cast<std::int32_t>(std::min(std::ceil(high), double{kMaxTraceTokens}))};
    };
    plan.spec.source = WorkloadSpec::Source::uniform;
    plan.spec.input = range(args.input_len > 0 ? args.input_len : args.random_input_len);
    plan.spec.output = range(args.output_len > 0 ? args.output_len : args.random_output_len);
    plan.spec.prefix_tokens = args.random_prefix_len;
    plan.ignore_eos = true;  // as in vLLM, where the lengths matter
  } else if (args.dataset_name == "prefix_repetition") {
    const auto exactly = [](std::int32_t length) { return TokenRange{length, length}; };
    plan.spec.source = WorkloadSpec::Source::uniform;
    plan.spec.input = exactly(args.prefix_repetition_suffix_len);
    plan.spec.output = exactly(args.output_len > 0 ? args.output_len : args.prefix_repetition_output_len);
    plan.spec.prefix_tokens = args.prefix_repetition_prefix_len;
    plan.spec.num_prefixes = args.prefix_repetition_num_prefixes;
    plan.ignore_eos = true;
  } else {
    if (args.dataset_path.empty())
      return invalid_argument(concat("--dataset-name ", args.dataset_name, " needs --dataset-path"));
    plan.spec.source = WorkloadSpec::Source::trace;
    plan.spec.trace_file = args.dataset_path;
    if (args.dataset_name == "sharegpt") plan.spec.form = TraceForm::sharegpt;
    if (args.dataset_name == "custom") plan.spec.form = TraceForm::custom;
    plan.output_tokens = args.output_len > 0               ? args.output_len
                         : args.dataset_name == "sharegpt" ? args.sharegpt_output_len
                                                           : 0;
    // A trace fixes the lengths of its answers; EOS would shorten them.
    if (args.dataset_name == "trace") plan.ignore_eos = true;
  }
  WorkloadSpec& spec = plan.spec;
  spec.seed = args.workload.empty() || args.seed != 0 ? static_cast<std::uint64_t>(args.seed) : spec.seed;
  if (args.num_prompts > 0)
    spec.num_requests = args.num_prompts;
  else if (args.workload.empty())
    spec.num_requests = 1000;
  const bool timed = args.dataset_name == "trace" || !args.workload.empty();
  if (!args.request_rate.empty() || !timed) {
    PAGODA_ASSIGN_OR_RETURN(
        auto rate, parse_real("--request-rate", args.request_rate.empty() ? "inf" : args.request_rate));
    spec.rate = rate;
    spec.exact_duration = spec.num_requests.has_value() && !std::isinf(rate);
  }
  if (!args.burstiness.empty()) {  // otherwise the workload's own
    PAGODA_ASSIGN_OR_RETURN(auto burstiness, parse_real("--burstiness", args.burstiness));
    spec.burstiness = burstiness;
  }
  if (!args.ramp_up_strategy.empty()) {
    if (!args.request_rate.empty() && args.request_rate != "inf")
      return invalid_argument("--ramp-up-strategy cannot be used with --request-rate");
    if (args.ramp_up_start_rps == 0 || args.ramp_up_end_rps == 0)
      return invalid_argument("--ramp-up-strategy needs --ramp-up-start-rps and --ramp-up-end-rps");
    if (!spec.num_requests) return invalid_argument("--ramp-up-strategy needs --num-prompts");
    spec.rate = std::numeric_limits<double>::infinity();
    spec.exact_duration = false;
    spec.ramp = RateRamp{.exponential = args.ramp_up_strategy == "exponential",
                         .start = args.ramp_up_start_rps,
                         .end = args.ramp_up_end_rps};
  } else if (args.ramp_up_start_rps != 0 || args.ramp_up_end_rps != 0) {
    return invalid_argument("--ramp-up-start-rps and --ramp-up-end-rps need --ramp-up-strategy");
  }
  return plan;
}

Result<std::unique_ptr<Workload>> open_plan(const BenchPlan& plan) {
  auto workload = open_workload(plan.spec, plan.trace);
  if (!workload || plan.output_tokens == 0) return workload;
  return std::unique_ptr<Workload>(
      std::make_unique<WithOutputTokens>(std::move(*workload), plan.output_tokens));
}

Result<std::optional<WorkloadRequest>> first_request(const BenchPlan& plan) {
  PAGODA_ASSIGN_OR_RETURN(auto workload, open_plan(plan));
  return workload->next();
}

}  // namespace pagoda
