#include "cli/simulate/calibrate_command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "base/assign_or_return.h"
#include "base/random.h"
#include "base/strings.h"
#include "cli/assembly/assemble.h"
#include "cli/assembly/model_overrides.h"
#include "cli/assembly/runner_options.h"
#include "cli/bench/page_call_times.h"
#include "cli/commands/output_collector.h"
#include "cli/commands/progress_bar.h"
#include "cli/output_file.h"
#include "cli/simulate/served_steps.h"
#include "engine/step_observer.h"
#include "loader/model_source.h"
#include "models/read_config.h"
#include "sim/calibration.h"
#include "tensor/page_arena.h"

namespace pagoda {
namespace {

constexpr TimeNs kSmallGap = 5'000'000;  // between two steps of a busy engine; after a longer gap it was idle

// Records the shape of every step and the time until the next one starts, which includes the engine's own
// work after the step.
class StepTimes final : public StepObserver {
 public:
  void on_step(const StepReport& report) override {
    if (!steps_.empty() && report.started - finished_ < kSmallGap)
      steps_.back().seconds = to_seconds(report.started - started_);
    else if (!steps_.empty())
      steps_.pop_back();  // the next step did not follow directly, so the time is unknown
    MeasuredStep step;
    step.tokens = report.batch.num_tokens;
    step.sequences = static_cast<double>(report.batch.sequences.size());
    for (const ScheduledSequence& sequence : report.batch.sequences) {
      const auto count = static_cast<double>(sequence.tokens.size());
      const double before = sequence.num_computed_tokens;
      if (count == 1)
        step.context_tokens += before + 1;
      else
        step.attention_pairs += count * before + count * (count + 1) / 2;
    }
    started_ = report.started;
    finished_ = report.finished;
    steps_.push_back(step);
  }
  // Call when the engine is idle.
  std::vector<MeasuredStep> take() {
    if (!steps_.empty()) steps_.pop_back();
    return std::exchange(steps_, {});
  }

 private:
  std::vector<MeasuredStep> steps_;
  TimeNs started_ = 0, finished_ = 0;
};

Status run_requests(EngineClient& client, std::uint64_t& next_id, std::int32_t count, std::int32_t prompt,
                    std::int32_t output) {
  OutputCollector collector;
  for (std::int32_t i = 0; i < count; ++i) {
    Request request;
    request.id = RequestId{++next_id};
    const auto vocab = static_cast<std::uint64_t>(client.limits().vocab_size);
    for (std::int32_t t = 0; t < prompt; ++t)
      request.prompt_token_ids.push_back(
          static_cast<TokenId>(random_bits(9, next_id, static_cast<std::uint64_t>(t)) % vocab));
    request.sampling.temperature = 0;
    request.sampling.max_tokens = output;
    request.sampling.ignore_eos = true;
    PAGODA_RETURN_IF_ERROR(client.submit(std::move(request), collector.make_sink()));
  }
  for (std::int32_t left = count; left > 0;) {
    for (const OutputCollector::Item& item : collector.take()) {
      if (!item.output.error.ok()) return item.output.error;
      left -= item.output.finished ? 1 : 0;
    }
  }
  return ok_status();
}

// Replaces similar steps by their median: decodes of one batch size, and equal chunks of equally long
// prompts.
void add_medians(const std::vector<MeasuredStep>& steps, std::vector<MeasuredStep>& out) {
  std::map<std::tuple<double, double, double>, std::vector<MeasuredStep>> alike;
  for (const MeasuredStep& step : steps) {
    const bool decodes = step.tokens == step.sequences;
    // The context of decodes grows with every step; contexts within the same 128 tokens count as equal.
    const double context =
        decodes ? std::floor(step.context_tokens / step.sequences / 128) : step.attention_pairs;
    if (decodes || step.sequences == 1) alike[{step.tokens, step.sequences, context}].push_back(step);
  }
  for (auto& [size, group] : alike) {
    if (group.size() < 4) continue;
    MeasuredStep mean = group.front();
    mean.context_tokens = 0;
    for (const MeasuredStep& step : group) mean.context_tokens += step.context_tokens / double(group.size());
    std::ranges::sort(group, {}, &MeasuredStep::seconds);
    mean.seconds = group[group.size() / 2].seconds;
    out.push_back(mean);
  }
}

double copied_bytes_per_second() {
  constexpr std::size_t kBytes = 32 << 20;
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes, 2);
  double best = 1e-3;
  for (int i = 0; i < 5; ++i) {
    const TimeNs start = SteadyClock().now();
    std::memcpy(to.data(), from.data(), kBytes);
    best = std::min(i == 0 ? 1e9 : best, to_seconds(SteadyClock().now() - start));
    // Prevents the compiler from removing the copy.
    volatile char used = to[static_cast<std::size_t>(i) * 4096];
    (void)used;
  }
  return double(kBytes) / std::max(best, 1e-9);
}

Result<CostModel> describe(const EngineFlags& flags, const AssembledEngine& engine) {
  PAGODA_ASSIGN_OR_RETURN(auto source, open_model(flags));
  PAGODA_ASSIGN_OR_RETURN(const auto read, read_model_config(*source));
  const DecoderConfig& config = read.decoder;
  CostModel out;
  out.name = concat("measured/", engine.model_name(), "/", engine.num_threads(), "-threads");
  out.num_layers = config.num_layers();
  out.hidden_size = config.hidden_size;
  out.vocab_size = config.vocab_size;
  out.max_model_len = config.max_positions;
  PAGODA_ASSIGN_OR_RETURN(const auto options, runner_options(flags, read));
  out.max_num_batched_tokens = options.max_num_batched_tokens;
  out.parameters = static_cast<double>(engine.memory().weight_bytes);
  out.bytes_per_parameter = 1;
  // Average of scores and values: in latent attention the values are a part of each row.
  const HeadSizes heads = head_sizes(config);
  const auto* const latent = std::get_if<LatentAttentionConfig>(&config.layers.front().mixer);
  out.attention_width =
      heads.num_heads * (latent != nullptr ? 0.5 * (latent->row_size() + latent->latent_size)
                                           : static_cast<double>(heads.head_size));
  out.kv_bytes_per_token = static_cast<double>(engine.memory().kv_bytes_per_token);
  out.kv_cache_bytes = static_cast<double>(engine.memory().kv_bytes);
  out.swap_bytes_per_s = copied_bytes_per_second();
  return out;
}

// Measures a block of the virtual manager's default size: 16 tokens of all layers.
Status measure_mapping(const EngineFlags& flags, CostModel& model) {
  const auto pages = static_cast<std::int64_t>(
      std::ceil(model.kv_bytes_per_token * flags.block_size / static_cast<double>(kPageGranule)));
  // Takes the fastest of three alternating rounds, because load on the machine could otherwise make one page
  // seem dearer than many.
  PageCallTimes one, many;
  for (int round = 0; round < 3; ++round) {
    for (auto [times, bytes] :
         {std::pair{&one, kPageGranule}, {&many, std::max<std::int64_t>(2, pages) * kPageGranule}}) {
      PAGODA_ASSIGN_OR_RETURN(const auto measured, time_page_calls(bytes));
      if (round == 0) *times = measured;
      times->map_us = std::min(times->map_us, measured.map_us);
      times->unmap_us = std::min(times->unmap_us, measured.unmap_us);
    }
  }
  const auto measured = [](double pages, const PageCallTimes& times) {
    return MeasuredMapping{.pages = pages, .map_s = 1e-6 * times.map_us, .unmap_s = 1e-6 * times.unmap_us};
  };
  calibrate_mapping(measured(1, one), measured(std::max(2.0, static_cast<double>(pages)), many),
                    static_cast<double>(kPageGranule), model);
  return ok_status();
}

Status fit_and_write(const CalibrateArgs& args, const std::vector<MeasuredStep>& steps, CostModel model,
                     Scatter scatter) {
  PAGODA_ASSIGN_OR_RETURN(const auto report, calibrate(steps, model, scatter));
  PAGODA_RETURN_IF_ERROR(measure_mapping(args.engine, model));
  PAGODA_RETURN_IF_ERROR(validate(model));
  PAGODA_RETURN_IF_ERROR(write_output(args.output, cost_model_json(model)));
  if (args.output == "-") return ok_status();
  std::printf("%s: fitted to %zu steps, off by %.1f %% (median), %.1f %% (largest)\n", args.output.c_str(),
              steps.size(), 100 * report.median_error, 100 * report.largest_error);
  return ok_status();
}

Status calibrate_served(const CalibrateArgs& args) {
  PAGODA_ASSIGN_OR_RETURN(const auto source, open_model(args.engine));
  PAGODA_ASSIGN_OR_RETURN(const auto config, read_model_config(*source));
  PAGODA_ASSIGN_OR_RETURN(const auto served,
                          served_steps(args.engine, {.seconds = args.seconds,
                                                     .max_batch = args.max_batch,
                                                     .max_context = args.max_context,
                                                     .vocab_size = config.decoder.vocab_size}));
  PAGODA_ASSIGN_OR_RETURN(auto engine, AssembledEngine::create(args.engine, AssembledEngine::Report::quiet));
  PAGODA_ASSIGN_OR_RETURN(auto model, describe(args.engine, *engine));
  model.outside_s = served.outside_s;
  return fit_and_write(args, served.steps, std::move(model), Scatter::take);
}

}  // namespace

Status run_bench_calibrate(const CalibrateArgs& args) {
  if (args.served && !args.logs.empty()) return invalid_argument("give --served or --log, not both");
  PAGODA_RETURN_IF_ERROR(check_output(args.output));
  if (args.served) return calibrate_served(args);
  EngineFlags flags = args.engine;
  flags.enable_prefix_caching = false;
  flags.max_queue = std::max(flags.max_queue, args.max_batch);
  StepTimes times;
  PAGODA_ASSIGN_OR_RETURN(auto engine,
                          AssembledEngine::create(flags, AssembledEngine::Report::quiet, &times));
  engine->finish_weight_writing();
  EngineClient& client = engine->client();
  if (!args.logs.empty()) {
    std::vector<MeasuredStep> steps;
    for (const std::string& log : args.logs) {
      PAGODA_ASSIGN_OR_RETURN(auto more, measured_steps(log));
      steps.insert(steps.end(), more.begin(), more.end());
    }
    auto model = describe(flags, *engine);
    return model ? fit_and_write(args, steps, *std::move(model), Scatter::take) : model.error();
  }
  const std::int32_t most = std::min(args.max_batch, client.limits().max_num_seqs);
  const std::int32_t longest = std::min(args.max_context, client.limits().max_model_len - 20);
  if (longest < 24) return invalid_argument("calibration needs --max-model-len of at least 44");

  struct Case {
    std::int32_t count, prompt, output;
  };
  std::vector<Case> cases;
  for (const std::int32_t batch : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256})
    if (batch <= most) cases.push_back({batch, 8, 16});
  for (const std::int32_t batch : {1, 4, 16})
    if (batch <= most && std::int64_t{batch} * (longest + 16) <= client.limits().kv_cache_tokens)
      cases.push_back({batch, longest, 12});
  for (const std::int32_t chunk : {2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024})
    if (chunk <= longest) cases.insert(cases.end(), 3, {1, chunk, 2});
  std::uint64_t next_id = 0;
  std::vector<MeasuredStep> steps;
  ProgressBar bar("calibrate", std::ssize(cases) * 2, "runs");
  std::int64_t done = 0;
  PAGODA_RETURN_IF_ERROR(run_requests(client, next_id, 4, 32, 8));  // warm-up
  for (int round = 0; round < 2; ++round) {
    for (const Case& c : cases) {
      PAGODA_RETURN_IF_ERROR(run_requests(client, next_id, c.count, c.prompt, c.output));
      bar.update(++done);
    }
  }
  auto model = describe(flags, *engine);
  engine->stop();  // the engine thread no longer uses the observer
  add_medians(times.take(), steps);
  if (!model) return model.error();
  return fit_and_write(args, steps, *std::move(model), Scatter::leave_out);
}

}  // namespace pagoda
