#include "cli/bench/bench_flags.h"

#include "cli/flags/flag_values.h"

namespace pagoda {
namespace {

void add_decoding(std::vector<Flag>& rows, BenchDecoding& args) {
  rows.push_back(
      {.name = "n", .value = flags::int32(args.n, 1), .help = "answers to each request; above 1 sampled"});
  rows.push_back({.name = "best-of",
                  .value = flags::int32(args.best_of, 0),
                  .help = "sequences run for them; 0: as many"});
  rows.push_back({.name = "beam-width",
                  .value = flags::int32(args.beam_width, 0),
                  .help = "beam search of this width; 0: none"});
  rows.push_back({.name = "prefix-len",
                  .value = flags::int32(args.prefix_len, 0),
                  .help = "prompt tokens that all requests share"});
}

Flag output_json(std::string& path) {
  return {.name = "output-json",
          .value = flags::text(path, "FILE"),
          .help = "figures as JSON; -: stdout, no table"};
}

}  // namespace

std::vector<Flag> bench_latency_flags(BenchLatencyArgs& args) {
  std::vector<Flag> rows = {
      {.name = "input-len", .value = flags::int32(args.input_len, 1), .help = "prompt tokens"},
      {.name = "output-len", .value = flags::int32(args.output_len, 1), .help = "generated tokens"},
      {.name = "batch-size", .value = flags::int32(args.batch_size, 1), .help = "requests at once"},
  };
  add_decoding(rows, args.decoding);
  rows.push_back({.name = "num-iters-warmup",
                  .value = flags::int32(args.num_iters_warmup, 0),
                  .help = "runs before the measured ones"});
  rows.push_back({.name = "num-iters", .value = flags::int32(args.num_iters, 1), .help = "measured runs"});
  rows.push_back(output_json(args.output_json));
  return rows;
}

std::vector<Flag> bench_throughput_flags(BenchThroughputArgs& args) {
  std::vector<Flag> rows = {
      {.name = "input-len",
       .value = flags::int32(args.input_len, 1),
       .help = "prompt tokens of each request"},
      {.name = "output-len",
       .value = flags::int32(args.output_len, 1),
       .help = "generated tokens of each request"},
      {.name = "num-prompts",
       .value = flags::int32(args.num_prompts, 1),
       .help = "requests, all there from the start"},
  };
  add_decoding(rows, args.decoding);
  rows.push_back({.name = "num-iters", .value = flags::int32(args.num_iters, 1), .help = "measured runs"});
  rows.push_back(output_json(args.output_json));
  return rows;
}

std::vector<Flag> bench_kv_managers_flags(BenchKvManagersArgs& args) {
  return {
      {.name = "num-prompts",
       .value = flags::int32(args.num_prompts, 1),
       .help = "requests, all there from the start"},
      {.name = "num-iters",
       .value = flags::int32(args.num_iters, 1),
       .help = "rounds of serving; medians are told"},
      {.name = "only",
       .value = flags::choice(args.only, {"kernel", "map", "serve"}),
       .help = "one part; else all"},
      {.name = "output-json", .value = flags::text(args.output_json, "FILE"), .help = "figures as JSON"},
      {.name = "output-svg", .value = flags::text(args.output_svg, "FILE"), .help = "figures as bars"},
  };
}

}  // namespace pagoda
