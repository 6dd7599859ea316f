#pragma once
// pagoda bench kv-managers: compares paged, virtual and reserved KV memory: the attention kernel on equal
// lengths, the cost of mapping pages, and serving the same requests with the same KV bytes.
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct BenchKvManagersArgs {
  EngineFlags engine;  // --kv-cache-memory-bytes: for each manager; absent: 48 MiB
  std::int32_t num_prompts = 32;
  std::int32_t num_iters = 1;  // serving rounds; the median is reported
  std::string only;            // kernel, map or serve; empty: all
  std::string output_json;     // file; empty: none
  std::string output_svg;      // file; empty: none
};

Status run_bench_kv_managers(const BenchKvManagersArgs& args);

}  // namespace pagoda
