#include "cli/flags/add_engine_flags.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/strings.h"
#include "cli/flags/flags.h"
#include "cli/flags/parse_size.h"
#include "cli/flags/speculative_flag.h"

namespace pagoda {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();
constexpr double kMaxSeconds = 86'400;
constexpr std::int32_t kMaxThreads = 1024, kMaxRanks = 64;

void add_model_flags(CLI::App& app, EngineFlags& flags) {
  const char* group = "Model";
  flags::text(app, "MODEL,--model", flags.model, "PATH",
              "folder, .gguf file, or ORG/NAME in the local Hugging Face cache")
      ->default_str("the default model")
      ->group(group);
  flags::text(app, "--tokenizer", flags.tokenizer, "PATH",
              "folder, tokenizer.json or .gguf; else the model's own")
      ->group(group);
  flags::text(app, "--chat-template", flags.chat_template, "FILE",
              "Jinja chat template; else the model's own")
      ->group(group);
  flags::texts(app, "--served-model-name", flags.served_model_names, "NAME",
               "name in the API; repeatable, the first is reported")
      ->group(group);
  flags::choice(app, "--dtype", flags.dtype, {"auto", "float32", "bfloat16", "int8"}, "weights in memory")
      ->group(group);
  const auto store_length = [name = "--max-model-len", &flags](const std::string& value) {
    if (value == "auto" || value == "-1") {
      flags.max_model_len = kMaxModelLenAuto;
      return;
    }
    const auto size = parse_size(value);
    if (!size || *size < 1 || *size > kMaxInt32)
      throw CLI::ValidationError(name, concat("'", value, "' is neither a number of tokens nor auto"));
    flags.max_model_len = static_cast<std::int32_t>(*size);
  };
  app.add_option_function<std::string>(
         "--max-model-len", store_length,
         "prompt + output tokens of a sequence (8k; auto: what fits); else the model's")
      ->type_name("N")
      ->group(group);
  const auto store_seed = [&flags](std::int64_t seed) { flags.seed = static_cast<std::uint64_t>(seed); };
  flags::integer(app, "--seed", 0, kMaxInt64, store_seed, "for requests without their own")
      ->default_str("0")
      ->group(group);
}

void add_cache_flags(CLI::App& app, EngineFlags& flags) {
  const char* group = "KV cache";
  const auto store_bytes = [&flags](std::int64_t bytes) { flags.kv_cache_memory_bytes = bytes; };
  flags::integer(app, "--kv-cache-memory-bytes", 1, kMaxInt64, store_bytes,
                 "size (4GiB, 512M); else --kv-cache-memory-fraction decides")
      ->group(group);
  flags::number(app, "--kv-cache-memory-fraction", flags.kv_cache_memory_fraction, 0.001, 1.0,
                "share of the memory available after loading the weights")
      ->group(group);
  // vLLM's 8 bits are fp8, in several forms.
  const auto not_fp8 = [](const std::string& value) {
    return value.starts_with("fp8") ? concat("'", value, "' is not supported; int8 has 8 bits too")
                                    : std::string();
  };
  flags::choice(app, "--kv-cache-dtype", flags.kv_cache_dtype,
                {"auto", "float32", "bfloat16", "float16", "int8"}, "keys and values")
      ->check(not_fp8)
      ->group(group);
  flags::int32(app, "--block-size", flags.block_size, 1, "tokens in a block, 1 to 256", 256)->group(group);
  flags::on_off(app, "enable-prefix-caching", flags.enable_prefix_caching,
                "keep and reuse the blocks of equal prefixes")
      ->default_str("on")
      ->group(group);
  flags::text(app, "--prefix-file", flags.prefix_file, "FILE",
              "JSON list of {\"name\", \"text\" | \"messages\" | \"token_ids\"}: prefixes kept for all")
      ->group(group);
  flags::choice(app, "--kv-manager", flags.kv_manager, {"auto", "paged", "virtual", "reserved"},
                "blocks, pages in address space, or a whole region each; auto: as the scheduler needs")
      ->group(group);
  const auto store_page = [&flags](const std::string& value) {
    const auto bytes = value == "auto" ? std::optional<std::int64_t>(0) : parse_size(value);
    if (!bytes || *bytes < 0 || (*bytes == 0 && value != "auto"))
      throw CLI::ValidationError("--kv-page-size", concat("'", value, "' is neither a size nor auto"));
    flags.kv_page_size = *bytes;
  };
  app.add_option_function<std::string>("--kv-page-size", store_page,
                                       "virtual: 4KiB to 2MiB; auto: --block-size tokens")
      ->type_name("SIZE")
      ->default_str("auto")
      ->group(group);
  flags::int32(app, "--kv-slots", flags.kv_slots, 0,
               "virtual: sequences with address space; 0: 2 x --max-num-seqs", 1 << 22)
      ->group(group);
  const auto on = [&](const char* name, bool& variable, const char* help) {
    flags::on_off(app, name, variable, help)->default_str("on")->group(group);
  };
  on("kv-slicing", flags.kv_slicing, "virtual: one tensor over all layers");
  on("kv-precreate-pages", flags.kv_precreate_pages, "virtual: commit all pages at start");
  on("kv-map-ahead", flags.kv_map_ahead, "virtual: map the next step's pages during this one");
  on("kv-eager", flags.kv_eager, "virtual: map one page more than needed at first");
  on("kv-deferred-reclaim", flags.kv_deferred_reclaim, "virtual: finished slots stay mapped");
  flags::choice(app, "--reserve", flags.reserve, {"auto", "oracle", "pow2", "max"},
                "size of a reserved region; auto: max")
      ->group(group);
  // vLLM's --swap-space is a number of GiB.
  const auto store_swap = [name = "--swap-space", &flags](const std::string& value) {
    const bool bare = !value.empty() && value.find_first_not_of("0123456789.") == std::string::npos;
    const auto bytes = parse_size(bare ? value + "GiB" : value);
    if (!bytes) throw CLI::ValidationError(name, concat("'", value, "' is not a size"));
    flags.swap_space_bytes = *bytes;
  };
  app.add_option_function<std::string>("--swap-space", store_swap,
                                       "for the K/V of preempted requests (512MiB; a bare number: GiB)")
      ->type_name("SIZE")
      ->default_str("0")
      ->group(group);
}

void add_scheduler_flags(CLI::App& app, EngineFlags& flags) {
  const char* group = "Scheduler";
  flags::int32(app, "--max-num-seqs", flags.max_num_seqs, 1, "sequences in one step")->group(group);
  const auto store_tokens = [&flags](std::int64_t tokens) {
    flags.max_num_batched_tokens = static_cast<std::int32_t>(tokens);
  };
  flags::integer(app, "--max-num-batched-tokens", 1, kMaxInt32, store_tokens,
                 "tokens in one step; else chosen by the engine")
      ->group(group);
  flags::on_off(app, "enable-chunked-prefill", flags.enable_chunked_prefill, "split long prompts over steps")
      ->default_str("on")
      ->group(group);
  flags::choice(app, "--scheduling-policy", flags.scheduling_policy, {"fcfs", "priority"},
                "who is admitted first")
      ->group(group);
  flags::choice(app, "--scheduler", flags.scheduler, {"vllm", "orca", "fastertransformer"},
                "who runs; the last two are the paper's baselines")
      ->group(group);
  flags::choice(app, "--preemption-mode", flags.preemption_mode, {"auto", "swap", "recompute"},
                "how preempted requests get their K/V back; auto: by measured cost")
      ->group(group);
  const auto store_itl = [&flags](const double& value) {
    if (!(value >= 0 && value <= 1e6))
      throw CLI::ValidationError("--target-itl-ms", "must be from 0 to 1000000");
    flags.target_itl_ms = value;
  };
  app.add_option_function<double>(
         "--target-itl-ms", store_itl,
         "prompts are split so that steps beside running streams last no longer; 0: they may take any time")
      ->type_name("MS")
      ->default_str("serve: 100, else 0")
      ->group(group);
  flags::int32(app, "--max-queue", flags.max_queue, 1, "requests that may wait; more get 429")->group(group);
}

void add_speculation_flags(CLI::App& app, EngineFlags& flags) {
  const auto store = [name = "--speculative-config", &flags](const std::string& value) {
    auto config = parse_speculative_config(value);
    if (!config) throw CLI::ValidationError(name, std::string(config.error().message()));
    flags.speculative = *config;
  };
  app.add_option_function<std::string>(
         "--speculative-config", store,
         "guess tokens by prompt lookup: {\"method\":\"ngram\",\"num_speculative_tokens\":5,...}")
      ->type_name("JSON")
      ->default_str("off")
      ->group("Scheduler");
}

void add_machine_flags(CLI::App& app, EngineFlags& flags) {
  const char* group = "Machine";
  flags::int32(app, "--threads", flags.threads, 0, "compute threads; 0: every core this process may use",
               kMaxThreads)
      ->group(group);
  flags::choice(app, "--backend", flags.backend, {"cpu", "reference"}, "kernels; reference is plain and slow")
      ->group(group);
  flags::choice(app, "--cpu-level", flags.cpu_level, {"auto", "portable", "avx2", "avx512"},
                "instructions used")
      ->group(group);
  flags::on_off(app, "weight-cache", flags.weight_cache,
                "keep packed weights on disk and map them from there; docs/weight-cache.md")
      ->default_str("on")
      ->group(group);
  const auto store_cache = [&flags](std::int64_t bytes) { flags.weight_cache_bytes = bytes; };
  flags::integer(app, "--weight-cache-bytes", 1, kMaxInt64, store_cache,
                 "of all packed weights on disk; the longest unused go first")
      ->default_str("100GiB")
      ->group(group);
  app.add_flag("--disable-log-stats", flags.disable_log_stats, "no throughput line every 10 s")->group(group);
}

void add_rank_flags(CLI::App& app, EngineFlags& flags) {
  const char* group = "Tensor parallelism";
  flags::int32(app, "--tensor-parallel-size,--tp", flags.tensor_parallel_size, 1,
               "processes that share the model, each with a part of every layer", kMaxRanks)
      ->group(group);
  app.add_flag("--deterministic-allreduce", flags.deterministic_allreduce,
               "the same bits for 1, 2 and 4 ranks; slower")
      ->group(group);
  flags::number(app, "--rank-timeout", flags.rank_timeout_s, 0, kMaxSeconds,
                "a rank that does not answer for so long is lost, and the engine ends; 0: never")
      ->type_name("S")
      ->group(group);
}

// vLLM takes a JSON list, people write commas: both give the same.
std::vector<std::string> split_list(const std::string& value) {
  std::vector<std::string> items(1);
  for (const char c : value) {
    if (c == ',')
      items.emplace_back();
    else if (c != '[' && c != ']' && c != '"' && c != ' ')
      items.back().push_back(c);
  }
  std::erase(items, std::string());
  return items;
}

void add_server_flags(CLI::App& app, ServerFlags& flags) {
  const char* group = "Server";
  flags::text(app, "--host", flags.host, "ADDRESS", "address to listen on; 0.0.0.0: all")
      ->default_str(flags.host)
      ->group(group);
  flags::int32(app, "--port", flags.port, 0, "port; 0: any free one", 65535)->group(group);
  flags::texts(app, "--api-key", flags.api_keys, "KEY",
               "required of clients; repeatable [env PAGODA_API_KEY]")
      ->group(group);
  const auto list = [&](const char* name, std::vector<std::string>& variable, const char* help) {
    const auto store = [&variable](const std::string& value) {
      for (std::string& item : split_list(value)) variable.push_back(std::move(item));
    };
    app.add_option_function<std::string>(name, store, help)->type_name("LIST")->group(group);
  };
  list("--allowed-origins", flags.allowed_origins, "CORS: origins, or *");
  list("--allowed-hosts", flags.allowed_hosts, "Host names served on a loopback address, or *");
  flags::choice(app, "--metrics-prefix", flags.metrics_prefix, {"pagoda", "vllm"}, "of the names in /metrics")
      ->group(group);
  const auto bytes = [&](const char* name, std::int64_t& variable, const char* help) {
    const auto store = [&variable](std::int64_t value) { variable = value; };
    flags::integer(app, name, 1024, std::int64_t{1} << 40, store, help)
        ->default_str(std::to_string(variable))
        ->group(group);
  };
  bytes("--max-body-bytes", flags.max_body_bytes, "larger request bodies get 413");
  bytes("--max-header-bytes", flags.max_header_bytes, "larger request headers get 431");
  flags::int32(app, "--max-connections", flags.max_connections, 1, "open connections; more get 503")
      ->group(group);
  const auto seconds = [&](const char* name, double& variable, double low, const char* help) {
    flags::number(app, name, variable, low, kMaxSeconds, help)->type_name("S")->group(group);
  };
  seconds("--header-timeout", flags.header_timeout_s, 0.1, "for a request's headers to arrive");
  seconds("--body-timeout", flags.body_timeout_s, 0.1, "without a byte of a request's body");
  seconds("--write-timeout", flags.write_timeout_s, 0.1, "for a client to take anything at all");
  seconds("--keep-alive-timeout", flags.keep_alive_timeout_s, 0.1, "idle connections");
  seconds("--shutdown-timeout", flags.shutdown_timeout_s, 0, "after SIGTERM, for running requests");
  app.add_flag("--access-log,--enable-log-requests", flags.access_log,
               "one line per request, without its text")
      ->group(group);
}

}  // namespace

void add_engine_flags(CLI::App& app, EngineFlags& flags) {
  add_model_flags(app, flags);
  add_server_flags(app, flags.server);
  add_cache_flags(app, flags);
  add_scheduler_flags(app, flags);
  add_speculation_flags(app, flags);
  add_machine_flags(app, flags);
  add_rank_flags(app, flags);
}

namespace {

// The number in the first of these variables that is set; 0: none.
Result<std::int32_t> launcher_number(const Environment& environment, std::initializer_list<const char*> names,
                                     std::int32_t low = 1) {
  for (const char* name : names) {
    const std::string text = environment(name);
    if (text.empty()) continue;
    std::int32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < low || number > kMaxRanks)
      return invalid_argument(concat(name, ": '", text, "' is not between ", low, " and ", kMaxRanks));
    return number;
  }
  return 0;
}

// Under mpirun every process is a rank, and there are as many as it has started.
Status apply_launcher(const Environment& environment, EngineFlags& flags) {
  const auto size = launcher_number(environment, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  if (!size) return size.error();
  if (*size < 2) return ok_status();
  const auto local = launcher_number(environment, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"});
  if (!local) return local.error();
  const auto rank = launcher_number(environment, {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}, 0);
  if (!rank) return rank.error();
  if (flags.tensor_parallel_size != 1 && flags.tensor_parallel_size != *size) {
    return invalid_argument(concat("--tensor-parallel-size ", flags.tensor_parallel_size,
                                   ", but mpirun has started ", *size, " ranks"));
  }
  flags.tensor_parallel_size = *size;
  flags.mpi_local_size = std::max(*local, 1);
  flags.mpi_rank = *rank;
  return ok_status();
}

}  // namespace

Status apply_environment(const Environment& environment, EngineFlags& flags) {
  PAGODA_RETURN_IF_ERROR(apply_launcher(environment, flags));
  for (const char* name : {"PAGODA_API_KEY", "VLLM_API_KEY"}) {
    if (!flags.server.api_keys.empty()) break;
    if (std::string key = environment(name); !key.empty()) flags.server.api_keys.push_back(std::move(key));
  }
  if (const std::string gib = environment("VLLM_CPU_KVCACHE_SPACE");
      !gib.empty() && !flags.kv_cache_memory_bytes) {
    const auto bytes = parse_size(gib + "GiB");
    if (!bytes) return invalid_argument(concat("VLLM_CPU_KVCACHE_SPACE: '", gib, "' is not a number of GiB"));
    if (*bytes > 0) flags.kv_cache_memory_bytes = *bytes;
  }
  if (const std::string threads = environment("OMP_NUM_THREADS"); !threads.empty() && flags.threads == 0) {
    std::int32_t parsed = 0;
    const auto [end, error] = std::from_chars(threads.data(), threads.data() + threads.size(), parsed);
    if (error != std::errc() || parsed < 1 || parsed > kMaxThreads)
      return invalid_argument(concat("OMP_NUM_THREADS: '", threads, "' is not between 1 and ", kMaxThreads));
    flags.threads = parsed;
  }
  return ok_status();
}

}  // namespace pagoda
