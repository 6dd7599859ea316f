#include "distributed/mpi.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/strings.h"
#include "base/watchdog.h"
#include "distributed/plugin/mpi_functions.h"

namespace pagoda {
namespace {

using std::chrono::milliseconds, std::chrono::microseconds, std::chrono::steady_clock;

constexpr auto kBusy = microseconds(200), kYielding = microseconds(5'000);
constexpr auto kFirstNap = microseconds(50), kLongestNap = microseconds(1'000);
constexpr auto kLongestGap = milliseconds(50);  // maximum counted per round of waiting: see shared_memory.h
// Other ranks wait longer than rank 0, which should detect the failure and notify its clients.
constexpr milliseconds kMpiGraceForRankZero{3'000};
constexpr int kFinalizeSeconds = 10;
constexpr std::size_t kPiece = std::size_t{1} << 28;  // bytes per operation; MPI counts in int

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const MpiFunctions& mpi, std::int32_t rank, std::int32_t size)
      : mpi_(mpi), rank_(rank), size_(size) {}
  ~MpiCommunicator() override {
    if (failed_) {
      mpi_.abort(1);
      return;
    }
    // MPI_Finalize waits for all ranks. If one is lost at this moment, the others would hang forever.
    const Watchdog deadline(
        {.tick = milliseconds(1000), .max_ticks = kFinalizeSeconds},
        [] { return std::optional<std::uint64_t>(0); },
        [this] {
          log_error("mpi", "MPI_Finalize does not return: a rank is lost");
          mpi_.abort(1);
          ::_exit(1);
        });
    mpi_.finalize();
  }
  std::int32_t rank() const override { return rank_; }
  std::int32_t size() const override { return size_; }
  void abort(std::string_view) override { failed_ = true; }

 private:
  Status finish(int error, RankTimeout timeout);
  Status check(int error);

  Status do_broadcast(std::vector<std::byte>& bytes, std::size_t max_bytes, RankTimeout timeout) override {
    std::uint64_t total = bytes.size();
    PAGODA_RETURN_IF_ERROR(finish(mpi_.start_broadcast(&total, sizeof(total)), timeout));
    if (total > max_bytes)
      return corrupt_data(concat("a message of ", total, " bytes; the limit is ", max_bytes));
    bytes.resize(total);
    for (std::size_t first = 0; first < total; first += kPiece) {
      const auto count = static_cast<int>(std::min<std::size_t>(kPiece, total - first));
      PAGODA_RETURN_IF_ERROR(finish(mpi_.start_broadcast(bytes.data() + first, count), timeout));
    }
    return ok_status();
  }

  Status do_all_reduce_sum(std::span<float> data, RankTimeout timeout) override {
    CHECK(data.size() <= std::size_t{std::numeric_limits<int>::max()});
    return finish(mpi_.start_sum(data.data(), static_cast<int>(data.size())), timeout);
  }

  Status do_all_gather(std::span<const float> mine, std::span<const std::size_t> sizes, float* all,
                       RankTimeout timeout) override {
    counts_.clear();
    std::size_t total = 0, before = 0;
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
      if (rank == static_cast<std::size_t>(rank_)) before = total;
      total += sizes[rank];
      counts_.push_back(static_cast<int>(sizes[rank]));
    }
    CHECK(total <= std::size_t{std::numeric_limits<int>::max()});
    if (mine.data() != all + before) std::memcpy(all + before, mine.data(), mine.size_bytes());
    return finish(mpi_.start_all_gather(all, counts_.data()), timeout);
  }

  Status do_gather(std::span<const std::byte> mine, std::span<const std::size_t> sizes, std::byte* all,
                   RankTimeout timeout) override {
    counts_.clear();
    std::size_t total = 0;
    for (const std::size_t size : sizes) {
      total += size;
      counts_.push_back(static_cast<int>(size));
    }
    CHECK(total <= std::size_t{std::numeric_limits<int>::max()});
    if (rank_ == 0 && mine.data() != all) std::memcpy(all, mine.data(), mine.size());
    return finish(mpi_.start_gather(mine.data(), all, counts_.data()), timeout);
  }

  Status do_barrier(RankTimeout timeout) override { return finish(mpi_.start_barrier(), timeout); }

  const MpiFunctions& mpi_;
  std::int32_t rank_, size_;
  bool failed_ = false;
  std::vector<int> counts_;
};

Status MpiCommunicator::check(int error) {
  if (error == 0) return ok_status();
  char text[256] = {};
  mpi_.describe(error, text, sizeof(text));
  failed_ = true;
  return unavailable(concat("MPI: ", text));
}

// Waits for the operation whose start returned `error`.
Status MpiCommunicator::finish(int error, RankTimeout timeout) {
  PAGODA_RETURN_IF_ERROR(check(error));
  const auto limit = timeout + (rank_ == 0 ? milliseconds(0) : kMpiGraceForRankZero);
  const auto start = steady_clock::now();
  auto last = start;
  steady_clock::duration waited{0};
  auto nap = kFirstNap;
  for (;;) {
    int done = 0;
    PAGODA_RETURN_IF_ERROR(check(mpi_.test(&done)));
    if (done != 0) return ok_status();
    const auto now = steady_clock::now();
    waited += std::min<steady_clock::duration>(now - std::exchange(last, now), kLongestGap);
    if (timeout != kNoTimeout && waited >= limit) {
      failed_ = true;
      return {StatusCode::deadline_exceeded,
              concat("rank ", rank_, ": not every rank answered within ", limit.count(), " ms")};
    }
    if (waited < kBusy) continue;
    if (waited < kYielding) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(2 * nap, kLongestNap);
  }
}

}  // namespace

Result<std::unique_ptr<Communicator>> join_mpi(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return unavailable(concat("started by mpirun, but MPI cannot be used: ", dlerror()));
  const auto get = reinterpret_cast<GetMpiFunctions>(dlsym(handle, "pagoda_mpi_functions"));
  const MpiFunctions* const mpi = get == nullptr ? nullptr : get(kMpiFunctionsVersion);
  if (mpi == nullptr) return unavailable(concat(library, " belongs to another version of this program"));
  int rank = 0, size = 1;
  if (const int error = mpi->init(&rank, &size); error != 0)
    return internal_error(concat("MPI_Init failed with ", error));
  return std::unique_ptr<Communicator>(std::make_unique<MpiCommunicator>(*mpi, rank, size));
}

}  // namespace pagoda
