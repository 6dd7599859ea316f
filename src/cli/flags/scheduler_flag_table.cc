// The flags of the scheduler.
#include <limits>

#include "base/assign_or_return.h"
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/flag_limits.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/speculative_flag.h"
#include "scheduler/admission_order.h"
#include "scheduler/preemption_policy.h"

namespace pagoda {
namespace {

std::vector<std::string> scheduling_policies() {
  std::vector<std::string> names = {"auto"};
  for (const PolicyFacts& policy : kSchedulingPolicies) names.emplace_back(policy.name);
  return names;
}

std::vector<std::string> preemption_modes() {
  std::vector<std::string> names;
  for (const PreemptionFacts& policy : kPreemptionPolicies) names.emplace_back(policy.flag);
  return names;
}

}  // namespace

std::vector<Flag> scheduler_flag_table(EngineFlags& flags) {
  const auto store_tokens = [&flags](std::int64_t tokens) {
    flags.max_num_batched_tokens = static_cast<std::int32_t>(tokens);
  };
  const auto store_itl = [&flags](const std::string& value) -> Status {
    PAGODA_ASSIGN_OR_RETURN(const auto parsed, flags::parse_number(value));
    if (!(parsed >= 0 && parsed <= 1e6)) return invalid_argument("must be from 0 to 1000000");
    flags.target_itl_ms = parsed;
    return ok_status();
  };
  const auto store_queue_time = [&flags](const std::string& value) -> Status {
    PAGODA_ASSIGN_OR_RETURN(
        const auto parsed,
        flags::parse_number(value.ends_with('s') ? value.substr(0, value.size() - 1) : value));
    if (!(parsed >= 0 && parsed <= kMaxSeconds)) return invalid_argument("must be from 0 to 86400 seconds");
    flags.max_queue_time_s = parsed;
    return ok_status();
  };
  const auto store_speculation = [&flags](const std::string& value) -> Status {
    PAGODA_ASSIGN_OR_RETURN(flags.speculative, parse_speculative_config(value));
    return ok_status();
  };
  return {
      {.name = "max-num-seqs",
       .value = flags::int32(flags.max_num_seqs, 1),
       .help = "maximum number of sequences per step",
       .aliases = {"--np", "--parallel"}},
      {.name = "max-num-batched-tokens",
       .value = flags::integer(1, kMaxInt32, store_tokens),
       .help = "maximum number of tokens per step",
       .default_text = "256, on a GPU 2048, or the least that works",
       .aliases = {"-b", "--batch-size"}},
      {.name = "enable-chunked-prefill",
       .value = flags::on_off(flags.enable_chunked_prefill),
       .help = "split long prompts over several steps"},
      {.name = "async-scheduling",
       .value = flags::on_off(flags.async_scheduling),
       .help = "plan each step while the one before it runs",
       .details =
           "plan each step while the one before it runs on a thread of its own; answers are the same, to "
           "the bit ([decoding](decoding.md#asynchronous-scheduling)). Without effect for several ranks on "
           "CPUs, "
           "`--scheduler orca` and `fastertransformer`"},
      {.name = "scheduling-policy",
       .value = flags::choice(flags.scheduling_policy, scheduling_policies()),
       .help = "admission order; auto: fair with several API keys or a key file, otherwise fcfs",
       .details = "admission order: `fcfs`; `priority`, by the request's `priority` field, lower first; "
                  "`fair`, weighted shares between clients ([operations](operations.md#fair-shares)); "
                  "`auto`: `fair` with several API keys or a key file, otherwise `fcfs`"},
      {.name = "scheduler",
       .value = flags::choice(flags.scheduler, {"vllm", "orca", "fastertransformer"}),
       .help = "scheduler; orca and fastertransformer are the baselines of the vLLM paper",
       .details = "scheduler: `vllm`, or a baseline of the vLLM paper on the reserved KV manager: `orca` "
                  "(iteration-level batching in order of arrival, no preemption) or `fastertransformer` "
                  "(static batches that return together)"},
      {.name = "preemption-mode",
       .value = flags::choice(flags.preemption_mode, preemption_modes()),
       .help = "recovery of preempted requests; auto: the cheaper one, as measured",
       .details = "recovery of a preempted request's KV cache; `auto`: the cheaper one, as measured"},
      {.name = "target-itl-ms",
       .value = flags::parsed("MS", store_itl),
       .help = "target inter-token latency: prompts are split so that steps take no longer; 0: off",
       .details =
           "target inter-token latency: prompts are split so that steps with running streams take no longer "
           "([decoding](decoding.md#a-target-for-the-gap-between-tokens)); needs chunked prefill; 0: off",
       .default_text = "100 for serve, otherwise 0"},
      {.name = "max-queue",
       .value = flags::int32(flags.max_queue, 1),
       .help = "maximum number of waiting requests; further ones get 429",
       .aliases = {"--max-num-queued-reqs"}},
      {.name = "max-queue-time",
       .value = flags::parsed("S", store_queue_time),
       .help = "maximum expected wait; requests that would wait longer get 429; 0: no limit",
       .details =
           "maximum expected wait before a request starts; requests that would wait longer get 429 at once, "
           "with the expected wait in `Retry-After` ([operations](operations.md#overload)); 0: no limit",
       .default_text = "10 for serve, otherwise 0"},
      {.name = "speculative-config",
       .value = flags::parsed("JSON", store_speculation),
       .help = "speculative decoding: {\"method\":\"ngram\",\"num_speculative_tokens\":5,...} or with a "
               "\"model\"",
       .details = "speculative decoding, in vLLM's form. By prompt lookup: "
                  "`{\"method\":\"ngram\",\"num_speculative_tokens\":5,\"prompt_lookup_max\":4,\"prompt_"
                  "lookup_min\":2}`; the answers stay the same ([decoding](decoding.md#draft-tokens)). "
                  "`disable_by_batch_size` turns it off while more sequences than that are decoding (0: no "
                  "limit). If one of `prompt_lookup_max` and `prompt_lookup_min` is missing, it equals the "
                  "other; if both are, they are 5. By a smaller model of the same vocabulary: "
                  "`{\"model\":\"MODEL\",\"num_speculative_tokens\":5}`. Any other `method` or field is "
                  "refused by name",
       .default_text = "off"},
  };
}

}  // namespace pagoda
