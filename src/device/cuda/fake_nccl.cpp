// A library with NCCL's calls, for nccl_test.cc and for emulated devices in tests: logs each call with its
// arguments, and actually sums and gathers host memory among ranks, which are threads or processes of this
// machine. Fails on request. A communicator's ranks meet in an unnamed file, which the unique id identifies.
// Calls block until all ranks have arrived, or their own communicator is aborted. Based only on the
// documentation of the calls. It adds from the last rank to the first.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

namespace {

constexpr std::uint32_t kMagic = 0x6e63636c, kMostRanks = 8;
constexpr std::size_t kPiece = 4096;  // floats of a rank that are exchanged at a time
constexpr int kSystemError = 2, kInternalError = 3, kInvalidArgument = 4, kInvalidUsage = 5;

std::mutex log_mutex;
std::string log, failing;
int alive = 0, failing_status = 0;

int call(const char* name, const std::string& arguments) {
  const std::lock_guard lock(log_mutex);
  log += std::string(name) + "(" + arguments + ") ";
  return failing == name ? failing_status : 0;
}

struct Id {
  std::uint32_t magic;
  std::int32_t process, file;
  char rest[116];
};
static_assert(sizeof(Id) == 128);

struct Shared {
  std::atomic<std::uint32_t> joined, arrived, round;
  std::atomic<std::uint64_t> asked[kMostRanks];
  float room[kMostRanks][kPiece];
};

struct Comm {
  std::uint32_t magic = kMagic;
  Shared* shared = nullptr;
  std::uint32_t rank = 0, size = 0;
  std::atomic<bool> aborted{false};
  std::atomic<int> inside{0};
};

// Waits until all ranks have arrived; false if aborted.
bool meet(Comm& comm) {
  Shared& shared = *comm.shared;
  const std::uint32_t round = shared.round.load();
  if (shared.arrived.fetch_add(1) + 1 == comm.size) {
    shared.arrived = 0;
    ++shared.round;
  }
  while (shared.round.load() == round) {
    if (comm.aborted) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

// Exchanges `count` floats of each rank in pieces: take(first, length) reads those in shared.room.
template <class Take>
int exchange(Comm& comm, const float* from, std::size_t count, const Take& take) {
  Shared& shared = *comm.shared;
  shared.asked[comm.rank] = count;
  ++comm.inside;
  const auto work = [&] {
    if (!meet(comm)) return kInternalError;
    for (std::uint32_t rank = 0; rank < comm.size; ++rank)
      if (shared.asked[rank] != count) return kInvalidUsage;
    for (std::size_t first = 0; first < count; first += kPiece) {
      const std::size_t length = std::min(kPiece, count - first);
      std::memcpy(shared.room[comm.rank], from + first, length * sizeof(float));
      if (!meet(comm)) return kInternalError;
      take(first, length);
      if (!meet(comm)) return kInternalError;
    }
    return 0;
  };
  const int result = work();
  --comm.inside;
  return result;
}

Comm* communicator(void* handle) {
  auto* const comm = static_cast<Comm*>(handle);
  return comm != nullptr && comm->magic == kMagic ? comm : nullptr;
}

int end(void* handle) {
  Comm* const comm = communicator(handle);
  if (comm == nullptr) return kInvalidArgument;
  comm->aborted = true;
  while (comm->inside != 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
  munmap(comm->shared, sizeof(Shared));
  comm->magic = 0;
  delete comm;
  const std::lock_guard lock(log_mutex);
  --alive;
  return 0;
}

}  // namespace

extern "C" {

const char* fake_log() { return log.c_str(); }
int fake_alive() { return alive; }
void fake_reset(const char* fail, int status) {
  const std::lock_guard lock(log_mutex);
  log.clear();
  failing = fail;
  failing_status = status;
}

// failing "old": a version that is too old.
int ncclGetVersion(int* version) {
  *version = failing == "old" ? 21210 : 22703;
  return 0;
}
const char* ncclGetErrorString(int result) {
  return result == kSystemError       ? "unhandled system error"
         : result == kInternalError   ? "internal error"
         : result == kInvalidUsage    ? "invalid usage"
         : result == kInvalidArgument ? "invalid argument"
                                      : "an error";
}
const char* ncclGetLastError(void*) { return failing.empty() ? "" : "as the test asked"; }

int ncclGetUniqueId(Id* id) {
  if (const int status = call("GetUniqueId", "")) return status;
  const int file = memfd_create("fake-nccl", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) return kSystemError;
  *id = {kMagic, getpid(), file, {}};
  return 0;
}

int ncclCommInitRank(void** out, int size, Id id, int rank) {
  if (const int status = call("CommInitRank", std::to_string(size) + " " + std::to_string(rank)))
    return status;
  if (id.magic != kMagic || size < 1 || size > static_cast<int>(kMostRanks) || rank < 0 || rank >= size)
    return kInvalidArgument;
  const std::string name = "/proc/" + std::to_string(id.process) + "/fd/" + std::to_string(id.file);
  const int file = open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return kSystemError;
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return kSystemError;
  auto* const comm = new Comm;
  comm->shared = static_cast<Shared*>(memory);
  comm->rank = static_cast<std::uint32_t>(rank);
  comm->size = static_cast<std::uint32_t>(size);
  ++comm->shared->joined;
  while (comm->shared->joined < comm->size) std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (rank == 0 && id.process == getpid()) close(id.file);
  *out = comm;
  const std::lock_guard lock(log_mutex);
  ++alive;
  return 0;
}

int ncclCommDestroy(void* handle) {
  call("CommDestroy", "");
  return end(handle);
}
int ncclCommAbort(void* handle) {
  call("CommAbort", "");
  return end(handle);
}
// failing "async": the error is reported later.
int ncclCommGetAsyncError(void* handle, int* error) {
  if (communicator(handle) == nullptr) return kInvalidArgument;
  *error = failing == "async" ? failing_status : 0;
  return 0;
}

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int operation, void* handle,
                  void* stream) {
  if (const int status = call("AllReduce", std::to_string(count) + " " + std::to_string(type) + " " +
                                               std::to_string(operation) + " " +
                                               std::to_string(reinterpret_cast<std::uintptr_t>(stream))))
    return status;
  Comm* const comm = communicator(handle);
  if (comm == nullptr || type != 7 || operation != 0) return kInvalidArgument;
  return exchange(*comm, static_cast<const float*>(from), count, [&](std::size_t first, std::size_t length) {
    for (std::size_t i = 0; i < length; ++i) {
      float sum = comm->shared->room[comm->size - 1][i];
      for (std::uint32_t rank = comm->size - 1; rank-- > 0;) sum += comm->shared->room[rank][i];
      static_cast<float*>(to)[first + i] = sum;
    }
  });
}

int ncclAllGather(const void* from, void* to, std::size_t count, int type, void* handle, void* stream) {
  if (const int status = call("AllGather", std::to_string(count) + " " + std::to_string(type) + " " +
                                               std::to_string(reinterpret_cast<std::uintptr_t>(stream))))
    return status;
  Comm* const comm = communicator(handle);
  if (comm == nullptr || type != 7) return kInvalidArgument;
  return exchange(*comm, static_cast<const float*>(from), count, [&](std::size_t first, std::size_t length) {
    for (std::uint32_t rank = 0; rank < comm->size; ++rank)
      std::memcpy(static_cast<float*>(to) + rank * count + first, comm->shared->room[rank],
                  length * sizeof(float));
  });
}

}  // extern "C"
