#include "device/cuda/nccl.h"

#include <array>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "base/opened_library.h"
#include "base/strings.h"

namespace pagoda::device {
namespace {

// The library's types and numbers, as documented.
using Communicator = void*;
struct UniqueId {
  char internal[128];
};
static_assert(sizeof(UniqueId) == sizeof(GroupName));
constexpr int kNcclSuccess = 0, kInProgress = 7;
constexpr int kNcclFloat = 7, kNcclSum = 0;
// From this version on, a failed call can explain its error in words, and all calls can be captured.
constexpr int kOldest = 21300;

constexpr std::array kNcclNames = {"libnccl.so.2"};
// A call only enqueues. A call that takes longer waits for a missing rank, and ends when it is aborted.
constexpr std::chrono::milliseconds kLongCall{100};

std::string version_text(int version) {
  return concat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace

struct Nccl::Library : OpenedLibrary {
  int number = 0;  // its version
  int (*version)(int*) = nullptr;
  int (*unique_id)(UniqueId*) = nullptr;
  int (*init)(Communicator*, int size, UniqueId, int rank) = nullptr;
  int (*destroy)(Communicator) = nullptr;
  int (*abort)(Communicator) = nullptr;
  int (*async_error)(Communicator, int* error) = nullptr;
  int (*all_reduce)(const void* from, void* to, std::size_t count, int type, int operation, Communicator,
                    void* stream) = nullptr;
  int (*all_gather)(const void* from, void* to, std::size_t count, int type, Communicator,
                    void* stream) = nullptr;
  const char* (*error_text)(int) = nullptr;
  const char* (*last_error)(Communicator) = nullptr;
};

Result<std::unique_ptr<Nccl::Library>> Nccl::look_up(std::span<const char* const> names) {
  if (names.empty()) names = kNcclNames;
  auto found = std::make_unique<Library>();
  Library& l = *found;
  PAGODA_RETURN_IF_ERROR(l.open(names));
  PAGODA_RETURN_IF_ERROR(l.find("ncclGetVersion", l.version));
  if (l.version(&l.number) != kNcclSuccess || l.number < kOldest)
    return unavailable(concat(l.name, " has version ", version_text(l.number), ": from ",
                              version_text(kOldest), " on it can be used"));
  PAGODA_RETURN_IF_ERROR(l.find("ncclGetUniqueId", l.unique_id));
  PAGODA_RETURN_IF_ERROR(l.find("ncclCommInitRank", l.init));
  PAGODA_RETURN_IF_ERROR(l.find("ncclCommDestroy", l.destroy));
  PAGODA_RETURN_IF_ERROR(l.find("ncclCommAbort", l.abort));
  PAGODA_RETURN_IF_ERROR(l.find("ncclCommGetAsyncError", l.async_error));
  PAGODA_RETURN_IF_ERROR(l.find("ncclAllReduce", l.all_reduce));
  PAGODA_RETURN_IF_ERROR(l.find("ncclAllGather", l.all_gather));
  PAGODA_RETURN_IF_ERROR(l.find("ncclGetErrorString", l.error_text));
  PAGODA_RETURN_IF_ERROR(l.find("ncclGetLastError", l.last_error));
  return found;
}

Result<std::unique_ptr<Nccl>> Nccl::open(std::span<const char* const> names) {
  auto library = look_up(names);
  if (!library) return library.error();
  // With this setting, a group allocates all of its memory when it is created. Otherwise it allocates some at
  // an exchange of another size: in a capture, and after the memory plan. A value set by the user is kept.
  setenv("NCCL_RUNTIME_CONNECT", "0", /*overwrite=*/0);
  std::unique_ptr<Nccl> opened(new Nccl);
  opened->library_ = *std::move(library);
  return opened;
}

std::string Nccl::describe(std::span<const char* const> names) {
  const auto library = look_up(names);
  if (!library) return std::string(library.error().message());
  return concat((*library)->name, ", version ", version_text((*library)->number));
}

Nccl::~Nccl() {
  if (void* const communicator = communicator_.exchange(nullptr)) library_->destroy(communicator);
}

Status Nccl::check(int result, const char* call, void* communicator) const {
  if (result == kNcclSuccess) return ok_status();
  const char* const more = library_->last_error(communicator);
  return internal_error(concat(library_->name, ": ", call, ": ", library_->error_text(result), " (", result,
                               ")", more != nullptr && *more != '\0' ? concat(": ", more) : std::string()));
}

Status Nccl::aborted() const {
  const std::lock_guard lock(reason_);
  return why_;
}

Result<GroupName> Nccl::name_group() const {
  UniqueId id = {};
  PAGODA_RETURN_IF_ERROR(check(library_->unique_id(&id), "ncclGetUniqueId", nullptr));
  GroupName name;
  std::memcpy(name.bytes.data(), &id, sizeof id);
  return name;
}

Status Nccl::join(const GroupName& name, std::int32_t rank, std::int32_t size,
                  std::chrono::milliseconds timeout, std::function<void()> enter) {
  CHECK(communicator_.load() == nullptr);
  struct Joining {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false, abandoned = false;
    int result = 0;
    Communicator communicator = nullptr;
  };
  const auto joining = std::make_shared<Joining>();
  UniqueId id = {};
  std::memcpy(&id, name.bytes.data(), sizeof id);
  std::thread([joining, id, rank, size, init = library_->init, abort = library_->abort,
               enter = std::move(enter)] {
    enter();
    Communicator made = nullptr;
    const int result = init(&made, size, id, rank);
    const std::lock_guard lock(joining->mutex);
    if (joining->abandoned && made != nullptr) abort(made);
    joining->communicator = made;
    joining->result = result;
    joining->done = true;
    joining->changed.notify_all();
  }).detach();
  std::unique_lock lock(joining->mutex);
  if (!joining->changed.wait_for(lock, timeout, [&] { return joining->done; })) {
    joining->abandoned = true;
    library_->keep();  // that thread still uses it
    return {StatusCode::deadline_exceeded,
            concat(library_->name, ": not all of ", size, " ranks joined within ", timeout.count(), " ms")};
  }
  PAGODA_RETURN_IF_ERROR(check(joining->result, "ncclCommInitRank", nullptr));
  communicator_ = joining->communicator;
  return ok_status();
}

template <class Call>
Status Nccl::enqueue(const char* name, const Call& call) {
  const std::lock_guard lock(call_);
  PAGODA_RETURN_IF_ERROR(aborted());
  void* const communicator = communicator_.load();
  CHECK(communicator != nullptr);
  const int result = call(communicator);
  if (result == kNcclSuccess) return ok_status();
  PAGODA_RETURN_IF_ERROR(aborted());  // aborted meanwhile: the communicator is gone
  return check(result, name, communicator);
}

Status Nccl::all_reduce(void* stream, float* data, std::int64_t count) {
  return enqueue("ncclAllReduce", [&](void* communicator) {
    return library_->all_reduce(data, data, static_cast<std::size_t>(count), kNcclFloat, kNcclSum,
                                communicator, stream);
  });
}

Status Nccl::all_gather(void* stream, const float* own, float* all, std::int64_t count) {
  return enqueue("ncclAllGather", [&](void* communicator) {
    return library_->all_gather(own, all, static_cast<std::size_t>(count), kNcclFloat, communicator, stream);
  });
}

// A blocking call holds the lock; that it waits for a rank is inferred from its duration.
Status Nccl::error() {
  PAGODA_RETURN_IF_ERROR(aborted());
  std::unique_lock lock(call_, std::try_to_lock);
  void* const communicator = communicator_.load();
  if (!lock.owns_lock() || communicator == nullptr) return aborted();
  int error = kNcclSuccess;
  PAGODA_RETURN_IF_ERROR(
      check(library_->async_error(communicator, &error), "ncclCommGetAsyncError", communicator));
  return error == kInProgress ? ok_status() : check(error, "reported by ncclCommGetAsyncError", communicator);
}

void Nccl::abort(const Status& why) {
  {
    const std::lock_guard lock(reason_);
    if (why_.ok()) why_ = why;
  }
  std::unique_lock lock(call_, std::defer_lock);
  (void)lock.try_lock_for(kLongCall);
  if (void* const communicator = communicator_.exchange(nullptr)) library_->abort(communicator);
}

}  // namespace pagoda::device
