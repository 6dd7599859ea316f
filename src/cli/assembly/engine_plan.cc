#include "cli/assembly/engine_plan.h"

#include <algorithm>
#include <cmath>

#include "base/assign_or_return.h"
#include "cli/assembly/memory_modes.h"

namespace pagoda {
namespace {

EngineConfig engine_config(const EngineFlags& flags, const ModelNumbers& model, const EnginePlan& plan,
                           std::int32_t block_size) {
  EngineConfig out;
  out.max_model_len = plan.kv.max_model_len;
  out.max_num_seqs = flags.max_num_seqs;
  if (flags.lora.enable) out.max_adapters = flags.lora.max_together(uses_device(flags));
  out.max_num_batched_tokens = model.max_num_batched_tokens;
  out.block_size = block_size;
  const std::vector<KvGroup>& groups = plan.groups.groups;
  if (groups != one_full_group(block_size)) out.kv_groups = groups;
  out.rotation = model.rotation;
  out.enable_prefix_caching = flags.enable_prefix_caching && !groups.empty();
  out.kv_peers = !groups.empty() && flags.kv_transfer.fetches;
  out.kv_tiers = out.kv_peers || (!groups.empty() && (plan.num_offload_blocks > 0 || !flags.kv_disk.empty()));
  out.enable_chunked_prefill = flags.enable_chunked_prefill;
  out.scheduling_policy = scheduling_policy(flags);
  set_memory_modes(flags, plan.block_bytes, out);
  out.max_waiting = flags.max_queue;
  out.max_queue_s = flags.max_queue_time_s.value_or(0);
  out.seed = flags.seed;
  out.vocab_size = model.vocab_size;
  out.speculative = flags.speculative;
  out.forced_drafts = !is_baseline(flags);
  out.async_scheduling = is_async(flags);
  out.target_itl_ms = flags.target_itl_ms.value_or(0);
  return out;
}

// Tokens per page in a row of all groups: the tokens of a row divided by its pages.
double full_tokens_per_page(std::span<const KvGroup> groups) {
  std::int64_t pages = 0;
  for (const KvGroup& group : groups) pages += group.is_state() ? 0 : group.pages_per_row;
  return pages == 0 ? 0 : static_cast<double>(groups.front().tokens_per_row) / static_cast<double>(pages);
}

}  // namespace

ModelNumbers model_numbers(std::span<LoadedRunner> runners, const ModelInfo& model,
                           std::int32_t max_num_batched_tokens) {
  LoadedRunner& runner = runners.front();
  RankTotals totals = runner.totals();
  LoadedRunner::KvHeadroom room = runner.kv_room();
  if (runner.on_device()) {  // each engine has its own device, and all get equal sizes
    for (const LoadedRunner& other : runners)
      room.available = std::min(room.available, other.kv_room().available);
    room.available *= std::ssize(runners);
    room.taken *= std::ssize(runners);
  } else {
    room.taken += (std::ssize(runners) - 1) * totals.activation_bytes;
  }
  return {.max_positions = model.decoder.max_positions,
          .vocab_size = model.decoder.vocab_size,
          .max_num_batched_tokens = max_num_batched_tokens,
          .kv_plan = runner.kv_plan(),
          .page_layout = runner.kv_page_layout(),
          .page_granule = runner.page_granule(),
          .kv_block_bytes = totals.kv_block_bytes,
          .kv_heads = std::move(totals.kv_heads),
          .kv_room = room,
          .rotation = runner.runner().rotation_rule()};
}

Result<EnginePlan> plan_engine(const EngineFlags& flags, const ModelNumbers& model, const HostMemory& host) {
  if (is_baseline(flags) && model.kv_plan.has_states())
    return invalid_argument(
        "--kv-manager reserved does not support the recurrent layers of this model: use --kv-manager paged");
  EnginePlan plan;
  plan.groups = model.kv_plan;
  std::int32_t block_size = flags.block_size;
  plan.block_bytes = model.kv_block_bytes;
  std::optional<VirtualKvPlan> virtual_plan;
  if (is_virtual(flags)) {
    PAGODA_ASSIGN_OR_RETURN(virtual_plan, virtual_kv_plan(flags, model.page_layout, model.page_granule));
    block_size = virtual_plan->layout.block_size;
    plan.block_bytes = virtual_block_bytes(*virtual_plan, model.kv_heads, model.page_granule);
    PAGODA_ASSIGN_OR_RETURN(auto in_blocks, in_blocks_of(std::move(plan.groups), virtual_plan->layout));
    plan.groups = std::move(in_blocks);
  }
  // The draft model's cache holds as many tokens, so it takes a share of the same memory.
  const double tokens_per_page = full_tokens_per_page(plan.groups.groups);
  const auto draft_share = static_cast<std::int64_t>(
      std::ceil(static_cast<double>(model.draft_bytes_per_token) * tokens_per_page));
  auto kv = plan_kv_cache(flags, model.max_positions, plan.groups.groups, plan.block_bytes + draft_share,
                          model.kv_room, host);
  if (!kv) return kv.error();
  plan.kv = *kv;
  if (model.draft_bytes_per_token > 0) {
    plan.draft_tokens = static_cast<std::int64_t>(static_cast<double>(plan.kv.num_blocks) * tokens_per_page);
    plan.draft_kv_bytes = plan.draft_tokens * model.draft_bytes_per_token;
  }
  plan.num_swap_blocks = num_swap_blocks(flags, plan.kv.num_blocks, plan.block_bytes);
  if (!plan.groups.groups.empty()) plan.num_offload_blocks = num_offload_blocks(flags, plan.block_bytes);
  if (virtual_plan) {
    PAGODA_ASSIGN_OR_RETURN(
        auto planned, plan_virtual_memory(flags, *virtual_plan, plan.groups.groups, plan.kv.num_blocks,
                                          plan.kv.max_model_len, host.mappings / flags.data_parallel_size));
    plan.virtual_memory = planned;
  }
  plan.engine = engine_config(flags, model, plan, block_size);
  PAGODA_RETURN_IF_ERROR(validate(plan.engine));
  return plan;
}

}  // namespace pagoda
