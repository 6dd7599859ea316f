#include "cli/assembly/memory_plan.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "base/log.h"
#include "base/process_memory.h"
#include "base/strings.h"
#include "cli/assembly/devices.h"
#include "cli/assembly/machine.h"
#include "cli/mib.h"
#include "tensor/system_limits.h"

namespace pagoda {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// The program's own growth outside of the ledger's accounts: stacks, tables, fragmentation.
std::int64_t growth_bytes(std::int64_t available) { return std::min(64 * kMiB, available / 16); }
// The minimum for clients' answers, bodies and texts.
std::int64_t clients_bytes(std::int64_t available) { return std::min(512 * kMiB, available / 8); }

double kv_cache_share(const EngineFlags& flags) {
  // A GPU's memory is usually used by a single program; host memory is shared with others.
  const double share = flags.kv_cache_memory_fraction.value_or(flags.device == "cuda" ? 0.9 : 0.5);
  return uses_device(flags) ? flags.gpu_memory_utilization.value_or(share) : share;
}

// An encoder keeps no K/V: a single block without bytes.
Result<KvPlan> plan_without_kv(const EngineFlags& flags, std::int32_t max_positions, const HostMemory& host) {
  const bool asked = flags.max_model_len.has_value() && *flags.max_model_len != kMaxModelLenAuto;
  if (asked && *flags.max_model_len > max_positions)
    return invalid_argument(concat("--max-model-len ", *flags.max_model_len,
                                   " is more than the model's context of ", max_positions, " tokens"));
  return KvPlan{.num_blocks = 1,
                .max_model_len = asked ? *flags.max_model_len : max_positions,
                .available_bytes = host.available_bytes,
                .private_bytes = host.private_bytes};
}

}  // namespace

HostMemory host_memory() {
  return {.available_bytes = available_memory_bytes(),
          .private_bytes = process_memory().private_bytes,
          .mappings = available_mappings()};
}

Result<KvPlan> plan_kv_cache(const EngineFlags& flags, std::int32_t max_positions,
                             std::span<const KvGroup> groups, std::int64_t block_bytes,
                             const LoadedRunner::KvHeadroom& given, const HostMemory& host) {
  if (groups.empty()) return plan_without_kv(flags, max_positions, host);
  const std::int64_t available = host.available_bytes;
  const std::int64_t others = growth_bytes(available) + clients_bytes(available);
  const std::int64_t free =
      std::max<std::int64_t>(0, given.available - given.taken - (uses_device(flags) ? 0 : others));
  const std::int64_t here = uses_device(flags) ? std::max<std::int64_t>(0, available - others) : free;
  if (flags.kv_offloading_bytes > here)
    return invalid_argument(concat("--kv-offloading-size needs ", mib(flags.kv_offloading_bytes),
                                   ", but only ", mib(here), " of memory are available"));
  const std::int64_t room = uses_device(flags) ? free : free - flags.kv_offloading_bytes;
  // Swap space in the same memory as the KV cache.
  const std::int64_t swap = uses_device(flags) ? 0 : flags.swap_space_bytes;
  const bool counts_blocks = uses_device(flags) && flags.num_gpu_blocks_override;
  std::int64_t bytes = 0;
  if (flags.kv_cache_memory_bytes || counts_blocks) {
    bytes = counts_blocks ? *flags.num_gpu_blocks_override * block_bytes : *flags.kv_cache_memory_bytes;
    if (const std::int64_t all = bytes + std::min(bytes, swap); all > room) {
      return invalid_argument(concat(counts_blocks ? "--num-gpu-blocks-override" : "--kv-cache-memory-bytes",
                                     " needs ", mib(bytes),
                                     all > bytes ? concat(" and --swap-space ", mib(all - bytes)) : "",
                                     ", but only ", mib(room), " of memory are available"));
    }
  } else {
    bytes = static_cast<std::int64_t>(static_cast<double>(room) * kv_cache_share(flags));
    if (bytes + std::min(bytes, swap) > room) bytes = std::max(room - swap, room / 2);
  }
  KvPlan plan;
  plan.available_bytes = available;
  plan.private_bytes = host.private_bytes;
  plan.num_blocks =
      std::min<std::int64_t>(bytes / flags.data_parallel_size / block_bytes, std::int64_t{1} << 30);
  if (plan.num_blocks < 2) {
    const std::string engines =
        flags.data_parallel_size > 1 ? concat(", in each of ", flags.data_parallel_size, " engines") : "";
    const std::string block =
        concat("a block of ", groups.front().tokens_per_row, " tokens takes ", mib(block_bytes), engines);
    if (flags.kv_cache_memory_bytes)
      return invalid_argument(concat("--kv-cache-memory-bytes ", bytes, " is too small: ", block));
    if (uses_device(flags))
      return invalid_argument(concat("not enough memory for the KV cache: the device has ", mib(room),
                                     " left after the weights and a step's memory, and ", block,
                                     "; use a smaller model, a lower --max-num-seqs or more devices"));
    return invalid_argument(
        concat("not enough memory for the KV cache: of ", mib(available), " available ", mib(room),
               " are left after the weights and the server's own memory, and ", block,
               "; use a smaller model or free memory (also ulimit -v and cgroup limits)"));
  }
  const std::int64_t capacity = tokens_in(groups, plan.num_blocks, !flags.enable_chunked_prefill);
  const bool asked = flags.max_model_len.has_value() && *flags.max_model_len != kMaxModelLenAuto;
  const std::int32_t wanted = asked ? *flags.max_model_len : max_positions;
  if (wanted > max_positions) {
    return invalid_argument(concat("--max-model-len ", wanted, " is more than the model's context of ",
                                   max_positions, " tokens; --rope-scaling stretches it"));
  }
  if (asked && wanted > capacity) {
    return invalid_argument(concat("--max-model-len ", wanted, " does not fit into the KV cache of ",
                                   capacity,
                                   " tokens: raise --kv-cache-memory-bytes or lower --max-model-len"));
  }
  plan.max_model_len = static_cast<std::int32_t>(std::min<std::int64_t>(wanted, capacity));
  if (plan.max_model_len < wanted) {
    log_warning("start", concat("the KV cache holds ", capacity, " tokens, so --max-model-len is ",
                                plan.max_model_len, " instead of the model's ", wanted));
  }
  return plan;
}

std::unique_ptr<MemoryBudget> make_ledger(const MemoryTable& memory, const KvPlan& plan, bool on_device) {
  const std::int64_t weights = on_device ? 0 : memory.weight_bytes + memory.embedding_bytes;
  const std::int64_t in_memory = on_device ? 0 : weights - memory.mapped_bytes;
  // Adapters loaded at start are private memory, too, but have their own account.
  const std::int64_t program =
      std::max<std::int64_t>(0, plan.private_bytes - in_memory - memory.adapter_bytes);
  const struct {
    const char* name;
    std::int64_t bytes;
  } rows[] = {{"weights", weights},
              {"KV cache", on_device ? 0 : memory.kv_bytes},
              {"swap space", memory.swap_bytes},
              {"offloaded KV cache", memory.offload_bytes},
              {"draft model", memory.draft_bytes},
              {"activations", on_device ? 0 : memory.step_bytes},
              {"program", program + growth_bytes(plan.available_bytes)}};
  std::int64_t taken = memory.adapter_bytes;
  for (const auto& row : rows) taken += row.bytes;
  // An encoder has no memory plan and may be started on a machine whose memory is nearly full.
  const std::int64_t whole =
      std::max(in_memory + memory.adapter_bytes + program + plan.available_bytes, taken + 16 * kMiB);
  auto ledger = std::make_unique<MemoryBudget>(whole);
  for (const auto& row : rows) {
    if (row.bytes == 0) continue;
    const auto account = ledger->add_account(row.name, row.bytes, row.bytes);
    CHECK(account.has_value());
    auto held = ledger->try_reserve(*account, row.bytes);
    CHECK(held.has_value());
    std::move(*held).keep();
  }
  return ledger;
}

MemoryBudget::AccountId add_adapter_account(MemoryBudget& ledger, const MemoryTable& memory) {
  const std::int64_t loaded = memory.adapter_bytes,
                     more = std::max<std::int64_t>(0, ledger.left() - loaded) / 2;
  const auto account = ledger.add_account("adapters", loaded, loaded + more);
  CHECK(account.has_value());
  return *account;
}

MemoryReservation set_aside_for_grammars(MemoryBudget& ledger, int num_threads,
                                         GrammarService::Options& options) {
  constexpr std::int64_t kMaxAtOnce = 4;
  const std::int64_t share = ledger.left() / 16;
  options.cache_bytes = std::min(options.cache_bytes, share);
  options.max_grammar_bytes = std::min(options.max_grammar_bytes, share);
  // Each concurrent compilation may take max_grammar_bytes. The total is limited to two shares, which matters
  // on small machines.
  const std::int64_t room =
      std::max<std::int64_t>(1, 2 * share / std::max<std::int64_t>(1, options.max_grammar_bytes));
  options.max_at_once =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(num_threads, 1, std::min(kMaxAtOnce, room)));
  const std::int64_t bytes = options.cache_bytes + options.max_at_once * options.max_grammar_bytes;
  const auto account = ledger.add_account("grammars", bytes, bytes);
  CHECK(account.has_value());
  return *ledger.try_reserve(*account, bytes);
}

void log_memory_table(const MemoryTable& memory, const ModelInfo& model, const EngineFlags& flags,
                      std::int32_t max_model_len) {
  const auto row = [](const char* label, std::int64_t bytes, const std::string& note) {
    std::string padded(label);
    padded.resize(24, ' ');
    std::string size = mib(bytes);
    size.insert(0, size.size() < 14 ? 14 - size.size() : 0, ' ');
    log_info("memory", concat(padded, size, "  ", note));
  };
  row("weights, packed", memory.weight_bytes,
      concat(model.weight_type, ", computed in ", memory.computed_in, " (--dtype ", flags.dtype, ")"));
  row("embedding, as stored", memory.embedding_bytes,
      memory.mapped_bytes > 0 ? "both mapped from the weight cache" : "");
  const std::string kept = memory.any_length
                               ? std::string("windows and states")
                               : concat(memory.kv_tokens, " tokens of ", memory.kv_bytes_per_token, " bytes");
  row("KV cache", memory.kv_bytes,
      memory.any_length && memory.kv_bytes_per_token == 0
          ? std::string("states in float32; resident when used")
          : concat(kept, " in ", memory.kv_dtype, " (--kv-cache-dtype ", flags.kv_cache_dtype,
                   "); resident when used"));
  if (memory.swap_bytes > 0) row("swap space", memory.swap_bytes, "resident when used");
  if (memory.offload_bytes > 0)
    row("offloaded KV cache", memory.offload_bytes, "of the prefix cache; resident when used");
  if (memory.draft_bytes > 0)
    row("draft model", memory.draft_bytes, "its weights, and K/V of as many tokens; resident when used");
  if (memory.adapter_bytes > 0)
    row("adapters", memory.adapter_bytes, "that requests choose (--lora-modules)");
  row("activations", memory.activation_bytes, "one step");
  row("logits and sampling", memory.buffer_bytes, "one step; resident when used");
  if (memory.graph_bytes > 0)
    row("graphs", memory.graph_bytes, "of decode steps, reserved (--enforce-eager: none)");
  if (memory.any_length)
    log_info("memory", concat("KV cache size: ", fixed(memory.concurrency, 0), " sequences of any length"));
  else
    log_info(
        "memory",
        concat("KV cache size: ", memory.kv_tokens, " tokens",
               flags.data_parallel_size > 1 ? concat(", of ", flags.data_parallel_size, " engines") : ""));
  log_info("memory", concat("Maximum concurrency for ", max_model_len,
                            " tokens per request: ", fixed(memory.concurrency, 2), "x"));
}

void log_ledger(const MemoryBudget& ledger) {
  std::string line;
  for (const MemoryBudget::Account& account : ledger.accounts()) {
    if (account.used == account.limit) continue;  // reserved at start, and logged above
    line += concat(line.empty() ? "" : ", ", account.name, " ", mib(account.limit), " (guaranteed ",
                   mib(account.promised), ")");
  }
  log_info("memory", concat("left for clients: ", mib(ledger.limit() - ledger.used()), " of ",
                            mib(ledger.limit()), "; limits: ", line));
}

}  // namespace pagoda
