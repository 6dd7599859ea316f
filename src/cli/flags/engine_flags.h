#pragma once
// EngineFlags: the flags shared by serve, chat, generate and bench, parsed and range-checked, with their
// defaults. Names and defaults are vLLM's if vLLM has the flag. Contains no engine object; assemble.h builds
// an engine from the flags. Only cli/ reads flags and environment variables; other code receives plain
// values.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decoding/speculative_config.h"
#include "kv_events/kv_events_config.h"
#include "kv_peer/kv_transfer_config.h"

namespace pagoda {

// --cpu-list: the cores of each rank on this machine.
struct CpuListFlag {
  bool automatic = true;                // one rank per NUMA node, if there are several of both
  std::vector<std::vector<int>> lists;  // lists of rank 0, 1, …, each ascending; empty: not given
};

// Flags of the HTTP server. Offline commands accept and ignore them, so that the same flags describe an
// engine for every command.
struct ServerFlags {
  std::string host = "127.0.0.1";
  std::int32_t port = 8000;  // 0: any free port, printed at start
  std::string uds;           // Unix socket instead of host and port; empty: none
  std::string admin_socket;  // Unix socket for the operator, in addition; empty: none
  std::string ssl_certfile, ssl_keyfile, ssl_ca_certs;  // PEM; without the first: no TLS
  std::int32_t ssl_cert_reqs = 0;  // clients' certificates: 0 none, 1 optional, 2 required
  std::int64_t response_store_bytes = std::int64_t{64} << 20;
  std::string response_store_dir;  // folder in which these responses outlive the process; empty: memory only
  std::vector<std::string> apis;   // names of protocols; empty: all
  std::vector<std::string> api_keys;         // empty: no key required; otherwise any of them is accepted
  std::string api_key_file;                  // YAML; empty: none
  std::optional<bool> isolate_prefix_cache;  // between keys; absent: only if there are several keys
  std::string otlp_traces_endpoint;          // http(s)://HOST:PORT/PATH; empty: no spans
  std::vector<std::string> allowed_origins;  // CORS; empty: no CORS headers; "*": every origin
  // Host names accepted on a loopback address in addition to the loopback names; "*": any.
  std::vector<std::string> allowed_hosts;
  bool trust_request_chat_template = false;  // requests may include a chat template
  // Default for requests: return "token_id:5" instead of token texts.
  bool return_tokens_as_token_ids = false;
  // Prefix of the metrics named as in vLLM, without the colon; our own metrics always begin with "pagoda:".
  std::string metrics_prefix = "vllm";
  std::int64_t max_body_bytes = std::int64_t{32} << 20;
  std::int64_t max_answer_memory = std::int64_t{1} << 30;  // limit on all answers being generated and sent
  std::int64_t max_header_bytes = std::int64_t{64} << 10;
  std::int32_t max_connections = 4096;  // further connections are refused with 503
  std::int32_t io_threads = 0;          // 0: one per eight cores, at most four
  double header_timeout_s = 10.0;  // from accept, or the end of the previous response, to complete headers
  double body_timeout_s = 30.0;    // without receiving a byte of the body
  double write_timeout_s = 60.0;   // a client that reads nothing for this long is disconnected
  double keep_alive_timeout_s = 75.0;  // idle connection
  double shutdown_timeout_s = 30.0;    // after SIGTERM: time for running requests to finish
  std::string root_path;               // prefix of every path, as added by a proxy in front; empty: none
  bool page = true;                    // serve the page at /: chat and live view of the engine
  bool sandbox = true;                 // restrict the process to its own files, without starting programs
  std::string log_format = "text";     // or json
  std::string log_level;               // debug, info, warning, error; empty: from the environment
  bool access_log = false;             // one line per request (no prompts)
};

// Sampling defaults of requests, which override those of the model's files; absent: the files' values.
struct SamplingFlags {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int32_t> top_k, max_tokens;
};

// Flags of --device emulated (device/emulated/emulated_device.h).
struct EmulatedDeviceFlags {
  std::int64_t memory_bytes = std::int64_t{256} << 20;
  std::int64_t granule_bytes = std::int64_t{2} << 20;  // mapping granularity of virtual memory
  std::uint64_t seed = 0;                              // determines the order of work of its streams
  // Injected faults, counted from 1; 0: none.
  std::int64_t lost_launch = 0, lost_look = 0, refused_allocation = 0;
  std::string nccl = {};  // path of a library with NCCL's API; empty: none
};
inline constexpr std::int64_t kMinEmulatedGranule = 4096;
inline constexpr std::int64_t kMinEmulatedMemory = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxEmulatedMemory = std::int64_t{1} << 40;

// Overrides the rotary embedding of the model's files; empty or 0: no override.
struct RopeFlags {
  std::string scaling = {};  // none, linear, yarn
  double scale = 0, freq_scale = 0, freq_base = 0;
  std::int32_t yarn_original = 0;
  double yarn_scale = 0, yarn_beta_fast = 0, yarn_beta_slow = 0;
};

// A LoRA adapter and the scale that is applied to it.
struct AdapterFlag {
  std::string path;
  double scale = 1;
};

// Adapters that requests choose by name.
struct LoraModule {
  std::string name, path;
  std::string base_model_name = {};  // as in vLLM: the name of the base model; empty: not given
};
struct LoraFlags {
  bool enable = false;
  std::vector<LoraModule> modules;            // loaded at start
  std::optional<std::int32_t> max_loras;      // adapters of running requests; at most max_cpu_loras
  std::optional<std::int32_t> max_cpu_loras;  // adapters loaded at the same time
  std::int32_t max_rank = 16;
  bool runtime_updating = false;  // administrators may load further adapters by request

  std::int32_t max_loaded() const {
    constexpr std::int32_t kDefault = 64;
    return max_cpu_loras.value_or(std::max(kDefault, max_loras.value_or(1)));
  }
  // On a device, memory must be reserved for all adapters that may be in a step.
  std::int32_t max_together(bool on_device) const {
    constexpr std::int32_t kOnDevice = 8;
    return max_loras.value_or(on_device ? std::min(kOnDevice, max_loaded()) : max_loaded());
  }
};

struct EngineFlags {
  std::string config;  // YAML file that set some of these; empty: none

  // model
  std::string model;                            // folder, .gguf file or ORG/NAME; empty: the default model
  std::string revision;                         // revision of ORG/NAME on the hub; empty: main
  std::string hf_token;                         // token for the hub; empty: from the environment
  std::string tokenizer;                        // empty: the model's own
  std::string chat_template;                    // path of a Jinja file; empty: the model's own
  std::string tool_call_parser = "auto";        // a name of text/answer_formats.h, auto or none
  std::string reasoning_parser = "none";        // a name of text/answer_formats.h, auto or none
  bool enable_auto_tool_choice = false;         // required by vLLM; no effect here
  std::string runner = "auto";                  // auto, generate, pooling
  std::string pooler_config;                    // vLLM's JSON; empty: from the model's files
  std::vector<std::string> served_model_names;  // the first is reported; empty: named after the model
  std::string default_chat_template_kwargs;     // a JSON object; empty: none
  bool any_model_name = false;                  // requests may name any model
  std::string dtype = "auto";                   // auto, float32, bfloat16, float16, int8
  std::string quantization;                     // method that the model must have; empty: any
  std::string quantize_activations = "auto";    // auto, on, off
  std::string hf_overrides, override_generation_config;  // JSON objects; empty: no overrides
  std::string generation_config = "auto";                // auto, vllm or a path
  SamplingFlags sampling;
  std::int32_t max_logprobs = 20;     // limit for requests; -1: the whole vocabulary
  std::string override_kv;            // GGUF metadata: KEY=TYPE:VALUE,...
  std::vector<AdapterFlag> adapters;  // merged into the model in this order
  LoraFlags lora;
  RopeFlags rope;
  // Absent: the model's limit. kMaxModelLenAuto: the largest that the KV cache can hold.
  std::optional<std::int32_t> max_model_len;
  std::uint64_t seed = 0;

  // KV cache
  std::string kv_cache_dtype = "auto";                // auto, float32, bfloat16, float16, int8, fp8_e4m3
  std::optional<std::int64_t> kv_cache_memory_bytes;  // absent: kv_cache_memory_fraction decides
  // Share of the memory available after the weights are loaded; absent: 0.5, and 0.9 on a GPU.
  std::optional<double> kv_cache_memory_fraction;
  // vLLM's flags, for devices only: the share, replacing the one above, and the number of blocks, replacing
  // any share.
  std::optional<double> gpu_memory_utilization;
  std::optional<std::int64_t> num_gpu_blocks_override;
  std::int32_t block_size = 16;  // 1..256
  bool enable_prefix_caching = true;
  std::string eviction_policy = "lru";   // a name of kv_cache/eviction_policies.def
  std::string prefix_file;               // JSON; shared prefixes pinned at start
  std::string kv_manager = "auto";       // auto, paged, virtual, reserved
  std::string reserve = "auto";          // auto, oracle, pow2, max
  std::int64_t swap_space_bytes = 0;     // at most the size of the KV cache
  std::int64_t kv_offloading_bytes = 0;  // memory for rows of the prefix cache, in addition to the KV cache
  std::string kv_offloading_backend = "native";
  std::string kv_disk;  // folder in which rows of the prefix cache outlive the process; empty: none
  std::int64_t kv_disk_bytes = std::int64_t{16} << 30;
  std::int64_t kv_disk_writes_per_hour = std::int64_t{64} << 30;  // bytes; 0: unlimited
  KvTransferConfig kv_transfer;  // serve: servers from which K/V is fetched and to which it is provided
  KvEventsConfig kv_events;      // serve: publishes the contents of the prefix cache
  // Only for kv_manager virtual.
  std::int64_t kv_page_size = 0;    // bytes; 0: the size of block_size tokens, rounded up to 4 KiB
  std::int32_t kv_slots = 0;        // 0: twice max_num_seqs
  bool kv_slicing = true;           // true: one tensor over all layers of a slot; false: one per layer
  bool kv_precreate_pages = true;   // true: create all pages at start; false: on demand
  bool kv_map_ahead = true;         // map the next step's pages while this one runs
  bool kv_eager = true;             // map one page more than needed with the first ones
  bool kv_deferred_reclaim = true;  // finished slots stay mapped

  // scheduler
  std::int32_t max_num_seqs = 256;                     // sequences per step
  std::optional<std::int32_t> max_num_batched_tokens;  // tokens per step; absent: chosen by the engine
  bool enable_chunked_prefill = true;
  bool async_scheduling = false;           // plan each step while the previous one runs
  std::string scheduling_policy = "auto";  // auto, fcfs, priority, fair
  std::string scheduler = "vllm";          // vllm, orca, fastertransformer
  std::string preemption_mode = "auto";    // a flag of scheduler/preemption_policies.def
  std::optional<double> target_itl_ms;     // absent: chosen by the command; 0: no limit on step times
  std::int32_t max_queue = 1024;           // requests waiting for admission; further requests get 429
  // Requests with a longer expected wait get 429; absent: chosen by the command; 0: no limit.
  std::optional<double> max_queue_time_s;

  // Draft tokens per step (vLLM's JSON, method "ngram" or "draft_model"); absent: off.
  std::optional<SpeculativeConfig> speculative;

  // machine
  std::string device = "auto";  // auto, cpu, cuda, emulated; auto is cpu
  // cuda: indices among the devices in CUDA_VISIBLE_DEVICES, one per rank; empty: from 0 on.
  std::vector<std::int32_t> device_indices = {};
  EmulatedDeviceFlags emulated_device;
  std::string device_kernels = "own";        // own, fastest
  std::string device_attention = "auto";     // auto, tiles, warpgroups, plain
  std::string device_products = "auto";      // auto (or own), tiles, plain, w8a8, cublaslt
  std::string device_graphs = "auto";        // auto, check
  std::string device_early_launch = "auto";  // auto, on, off
  bool device_idle = false;                  // bench: measure the device's idle time between steps
  bool enforce_eager = false;                // disable graphs
  std::int32_t threads = 0;                  // 0: all cores available to this process
  CpuListFlag cpu_list;
  std::string backend = "cpu";     // cpu, reference
  std::string cpu_level = "auto";  // auto, portable, avx2, avx512
  bool weight_cache = true;        // keep packed weights in the cache directory, and map them from there
  std::int64_t weight_cache_bytes = std::int64_t{100} << 30;  // size of the whole cache

  std::int32_t data_parallel_size = 1;  // number of engines, which divide threads and KV cache

  // ranks
  std::int32_t tensor_parallel_size = 1;
  std::int32_t mpi_local_size = 0;  // ranks started by mpirun on this machine; 0: not under mpirun
  std::int32_t mpi_rank = 0;        // rank of this process under mpirun
  std::int32_t mpi_local_rank = 0;  // its index among the ranks of this machine
  bool deterministic_allreduce = true;
  // On devices: use NCCL instead of kernels that access the other devices' memory.
  bool disable_custom_all_reduce = false;
  double rank_timeout_s = 4.0;  // 0: no timeout

  std::string record;  // serve: file for the run log (sim/run_log.h); empty: none

  std::string poison_record;  // serve: file of requests that crashed an engine; empty: none

  bool disable_log_stats = false;  // disable the throughput line every 10 s

  ServerFlags server;
};

inline constexpr std::int32_t kMaxModelLenAuto = -1;

}  // namespace pagoda
