#pragma once
// For tests: a tensor-parallel group as threads of this process. The caller has rank 0; the others run
// serve_rank(). Parts are on the CPU, or wherever `load` loads them.
#include <thread>

#include "distributed/shared_memory.h"
#include "model_runner/distributed_model_runner.h"
#include "model_runner/test_sequences.h"

namespace pagoda::testing {

class TestRanks {
 public:
  // Sets `status` and leaves `runner` null if the model cannot be split this way.
  TestRanks(const std::string& model, RunnerOptions options, std::int32_t size, bool deterministic = true,
            const ModelOverrides& overrides = {}, LoadRank load = load_on_cpu) {
    auto opened = ModelSource::open(model, {}, overrides);
    if (!opened) {
      status = opened.error();
      return;
    }
    const std::shared_ptr<const ModelSource> source = *std::move(opened);
    auto group = SharedMemoryGroup::create(size);
    CHECK(group.has_value());
    statuses.resize(static_cast<std::size_t>(size));
    for (std::int32_t rank = 0; rank < size; ++rank)
      communicators.push_back(std::make_unique<SharedMemoryCommunicator>(*group, rank));
    options.parallel.deterministic = deterministic;
    for (std::int32_t rank = 1; rank < size; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      options.parallel.communicator = communicators[at].get();
      threads.emplace_back(
          [this, at, source, options, load] { statuses[at] = serve_rank(source, options, load); });
    }
    options.parallel.communicator = communicators[0].get();
    auto created = DistributedModelRunner::create(source, options, load);
    if (!created) {
      status = created.error();
    } else {
      runner = *std::move(created);
      if (options.num_blocks > 0)
        status = runner->allocate_kv_cache(options.num_blocks, options.num_swap_blocks);
    }
  }
  ~TestRanks() { join(); }

  void join() {
    runner.reset();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  Status status;
  std::vector<Status> statuses;  // the other ranks' results, once joined
  std::vector<std::unique_ptr<SharedMemoryCommunicator>> communicators;
  std::unique_ptr<DistributedModelRunner> runner;

 private:
  std::vector<std::thread> threads;
};

}  // namespace pagoda::testing
