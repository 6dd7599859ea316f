#pragma once
// Reads trace files as workloads, one request at a time; memory is one line, whatever the size of the file.
// No byte of them is trusted: every error names the file, the line and the field.
//     jsonl      {"prompt_tokens", "output_tokens", "arrival_s"|null, "prompt"|null, "prefix_hash_ids"|null}
//     custom     {"prompt", "output_tokens"?}: `vllm bench serve --dataset-name custom`
//     sharegpt   [{"conversations": [{"from", "value"}, ...]}, ...]: the file of ShareGPT_V3; or one per line
//     azure      TIMESTAMP,ContextTokens,GeneratedTokens: AzurePublicDataset's LLM traces
//     mooncake   {"timestamp": ms, "input_length", "output_length", "hash_ids"}
// Without times, arrival_s is NaN, to be replaced by load/arrivals.h. Threads: none.
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

// "sharegpt" -> TraceForm::sharegpt. invalid_argument: the message names the known forms.
Result<TraceForm> parse_trace_form(std::string_view name);

using TokenCounter = std::function<std::int64_t(std::string_view)>;

// Assumes four bytes per token, and at least one token; used without a tokenizer.
std::int64_t approximate_tokens(std::string_view text);

// No published trace has longer requests; more is a mistake in the file.
inline constexpr std::int32_t kMaxTraceTokens = 10'000'000;

struct TraceOptions {
  TraceForm form = TraceForm::detect;
  // Counts the tokens of texts without a token count (sharegpt, custom).
  TokenCounter count_tokens = approximate_tokens;
  // Answer length of prompts without a known answer (custom). 0: such a prompt is an error that names the
  // field.
  std::int32_t default_output_tokens = 256;
  // sharegpt: up to this many rounds of each conversation become requests. Each has its history before it,
  // cut to the last max_history_tokens (the paper, §6.4: 1,024). A shortened prompt is known by length only.
  std::int32_t max_rounds = 1;
  std::int32_t max_history_tokens = 1024;
  // sharegpt: skip the conversations that vLLM's benchmark skips: a prompt or answer under 4 tokens, a prompt
  // over 1,024, both together over 2,048.
  bool prune_like_vllm = true;
};

// `name` is used in messages. The form is detected from the first bytes unless `options` gives it.
Result<std::unique_ptr<Workload>> read_trace(std::unique_ptr<std::istream> stream, std::string name,
                                             const TraceOptions& options);
// not_found: the file does not exist or is not a regular file.
Result<std::unique_ptr<Workload>> open_trace(const std::string& path, const TraceOptions& options);

}  // namespace pagoda
