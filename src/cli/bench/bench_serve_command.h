#pragma once
// pagoda bench serve: load on any OpenAI-compatible server, ours or another. Flags, table and JSON are those
// of `vllm bench serve`; the generator is load/http_load.h.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace pagoda {

struct BenchServeArgs {
  std::string backend = "openai";
  std::string base_url, host = "127.0.0.1", endpoint;  // endpoint: empty: the backend's default
  std::int32_t port = 8000;
  std::vector<std::string> header;
  std::string request_id_prefix;
  std::string model, served_model_name, tokenizer, label;

  std::string dataset_name = "random", dataset_path;
  std::string workload;                        // a spec of load/workload_spec.h instead of a data set
  std::int32_t num_prompts = 0;                // 0: 1000, or all requests of a workload
  std::int32_t input_len = 0, output_len = 0;  // 0: the value of the data set's flag below
  std::int32_t random_input_len = 1024, random_output_len = 128, random_prefix_len = 0;
  double random_range_ratio = 0;
  std::int32_t prefix_repetition_prefix_len = 256, prefix_repetition_suffix_len = 256;
  std::int32_t prefix_repetition_num_prefixes = 10, prefix_repetition_output_len = 128;
  std::int32_t sharegpt_output_len = 0, custom_output_len = 256;

  std::string request_rate;      // empty: inf, or the trace's own times
  std::string burstiness;        // empty: 1, or the workload's own
  std::string ramp_up_strategy;  // empty, "linear" or "exponential"
  double ramp_up_start_rps = 0, ramp_up_end_rps = 0;
  std::int32_t max_concurrency = 0;  // 0: no limit
  std::int32_t num_warmups = 0;
  std::int64_t seed = 0;
  std::int32_t ready_check_timeout_sec = 600;
  double connect_timeout_s = 10, read_timeout_s = 600;

  bool ignore_eos = false;
  std::vector<std::pair<std::string, std::string>> sampling;  // JSON member and number
  std::string extra_body;

  bool disable_tqdm = false, save_result = false, save_detailed = false, append_result = false;
  std::string result_dir, result_filename;
  std::vector<std::string> metadata, goodput;
  std::string percentile_metrics = "ttft,tpot,itl", metric_percentiles = "99";
};

// Fails if the server cannot be reached, a flag is invalid, or every request failed.
Status run_bench_serve(const BenchServeArgs& args);

}  // namespace pagoda
