#include "cli/assembly/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/hub_paths.h"
#include "cli/assembly/machine.h"
#include "cli/assembly/pooling.h"
#include "cli/assembly/runner_options.h"
#include "cli/assembly/weight_caching.h"
#include "distributed/local_ranks.h"
#include "distributed/mpi.h"

namespace pagoda {
namespace {

// Exit codes of ranks other than 0: that was not told to stop; of what rank 0 refuses.
constexpr int kRankFailed = 3, kRefused = 2;

std::string mpi_library() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return (program.parent_path() / "libpagoda_mpi.so").string();
}

ParallelContext parallel_context(const EngineFlags& flags, Communicator* communicator) {
  return {.communicator = communicator,
          .timeout = RankTimeout(static_cast<std::int64_t>(flags.rank_timeout_s * 1000)),
          .deterministic = flags.deterministic_allreduce};
}

Status serve(const EngineFlags& flags, Communicator& communicator) {
  auto path = model_path(flags);
  if (!path) return path.error();
  auto source = ModelSource::open(*path, hub_paths_from_environment(), flags.hf_overrides);
  if (!source) return source.error();
  auto options = runner_options(flags, (*source)->config());
  if (!options) return options.error();
  auto pooling = pooling_model(flags, **source, nullptr);
  if (!pooling) return pooling.error();
  options->pooling = *std::move(pooling);
  options->parallel = parallel_context(flags, &communicator);
  options->weight_caching = weight_caching(flags, true);
  return serve_rank(*std::move(source), *options);
}

// Rank 0 drains first, whoever is told to end.
void ignore_signals() {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
}

// A model that cannot be split is one process's answer, given before there are others.
Status check_split(const EngineFlags& flags) {
  auto path = model_path(flags);
  if (!path) return path.error();
  auto source = ModelSource::open(*path, hub_paths_from_environment(), flags.hf_overrides);
  if (!source) return source.error();
  return DecoderModel::check_split(**source, flags.dtype, flags.tensor_parallel_size,
                                   flags.deterministic_allreduce ? ExchangeKind::gather : ExchangeKind::sum);
}

// Rank 0 has been told, and says it.
bool known_to_rank_zero(const Status& status) {
  if (status.code() != StatusCode::unavailable && status.code() != StatusCode::deadline_exceeded) return true;
  return status.message().find(" gave up: ") != std::string::npos;
}

// The life of a rank other than 0. Ends its process without what belongs to rank 0: open files, exit
// handlers.
[[noreturn]] void serve_and_exit(const EngineFlags& flags, std::unique_ptr<Communicator> communicator) {
  ignore_signals();
  const Status status = serve(flags, *communicator);
  if (!status.ok()) {
    communicator->abort(status.message());
    const std::string line = concat("rank ", communicator->rank(), " ends: ", status.message());
    if (known_to_rank_zero(status))
      log_debug("rank", line);
    else
      log_error("rank", line);
  }
  communicator.reset();
  _exit(status.ok() ? 0 : kRankFailed);
}

}  // namespace

Result<std::unique_ptr<Communicator>> join_ranks(const EngineFlags& flags) {
  if (flags.tensor_parallel_size == 1) return std::unique_ptr<Communicator>();
  if (Status status = check_split(flags); !status.ok()) {
    if (flags.mpi_rank > 0) _exit(kRefused);
    return status;
  }
  auto communicator =
      flags.mpi_local_size > 0 ? join_mpi(mpi_library()) : start_local_ranks(flags.tensor_parallel_size);
  if (communicator && flags.mpi_local_size > 0 && (*communicator)->size() != flags.tensor_parallel_size)
    return internal_error("MPI has another number of ranks than mpirun's environment says");
  if (communicator && (*communicator)->rank() != 0) serve_and_exit(flags, *std::move(communicator));
  return communicator;
}

int threads_per_rank(const EngineFlags& flags) {
  if (flags.threads > 0) return flags.threads;
  const std::int32_t here = flags.mpi_local_size > 0 ? flags.mpi_local_size : flags.tensor_parallel_size;
  return std::max(1, usable_cores() / here);
}

Result<LoadedRunner> LoadedRunner::create(std::shared_ptr<const ModelSource> source, RunnerOptions options,
                                          const EngineFlags& flags, Communicator* communicator) {
  options.parallel = parallel_context(flags, communicator);
  LoadedRunner loaded;
  if (communicator == nullptr) {
    auto alone = LocalModelRunner::create(std::move(source), options);
    if (!alone) return alone.error();
    loaded.alone_ = *std::move(alone);
    return loaded;
  }
  auto group = DistributedModelRunner::create(std::move(source), options);
  if (!group) return group.error();
  loaded.group_ = *std::move(group);
  return loaded;
}

std::unique_ptr<ModelRunner> LoadedRunner::take() {
  if (group_) return std::move(group_);
  return std::move(alone_);
}

Status LoadedRunner::allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  return group_ ? group_->allocate_kv_cache(num_blocks, num_swap_blocks)
                : alone_->allocate_kv_cache(num_blocks, num_swap_blocks);
}

Status LoadedRunner::allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape,
                                         std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  return group_ ? group_->allocate_virtual_kv(layout, shape, num_blocks, num_swap_blocks)
                : alone_->allocate_virtual_kv(layout, shape, num_blocks, num_swap_blocks);
}

std::function<Status(std::int64_t, std::int64_t)> LoadedRunner::page_creator() {
  if (group_) {
    return [group = group_.get()](std::int64_t first, std::int64_t count) {
      return group->create_kv_pages(first, count);
    };
  }
  return [alone = alone_.get()](std::int64_t first, std::int64_t count) {
    return alone->create_kv_pages(first, count);
  };
}

RankTotals LoadedRunner::totals() const {
  if (group_) return group_->totals();
  const MemoryPlan plan = alone_->memory_plan();
  return {.weight_bytes = plan.weight_bytes,
          .mapped_bytes = plan.mapped_bytes,
          .kv_block_bytes = alone_->kv_page_bytes(),
          .activation_bytes = plan.activation_bytes + plan.buffer_bytes,
          .kv_heads = {alone_->kv_layout().num_kv_heads}};
}

}  // namespace pagoda
