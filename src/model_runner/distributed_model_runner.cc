#include "model_runner/distributed_model_runner.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assign_or_return.h"
#include "base/clock.h"
#include "base/strings.h"
#include "model_runner/control_message.h"
#include "model_runner/virtual_kv_plan.h"

namespace pagoda {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStartTimeout{600'000};  // loading weights; a dead rank is noticed immediately
constexpr milliseconds kPingInterval{1'000};
constexpr milliseconds kStopTimeout{500};

// The first message of rank 0: options that must be equal on every rank.
struct RankSetup {
  std::int32_t max_num_batched_tokens = 0, max_num_seqs = 0, block_size = 0, deterministic = 0;
  std::int32_t kv_windows = 0, max_context = 0, max_draft_tokens = 0;
  char dtype[20] = {}, kv_cache_dtype[20] = {};
};

RankSetup setup_of(const RunnerOptions& options) {
  RankSetup setup;
  setup.max_num_batched_tokens = options.max_num_batched_tokens;
  setup.max_num_seqs = options.max_num_seqs;
  setup.block_size = options.block_size;
  setup.kv_windows = options.kv_windows ? 1 : 0;
  setup.max_context = options.max_context;
  setup.max_draft_tokens = options.max_draft_tokens;
  setup.deterministic = options.parallel.deterministic ? 1 : 0;
  options.dtype.copy(setup.dtype, sizeof(setup.dtype) - 1);
  options.kv_cache_dtype.copy(setup.kv_cache_dtype, sizeof(setup.kv_cache_dtype) - 1);
  return setup;
}

// Applies rank 0's options on every rank. The runner checks the values, as it does those of flags.
Status agree_on_options(RunnerOptions& options) {
  RankSetup setup = setup_of(options);
  const auto sent = std::as_bytes(std::span(&setup, 1));
  std::vector<std::byte> bytes(sent.begin(), sent.end());
  PAGODA_RETURN_IF_ERROR(options.parallel.communicator->broadcast(bytes, sizeof(RankSetup), kStartTimeout));
  if (bytes.size() != sizeof(RankSetup)) return corrupt_data("rank 0 runs another version of this program");
  std::memcpy(&setup, bytes.data(), sizeof(RankSetup));
  setup.dtype[sizeof(setup.dtype) - 1] = setup.kv_cache_dtype[sizeof(setup.kv_cache_dtype) - 1] = '\0';
  options.max_num_batched_tokens = setup.max_num_batched_tokens;
  options.max_num_seqs = setup.max_num_seqs;
  options.block_size = setup.block_size;
  options.kv_windows = setup.kv_windows != 0;
  options.max_context = setup.max_context;
  options.max_draft_tokens = setup.max_draft_tokens;
  options.parallel.deterministic = setup.deterministic != 0;
  options.dtype = setup.dtype;
  options.kv_cache_dtype = setup.kv_cache_dtype;
  return ok_status();
}

// A rank's report to rank 0, sent after it has loaded its part, after it is connected, and after KV cache
// allocation.
struct RankReport {
  std::int32_t ok = 0;
  std::int32_t num_layers = 0, hidden_size = 0, vocab_size = 0;  // all ranks must have the same model
  std::int32_t kv_heads = 0, padding = 0;
  std::int64_t weight_bytes = 0, mapped_bytes = 0, kv_block_bytes = 0, activation_bytes = 0;
  std::int64_t device_free_bytes = 0;
  char error[512] = {};
};

RankReport make_report(const Status& status, const RankRunner* runner) {
  RankReport report;
  report.ok = status.ok() ? 1 : 0;
  std::memcpy(report.error, status.message().data(),
              std::min(status.message().size(), sizeof(report.error) - 1));
  if (runner == nullptr) return report;
  report.num_layers = runner->config().num_layers();
  report.hidden_size = runner->config().hidden_size;
  report.vocab_size = runner->config().vocab_size;
  const MemoryPlan plan = runner->memory_plan();
  report.kv_heads = runner->kv_page_layout().num_kv_heads;
  report.weight_bytes = plan.weight_bytes;
  report.mapped_bytes = plan.mapped_bytes;
  report.kv_block_bytes = runner->kv_page_bytes();
  report.activation_bytes = plan.activation_bytes + plan.buffer_bytes;
  report.device_free_bytes = std::max<std::int64_t>(0, runner->device_free_bytes() - plan.graph_bytes);
  return report;
}

// On rank 0: the totals of all ranks' reports, or the first error. On other ranks: the rank's own error.
Result<RankTotals> exchange_reports(const ParallelContext& parallel, const Status& own,
                                    const RankRunner* runner) {
  const RankReport mine = make_report(own, runner);
  const auto size = static_cast<std::size_t>(parallel.size());
  std::vector<RankReport> reports(size);
  const std::vector<std::size_t> sizes(size, sizeof(RankReport));
  PAGODA_RETURN_IF_ERROR(parallel.communicator->gather(std::as_bytes(std::span(&mine, 1)), sizes,
                                                       reinterpret_cast<std::byte*>(reports.data()),
                                                       kStartTimeout));
  if (!own.ok()) return own;
  RankTotals totals;
  if (parallel.rank() != 0) return totals;
  std::int64_t blocks = INT64_MAX;
  for (std::size_t rank = 0; rank < size; ++rank) {
    RankReport& report = reports[rank];
    report.error[sizeof(report.error) - 1] = '\0';
    if (report.ok == 0) return internal_error(concat("rank ", rank, ": ", report.error));
    if (report.num_layers != mine.num_layers || report.hidden_size != mine.hidden_size ||
        report.vocab_size != mine.vocab_size) {
      return invalid_argument(concat("rank ", rank, " has another model than rank 0"));
    }
    totals.weight_bytes += report.weight_bytes;
    totals.mapped_bytes += report.mapped_bytes;
    totals.kv_block_bytes += report.kv_block_bytes;
    totals.activation_bytes += report.activation_bytes;
    totals.kv_heads.push_back(report.kv_heads);
    blocks = std::min(blocks, report.device_free_bytes / std::max<std::int64_t>(1, report.kv_block_bytes));
  }
  totals.device_bytes = blocks * totals.kv_block_bytes;
  return totals;
}

// Answers to a request that ranks may refuse. `refused`: the first refusal, on rank 0. `lost`: set if the
// ranks could not be reached.
struct Answers {
  Status lost, refused;
};
Answers exchange_answers(const ParallelContext& parallel, const Status& own, RankTimeout timeout) {
  std::array<char, 256> mine{};
  own.message().copy(mine.data(), mine.size() - 1);
  const auto size = static_cast<std::size_t>(parallel.size());
  std::vector<std::array<char, 256>> all(size);
  const std::vector<std::size_t> sizes(size, mine.size());
  Answers answers;
  answers.lost = parallel.communicator->gather(std::as_bytes(std::span(mine)), sizes,
                                               reinterpret_cast<std::byte*>(all.data()), timeout);
  if (!answers.lost.ok() || parallel.rank() != 0) return answers;
  for (std::size_t rank = 0; rank < size; ++rank) {
    all[rank].back() = '\0';
    if (all[rank][0] == '\0') continue;
    answers.refused = resource_exhausted(concat("rank ", rank, ": ", all[rank].data()));
    break;
  }
  return answers;
}

// How long a rank waits for rank 0, which pings once a second: longer silence means that rank 0 is gone.
milliseconds silence_limit(const ParallelContext& parallel, bool serving) {
  if (parallel.timeout == kNoTimeout) return kNoTimeout;
  return serving ? 2 * parallel.timeout + 2 * kPingInterval : kStartTimeout;
}

// Allocates the virtual cache that rank 0 describes, in this rank's layout. Sizes are checked where they are
// used.
Status allocate_virtual(RankRunner& runner, const ControlMessage& message) {
  const KvLayout own = runner.kv_page_layout();
  if (message.block_size < 1 || message.block_size > 1 << 20 || message.shape.num_tensors < 1 ||
      (message.shape.num_tensors != 1 && message.shape.num_tensors != own.num_layers) ||
      message.shape.num_slots < 1 || message.shape.blocks_per_slot < 1 ||
      message.shape.num_slots > INT32_MAX / message.shape.blocks_per_slot ||
      message.shape.num_created > message.num_blocks) {
    return corrupt_data("a virtual KV cache that cannot be");
  }
  const RankKv rank = virtual_kv_of_rank(own, message.block_size, message.shape, runner.page_granule());
  return runner.allocate_virtual_kv(rank.layout, rank.shape, message.num_blocks, message.num_swap_blocks);
}

Status change_memory(RankRunner& runner, ControlKind kind) {
  if (kind == ControlKind::load) return runner.load_weights();
  return runner.release_memory(kind == ControlKind::release ? ModelRunner::KvContent::keep
                                                            : ModelRunner::KvContent::drop);
}

Status obey(RankRunner& runner, const ParallelContext& parallel) {
  std::vector<std::byte> bytes;
  ControlMessage message;
  bool serving = false;
  for (;;) {
    PAGODA_RETURN_IF_ERROR(
        parallel.communicator->broadcast(bytes, kMaxControlBytes, silence_limit(parallel, serving)));
    PAGODA_RETURN_IF_ERROR(decode_control(bytes, message));
    switch (message.kind) {
      case ControlKind::allocate: {
        const Status status = runner.allocate_kv_cache(message.num_blocks, message.num_swap_blocks);
        if (const auto reports = exchange_reports(parallel, status, &runner); !reports)
          return reports.error();
        break;
      }
      case ControlKind::allocate_virtual: {
        const Status status = allocate_virtual(runner, message);
        if (const auto reports = exchange_reports(parallel, status, &runner); !reports)
          return reports.error();
        break;
      }
      case ControlKind::create_pages: {
        const Status status = runner.create_kv_pages(message.first_page, message.num_pages);
        PAGODA_RETURN_IF_ERROR(exchange_answers(parallel, status, parallel.timeout).lost);
        break;
      }
      case ControlKind::release:
      case ControlKind::release_all:
      case ControlKind::load:
        PAGODA_RETURN_IF_ERROR(
            exchange_answers(parallel, change_memory(runner, message.kind), kStartTimeout).lost);
        break;
      case ControlKind::step:
        PAGODA_RETURN_IF_ERROR(runner.run(message.batch).status);
        serving = true;
        break;
      case ControlKind::ping:
        PAGODA_RETURN_IF_ERROR(runner.heartbeat());
        PAGODA_RETURN_IF_ERROR(parallel.communicator->barrier(parallel.timeout));
        serving = true;
        break;
      case ControlKind::stop:
        return ok_status();
    }
  }
}

}  // namespace

Result<std::unique_ptr<RankRunner>> load_on_cpu(std::shared_ptr<const ModelSource> source,
                                                const RunnerOptions& options) {
  PAGODA_ASSIGN_OR_RETURN(auto runner, LocalModelRunner::create(std::move(source), options));
  return std::unique_ptr<RankRunner>(std::move(runner));
}

Result<std::unique_ptr<DistributedModelRunner>> DistributedModelRunner::create(
    std::shared_ptr<const ModelSource> source, const RunnerOptions& options, const LoadRank& load) {
  CHECK(options.parallel.communicator != nullptr && options.parallel.rank() == 0);
  std::unique_ptr<DistributedModelRunner> runner(new DistributedModelRunner);
  runner->parallel_ = options.parallel;
  RunnerOptions agreed = options;
  if (Status status = agree_on_options(agreed); !status.ok()) return runner->fail(std::move(status));
  agreed.num_blocks = agreed.num_swap_blocks = 0;
  auto local = load(std::move(source), agreed);
  const Status status = local ? ok_status() : local.error();
  if (local) runner->local_ = *std::move(local);
  auto totals = exchange_reports(options.parallel, status, runner->local_.get());
  if (!totals) return runner->fail(totals.error());
  // A connection may take device memory; the KV cache gets the rest.
  totals = exchange_reports(options.parallel, runner->local_->connect(), runner->local_.get());
  if (!totals) return runner->fail(totals.error());
  runner->totals_ = *totals;
  return runner;
}

DistributedModelRunner::~DistributedModelRunner() {
  if (lost_) return;
  encode_signal(ControlKind::stop, message_);
  (void)send(kStopTimeout);  // a rank that misses the message ends with rank 0
}

Status DistributedModelRunner::fail(Status status) {
  lost_ = true;
  parallel_.communicator->abort(status.message());
  return status;
}

Status DistributedModelRunner::send(RankTimeout timeout) {
  return parallel_.communicator->broadcast(message_, kMaxControlBytes, timeout);
}

Status DistributedModelRunner::allocate_kv_cache(std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  encode_allocate(num_blocks, num_swap_blocks, message_);
  if (Status status = send(kStartTimeout); !status.ok()) return fail(std::move(status));
  return finish_allocation(local_->allocate_kv_cache(num_blocks, num_swap_blocks));
}

Status DistributedModelRunner::allocate_virtual_kv(const KvLayout& layout, const VirtualKvShape& shape,
                                                   std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  encode_allocate_virtual(layout.block_size, shape, num_blocks, num_swap_blocks, message_);
  if (Status status = send(kStartTimeout); !status.ok()) return fail(std::move(status));
  return finish_allocation(local_->allocate_virtual_kv(layout, shape, num_blocks, num_swap_blocks));
}

Status DistributedModelRunner::finish_allocation(const Status& own) {
  if (const auto totals = exchange_reports(parallel_, own, local_.get()); !totals)
    return fail(totals.error());
  return ok_status();
}

Status DistributedModelRunner::create_kv_pages(std::int64_t first, std::int64_t count) {
  encode_create_pages(first, count, message_);
  if (Status status = send(parallel_.timeout); !status.ok()) return fail(std::move(status));
  Answers answers = exchange_answers(parallel_, local_->create_kv_pages(first, count), parallel_.timeout);
  return answers.lost.ok() ? std::move(answers.refused) : fail(std::move(answers.lost));
}

// A rank that failed this is not lost: rank 0 may retry.
Status DistributedModelRunner::change_memory_of_all(ControlKind kind) {
  encode_signal(kind, message_);
  if (Status status = send(parallel_.timeout); !status.ok()) return fail(std::move(status));
  Answers answers = exchange_answers(parallel_, change_memory(*local_, kind), kStartTimeout);
  return answers.lost.ok() ? std::move(answers.refused) : fail(std::move(answers.lost));
}

Status DistributedModelRunner::release_memory(KvContent content) {
  return change_memory_of_all(content == KvContent::keep ? ControlKind::release : ControlKind::release_all);
}

Status DistributedModelRunner::load_weights() { return change_memory_of_all(ControlKind::load); }

StepResult DistributedModelRunner::run(const ScheduledBatch& batch) {
  const SteadyClock clock;
  const TimeNs start = clock.now();
  const CommunicationStats before = parallel_.communicator->stats();
  encode_step(batch, message_);
  const auto message_bytes = static_cast<std::int64_t>(message_.size());
  StepResult result;
  result.status = send(parallel_.timeout);
  if (result.status.ok()) result = local_->run(batch);
  if (!result.status.ok()) result.status = fail(std::move(result.status));
  const CommunicationStats& after = parallel_.communicator->stats();
  ++steps_.steps;
  steps_.message_bytes += message_bytes;
  steps_.exchanges += after.sums + after.gathers - before.sums - before.gathers;
  steps_.exchanged_bytes += after.sum_bytes + after.gather_bytes - before.sum_bytes - before.gather_bytes;
  steps_.communication_seconds += after.seconds - before.seconds;
  steps_.seconds += to_seconds(clock.now() - start);
  return result;
}

milliseconds DistributedModelRunner::heartbeat_interval() const { return kPingInterval; }

Status DistributedModelRunner::heartbeat() {
  encode_signal(ControlKind::ping, message_);
  Status status = local_->heartbeat();
  if (status.ok()) status = send(parallel_.timeout);
  if (status.ok()) status = parallel_.communicator->barrier(parallel_.timeout);
  return status.ok() ? status : fail(std::move(status));
}

Status serve_rank(std::shared_ptr<const ModelSource> source, RunnerOptions options, const LoadRank& load) {
  CHECK(options.parallel.communicator != nullptr && options.parallel.rank() != 0);
  options.num_blocks = options.num_swap_blocks = 0;  // an allocate message follows
  PAGODA_RETURN_IF_ERROR(agree_on_options(options));
  auto local = load(std::move(source), options);
  const Status loaded = local ? ok_status() : local.error();
  auto reports = exchange_reports(options.parallel, loaded, local ? local->get() : nullptr);
  if (reports) reports = exchange_reports(options.parallel, (*local)->connect(), local->get());
  const Status status = reports ? obey(**local, options.parallel) : reports.error();
  // Reporting an error that rank 0 already knows does no harm.
  if (!status.ok()) options.parallel.communicator->abort(status.message());
  return status;
}

}  // namespace pagoda
