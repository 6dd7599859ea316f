#include "cli/flags/engine_flag_table.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/strings.h"
#include "cli/flags/cpu_list_flag.h"
#include "cli/flags/device_flags.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/parse_size.h"
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

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();
constexpr double kMaxSeconds = 86'400;
constexpr std::int32_t kMaxThreads = 1024, kMaxRanks = 64;

std::vector<Flag> model_flag_table(EngineFlags& flags) {
  const auto store_length = [&flags](const std::string& value) -> Status {
    if (value == "auto" || value == "-1") {
      flags.max_model_len = kMaxModelLenAuto;
      return ok_status();
    }
    const auto size = parse_size(value);
    if (size == 0) {  // as llama-server's -c 0
      flags.max_model_len.reset();
      return ok_status();
    }
    if (!size || *size < 1 || *size > kMaxInt32)
      return invalid_argument(concat("'", value, "' is neither a number of tokens nor auto"));
    flags.max_model_len = static_cast<std::int32_t>(*size);
    return ok_status();
  };
  const auto store_seed = [&flags](std::int64_t seed) { flags.seed = static_cast<std::uint64_t>(seed); };
  const auto store_cache = [&flags](std::int64_t bytes) { flags.weight_cache_bytes = bytes; };
  const auto pooling = [&flags](const std::string&) {
    flags.runner = "pooling";
    return ok_status();
  };
  const auto store_pooling = [&flags](const std::string& value) -> Status {
    if (value != "mean" && value != "cls" && value != "last")
      return invalid_argument("must be mean, cls or last");
    std::string type = value;
    std::ranges::transform(type, type.begin(), [](char c) { return static_cast<char>(c - 'a' + 'A'); });
    flags.pooler_config = concat(R"({"pooling_type":")", type, "\"}");
    return ok_status();
  };
  return {
      {.name = "model",
       .positional = "MODEL",
       .value = flags::text(flags.model, "PATH"),
       .help = "folder, .gguf file, or ORG/NAME[:TAG], which is fetched if it is not there",
       .default_text = "the default model",
       .aliases = {"-m", "--hf", "--hfr", "--hf-repo"}},
      {.name = "revision",
       .value = flags::text(flags.revision, "NAME"),
       .help = "branch, tag or commit of ORG/NAME on the hub",
       .default_text = "main"},
      {.name = "hf-token",
       .value = flags::text(flags.hf_token, "TOKEN"),
       .help = "token for the hub; `ps` does not show it [env HF_TOKEN]",
       .aliases = {"--hft"},
       .secret = true},
      {.name = "tokenizer",
       .value = flags::text(flags.tokenizer, "PATH"),
       .help = "folder, tokenizer.json or .gguf; else the model's own"},
      {.name = "hf-overrides",
       .value = flags::text(flags.hf_overrides, "JSON"),
       .help =
           "fields of config.json instead of the model's own; classifier_from_token makes a reranker of it",
       .default_text = "none"},
      {.name = "override-generation-config",
       .value = flags::text(flags.override_generation_config, "JSON"),
       .help = "sampling defaults instead of generation_config.json's: temperature, top_p, top_k, ...",
       .default_text = "none"},
      {.name = "generation-config",
       .value = flags::text(flags.generation_config, "auto|vllm|PATH"),
       .help = "sampling defaults: the model's (auto), none (vllm), or a folder's or file's",
       .details = "sampling defaults. `auto`: the model's, in its generation_config.json or its GGUF "
                  "metadata; `vllm`: none, as the API defines them; else a folder with a "
                  "generation_config.json, or such a file",
       .default_text = "auto"},
      {.name = "max-logprobs",
       .value = flags::int32(flags.max_logprobs, -1),
       .help = "most log-probabilities of a token that a request may ask for; -1: of the whole vocabulary"},
      {.name = "chat-template",
       .value = flags::text(flags.chat_template, "FILE"),
       .help = "Jinja chat template; else the model's own",
       .aliases = {"--chat-template-file"}},
      {.name = "default-chat-template-kwargs",
       .value = flags::text(flags.default_chat_template_kwargs, "JSON"),
       .help = "names for the chat template that requests do not set: {\"enable_thinking\": false}",
       .details = "names for the chat template, as `{\"enable_thinking\": false}`; a request's own "
                  "`chat_template_kwargs`, and fields that stand for one, win",
       .default_text = "none",
       .aliases = {"--chat-template-kwargs"}},
      {.name = "runner",
       .value = flags::choice(flags.runner, {"auto", "generate", "pooling"}),
       .help = "generate text, or make vectors (pooling); auto: as the model's files say",
       .default_text = "auto"},
      {.name = "embeddings",
       .value = {.shape = FlagValue::Shape::on, .store = pooling},
       .help = "llama-server's name of --runner pooling",
       .aliases = {"--embedding", "--reranking", "--rerank"}},
      {.name = "pooler-config",
       .value = flags::text(flags.pooler_config, "JSON"),
       .help = "pooling of vectors in vLLM's words: pooling_type, use_activation",
       .default_text = "as the model's files say"},
      {.name = "pooling",
       .value = flags::parsed("mean|cls|last", store_pooling),
       .help = "llama-server's name of --pooler-config's pooling_type"},
      {.name = "tool-call-parser",
       .value = flags::text(flags.tool_call_parser, "NAME"),
       .help = "tool-call format of the model: vLLM's name, auto or none",
       .details = "tool-call format of the model: vLLM's name, `auto` (by the chat template) or `none` "
                  "([tools](tools.md))",
       .default_text = "auto"},
      {.name = "reasoning-parser",
       .value = flags::text(flags.reasoning_parser, "NAME"),
       .help = "reasoning format of the model: vLLM's name, auto or none",
       .details = "reasoning format of the model: vLLM's name, `auto` or `none`; reasoning then comes in a "
                  "field of its own ([tools](tools.md))",
       .default_text = "none"},
      {.name = "enable-auto-tool-choice",
       .value = flags::on(flags.enable_auto_tool_choice),
       .help = "ignored (accepted for vLLM compatibility)",
       .hidden = true},
      {.name = "served-model-name",
       .value = flags::several(flags.served_model_names, "NAME"),
       .help = "names in the API, the first is reported; '*' stands for any text",
       .details =
           "names in the API, else named after the file: the first is reported, all are accepted. A name "
           "with `*`, which stands for any text (`claude-*`), is accepted and not listed. One flag takes "
           "several words, or each has its own; where MODEL is not given, the last word is MODEL if it can "
           "name "
           "one",
       .aliases = {"-a", "--alias"}},
      {.name = "any-model-name",
       .value = flags::on(flags.any_model_name),
       .help = "requests may name any model: this one answers"},
      {.name = "dtype",
       .value = flags::choice(flags.dtype, {"auto", "float32", "bfloat16", "float16", "int8"},
                              {{"half", "float16"}, {"float", "float32"}}),
       .help = "weights in memory",
       .details = "type of the weights in memory. `auto` computes quantised weights in 8 bits, 4-bit ones "
                  "kept as 4 bits, and plain ones in bfloat16 (in float32 without AVX2); `float16`, also "
                  "called `half`, keeps weights of that type as they are, multiplies in float32, and keeps "
                  "keys and values in float16 unless told otherwise; `int8` rounds plain weights to 8 bits "
                  "with a scale for 32 of them"},
      {.name = "weight-cache",
       .value = flags::on_off(flags.weight_cache),
       .help = "keep packed weights on disk and map them from there",
       .details = "keep packed weights on disk and map them from there ([weight cache](weight-cache.md))"},
      {.name = "weight-cache-bytes",
       .value = flags::integer(1, kMaxInt64, store_cache),
       .help = "size limit of the packed-weight cache; least recently used entries are evicted",
       .default_text = "100GiB"},
      {.name = "max-model-len",
       .value = flags::parsed("N", store_length),
       .help = "prompt + output tokens of a sequence (8k; auto: what fits); else the model's",
       .details = "prompt + output tokens of one sequence, else the model's; `auto` or -1: the most that the "
                  "KV cache "
                  "can hold; 0: the model's",
       .aliases = {"-c", "--ctx-size"}},
      {.name = "config",
       .value = flags::text(flags.config, "FILE"),
       .help = "YAML file of flags by name; the command line and the environment come before it",
       .details = "YAML file of flags by name, see [above](#a-file-of-flags)"},
      {.name = "seed",
       .value = flags::integer(0, kMaxInt64, store_seed),
       .help = "seed of requests without their own",
       .default_text = "0",
       .aliases = {"-s"}},
  };
}

std::vector<Flag> scheduler_flag_table(EngineFlags& flags) {
  const auto store_tokens = [&flags](std::int64_t tokens) {
    flags.max_num_batched_tokens = static_cast<std::int32_t>(tokens);
  };
  const auto store_itl = [&flags](const std::string& value) -> Status {
    const auto parsed = flags::parse_number(value);
    if (!parsed) return parsed.error();
    if (!(*parsed >= 0 && *parsed <= 1e6)) return invalid_argument("must be from 0 to 1000000");
    flags.target_itl_ms = *parsed;
    return ok_status();
  };
  const auto store_queue_time = [&flags](const std::string& value) -> Status {
    const auto parsed = flags::parse_number(value.ends_with('s') ? value.substr(0, value.size() - 1) : value);
    if (!parsed) return parsed.error();
    if (!(*parsed >= 0 && *parsed <= kMaxSeconds)) return invalid_argument("must be from 0 to 86400 seconds");
    flags.max_queue_time_s = *parsed;
    return ok_status();
  };
  const auto store_speculation = [&flags](const std::string& value) -> Status {
    auto config = parse_speculative_config(value);
    if (!config) return config.error();
    flags.speculative = *config;
    return ok_status();
  };
  return {
      {.name = "max-num-seqs",
       .value = flags::int32(flags.max_num_seqs, 1),
       .help = "sequences in one step",
       .aliases = {"--np", "--parallel"}},
      {.name = "max-num-batched-tokens",
       .value = flags::integer(1, kMaxInt32, store_tokens),
       .help = "tokens in one step; else chosen by the engine",
       .aliases = {"-b", "--batch-size"}},
      {.name = "enable-chunked-prefill",
       .value = flags::on_off(flags.enable_chunked_prefill),
       .help = "split long prompts over steps"},
      {.name = "scheduling-policy",
       .value = flags::choice(flags.scheduling_policy, scheduling_policies()),
       .help = "admission order; auto: fair with several API keys or a key file, else fcfs",
       .details = "admission order: `fcfs`; `priority`, by the request's `priority`, lower first; `fair`, "
                  "weighted shares between clients ([operations](operations.md#fair-shares)); `auto`: `fair` "
                  "with several API keys or a key file, else `fcfs`"},
      {.name = "scheduler",
       .value = flags::choice(flags.scheduler, {"vllm", "orca", "fastertransformer"}),
       .help = "scheduler; orca and fastertransformer are the paper's baselines",
       .details = "scheduler: `vllm`, or one of the paper's baselines on the reserved manager: `orca` "
                  "(iteration-level, in order of arrival, never preempts), `fastertransformer` (batches that "
                  "run to their end and answer together)"},
      {.name = "preemption-mode",
       .value = flags::choice(flags.preemption_mode, preemption_modes()),
       .help = "recovery of preempted requests; auto: whichever measured as cheaper",
       .details =
           "recovery of preempted requests' keys and values; `auto`: whichever costs less, as measured"},
      {.name = "target-itl-ms",
       .value = flags::parsed("MS", store_itl),
       .help =
           "prompts are split so that steps beside running streams last no longer; 0: they may take any time",
       .details =
           "split prompts so that steps beside running streams last no longer "
           "([decoding](decoding.md#a-target-for-the-gap-between-tokens)); needs chunked prefill; 0: off",
       .default_text = "serve: 100, else 0"},
      {.name = "max-queue",
       .value = flags::int32(flags.max_queue, 1),
       .help = "requests that may wait; more get 429",
       .aliases = {"--max-num-queued-reqs"}},
      {.name = "max-queue-time",
       .value = flags::parsed("S", store_queue_time),
       .help = "requests that would wait longer to start get 429 at once; 0: no limit",
       .details = "requests whose expected wait before they start is longer get 429 at once, with the wait in"
                  " `Retry-After` ([operations](operations.md#overload)); 0: no limit",
       .default_text = "serve: 10, else 0"},
      {.name = "speculative-config",
       .value = flags::parsed("JSON", store_speculation),
       .help = "draft tokens by prompt lookup: {\"method\":\"ngram\",\"num_speculative_tokens\":5,...}",
       .details = "draft tokens by prompt lookup, as vLLM's "
                  "`{\"method\":\"ngram\",\"num_speculative_tokens\":5,\"prompt_lookup_max\":4,\"prompt_"
                  "lookup_min\":2}`; "
                  "the answers stay the same ([decoding](decoding.md#draft-tokens)). "
                  "`disable_by_batch_size` (0: no "
                  "limit) turns it off beside so many decoding sequences. Without `prompt_lookup_max` or "
                  "`_min` that "
                  "one is as the other, without both 5. Any other `method` or field is refused by name",
       .default_text = "off"},
  };
}

std::vector<Flag> machine_flag_table(EngineFlags& flags) {
  const auto store_cpu_list = [&flags](const std::string& value) -> Status {
    auto list = parse_cpu_list_flag(value);
    if (!list) return list.error();
    flags.cpu_list = *std::move(list);
    return ok_status();
  };
  const auto store_emulated = [&flags](const std::string& value) -> Status {
    auto device = parse_emulated_device(value);
    if (!device) return device.error();
    flags.emulated_device = *device;
    return ok_status();
  };
  const auto store_device = [&flags](const std::string& value) -> Status {
    auto device = parse_device(value);
    if (!device) return device.error();
    flags.device = device->name;
    flags.device_index = device->index;
    return ok_status();
  };
  return {
      {.name = "device",
       .value = flags::parsed("auto|cpu|cuda[:N]|emulated", store_device),
       .help = "device that computes the model; auto is cpu; emulated is slow and finds faults",
       .details = "device that computes the model ([devices](devices.md)); `auto` is `cpu`. `cuda` needs a "
                  "build with device code; `cuda:1` is the second of the GPUs that CUDA_VISIBLE_DEVICES "
                  "leaves; `emulated` runs the same kernels in software, slowly, to find their faults",
       .default_text = "auto"},
      {.name = "emulated-device",
       .value = flags::parsed("NAME=N,...", store_emulated),
       .help = "settings of --device emulated: memory, granule, seed (order of streams), lost-launch, "
               "refused-allocation",
       .default_text = "memory=256MiB,granule=2MiB,seed=0"},
      {.name = "device-attention",
       .value = flags::choice(flags.device_attention, {"auto", "tiles", "plain"}),
       .help = "attention kernels on a device: tiles of bfloat16 products, or plain; auto: tiles where "
               "they fit",
       .details = "attention kernels on a device: tiles of bfloat16 products, or plain; `auto`: tiles where "
                  "keys and values are bfloat16 and heads a multiple of 8 up to 256 "
                  "([devices](devices.md#what-it-computes))"},
      {.name = "device-products",
       .value = flags::choice(flags.device_products, {"auto", "tiles", "plain", "cublaslt", "own"}),
       .help = "matrix products on a device: tiles of bfloat16, plain, or cuBLASLt; auto: tiles with "
               "--dtype bfloat16",
       .details = "matrix products on a device. `tiles` and `plain` give a token the same bits in every "
                  "batch; NVIDIA's `cublaslt` does not, and widens quantised weights. `auto`, also called "
                  "`own`: tiles with `--dtype bfloat16`, else plain ([devices](devices.md#what-it-computes))."
                  " `pagoda doctor` names the library that is there"},
      {.name = "threads",
       .value = flags::int32(flags.threads, 0, kMaxThreads),
       .help = "compute threads; 0: every core this process may use",
       .aliases = {"-t"}},
      {.name = "cpu-list",
       .value = flags::parsed("auto|none|LIST[|LIST...]", store_cpu_list),
       .help = "cores, such as 0-7,16-23, that the process runs on, or each rank; auto: one rank a NUMA node",
       .details = "cores, such as `0-7,16-23`, that the process runs on; with ranks one list for each, in "
                  "quotes with `|` "
                  "between them. Memory comes from their NUMA node. `auto`: one rank a node where there are "
                  "several of "
                  "both, else nothing is bound; `none`: nothing is ([ranks and "
                  "NUMA](tensor-parallelism.md#numa-nodes))",
       .default_text = "auto"},
      {.name = "backend",
       .value = flags::choice(flags.backend, {"cpu", "reference"}),
       .help = "kernels; reference is plain and slow"},
      {.name = "cpu-level",
       .value = flags::choice(flags.cpu_level, {"auto", "portable", "avx2", "avx512"}),
       .help = "instructions used",
       .details = "instructions used: at most what the CPU has"},
      {.name = "disable-log-stats",
       .value = flags::on(flags.disable_log_stats),
       .help = "no throughput line every 10 s"},
  };
}

std::vector<Flag> rank_flag_table(EngineFlags& flags) {
  return {
      {.name = "tensor-parallel-size",
       .value = flags::int32(flags.tensor_parallel_size, 1, kMaxRanks),
       .help = "processes that share the model, each with a part of every layer",
       .details =
           "processes that share the model, each with a part of every layer; under mpirun as many as it has "
           "started ([tensor parallelism](tensor-parallelism.md)). Also `-tp`",
       .aliases = {"--tp"}},
      {.name = "deterministic-allreduce",
       .value = flags::on_off(flags.deterministic_allreduce),
       .help = "ranks give the same bits as one process; off: less is sent, other last bits",
       .details = "partial results of ranks are gathered and summed in one order, so that any number of ranks"
                  " gives the bits of one process; off: less is sent, and the last bits differ"},
      {.name = "rank-timeout",
       .value = flags::number(flags.rank_timeout_s, 0, kMaxSeconds),
       .help = "a rank that does not answer for so long is lost, and the engine ends; 0: never",
       .type = "S"},
  };
}

}  // namespace

std::vector<Flag> engine_flag_table(EngineFlags& flags) {
  std::vector<Flag> all;
  const auto add = [&all](const char* group, std::vector<Flag> rows) {
    for (Flag& row : rows) {
      row.group = group;
      row.environment = true;
    }
    all.insert(all.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  };
  add("Model", model_flag_table(flags));
  add("Model", rope_flag_table(flags));
  add("Sampling of requests that do not set it", sampling_flag_table(flags.sampling));
  add("Server", server_flag_table(flags.server));
  add("KV cache", kv_cache_flag_table(flags));
  add("Scheduler", scheduler_flag_table(flags));
  add("Machine", machine_flag_table(flags));
  add("Tensor parallelism", rank_flag_table(flags));
  return all;
}

}  // namespace pagoda
