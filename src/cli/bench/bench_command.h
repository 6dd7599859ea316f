#pragma once
// pagoda bench: the speed of the engine alone, without HTTP. Flag names as in `vllm bench`.
#include <cstdint>
#include <string>

#include "base/status.h"
#include "cli/bench/bench_batch.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

// A single batch at a time: prefill of input_len tokens, then output_len tokens, for batch_size sequences.
struct BenchLatencyArgs {
  EngineFlags engine;
  std::int32_t input_len = 512;
  std::int32_t output_len = 128;
  std::int32_t batch_size = 1;
  BenchDecoding decoding;
  std::int32_t num_iters_warmup = 1;
  std::int32_t num_iters = 5;
  std::string output_json;  // file for the figures; "-": stdout instead of the table; empty: table only
};

// Submits num_prompts requests at once; as many run as --max-num-seqs and the KV cache allow.
struct BenchThroughputArgs {
  EngineFlags engine;
  std::int32_t input_len = 128;
  std::int32_t output_len = 64;
  std::int32_t num_prompts = 64;
  BenchDecoding decoding;
  std::int32_t num_iters = 1;
  std::string output_json;  // as above
};

Status run_bench_latency(const BenchLatencyArgs& args);
Status run_bench_throughput(const BenchThroughputArgs& args);

}  // namespace pagoda
