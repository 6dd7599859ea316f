#include "base/stack_traces.h"

#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr int kMaxFrames = 64;

// Filled by the signal handler of the thread being asked.
std::atomic<pid_t> asked{0};
std::atomic<int> num_frames{-1};
void* frames[kMaxFrames];

pid_t this_thread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

void on_signal(int) {
  const int saved = errno;
  if (asked.load() == this_thread()) num_frames.store(backtrace(frames, kMaxFrames));
  errno = saved;
}

std::vector<pid_t> thread_ids() {
  std::vector<pid_t> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/task"), closedir);
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder.get()))
    if (const int id = std::atoi(entry->d_name); id > 0) out.push_back(id);
  std::ranges::sort(out, {}, [](pid_t id) { return std::pair(id != this_thread(), id); });
  return out;
}

std::string name_of(pid_t thread) {
  std::ifstream file(concat("/proc/self/task/", thread, "/comm"));
  std::string name;
  std::getline(file, name);
  return name;
}

std::string trace_of(pid_t thread) {
  std::string out = concat("thread ", thread, " (", name_of(thread), "):");
  num_frames.store(-1);
  asked.store(thread);
  syscall(SYS_tgkill, getpid(), thread, SIGRTMIN + 7);
  for (int i = 0; i < 200 && num_frames.load() < 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  asked.store(0);
  const int count = num_frames.load();
  if (count < 0) return out + " does not respond to signals";
  const std::unique_ptr<char*, void (*)(void*)> symbols(backtrace_symbols(frames, count), std::free);
  for (int i = 0; symbols != nullptr && i < count; ++i) out += concat("\n  ", symbols.get()[i]);
  return out;
}

}  // namespace

std::vector<std::string> stack_traces() {
  static std::mutex one_at_a_time;
  std::lock_guard lock(one_at_a_time);
  void* first[1];
  backtrace(first, 1);  // loads its library now: a signal handler must not
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGRTMIN + 7, &action, nullptr);
  std::vector<std::string> out;
  for (const pid_t thread : thread_ids()) out.push_back(trace_of(thread));
  return out;
}

}  // namespace pagoda
