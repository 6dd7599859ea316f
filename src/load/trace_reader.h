#pragma once
// Trace files as workloads, one request at a time; a file of any size costs one line of memory. No byte of
// them is trusted: every refusal names the file, the line and the field.
//     jsonl      {"prompt_tokens", "output_tokens", "arrival_s"|null, "prompt"|null, "prefix_hash_ids"|null}
//     custom     {"prompt", "output_tokens"?}: `vllm bench serve --dataset-name custom`
//     sharegpt   [{"conversations": [{"from", "value"}, ...]}, ...]: ShareGPT_V3's own file; also one a line
//     azure      TIMESTAMP,ContextTokens,GeneratedTokens: AzurePublicDataset's LLM traces
//     mooncake   {"timestamp": ms, "input_length", "output_length", "hash_ids"}
// arrival_s is NaN in forms without times, for load/arrivals.h to replace. Threads: none.
#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "load/workload.h"

namespace pagoda {

enum class TraceForm { detect, jsonl, custom, sharegpt, azure, mooncake };

// "sharegpt" -> TraceForm::sharegpt. invalid_argument names the known ones.
Result<TraceForm> parse_trace_form(std::string_view name);

using TokenCounter = std::function<std::int64_t(std::string_view)>;

// Four bytes a token, at least one: where there is no tokenizer.
std::int64_t approximate_tokens(std::string_view text);

// No request of any trace is longer: more is a mistake in the file.
inline constexpr std::int32_t kMaxTraceTokens = 10'000'000;

struct TraceOptions {
  TraceForm form = TraceForm::detect;
  // Counts what the file gives only as text (sharegpt, custom).
  TokenCounter count_tokens = approximate_tokens;
  // Answer length for text without a known answer (custom). 0: an error that names the field.
  std::int32_t default_output_tokens = 256;
  // sharegpt: this many rounds of each conversation become requests, each after its history, of which the
  // last max_history_tokens are kept (the paper, §6.4: 1,024). A shortened prompt is known by length only.
  std::int32_t max_rounds = 1;
  std::int32_t max_history_tokens = 1024;
  // sharegpt: conversations that vLLM's benchmark leaves out are left out: a prompt or answer under 4 tokens,
  // a prompt over 1,024, both together over 2,048.
  bool prune_like_vllm = true;
};

// `name` is for messages. The form is detected from the first bytes unless told.
Result<std::unique_ptr<Workload>> read_trace(std::unique_ptr<std::istream> stream, std::string name,
                                             const TraceOptions& options);
// not_found: no such file, or not a regular one.
Result<std::unique_ptr<Workload>> open_trace(const std::string& path, const TraceOptions& options);

}  // namespace pagoda
