// The flags of the KV cache.
#include <limits>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/flag_limits.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/kv_events_flag.h"
#include "cli/flags/kv_transfer_flag.h"
#include "cli/flags/parse_size.h"
#include "kv_cache/eviction_order.h"

namespace pagoda {
namespace {

std::vector<std::string> eviction_policies() {
  return {std::begin(kEvictionPolicies), std::end(kEvictionPolicies)};
}

// vLLM also supports other fp8 formats.
FlagValue refusing_other_fp8(FlagValue value) {
  value.store = [next = std::move(value.store)](const std::string& text) -> Status {
    if (text.starts_with("fp8") && text != "fp8" && text != "fp8_e4m3")
      return invalid_argument(concat("'", text, "' is not supported; fp8 and fp8_e4m3 are"));
    return next(text);
  };
  return value;
}

}  // namespace

std::vector<Flag> kv_cache_flag_table(EngineFlags& flags) {
  const auto store_bytes = [&flags](std::int64_t bytes) { flags.kv_cache_memory_bytes = bytes; };
  const auto store_page = [&flags](const std::string& value) -> Status {
    const auto bytes = value == "auto" ? std::optional<std::int64_t>(0) : parse_size(value);
    if (!bytes || *bytes < 0 || (*bytes == 0 && value != "auto"))
      return invalid_argument(concat("'", value, "' is neither a size nor auto"));
    flags.kv_page_size = *bytes;
    return ok_status();
  };
  const auto store_share = [](std::optional<double>& to, double least) {
    return [&to, least](const std::string& value) -> Status {
      PAGODA_ASSIGN_OR_RETURN(const auto share, flags::parse_number(value));
      if (!(share > 0 && share >= least && share <= 1))
        return invalid_argument(concat(value, " is not between ", least, " and 1"));
      to = share;
      return ok_status();
    };
  };
  const auto store_disk = [&flags](std::int64_t bytes) { flags.kv_disk_bytes = bytes; };
  const auto store_writes = [&flags](std::int64_t bytes) { flags.kv_disk_writes_per_hour = bytes; };
  const auto store_blocks = [&flags](std::int64_t blocks) { flags.num_gpu_blocks_override = blocks; };
  const auto store_events = [&flags](const std::string& value) -> Status {
    PAGODA_ASSIGN_OR_RETURN(flags.kv_events, parse_kv_events_config(value));
    return ok_status();
  };
  const auto store_transfer = [&flags](const std::string& value) -> Status {
    PAGODA_ASSIGN_OR_RETURN(flags.kv_transfer, parse_kv_transfer_config(value));
    return ok_status();
  };
  // As in vLLM, plain numbers of --swap-space and --kv-offloading-size are in GiB.
  const auto store_gib = [](std::int64_t& to) {
    return [&to](const std::string& value) -> Status {
      const bool bare = !value.empty() && value.find_first_not_of("0123456789.") == std::string::npos;
      const auto bytes = parse_size(bare ? value + "GiB" : value);
      if (!bytes) return invalid_argument(concat("'", value, "' is not a size"));
      to = *bytes;
      return ok_status();
    };
  };
  return {
      {.name = "kv-cache-memory-bytes",
       .value = flags::integer(1, kMaxInt64, store_bytes),
       .help = "size of the KV cache (4GiB, 512M)",
       .default_text = "from --kv-cache-memory-fraction"},
      {.name = "kv-cache-memory-fraction",
       .value = flags::parsed("X", store_share(flags.kv_cache_memory_fraction, 0.001)),
       .help = "fraction of the memory available after loading the weights that the KV cache takes",
       .default_text = "0.5; on a GPU 0.9"},
      {.name = "gpu-memory-utilization",
       .value = flags::parsed("X", store_share(flags.gpu_memory_utilization, 0)),
       .help = "on a device: same as --kv-cache-memory-fraction (vLLM's name)",
       .details =
           "vLLM's name for `--kv-cache-memory-fraction`, which it replaces on a device: the fraction of the "
           "device's memory that is free after loading. Ignored on the CPU",
       .default_text = "--kv-cache-memory-fraction"},
      {.name = "num-gpu-blocks-override",
       .value = flags::integer(2, std::int64_t{1} << 30, store_blocks),
       .help = "number of KV blocks on a device, in place of a fraction (vLLM's name); ignored on the CPU",
       .default_text = "from the fraction"},
      {.name = "kv-cache-dtype",
       .value = refusing_other_fp8(flags::choice(
           flags.kv_cache_dtype, {"auto", "float32", "bfloat16", "float16", "int8", "fp8", "fp8_e4m3"})),
       .help = "data type of the KV cache",
       .details =
           "data type of the KV cache. `auto`: `float32` or `float16` with that `--dtype`; `float16` where "
           "matrices are computed in 8 bits, as those of quantised files (not of quantised folders in "
           "bfloat16), and for models whose keys have large biases or norms (Qwen2, Qwen2.5); otherwise "
           "`bfloat16`. The memory table at start and "
           "`pagoda inspect` show which. `int8` takes 53 % of the memory of 16-bit types, with one scale per "
           "token and head for keys and for values. It is as reproducible as the others and supports head "
           "sizes up to 512; quality suffers where some channels of keys are large ([its cost in "
           "quality](performance.md#what-the-default-numbers-cost-in-quality)). `fp8`, or `fp8_e4m3`, takes "
           "half "
           "the memory of 16-bit types: 8-bit floats, with the scales of the model's folder or 1 ([8-bit "
           "floats](kv-cache.md#8-bit-floats))"},
      {.name = "block-size",
       .value = flags::int32(flags.block_size, 1, 256),
       .help = "tokens per KV block, 1 to 256"},
      {.name = "enable-prefix-caching",
       .value = flags::on_off(flags.enable_prefix_caching),
       .help = "keep the KV blocks of finished prompts and reuse them for equal prefixes"},
      {.name = "eviction-policy",
       .value = flags::choice(flags.eviction_policy, eviction_policies()),
       .help =
           "order of eviction from the prefix cache: least recently used, least frequently used, or least "
           "worth first",
       .details =
           "order in which the prefix cache evicts unused blocks: `lru`, least recently used first; "
           "`lfu`, least "
           "frequently used first, and among equals least recently used; `cost`, least worth first: `lru` in "
           "which "
           "blocks that were found often, or have a `cache_hint`, go later ([hints](kv-tiers.md#hints))"},
      {.name = "prefix-file",
       .value = flags::text(flags.prefix_file, "FILE"),
       .help = "JSON list of {\"name\", \"text\" | \"messages\" | \"token_ids\"}: prefixes pinned in the "
               "prefix cache",
       .details = "JSON list of shared prefixes, in the form of `POST /admin/prefixes`: computed and pinned "
                  "in the prefix cache before the server starts"},
      {.name = "kv-events-config",
       .value = flags::parsed("JSON", store_events),
       .help = "publish prefix cache events over ZeroMQ: {\"enable_kv_cache_events\":true,...}",
       .details = "publish prefix cache events for routers, in vLLM's form: "
                  "`{\"enable_kv_cache_events\":true,\"endpoint\":\"tcp://"
                  "*:5557\",\"replay_endpoint\":\"tcp://*:5558\"}` ([KV events](kv-events.md))",
       .default_text = "off"},
      {.name = "kv-manager",
       .value = flags::choice(flags.kv_manager, {"auto", "paged", "virtual", "reserved"}),
       .help = "KV memory manager: blocks, mapped pages, or one region per sequence; auto: as the scheduler "
               "needs",
       .details =
           "KV memory manager. `paged`: blocks, allocated as needed. `virtual`: contiguous address space, "
           "with pages mapped as sequences grow ([virtual-kv.md](virtual-kv.md)). `reserved`: one contiguous "
           "region per sequence, from a buddy allocator; the baseline. `auto`: as the scheduler needs"},
      {.name = "kv-page-size",
       .value = flags::parsed("SIZE", store_page),
       .help = "page size of the virtual manager, 4KiB to 2MiB; auto: --block-size tokens",
       .details =
           "page size of the virtual manager, a multiple of 4 KiB up to 2 MiB. A page smaller than 16 tokens "
           "is mapped together with its neighbours; space beyond whole groups of 16 tokens is padding, which "
           "a warning reports. `auto`: the size of `--block-size` tokens, rounded up to 4 KiB",
       .default_text = "auto"},
      {.name = "kv-slots",
       .value = flags::int32(flags.kv_slots, 0, 1 << 22),
       .help = "virtual manager: number of sequences with address space; 0: 2 x --max-num-seqs",
       .details = "number of sequences with address space in the virtual manager; slots of finished "
                  "sequences stay mapped. 0: twice `--max-num-seqs`"},
      {.name = "kv-slicing",
       .value = flags::on_off(flags.kv_slicing),
       .help = "virtual manager: one tensor for all layers",
       .details =
           "store all layers of a slot in one tensor (virtual manager), so that a page holds a few tokens of "
           "every layer; off: one tensor per layer, and one mapping call per layer at each growth"},
      {.name = "kv-precreate-pages",
       .value = flags::on_off(flags.kv_precreate_pages),
       .help = "virtual manager: commit the memory of all pages at start",
       .details = "commit memory for all pages of the virtual manager at start, or fail; a page takes its "
                  "memory when it is first used. Off: memory for the longest sequence is committed at start "
                  "and the rest on demand; requests are preempted where none is left"},
      {.name = "kv-map-ahead",
       .value = flags::on_off(flags.kv_map_ahead),
       .help = "virtual manager: map the next step's pages during the current step",
       .details = "map the next step's pages of the virtual manager in a thread while the current step runs"},
      {.name = "kv-eager",
       .value = flags::on_off(flags.kv_eager),
       .help = "virtual manager: map one page more than needed for a new request",
       .details = "map one page of the virtual manager more than a new request needs at first"},
      {.name = "kv-deferred-reclaim",
       .value = flags::on_off(flags.kv_deferred_reclaim),
       .help = "virtual manager: keep the slots of finished requests mapped",
       .details = "keep a finished request's slot of the virtual manager mapped for the next request of its "
                  "length or prefix"},
      {.name = "reserve",
       .value = flags::choice(flags.reserve, {"auto", "oracle", "pow2", "max"}),
       .help = "size of a region of the reserved manager; auto: max",
       .details = "size of a region of the reserved manager: `oracle` (prompt and `max_tokens`, exact with "
                  "`ignore_eos`), `pow2` (the output rounded up to a power of two), `max` "
                  "(`--max-model-len`); `auto`: `max`"},
      {.name = "swap-space",
       .value = flags::parsed("SIZE", store_gib(flags.swap_space_bytes)),
       .help = "CPU memory for the KV cache of preempted requests (512MiB; a bare number: GiB)",
       .details = "CPU memory for the KV cache of preempted requests, at most the size of the KV cache; a "
                  "bare number is GiB",
       .default_text = "0"},
      {.name = "kv-offloading-size",
       .value = flags::parsed("SIZE", store_gib(flags.kv_offloading_bytes)),
       .help = "CPU memory for prefix cache blocks that outlive the KV cache (8GiB; a bare number: GiB)",
       .details =
           "CPU memory, beside the KV cache, for blocks of the prefix cache: they are copied there when "
           "their last request ends, and back when a prompt begins like them after they were evicted "
           "([kv-tiers.md](kv-tiers.md)). A bare number is GiB",
       .default_text = "0"},
      {.name = "kv-offloading-backend",
       .value = flags::choice(flags.kv_offloading_backend, {"native"}),
       .help = "implementation of --kv-offloading-size; native is the server's own"},
      {.name = "kv-disk",
       .value = flags::text(flags.kv_disk, "PATH"),
       .help = "folder for prefix cache blocks that outlive the process; texts can be recovered from them",
       .details =
           "folder for blocks of the prefix cache that outlive the process, made with mode 0700 if it is "
           "missing. The next start with the same model, flags and build finds them "
           "([kv-store.md](kv-store.md)). Texts of requests can be recovered from it",
       .default_text = "none"},
      {.name = "kv-disk-bytes",
       .value = flags::integer(1 << 20, kMaxInt64, store_disk),
       .help = "size limit of --kv-disk; the oldest blocks are evicted",
       .default_text = "16GiB"},
      {.name = "kv-disk-writes-per-hour",
       .value = flags::integer(0, kMaxInt64, store_writes),
       .help = "bytes that may be written to --kv-disk in an hour; 0: no limit",
       .default_text = "64GiB"},
      {.name = "kv-transfer-config",
       .value = flags::parsed("JSON", store_transfer),
       .help = "share prefix cache blocks with other servers: {\"kv_connector\":\"PagodaConnector\",...}",
       .details =
           "fetch blocks of the prefix cache from other servers, or give them to these, in vLLM's form: "
           "`{\"kv_connector\":\"PagodaConnector\",\"kv_role\":\"kv_both\",\"kv_connector_extra_config\":"
           "{\"peers\":[\"HOST:PORT\"],\"secret_file\":\"PATH\"}}` ([kv-transfer.md](kv-transfer.md))",
       .default_text = "off"},
  };
}

}  // namespace pagoda
