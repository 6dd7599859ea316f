// The rows of the KV cache's flags.
#include <limits>

#include "base/strings.h"
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/kv_events_flag.h"
#include "cli/flags/parse_size.h"
#include "kv_cache/eviction_order.h"

namespace pagoda {
namespace {

std::vector<std::string> eviction_policies() {
  return {std::begin(kEvictionPolicies), std::end(kEvictionPolicies)};
}

constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();

// vLLM's 8 bits are fp8, in several forms.
FlagValue refusing_fp8(FlagValue value) {
  value.store = [next = std::move(value.store)](const std::string& text) -> Status {
    if (text.starts_with("fp8"))
      return invalid_argument(concat("'", text, "' is not supported; int8 has 8 bits too"));
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
  const auto store_utilization = [&flags](const std::string& value) -> Status {
    const auto share = flags::parse_number(value);
    if (!share) return share.error();
    if (!(*share > 0 && *share <= 1)) return invalid_argument(concat(value, " is not between 0 and 1"));
    flags.gpu_memory_utilization = *share;
    return ok_status();
  };
  const auto store_blocks = [&flags](std::int64_t blocks) { flags.num_gpu_blocks_override = blocks; };
  const auto store_events = [&flags](const std::string& value) -> Status {
    auto config = parse_kv_events_config(value);
    if (!config) return config.error();
    flags.kv_events = *std::move(config);
    return ok_status();
  };
  // vLLM's --swap-space is a number of GiB.
  const auto store_swap = [&flags](const std::string& value) -> Status {
    const bool bare = !value.empty() && value.find_first_not_of("0123456789.") == std::string::npos;
    const auto bytes = parse_size(bare ? value + "GiB" : value);
    if (!bytes) return invalid_argument(concat("'", value, "' is not a size"));
    flags.swap_space_bytes = *bytes;
    return ok_status();
  };
  return {
      {.name = "kv-cache-memory-bytes",
       .value = flags::integer(1, kMaxInt64, store_bytes),
       .help = "size (4GiB, 512M); else --kv-cache-memory-fraction decides"},
      {.name = "kv-cache-memory-fraction",
       .value = flags::number(flags.kv_cache_memory_fraction, 0.001, 1.0),
       .help = "share of the memory available after loading the weights"},
      {.name = "gpu-memory-utilization",
       .value = flags::parsed("X", store_utilization),
       .help = "vLLM's name of --kv-cache-memory-fraction, on a device alone",
       .details = "vLLM's name of `--kv-cache-memory-fraction`, which it replaces on a device: the share of "
                  "the device's memory that is free after loading. Without effect on the CPU",
       .default_text = "--kv-cache-memory-fraction"},
      {.name = "num-gpu-blocks-override",
       .value = flags::integer(2, std::int64_t{1} << 30, store_blocks),
       .help = "vLLM's: KV blocks of a device, instead of a share; without effect on the CPU",
       .default_text = "as many as the share has"},
      {.name = "kv-cache-dtype",
       .value = refusing_fp8(
           flags::choice(flags.kv_cache_dtype, {"auto", "float32", "bfloat16", "float16", "int8"})),
       .help = "keys and values",
       .details = "keys and values. `auto`: `float32` and `float16` with such a `--dtype`, `float16` beside "
                  "matrices in 8 "
                  "bits, as of quantised files, and where keys have large biases or norms (Qwen2, Qwen2.5), "
                  "otherwise "
                  "`bfloat16`; the memory table at start and `pagoda inspect` say which. "
                  "`int8`: 53 % of their memory, with one scale for each token's key and value of a head; as "
                  "reproducible "
                  "as the others, for heads of at most 512; loses much where some channels of keys are large "
                  "([its cost in quality](performance.md#what-the-default-numbers-cost-in-quality))"},
      {.name = "block-size",
       .value = flags::int32(flags.block_size, 1, 256),
       .help = "tokens in a block, 1 to 256"},
      {.name = "enable-prefix-caching",
       .value = flags::on_off(flags.enable_prefix_caching),
       .help = "keep and reuse the blocks of equal prefixes"},
      {.name = "eviction-policy",
       .value = flags::choice(flags.eviction_policy, eviction_policies()),
       .help = "order in which the prefix cache evicts: least recently, or least often used first",
       .details =
           "order in which the prefix cache evicts blocks that nobody uses: `lru`, least recently used "
           "first; `lfu`, least often found first, and among equals least recently used"},
      {.name = "prefix-file",
       .value = flags::text(flags.prefix_file, "FILE"),
       .help = "JSON list of {\"name\", \"text\" | \"messages\" | \"token_ids\"}: prefixes kept for all",
       .details =
           "a JSON list of shared prefixes, as `POST /admin/prefixes` takes them: computed and pinned before "
           "serving"},
      {.name = "kv-events-config",
       .value = flags::parsed("JSON", store_events),
       .help = "publish what the prefix cache holds, over ZeroMQ: {\"enable_kv_cache_events\":true,...}",
       .details = "publish what the prefix cache holds, for routers: vLLM's "
                  "`{\"enable_kv_cache_events\":true,\"endpoint\":\"tcp://*:5557\",\"replay_endpoint\":"
                  "\"tcp://*:5558\"}` ([KV events](kv-events.md))",
       .default_text = "off"},
      {.name = "kv-manager",
       .value = flags::choice(flags.kv_manager, {"auto", "paged", "virtual", "reserved"}),
       .help = "blocks, pages in address space, or a whole region each; auto: as the scheduler needs",
       .details = "`paged`: blocks as they are needed. `virtual`: the same in contiguous address space, with "
                  "pages mapped "
                  "behind it as sequences grow ([virtual-kv.md](virtual-kv.md)). `reserved`: a contiguous "
                  "region for each "
                  "whole answer, from a buddy allocator; the baseline. `auto`: as the scheduler needs"},
      {.name = "kv-page-size",
       .value = flags::parsed("SIZE", store_page),
       .help = "virtual: 4KiB to 2MiB; auto: --block-size tokens",
       .details = "page size of the virtual manager, a multiple of 4 KiB up to 2 MiB. A page smaller than 16 "
                  "tokens is mapped with its neighbours; the rest behind groups of 16 tokens is padding, "
                  "which a warning names. `auto`: the size of `--block-size` tokens, rounded up to 4 KiB",
       .default_text = "auto"},
      {.name = "kv-slots",
       .value = flags::int32(flags.kv_slots, 0, 1 << 22),
       .help = "virtual: sequences with address space; 0: 2 x --max-num-seqs",
       .details = "sequences with address space in the virtual manager; those that are not running stay "
                  "mapped. 0: twice `--max-num-seqs`"},
      {.name = "kv-slicing",
       .value = flags::on_off(flags.kv_slicing),
       .help = "virtual: one tensor over all layers",
       .details = "one tensor over all layers of a slot in the virtual manager, so that a page holds few "
                  "tokens of every layer; off: a tensor for each layer, and as many calls for each growth"},
      {.name = "kv-precreate-pages",
       .value = flags::on_off(flags.kv_precreate_pages),
       .help = "virtual: all pages are there from the start",
       .details = "the virtual manager commits memory for all pages at start, or the start fails; a page "
                  "takes it when it is first used. Off: memory for the longest sequence is committed at start"
                  " and the rest when first needed; requests are preempted where none is left"},
      {.name = "kv-map-ahead",
       .value = flags::on_off(flags.kv_map_ahead),
       .help = "virtual: map the next step's pages during this one",
       .details = "the virtual manager maps the next step's pages in a thread while this step runs"},
      {.name = "kv-eager",
       .value = flags::on_off(flags.kv_eager),
       .help = "virtual: map one page more than needed at first",
       .details = "the virtual manager maps one page more than needed with a request's first pages"},
      {.name = "kv-deferred-reclaim",
       .value = flags::on_off(flags.kv_deferred_reclaim),
       .help = "virtual: finished slots stay mapped",
       .details = "the virtual manager keeps a finished request's slot mapped for the next one of its length "
                  "or prefix"},
      {.name = "reserve",
       .value = flags::choice(flags.reserve, {"auto", "oracle", "pow2", "max"}),
       .help = "size of a reserved region; auto: max",
       .details = "region size of the reserved manager: `oracle` (prompt and `max_tokens`, exact with "
                  "`ignore_eos`), `pow2` (the answer rounded up to a power of two), `max` "
                  "(`--max-model-len`). `auto`: `max`"},
      {.name = "swap-space",
       .value = flags::parsed("SIZE", store_swap),
       .help = "for the K/V of preempted requests (512MiB; a bare number: GiB)",
       .details = "memory for the K/V of preempted requests, at most the KV cache's; a bare number is GiB",
       .default_text = "0"},
  };
}

}  // namespace pagoda
