#include "scheduler/vllm/request_check.h"

#include "base/strings.h"
#include "scheduler/group_ops.h"

namespace pagoda {
namespace {

Status check_beams(const Request& request, const SchedulerConfig& config, const KvManager& kv,
                   std::int64_t usable) {
  const auto prompt = static_cast<std::int64_t>(request.prompt_token_ids.size());
  const std::int64_t total = max_tokens_of(request, config.max_model_len);
  const std::int32_t width = request.sampling.width();
  if (width > config.max_num_batched_tokens) {
    return invalid_argument(concat(width_name(request.sampling), " = ", width,
                                   " beams cannot run in one step: max_num_batched_tokens is ",
                                   config.max_num_batched_tokens, "."))
        .with_param(width_name(request.sampling));
  }
  const std::int64_t blocks = kv.geometry().pages_alone(total, width, prompt, request.work.whole_prompt);
  if (blocks > usable) {
    return invalid_argument(concat("The request can never fit: ", width, " beams of ", total,
                                   " tokens may need ", blocks, " KV blocks, and the whole KV cache has ",
                                   usable, "."))
        .with_param("max_tokens");
  }
  return kv.check_alone(width, total, blocks);
}

}  // namespace

Status check_runs_alone(const Request& request, const SchedulerConfig& config, const KvManager& kv) {
  const auto prompt = static_cast<std::int64_t>(request.prompt_token_ids.size());
  const SamplingParams& sampling = request.sampling;
  const std::int32_t width =
      sampling.use_beam_search ? sampling.width() : std::max(sampling.n, sampling.best_of);
  PAGODA_RETURN_IF_ERROR(check_lengths(request, width, config));
  const std::int64_t total = max_tokens_of(request, config.max_model_len);
  // A pinned prefix may start this prompt, but its blocks are counted as if it did not.
  const std::int64_t usable = kv.num_blocks() - kv.sharing().num_pinned_blocks();
  const std::int64_t needed = kv.geometry().pages_alone(total, 1, 0, request.work.whole_prompt);
  if (needed > usable) {
    const std::int64_t most = kv.geometry().tokens_alone(usable);
    return invalid_argument(concat("The request can never fit: it may need ", total,
                                   " tokens of KV cache (prompt ", prompt,
                                   " + max_tokens), and the whole KV cache holds ", most,
                                   usable < kv.num_blocks() ? " beside the pinned prefixes." : "."))
        .with_param(prompt > most ? "prompt" : "max_tokens")
        .with_reason("context_length_exceeded");
  }
  if (request.work.whole_prompt && prompt > config.max_num_batched_tokens) {
    return invalid_argument(concat("The prompt has ", prompt,
                                   " tokens and has to be computed in one step: "
                                   "max_num_batched_tokens is ",
                                   config.max_num_batched_tokens, "."))
        .with_param("prompt")
        .with_reason("context_length_exceeded");
  }
  if (sampling.use_beam_search) return check_beams(request, config, kv, usable);
  return kv.check_alone(1, total, needed);  // samples can run one after another
}

}  // namespace pagoda
