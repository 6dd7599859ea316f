#include "cli/bench/bench_flags.h"

#include "cli/flags/flag_values.h"

namespace pagoda {
namespace {

void add_decoding(std::vector<Flag>& rows, BenchDecoding& args) {
  rows.push_back({.name = "n",
                  .value = flags::int32(args.n, 1),
                  .help = "number of answers per request; above 1 they are sampled"});
  rows.push_back({.name = "best-of",
                  .value = flags::int32(args.best_of, 0),
                  .help = "number of sequences to choose them from; 0: n"});
  rows.push_back({.name = "beam-width",
                  .value = flags::int32(args.beam_width, 0),
                  .help = "beam search width; 0: no beam search"});
  rows.push_back({.name = "prefix-len",
                  .value = flags::int32(args.prefix_len, 0),
                  .help = "number of prompt tokens shared by all requests"});
}

Flag device_idle(EngineFlags& engine) {
  return {.name = "device-idle",
          .value = flags::on(engine.device_idle),
          .help = "measure how long the device is idle between decode steps (on a device)"};
}

Flag output_json(std::string& path) {
  return {.name = "output-json",
          .value = flags::text(path, "FILE"),
          .help = "write the results as JSON to this file; -: stdout, without the table"};
}

}  // namespace

std::vector<Flag> bench_latency_flags(BenchLatencyArgs& args) {
  std::vector<Flag> rows = {
      {.name = "input-len", .value = flags::int32(args.input_len, 1), .help = "prompt tokens per request"},
      {.name = "output-len", .value = flags::int32(args.output_len, 1), .help = "output tokens per request"},
      {.name = "batch-size",
       .value = flags::int32(args.batch_size, 1),
       .help = "number of requests in the batch"},
  };
  add_decoding(rows, args.decoding);
  rows.push_back({.name = "num-iters-warmup",
                  .value = flags::int32(args.num_iters_warmup, 0),
                  .help = "number of warm-up runs before the measured ones"});
  rows.push_back(
      {.name = "num-iters", .value = flags::int32(args.num_iters, 1), .help = "number of measured runs"});
  rows.push_back(device_idle(args.engine));
  rows.push_back(output_json(args.output_json));
  return rows;
}

std::vector<Flag> bench_throughput_flags(BenchThroughputArgs& args) {
  std::vector<Flag> rows = {
      {.name = "input-len", .value = flags::int32(args.input_len, 1), .help = "prompt tokens per request"},
      {.name = "output-len", .value = flags::int32(args.output_len, 1), .help = "output tokens per request"},
      {.name = "num-prompts",
       .value = flags::int32(args.num_prompts, 1),
       .help = "number of requests, all submitted at the start"},
  };
  add_decoding(rows, args.decoding);
  rows.push_back(
      {.name = "num-iters", .value = flags::int32(args.num_iters, 1), .help = "number of measured runs"});
  rows.push_back(device_idle(args.engine));
  rows.push_back(output_json(args.output_json));
  return rows;
}

std::vector<Flag> bench_kv_managers_flags(BenchKvManagersArgs& args) {
  return {
      {.name = "num-prompts",
       .value = flags::int32(args.num_prompts, 1),
       .help = "number of requests, all submitted at the start"},
      {.name = "num-iters",
       .value = flags::int32(args.num_iters, 1),
       .help = "number of serving runs; medians are reported"},
      {.name = "only",
       .value = flags::choice(args.only, {"kernel", "map", "serve"}),
       .help = "run only this part"},
      {.name = "output-json",
       .value = flags::text(args.output_json, "FILE"),
       .help = "write the results as JSON to this file"},
      {.name = "output-svg",
       .value = flags::text(args.output_svg, "FILE"),
       .help = "write the results as a bar chart to this file"},
  };
}

}  // namespace pagoda
