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
#include "engine/poison_record.h"
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
       .help = "folder, .gguf file, or ORG/NAME[:TAG] on the hub, downloaded if missing",
       .default_text = "the default model",
       .aliases = {"-m", "--hf", "--hfr", "--hf-repo"}},
      {.name = "revision",
       .value = flags::text(flags.revision, "NAME"),
       .help = "branch, tag or commit of ORG/NAME on the hub",
       .default_text = "main"},
      {.name = "hf-token",
       .value = flags::text(flags.hf_token, "TOKEN"),
       .help = "access token for the hub, hidden from `ps` [env HF_TOKEN]",
       .aliases = {"--hft"},
       .secret = true},
      {.name = "tokenizer",
       .value = flags::text(flags.tokenizer, "PATH"),
       .help = "tokenizer to use: folder, tokenizer.json or .gguf",
       .default_text = "the model's own"},
      {.name = "hf-overrides",
       .value = flags::text(flags.hf_overrides, "JSON"),
       .help = "JSON object of config.json fields to override; classifier_from_token makes a reranker",
       .default_text = "none"},
      {.name = "override-generation-config",
       .value = flags::text(flags.override_generation_config, "JSON"),
       .help = "JSON object of sampling defaults to override: temperature, top_p, top_k, ...",
       .default_text = "none"},
      {.name = "generation-config",
       .value = flags::text(flags.generation_config, "auto|vllm|PATH"),
       .help = "source of sampling defaults: auto (the model), vllm (none), or a folder or file",
       .details = "source of sampling defaults. `auto`: the model's generation_config.json or GGUF metadata; "
                  "`vllm`: none, the API's own defaults apply; otherwise a generation_config.json, or a "
                  "folder that has one",
       .default_text = "auto"},
      {.name = "max-logprobs",
       .value = flags::int32(flags.max_logprobs, -1),
       .help =
           "maximum number of log-probabilities per token that a request may ask for; -1: vocabulary size"},
      {.name = "chat-template",
       .value = flags::text(flags.chat_template, "FILE"),
       .help = "Jinja chat template file",
       .default_text = "the model's own",
       .aliases = {"--chat-template-file"}},
      {.name = "default-chat-template-kwargs",
       .value = flags::text(flags.default_chat_template_kwargs, "JSON"),
       .help = "default variables for the chat template: {\"enable_thinking\": false}",
       .details = "default variables for the chat template, such as `{\"enable_thinking\": false}`; a "
                  "request's own `chat_template_kwargs`, and fields with the same effect, take precedence",
       .default_text = "none",
       .aliases = {"--chat-template-kwargs"}},
      {.name = "runner",
       .value = flags::choice(flags.runner, {"auto", "generate", "pooling"}),
       .help = "task of the model: generate (text) or pooling (embeddings, scores); auto: from its files",
       .default_text = "auto"},
      {.name = "embeddings",
       .value = {.shape = FlagValue::Shape::on, .store = pooling},
       .help = "same as --runner pooling (llama-server's name)",
       .aliases = {"--embedding", "--reranking", "--rerank"}},
      {.name = "pooler-config",
       .value = flags::text(flags.pooler_config, "JSON"),
       .help = "pooler settings as JSON, in vLLM's words: pooling_type, use_activation",
       .default_text = "from the model's files",
       .aliases = {"--override-pooler-config"}},
      {.name = "pooling",
       .value = flags::parsed("mean|cls|last", store_pooling),
       .help = "pooling type, as pooling_type of --pooler-config (llama-server's name)"},
      {.name = "tool-call-parser",
       .value = flags::text(flags.tool_call_parser, "NAME"),
       .help = "tool call parser: a name from vLLM, auto (from the chat template) or none",
       .details = "tool call parser: a name from vLLM, `auto` (chosen from the chat template) or `none` "
                  "([tools](tools.md))",
       .default_text = "auto"},
      {.name = "reasoning-parser",
       .value = flags::text(flags.reasoning_parser, "NAME"),
       .help = "reasoning parser: a name from vLLM, auto or none",
       .details = "reasoning parser: a name from vLLM, `auto` or `none`; reasoning is then returned in a "
                  "field of its own ([tools](tools.md))",
       .default_text = "none"},
      {.name = "enable-auto-tool-choice",
       .value = flags::on(flags.enable_auto_tool_choice),
       .help = "ignored (accepted for vLLM compatibility)",
       .hidden = true},
      {.name = "served-model-name",
       .value = flags::several(flags.served_model_names, "NAME"),
       .help = "model names in the API; the first one is reported; '*' matches any text",
       .details = "model names in the API; default: the name of the file or folder. The first is reported, "
                  "all are accepted. A name with `*`, which matches any text (`claude-*`), is accepted but "
                  "not listed. The flag takes several words and may be repeated; without MODEL, the last "
                  "word is taken as MODEL if it can be one",
       .aliases = {"-a", "--alias"}},
      {.name = "any-model-name",
       .value = flags::on(flags.any_model_name),
       .help = "accept any model name in requests"},
      {.name = "dtype",
       .value = flags::choice(flags.dtype, {"auto", "float32", "bfloat16", "float16", "int8"},
                              {{"half", "float16"}, {"float", "float32"}}),
       .help = "data type of the weights in memory",
       .details = "data type of the weights in memory. `auto`: quantised weights are computed in 8 bits, "
                  "4-bit ones are kept as 4 bits, and unquantised ones are bfloat16 (float32 without AVX2). "
                  "`float16` (or `half`) keeps float16 weights as they are, multiplies in float32, and uses "
                  "a float16 KV cache unless told otherwise. `int8` rounds unquantised weights to 8 bits, "
                  "with one scale per 32 of them"},
      {.name = "quantization",
       .value = flags::choice(flags.quantization,
                              {"auto-round", "awq", "awq_marlin", "bitnet", "bitsandbytes",
                               "compressed-tensors", "fbgemm_fp8", "fp8", "gguf", "gptq", "gptq_marlin",
                               "modelopt", "modelopt_fp4", "modelopt_mixed", "moe_wna16", "mxfp4"}),
       .help = "refuse a model that is not quantised so",
       .details = "refuse a model that is not quantised so. How a model is quantised, its files say, and "
                  "weights are used as they are stored: `pagoda quantize` makes a quantised model of one "
                  "that is not",
       .default_text = "as the model is"},
      {.name = "quantize-activations",
       .value = flags::choice(flags.quantize_activations, {"auto", "on", "off"}),
       .help =
           "quantise activations as a quantised folder's scheme says (W8A8, FP8); auto: except in float32",
       .details = "quantise activations as a quantised folder's scheme says (W8A8, FP8: [quantised "
                  "folders](quantized-folders.md)). `auto`: unless `--dtype float32` is given"},
      {.name = "weight-cache",
       .value = flags::on_off(flags.weight_cache),
       .help = "keep packed weights on disk and map them from there at later starts",
       .details = "keep packed weights on disk and map them from there at later starts ([weight "
                  "cache](weight-cache.md))"},
      {.name = "weight-cache-bytes",
       .value = flags::integer(1, kMaxInt64, store_cache),
       .help = "size limit of the packed-weight cache; least recently used entries are evicted",
       .default_text = "100GiB"},
      {.name = "max-model-len",
       .value = flags::parsed("N", store_length),
       .help = "context length in tokens, prompt and output (8k); auto: what fits the KV cache",
       .details = "context length in tokens, prompt and output together; `auto` or -1: what fits the KV "
                  "cache; 0: the model's own",
       .default_text = "the model's own",
       .aliases = {"-c", "--ctx-size"}},
      {.name = "config",
       .value = flags::text(flags.config, "FILE"),
       .help = "YAML file of flags; the command line and the environment take precedence",
       .details = "YAML file of flags by name, see [above](#a-file-of-flags)"},
      {.name = "seed",
       .value = flags::integer(0, kMaxInt64, store_seed),
       .help = "random seed of requests that set none",
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
       .help =
           "speculative decoding by prompt lookup: {\"method\":\"ngram\",\"num_speculative_tokens\":5,...}",
       .details = "speculative decoding by prompt lookup, in vLLM's form: "
                  "`{\"method\":\"ngram\",\"num_speculative_tokens\":5,\"prompt_lookup_max\":4,\"prompt_"
                  "lookup_min\":2}`; the answers stay the same ([decoding](decoding.md#draft-tokens)). "
                  "`disable_by_batch_size` turns it off while more sequences than that are decoding (0: no "
                  "limit). If one of `prompt_lookup_max` and `prompt_lookup_min` is missing, it equals the "
                  "other; if both are, they are 5. Any other `method` or field is refused by name",
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
    auto device = parse_device(value == "none" ? "cpu" : value);  // llama-server's -dev none
    if (!device) return device.error();
    flags.device = device->name;
    flags.device_indices = device->indices;
    return ok_status();
  };
  return {
      {.name = "device",
       .value = flags::parsed("auto|cpu|cuda[:N,...]|emulated", store_device),
       .help = "device that computes the model; auto: cpu; emulated: CUDA kernels in software, slow",
       .details =
           "device that computes the model ([devices](devices.md)); `auto`: `cpu`. `cuda` needs a build with "
           "CUDA; `cuda:1` is the second of the GPUs that CUDA_VISIBLE_DEVICES leaves, `cuda:0,2` are those "
           "of two "
           "ranks of --tensor-parallel-size; `emulated` runs the same kernels in software, slowly, to find "
           "bugs in them. Also `-dev`, where llama-server's `none` is `cpu`",
       .default_text = "auto",
       .aliases = {"--dev"}},
      {.name = "emulated-device",
       .value = flags::parsed("NAME=N,...", store_emulated),
       .help = "settings of --device emulated: memory, granule, seed (stream order), lost-launch, "
               "refused-allocation",
       .default_text = "memory=256MiB,granule=2MiB,seed=0"},
      {.name = "device-attention",
       .value = flags::choice(flags.device_attention, {"auto", "tiles", "warpgroups", "plain"}),
       .help = "attention kernels on a device: tiles (bfloat16), warpgroups or plain; auto: tiles where "
               "supported",
       .details = "attention kernels on a device: `tiles` of bfloat16 products; `warpgroups`: the same, and "
                  "prompts by `wgmma` on compute capability 9.0; or `plain`; `auto`: those, or tiles, where "
                  "keys and "
                  "values are bfloat16 and the head size is a multiple of 8 up to 256 "
                  "([devices](devices.md#what-it-computes))"},
      {.name = "device-products",
       .value = flags::choice(flags.device_products, {"auto", "tiles", "plain", "cublaslt", "own"}),
       .help = "matrix products on a device: tiles (bfloat16), plain or cublaslt; auto: tiles with --dtype "
               "bfloat16",
       .details =
           "matrix products on a device. `tiles` and `plain` give a token the same bits in every batch; "
           "NVIDIA's `cublaslt` does not, and expands quantised weights first. `auto`, also called `own`: "
           "tiles with `--dtype bfloat16`, otherwise plain ([devices](devices.md#what-it-computes)). `pagoda "
           "doctor` shows which library is installed"},
      {.name = "device-graphs",
       .value = flags::choice(flags.device_graphs, {"auto", "check"}),
       .help =
           "decode steps on a device: replayed as graphs (auto), or also run eagerly and compared (check)",
       .details = "decode steps on a device are captured as graphs and replayed (`auto`). `check` also runs "
                  "each such step eagerly, from the same memory, and stops the engine if a byte that the two "
                  "write differs: slow, to find bugs ([devices](devices.md#graphs)). See `--enforce-eager`"},
      {.name = "device-early-launch",
       .value = flags::choice(flags.device_early_launch, {"auto", "on", "off"}),
       .help = "let a kernel begin before the one in front of it has ended (compute capability 9.0 and up); "
               "auto: off",
       .details = "let a kernel begin before the one in front of it has ended, as far as its weights go "
                  "(programmatic dependent launch, compute capability 9.0 and up); answers do not depend on "
                  "it. `auto` is off ([devices](devices.md#graphs))"},
      {.name = "enforce-eager",
       .value = flags::on_off(flags.enforce_eager),
       .help = "launch every step's kernels one by one, without graphs (on a device)"},
      {.name = "threads",
       .value = flags::int32(flags.threads, 0, kMaxThreads),
       .help = "number of compute threads; 0: one for each available core",
       .aliases = {"-t"}},
      {.name = "cpu-list",
       .value = flags::parsed("auto|none|LIST[|LIST...]", store_cpu_list),
       .help = "CPU cores to run on, such as 0-7,16-23, with one list per rank or engine; auto: one of them "
               "per NUMA node",
       .details =
           "CPU cores to run on, such as `0-7,16-23`; with several ranks or engines one list for each, "
           "separated by `|` and in quotes. Memory comes from the cores' NUMA node. `auto`: one rank or "
           "engine per node where there are several of both, otherwise no binding; `none`: no binding "
           "([ranks](tensor-parallelism.md#numa-nodes), [engines](data-parallelism.md#numa-nodes))",
       .default_text = "auto"},
      {.name = "backend",
       .value = flags::choice(flags.backend, {"cpu", "reference"}),
       .help = "kernels to use; reference is simple and slow"},
      {.name = "cpu-level",
       .value = flags::choice(flags.cpu_level, {"auto", "portable", "avx2", "avx512"}),
       .help = "instruction set to use",
       .details = "instruction set to use, at most the one that the CPU supports"},
      {.name = "disable-log-stats",
       .value = flags::on(flags.disable_log_stats),
       .help = "do not log throughput every 10 s"},
  };
}

std::vector<Flag> rank_flag_table(EngineFlags& flags) {
  return {
      {.name = "tensor-parallel-size",
       .value = flags::int32(flags.tensor_parallel_size, 1, kMaxRanks),
       .help = "number of tensor-parallel processes, each with a part of every layer",
       .details = "number of tensor-parallel processes, each with a part of every layer; under mpirun, the "
                  "number of processes it started ([tensor parallelism](tensor-parallelism.md)). Also `-tp`",
       .aliases = {"--tp"}},
      {.name = "data-parallel-size",
       .value = flags::int32(flags.data_parallel_size, 1, PoisonRecord::kMaxEngines),
       .help = "number of engines in this process; they divide the threads and the KV cache",
       .details = "number of engines in this process: they hold the weights once (on devices: on each) "
                  "and divide the threads, the KV cache, the swap space and the offloaded KV cache; "
                  "other limits hold for each. A request goes where the beginning of its prompt is "
                  "cached ([data parallelism](data-parallelism.md)). Also "
                  "`-dp`",
       .aliases = {"--dp", "--dp-size"}},
      {.name = "deterministic-allreduce",
       .value = flags::on_off(flags.deterministic_allreduce),
       .help = "sum the ranks' results in a fixed order; off: less data is sent, the last bits differ",
       .details = "gather the ranks' partial results and sum them in a fixed order, so that any number of "
                  "ranks gives the bits of one process; off: less data is sent, and the last bits differ"},
      {.name = "rank-timeout",
       .value = flags::number(flags.rank_timeout_s, 0, kMaxSeconds),
       .help = "seconds without an answer after which a rank is lost and the engine ends; 0: never",
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
  add("Default sampling parameters", sampling_flag_table(flags.sampling));
  add("Server", server_flag_table(flags.server));
  add("KV cache", kv_cache_flag_table(flags));
  add("Scheduler", scheduler_flag_table(flags));
  add("Machine", machine_flag_table(flags));
  add("Tensor parallelism", rank_flag_table(flags));
  return all;
}

}  // namespace pagoda
