#include "cli/assembly/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "base/assign_or_return.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/devices.h"
#include "cli/assembly/machine.h"
#include "cli/assembly/model_overrides.h"
#include "cli/assembly/pooling.h"
#include "cli/assembly/rank_places.h"
#include "cli/assembly/runner_options.h"
#include "cli/assembly/weight_caching.h"
#include "distributed/local_ranks.h"
#include "distributed/mpi.h"
#include "model_runner/distributed_model_runner.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

// Exit codes of ranks other than 0: the rank failed; the rank met an error that rank 0 reports.
constexpr int kRankFailed = 3, kRefused = 2;
constexpr std::chrono::seconds kRefusalOfRankZero{10};  // time for rank 0 to report the same error

std::string mpi_library() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return (program.parent_path() / "libpagoda_mpi.so").string();
}

Status serve(const EngineFlags& flags, Communicator& communicator) {
  PAGODA_ASSIGN_OR_RETURN(auto source, open_model(flags));
  PAGODA_ASSIGN_OR_RETURN(const auto config, read_model_config(*source));
  PAGODA_ASSIGN_OR_RETURN(auto options, runner_options(flags, config));
  PAGODA_ASSIGN_OR_RETURN(options.pooling, pooling_model(flags, *source, config, nullptr));
  options.parallel = parallel_context(flags, &communicator);
  options.weight_caching = weight_caching(flags, true);
  return serve_rank(std::move(source), options, rank_loader(flags));
}

// Rank 0 handles the signals and drains first.
void ignore_signals() {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
}

// Checks that the model can be split, so that the error is reported once, before other processes exist.
Status check_split(const EngineFlags& flags) {
  PAGODA_ASSIGN_OR_RETURN(auto source, open_model(flags));
  return DecoderModel::check_split(*source, flags.dtype, flags.tensor_parallel_size,
                                   flags.deterministic_allreduce ? ExchangeKind::gather : ExchangeKind::sum,
                                   uses_device(flags) ? MixtureCut::features : MixtureCut::experts);
}

// True if rank 0 already knows this error and reports it.
bool known_to_rank_zero(const Status& status) {
  if (status.code() != StatusCode::unavailable && status.code() != StatusCode::deadline_exceeded) return true;
  return status.message().find(" gave up: ") != std::string::npos;
}

std::int32_t ranks_here(const EngineFlags& flags) {
  return flags.mpi_local_size > 0 ? flags.mpi_local_size : flags.tensor_parallel_size;
}

Status settle(const RankPlace& place, std::int32_t rank, EngineFlags& flags) {
  if (place.cpus.empty()) return ok_status();
  if (flags.threads == 0) flags.threads = threads_at(place, granted_cores(), ranks_here(flags));
  const std::string who = flags.tensor_parallel_size > 1 ? concat("rank ", rank, ": ") : std::string();
  return take_place(place, who, !flags.cpu_list.lists.empty());
}

// The main function of a rank other than 0. Ends the process without touching what it inherited from rank 0:
// open files, exit handlers.
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

// mpirun ends all processes as soon as the first one fails, so wait for rank 0 to fail with the same error
// and end this process. Only an error specific to this rank's machine is reported here.
[[noreturn]] void leave_refusal_to_rank_zero(std::int32_t rank, const Status& status) {
  std::this_thread::sleep_for(kRefusalOfRankZero);
  std::fprintf(stderr, "pagoda: rank %d: %s\n", rank, status.message().c_str());
  _exit(kRefused);
}

}  // namespace

Result<std::unique_ptr<Communicator>> join_ranks(EngineFlags& flags) {
  const auto refused = [&flags](const Status& status) {
    if (flags.mpi_rank > 0) leave_refusal_to_rank_zero(flags.mpi_rank, status);
    return status;
  };
  // With several engines in a process, each binds its own threads (data_parallel.h).
  if (flags.data_parallel_size > 1 && flags.cpu_list.lists.size() != 1)
    return std::unique_ptr<Communicator>();
  auto places =
      plan_rank_places(flags.cpu_list, ranks_here(flags), read_numa_nodes(kNumaFolder), allowed_cpus());
  if (!places) return refused(places.error());
  if (flags.tensor_parallel_size == 1) {
    PAGODA_RETURN_IF_ERROR(settle(places->front(), 0, flags));
    return std::unique_ptr<Communicator>();
  }
  if (Status status = check_split(flags); !status.ok()) return refused(status);
  auto communicator =
      flags.mpi_local_size > 0 ? join_mpi(mpi_library()) : start_local_ranks(flags.tensor_parallel_size);
  if (communicator && flags.mpi_local_size > 0 && (*communicator)->size() != flags.tensor_parallel_size)
    return internal_error("MPI reports another number of ranks than mpirun's environment variables");
  if (!communicator) return communicator;
  const std::int32_t rank = (*communicator)->rank();
  const std::int32_t local_rank = flags.mpi_local_size > 0 ? flags.mpi_local_rank : rank;
  if (Status status = settle((*places)[static_cast<std::size_t>(local_rank)], rank, flags); !status.ok()) {
    (*communicator)->abort(status.message());
    if (rank != 0) _exit(kRankFailed);
    return status;
  }
  if (rank != 0) serve_and_exit(flags, *std::move(communicator));
  return communicator;
}

int threads_per_rank(const EngineFlags& flags) {
  const int threads = flags.threads > 0 ? flags.threads : usable_cores() / ranks_here(flags);
  return std::max(1, threads / flags.data_parallel_size);
}

ParallelContext parallel_context(const EngineFlags& flags, Communicator* communicator) {
  return {.communicator = communicator,
          .timeout = RankTimeout(static_cast<std::int64_t>(flags.rank_timeout_s * 1000)),
          .deterministic = flags.deterministic_allreduce};
}

}  // namespace pagoda
