#include "cli/assembly/loaded_runner.h"

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/assembly/devices.h"
#include "cli/assembly/ranks.h"
#include "kernels/amx.h"
#include "model_runner/async_model_runner.h"
#include "tensor/system_limits.h"

namespace pagoda {

Result<LoadedRunner> LoadedRunner::create(std::shared_ptr<const ModelSource> source, RunnerOptions options,
                                          const EngineFlags& flags, Communicator* communicator) {
  options.parallel = parallel_context(flags, communicator);
  LoadedRunner loaded;
  loaded.on_devices_ = uses_device(flags);
  if (!loaded.on_devices_) {
    loaded.computes_on_ =
        concat(options.threads, " threads, ",
               cpu_kernels_name(options.cpu_level.value_or(detected_cpu_level())), " kernels");
    if (const auto missing = missing_cpu_level())
      loaded.computes_on_ +=
          concat(" (this build lacks ", cpu_level_name(*missing), "; `script/build pagoda` builds for all)");
  }
  const LoadRank load = rank_loader(flags, &loaded.computes_on_);
  if (communicator != nullptr) {
    PAGODA_ASSIGN_OR_RETURN(loaded.group_, DistributedModelRunner::create(std::move(source), options, load));
  } else {
    PAGODA_ASSIGN_OR_RETURN(loaded.alone_, load(std::move(source), options));
  }
  return loaded;
}

ModelRunner& LoadedRunner::runner() { return group_ ? static_cast<ModelRunner&>(*group_) : *alone_; }

LoadedRunner::Taken LoadedRunner::take(bool async) {
  const auto hand_over = [](auto& runner) {
    const auto create = [owner = runner.get()](std::int64_t first, std::int64_t count) {
      return owner->create_kv_pages(first, count);
    };
    return Taken{.runner = std::move(runner), .create_pages = create};
  };
  const bool runs_ahead = async && alone_ && alone_->run_ahead();
  Taken taken = group_ ? hand_over(group_) : hand_over(alone_);
  if (!async || runs_ahead) return taken;
  auto outer = std::make_unique<AsyncModelRunner>(std::move(taken.runner));
  taken.create_pages = [create = std::move(taken.create_pages), runs = outer.get()](std::int64_t first,
                                                                                    std::int64_t count) {
    runs->settle();
    return create(first, count);
  };
  taken.runner = std::move(outer);
  return taken;
}

const KvGroupPlan& LoadedRunner::kv_plan() const { return local().kv_plan(); }

MemoryPlan LoadedRunner::memory_plan() const { return local().memory_plan(); }

std::int64_t LoadedRunner::embedding_bytes() const { return local().embedding_bytes(); }

bool LoadedRunner::head_is_tied() const { return local().head_is_tied(); }
const std::vector<std::string>& LoadedRunner::ignored_tensors() const { return local().ignored_tensors(); }

std::int32_t LoadedRunner::vector_size() const { return local().vector_size(); }

std::string LoadedRunner::computes_on() const { return computes_on_; }

Status LoadedRunner::allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  return group_ ? group_->allocate_kv_cache(num_blocks, num_swap_blocks)
                : alone_->allocate_kv_cache(num_blocks, num_swap_blocks);
}

KvLayout LoadedRunner::kv_page_layout() const { return local().kv_page_layout(); }

std::int64_t LoadedRunner::page_granule() const { return local().page_granule(); }

Status LoadedRunner::allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape,
                                         std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  return group_ ? group_->allocate_virtual_kv(layout, shape, num_blocks, num_swap_blocks)
                : alone_->allocate_virtual_kv(layout, shape, num_blocks, num_swap_blocks);
}

std::size_t LoadedRunner::kv_block_bytes() const { return alone_ ? alone_->kv_block_bytes() : 0; }

Status LoadedRunner::set_tiers(std::vector<std::shared_ptr<KvTier>> tiers,
                               std::unique_ptr<KvRowServer> server) {
  if (!alone_) return unimplemented("the KV cache of several ranks cannot be offloaded");
  return alone_->set_tiers(std::move(tiers), std::move(server));
}

RankTotals LoadedRunner::totals() const {
  if (group_) return group_->totals();
  const MemoryPlan plan = memory_plan();
  RankTotals totals = {.weight_bytes = plan.weight_bytes,
                       .mapped_bytes = plan.mapped_bytes,
                       .kv_block_bytes = local().kv_page_bytes(),
                       .activation_bytes = plan.activation_bytes + plan.buffer_bytes,
                       .kv_heads = {}};
  if (!on_devices_) totals.kv_heads = {local().kv_page_layout().num_kv_heads};
  return totals;
}

// On a device the model's memory is already allocated, except for graphs; on the CPU it becomes resident on
// first use. Weights mapped from the weight cache count as available, because the system can drop and reread
// them.
LoadedRunner::KvHeadroom LoadedRunner::kv_room() const {
  if (on_device()) return {.available = alone_->device_free_bytes(), .taken = memory_plan().graph_bytes};
  const RankTotals all = totals();
  if (on_devices_) return {.available = all.device_bytes, .taken = 0};
  return {.available = available_memory_bytes(), .taken = all.activation_bytes + all.mapped_bytes};
}

}  // namespace pagoda
