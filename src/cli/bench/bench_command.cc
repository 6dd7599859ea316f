#include "cli/bench/bench_command.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/assembly/assemble.h"
#include "cli/assembly/devices.h"
#include "cli/assembly/machine.h"
#include "cli/assembly/runner_options.h"
#include "cli/bench/bench_report.h"
#include "cli/commands/progress_bar.h"
#include "cli/output_file.h"

namespace pagoda {
namespace {

// Bytes read by a decode step of all requests, halfway through: the weights once, and the keys and values of
// each request. nullopt if requests share K/V or have several sequences.
std::optional<double> bytes_of_step(const MemoryTable& memory, const BenchShape& shape) {
  const BenchDecoding& decoding = shape.decoding;
  if (std::max(decoding.n, decoding.best_of) > 1 || decoding.beam_width > 0 || decoding.prefix_len > 0)
    return std::nullopt;
  const double tokens = shape.num_requests * (shape.input_len + shape.output_len / 2.0);
  return static_cast<double>(memory.weight_bytes) + tokens * static_cast<double>(memory.kv_bytes_per_token);
}

Status check(const BenchShape& shape, std::int32_t iterations) {
  if (shape.input_len < 1 || shape.output_len < 1 || shape.num_requests < 1 || iterations < 1)
    return invalid_argument("lengths and counts must be at least 1");
  if (shape.decoding.best_of > 0 && shape.decoding.best_of < shape.decoding.n)
    return invalid_argument("--best-of must be at least --n");
  return ok_status();
}

// Repeats the batch. On the host, measures the memory bandwidth around each run; a device has its own memory.
Result<BenchFigures> measure(AssembledEngine& engine, const char* name, const EngineFlags& flags,
                             const BenchShape& shape, std::int32_t warmup, std::int32_t iterations,
                             IdleTimes& idle) {
  const bool on_host = !uses_device(flags);
  ThreadPool probe_pool(num_threads(flags));
  ReadProbe probe(probe_pool);
  const std::optional<double> step_bytes = bytes_of_step(engine.memory(), shape);
  std::uint64_t next_id = 0;
  std::vector<double> prefill, decode, total, bandwidth, share;
  EngineTotals totals_before;
  ProgressBar bar(concat("bench ", name), std::int64_t{shape.num_requests} * shape.output_len * iterations,
                  "tokens");
  for (std::int32_t i = -warmup; i < iterations; ++i) {
    if (i == 0) {
      idle.clear();
      if (on_host) bandwidth.push_back(probe.bytes_per_second());
      if (auto snapshot = engine_snapshot(engine)) totals_before = (*snapshot)->totals;
    }
    // New prompts in every run, so that there are no prefix-cache hits.
    PAGODA_ASSIGN_OR_RETURN(
        const auto times,
        run_batch(engine, shape, flags.seed + static_cast<std::uint64_t>(i + 1000), next_id));
    if (i < 0) continue;
    prefill.push_back(double(shape.num_requests) * shape.input_len / times.prefill_seconds);
    if (on_host) bandwidth.push_back(probe.bytes_per_second());
    if (times.decode_tokens > 0) {
      decode.push_back(double(times.decode_tokens) / times.decode_seconds);
      // The bandwidth of shared memory varies, so use the measurements before and after this run.
      const double around = on_host ? (bandwidth.back() + bandwidth.end()[-2]) / 2 : 0;
      if (around > 0 && step_bytes)
        share.push_back(decode.back() / shape.num_requests * *step_bytes / around);
    }
    total.push_back(double(times.output_tokens) / times.total_seconds);
    bar.update(std::int64_t{shape.num_requests} * shape.output_len * (i + 1));
  }
  PAGODA_ASSIGN_OR_RETURN(const auto snapshot, engine_snapshot(engine));

  BenchFigures figures;
  figures.bench = name;
  figures.model = engine.model_name();
  figures.dtype = flags.dtype;
  figures.threads = engine.num_threads();
  figures.shape = shape;
  figures.prefill = spread(prefill);
  figures.total = spread(total);
  if (!decode.empty()) figures.decode = spread(decode);
  if (on_host) figures.bandwidth = spread(bandwidth);
  figures.step_bytes = step_bytes;
  if (!share.empty()) figures.share = spread(share);
  figures.idle = idle.figures();
  figures.kv = account_between(totals_before, snapshot->totals);
  figures.num_ranks = flags.tensor_parallel_size;
  return figures;
}

Status run_bench(const char* name, const EngineFlags& given, const BenchShape& shape, std::int32_t warmup,
                 std::int32_t iterations, const std::string& output_json) {
  PAGODA_RETURN_IF_ERROR(check(shape, iterations));
  PAGODA_RETURN_IF_ERROR(check_output(output_json));
  EngineFlags flags = given;
  flags.max_queue = std::max(flags.max_queue, shape.num_requests);
  if (flags.device_idle && !uses_device(flags)) return invalid_argument("--device-idle needs --device");
  IdleTimes idle;
  auto engine =
      AssembledEngine::create(flags, AssembledEngine::Report::quiet, flags.device_idle ? &idle : nullptr);
  if (!engine) return engine.error();
  (*engine)->finish_weight_writing();
  PAGODA_ASSIGN_OR_RETURN(auto figures, measure(**engine, name, flags, shape, warmup, iterations, idle));
  (*engine)->stop();
  figures.ranks = (*engine)->rank_steps();
  PAGODA_RETURN_IF_ERROR(write_output(output_json, figures_json(figures)));
  if (output_json != "-") print_figures(figures);
  return ok_status();
}

}  // namespace

Status run_bench_latency(const BenchLatencyArgs& args) {
  return run_bench("latency", args.engine, {args.batch_size, args.input_len, args.output_len, args.decoding},
                   args.num_iters_warmup, args.num_iters, args.output_json);
}

Status run_bench_throughput(const BenchThroughputArgs& args) {
  return run_bench("throughput", args.engine,
                   {args.num_prompts, args.input_len, args.output_len, args.decoding}, 0, args.num_iters,
                   args.output_json);
}

}  // namespace pagoda
