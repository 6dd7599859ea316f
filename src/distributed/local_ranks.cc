#include "distributed/local_ranks.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/strings.h"
#include "distributed/shared_memory.h"

namespace pagoda {
namespace {

constexpr std::chrono::milliseconds kGoodbye{2'000}, kGoodbyeStep{5};

Status check_child(pid_t pid, std::int32_t rank) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return ok_status();
  return unavailable(concat("rank ", rank, " (process ", pid, ") ",
                            info.si_code == CLD_EXITED ? "ended with code " : "was killed by signal ",
                            info.si_status));
}

// Rank 0's end of the group: owns the children.
class ParentCommunicator final : public SharedMemoryCommunicator {
 public:
  ParentCommunicator(const std::shared_ptr<SharedMemoryGroup>& group, std::vector<pid_t> children)
      : SharedMemoryCommunicator(group, 0, [this] { return check(); }), children_(std::move(children)) {}

  // Gives ranks that were told to stop a moment to end; kills the others.
  ~ParentCommunicator() override {
    abort("rank 0 has ended");
    for (auto waited = std::chrono::milliseconds(0); waited < kGoodbye && reap(); waited += kGoodbyeStep)
      std::this_thread::sleep_for(kGoodbyeStep);
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

 private:
  Status check() const {
    for (std::size_t i = 0; i < children_.size(); ++i)
      PAGODA_RETURN_IF_ERROR(check_child(children_[i], static_cast<std::int32_t>(i) + 1));
    return ok_status();
  }
  // Returns true while children are left.
  bool reap() {
    std::erase_if(children_, [](pid_t child) { return waitpid(child, nullptr, WNOHANG) == child; });
    return !children_.empty();
  }

  std::vector<pid_t> children_;
};

class ChildCommunicator final : public SharedMemoryCommunicator {
 public:
  ChildCommunicator(const std::shared_ptr<SharedMemoryGroup>& group, std::int32_t rank, pid_t parent)
      : SharedMemoryCommunicator(
            group, rank,
            [parent] { return getppid() == parent ? ok_status() : unavailable("rank 0 has ended"); }),
        parent_(parent) {}

  void abort(std::string_view why) override {
    SharedMemoryCommunicator::abort(why);
    if (stalled_rank() == 0 && getppid() == parent_) kill(parent_, SIGKILL);
  }

 private:
  pid_t parent_;
};

void become_child(std::int32_t rank, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before prctl()
  prctl(PR_SET_NAME, concat("pagoda-rank-", rank).c_str());
}

#if defined(__SANITIZE_THREAD__)
#define PAGODA_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PAGODA_THREAD_SANITIZER 1
#endif
#endif

// ThreadSanitizer has its own thread, which does not count.
bool has_other_threads() {
#ifdef PAGODA_THREAD_SANITIZER
  return false;
#else
  std::error_code error;
  std::int64_t count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task", error))
    ++count;
  return count > 1;
#endif
}

}  // namespace

Result<std::unique_ptr<Communicator>> start_local_ranks(std::int32_t size) {
  auto group = SharedMemoryGroup::create(size);
  if (!group) return group.error();
  if (has_other_threads()) return internal_error("ranks must be started before any thread");
  const pid_t parent = getpid();
  std::vector<pid_t> children;
  for (std::int32_t rank = 1; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      become_child(rank, parent);
      return std::unique_ptr<Communicator>(std::make_unique<ChildCommunicator>(*group, rank, parent));
    }
    if (child < 0) {
      const std::string why = std::strerror(errno);
      ParentCommunicator(*group, std::move(children)).abort("fork failed");
      return internal_error(concat("cannot start rank ", rank, ": ", why));
    }
    children.push_back(child);
  }
  return std::unique_ptr<Communicator>(std::make_unique<ParentCommunicator>(*group, std::move(children)));
}

}  // namespace pagoda
