#pragma once
// EngineFlags: the flags that serve, chat, generate and bench share, parsed and range-checked, with their
// defaults. Names and defaults are vLLM's where it has the flag. Holds no engine object: assemble.h turns
// it into one. Only cli/ reads flags and environment; everything below gets plain values.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decoding/speculative_config.h"
#include "kv_events/kv_events_config.h"
#include "kv_peer/kv_transfer_config.h"

namespace pagoda {

// --cpu-list: which cores each rank of this machine has.
struct CpuListFlag {
  bool automatic = true;                // one rank a NUMA node, where there are several of both
  std::vector<std::vector<int>> lists;  // lists of rank 0, 1, …, each ascending; empty: none were given
};

// Flags of the HTTP server. Accepted (and unused) by offline commands, so that one set of flags describes an
// engine everywhere.
struct ServerFlags {
  std::string host = "127.0.0.1";
  std::int32_t port = 8000;                             // 0: any free port, printed at start
  std::string uds;                                      // Unix socket instead of host and port; empty: none
  std::string admin_socket;                             // Unix socket of the operator, beside; empty: none
  std::string ssl_certfile, ssl_keyfile, ssl_ca_certs;  // PEM; without the first: no TLS
  std::int32_t ssl_cert_reqs = 0;  // clients' certificates: 0 none, 1 optional, 2 required
  std::int64_t response_store_bytes = std::int64_t{64} << 20;
  std::string response_store_dir;     // folder in which those answers outlive the process; empty: in memory
  std::vector<std::string> apis;      // names of protocols; empty: all
  std::vector<std::string> api_keys;  // empty: none is asked for; else any one of them is accepted
  std::string api_key_file;           // YAML; empty: none
  std::optional<bool> isolate_prefix_cache;  // between keys; absent: if there are several
  std::string otlp_traces_endpoint;          // http(s)://HOST:PORT/PATH; empty: no spans
  std::vector<std::string> allowed_origins;  // CORS; empty: no CORS headers; "*": every origin
  // Host names answered on a loopback address beside the loopback ones; "*": any.
  std::vector<std::string> allowed_hosts;
  bool trust_request_chat_template = false;  // a request may bring its own
  bool return_tokens_as_token_ids = false;   // requests that do not say get "token_id:5" for tokens
  // Prefix of vLLM's names, without the colon; our own are always "pagoda:".
  std::string metrics_prefix = "vllm";
  std::int64_t max_body_bytes = std::int64_t{32} << 20;
  std::int64_t max_answer_memory = std::int64_t{1} << 30;  // all answers being made and sent
  std::int64_t max_header_bytes = std::int64_t{64} << 10;
  std::int32_t max_connections = 4096;  // more are refused with 503
  std::int32_t io_threads = 0;          // 0: one for each eight cores, at most four
  double header_timeout_s = 10.0;       // from accept, or the previous response's end, to whole headers
  double body_timeout_s = 30.0;         // without a byte of the body
  double write_timeout_s = 60.0;        // a client that takes nothing for so long is hung up on
  double keep_alive_timeout_s = 75.0;   // idle connection
  double shutdown_timeout_s = 30.0;     // SIGTERM: running requests may take so long to finish
  std::string root_path;                // before every path, as a proxy in front adds it; empty: none
  bool page = true;                     // at /: chat, and the engine live
  bool sandbox = true;                  // only its own files, no other programs
  std::string log_format = "text";      // or json
  std::string log_level;                // debug, info, warning, error; empty: as the environment says
  bool access_log = false;              // one line per request (no prompts)
};

// Sampling of requests that do not set it, before what the model's files say; absent: as those say.
struct SamplingFlags {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int32_t> top_k, max_tokens;
};

// Flags of --device emulated (device/emulated/emulated_device.h).
struct EmulatedDeviceFlags {
  std::int64_t memory_bytes = std::int64_t{256} << 20;
  std::int64_t granule_bytes = std::int64_t{2} << 20;  // mapping granularity of virtual memory
  std::uint64_t seed = 0;                              // orders the work of its streams
  // Faults, counted from 1; 0: none.
  std::int64_t lost_launch = 0, lost_look = 0, refused_allocation = 0;
  std::string nccl = {};  // file of a library with NCCL's calls; empty: none
};
inline constexpr std::int64_t kMinEmulatedGranule = 4096;
inline constexpr std::int64_t kMinEmulatedMemory = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxEmulatedMemory = std::int64_t{1} << 40;

// The model's rotation, instead of its files'; empty or 0: as they say.
struct RopeFlags {
  std::string scaling = {};  // none, linear, yarn
  double scale = 0, freq_scale = 0, freq_base = 0;
  std::int32_t yarn_original = 0;
  double yarn_scale = 0, yarn_beta_fast = 0, yarn_beta_slow = 0;
};

// A LoRA adapter and what its sums are multiplied by.
struct AdapterFlag {
  std::string path;
  double scale = 1;
};

// Adapters that requests choose by their names.
struct LoraModule {
  std::string name, path;
  std::string base_model_name = {};  // vLLM's: the model's; empty: not said
};
struct LoraFlags {
  bool enable = false;
  std::vector<LoraModule> modules;            // loaded at start
  std::optional<std::int32_t> max_loras;      // those of running requests; at most max_cpu_loras
  std::optional<std::int32_t> max_cpu_loras;  // loaded at the same time
  std::int32_t max_rank = 16;
  bool runtime_updating = false;  // requests of administrators may load others

  std::int32_t max_loaded() const {
    constexpr std::int32_t kDefault = 64;
    return max_cpu_loras.value_or(std::max(kDefault, max_loras.value_or(1)));
  }
  // A device has to keep memory free for all that may be in a step.
  std::int32_t max_together(bool on_device) const {
    constexpr std::int32_t kOnDevice = 8;
    return max_loras.value_or(on_device ? std::min(kOnDevice, max_loaded()) : max_loaded());
  }
};

struct EngineFlags {
  std::string config;  // YAML file that gave some of these; empty: none

  // model
  std::string model;                            // folder, .gguf file or ORG/NAME; empty: the default model
  std::string revision;                         // revision of ORG/NAME on the hub; empty: main
  std::string hf_token;                         // for the hub; empty: the environment's
  std::string tokenizer;                        // empty: the model's own
  std::string chat_template;                    // path of a Jinja file; empty: the model's own
  std::string tool_call_parser = "auto";        // a name of text/answer_formats.h, auto or none
  std::string reasoning_parser = "none";        // likewise
  bool enable_auto_tool_choice = false;         // vLLM asks for it; needed for nothing here
  std::string runner = "auto";                  // auto, generate, pooling
  std::string pooler_config;                    // vLLM's JSON; empty: as the model's own files say
  std::vector<std::string> served_model_names;  // first is reported; empty: named after the model
  std::string default_chat_template_kwargs;     // a JSON object; empty: none
  bool any_model_name = false;                  // requests may name any model
  std::string dtype = "auto";                   // auto, float32, bfloat16, float16, int8
  std::string quantization;                     // the one the model must have; empty: any
  std::string quantize_activations = "auto";    // auto, on, off
  std::string hf_overrides, override_generation_config;  // JSON objects; empty: the model's own files
  std::string generation_config = "auto";                // auto, vllm or a path
  SamplingFlags sampling;
  std::int32_t max_logprobs = 20;     // that a request may ask for; -1: all of the vocabulary
  std::string override_kv;            // GGUF metadata: KEY=TYPE:VALUE,...
  std::vector<AdapterFlag> adapters;  // merged into the model, one after the other
  LoraFlags lora;
  RopeFlags rope;
  // Absent: the model's own. kMaxModelLenAuto: the largest that the KV cache can hold.
  std::optional<std::int32_t> max_model_len;
  std::uint64_t seed = 0;

  // KV cache
  std::string kv_cache_dtype = "auto";                // auto, float32, bfloat16, float16, int8, fp8_e4m3
  std::optional<std::int64_t> kv_cache_memory_bytes;  // absent: kv_cache_memory_fraction decides
  // Share of the memory that is available once the weights are loaded; absent: 0.5, and 0.9 on a GPU.
  std::optional<double> kv_cache_memory_fraction;
  // vLLM's, of a device alone: the share instead of that, and the number of blocks instead of any share.
  std::optional<double> gpu_memory_utilization;
  std::optional<std::int64_t> num_gpu_blocks_override;
  std::int32_t block_size = 16;  // 1..256
  bool enable_prefix_caching = true;
  std::string eviction_policy = "lru";   // a name of kv_cache/eviction_policies.def
  std::string prefix_file;               // JSON; shared prefixes pinned at start
  std::string kv_manager = "auto";       // auto, paged, virtual, reserved
  std::string reserve = "auto";          // auto, oracle, pow2, max
  std::int64_t swap_space_bytes = 0;     // never more than the KV cache
  std::int64_t kv_offloading_bytes = 0;  // memory for rows of the prefix cache, beside the KV cache
  std::string kv_offloading_backend = "native";
  std::string kv_disk;  // folder in which rows of the prefix cache outlive the process; empty: none
  std::int64_t kv_disk_bytes = std::int64_t{16} << 30;
  std::int64_t kv_disk_writes_per_hour = std::int64_t{64} << 30;  // bytes; 0: as many as there are
  KvTransferConfig kv_transfer;  // serve: other servers that K/V is fetched from, and given to
  KvEventsConfig kv_events;      // serve: what the prefix cache holds is published there
  // kv_manager virtual alone
  std::int64_t kv_page_size = 0;    // bytes; 0: what block_size tokens take, rounded up to 4 KiB
  std::int32_t kv_slots = 0;        // 0: twice max_num_seqs
  bool kv_slicing = true;           // one tensor over all layers of a slot; else one for each layer
  bool kv_precreate_pages = true;   // all pages are there from the start, else as they are needed
  bool kv_map_ahead = true;         // map the next step's pages while this one runs
  bool kv_eager = true;             // map a page more than is needed with the first ones
  bool kv_deferred_reclaim = true;  // finished slots stay mapped

  // scheduler
  std::int32_t max_num_seqs = 256;                     // sequences in one step
  std::optional<std::int32_t> max_num_batched_tokens;  // tokens in one step; absent: chosen by the engine
  bool enable_chunked_prefill = true;
  bool async_scheduling = false;           // steps are planned while the one before them runs
  std::string scheduling_policy = "auto";  // auto, fcfs, priority, fair
  std::string scheduler = "vllm";          // vllm, orca, fastertransformer
  std::string preemption_mode = "auto";    // a flag of scheduler/preemption_policies.def
  std::optional<double> target_itl_ms;     // absent: chosen by the command; 0: steps may take any time
  std::int32_t max_queue = 1024;           // requests waiting for admission; more get 429
  // A request whose expected wait is longer gets 429; absent: chosen by the command; 0: no limit.
  std::optional<double> max_queue_time_s;

  // Drafts several tokens in a step (vLLM's JSON, method "ngram"); absent: off.
  std::optional<SpeculativeConfig> speculative;

  // machine
  std::string device = "auto";  // auto, cpu, cuda, emulated; auto is cpu
  // cuda: which of the devices that CUDA_VISIBLE_DEVICES leaves, one for each rank; none: from 0 on.
  std::vector<std::int32_t> device_indices = {};
  EmulatedDeviceFlags emulated_device;
  std::string device_kernels = "own";        // own, fastest
  std::string device_attention = "auto";     // auto, tiles, warpgroups, plain
  std::string device_products = "auto";      // auto (or own), tiles, plain, w8a8, cublaslt
  std::string device_graphs = "auto";        // auto, check
  std::string device_early_launch = "auto";  // auto, on, off
  bool device_idle = false;                  // bench: the device's idle time between steps is measured
  bool enforce_eager = false;                // no graphs
  std::int32_t threads = 0;                  // 0: every core this process may use
  CpuListFlag cpu_list;
  std::string backend = "cpu";     // cpu, reference
  std::string cpu_level = "auto";  // auto, portable, avx2, avx512
  bool weight_cache = true;        // keep packed weights in the cache directory, and map them from there
  std::int64_t weight_cache_bytes = std::int64_t{100} << 30;  // size of the whole cache

  std::int32_t data_parallel_size = 1;  // engines, which divide threads and KV cache

  // ranks
  std::int32_t tensor_parallel_size = 1;
  std::int32_t mpi_local_size = 0;  // ranks that mpirun has started on this machine; 0: it has not
  std::int32_t mpi_rank = 0;        // this process's, under mpirun
  std::int32_t mpi_local_rank = 0;  // its number among those of this machine
  bool deterministic_allreduce = true;
  bool disable_custom_all_reduce = false;  // devices: NCCL instead of kernels that reach the others' memory
  double rank_timeout_s = 4.0;             // 0: wait for ever

  std::string record;  // serve: file for the run's log (sim/run_log.h); empty: none

  std::string poison_record;  // serve: file of what an engine died of; empty: none

  bool disable_log_stats = false;  // no throughput line every 10 s

  ServerFlags server;
};

inline constexpr std::int32_t kMaxModelLenAuto = -1;

}  // namespace pagoda
