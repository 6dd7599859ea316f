#pragma once
// pagoda bench kv-managers: paged, virtual and reserved KV memory side by side: the attention kernel on equal
// lengths, what mapping pages costs, and the same requests served in the same KV bytes.
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct BenchKvManagersArgs {
  EngineFlags engine;  // --kv-cache-memory-bytes: for each manager; absent: 48 MiB
  std::int32_t num_prompts = 32;
  std::int32_t num_iters = 1;  // rounds of serving; the median counts
  std::string only;            // kernel, map or serve; empty: all
  std::string output_json;     // file; empty: none
  std::string output_svg;      // the same
};

Status run_bench_kv_managers(const BenchKvManagersArgs& args);

}  // namespace pagoda
