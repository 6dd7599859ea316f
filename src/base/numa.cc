#include "base/numa.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/strings.h"

#ifdef __linux__
#include <dirent.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#endif

namespace pagoda {
namespace {

// Removes a number from the front of `text` and returns it; -1 if there is none.
int take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char wanted) {
  if (!text.starts_with(wanted)) return false;
  text.remove_prefix(1);
  return true;
}

// Parses "3", "0-7" or "0-7:2"; false for anything else.
bool add_range(std::string_view part, CpuList& cpus) {
  const int first = take_number(part);
  int last = first, step = 1;
  if (take(part, '-')) {
    last = take_number(part);
    if (take(part, ':')) step = take_number(part);
  }
  if (first < 0 || last < first || last > kMaxCpu || step < 1 || step > kMaxCpu || !part.empty())
    return false;
  for (int cpu = first; cpu <= last; cpu += step) cpus.push_back(cpu);
  return true;
}

std::string first_line(const std::string& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

}  // namespace

Result<CpuList> parse_cpu_list(std::string_view text) {
  CpuList cpus;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    if (!add_range(rest.substr(0, comma), cpus))
      return invalid_argument(
          concat("'", text, "' is not a list of cores such as 0-3,8 (numbers up to ", kMaxCpu, ")"));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::ranges::sort(cpus);
  const auto twice = std::ranges::unique(cpus);
  cpus.erase(twice.begin(), twice.end());
  return cpus;
}

std::string cpu_list_text(const CpuList& cpus) {
  std::string out;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    out += concat(out.empty() ? "" : ",", cpus[i]);
    if (last > i) out += concat("-", cpus[last]);
    i = last + 1;
  }
  return out;
}

CpuList intersection(const CpuList& a, const CpuList& b) {
  CpuList out;
  std::ranges::set_intersection(a, b, std::back_inserter(out));
  return out;
}

std::vector<NumaNode> read_numa_nodes(const std::string& folder) {
  std::vector<NumaNode> nodes;
  const auto online = parse_cpu_list(first_line(folder + "/online"));  // node lists have the same format
  if (!online) return nodes;
  for (const int id : *online) {
    auto cpus = parse_cpu_list(first_line(concat(folder, "/node", id, "/cpulist")));
    if (cpus) nodes.push_back({.id = id, .cpus = *std::move(cpus)});
  }
  return nodes;
}

#ifdef __linux__

namespace {

constexpr std::size_t kSetBytes = CPU_ALLOC_SIZE(kMaxCpu + 1);
constexpr std::size_t kBits = sizeof(unsigned long) * 8;  // bits per word of a node mask

struct CpuSet {
  CpuSet() : words(kSetBytes / sizeof(unsigned long)) {}
  explicit CpuSet(const CpuList& cpus) : CpuSet() {
    for (const int cpu : cpus) CPU_SET_S(static_cast<unsigned>(cpu), kSetBytes, get());
  }
  cpu_set_t* get() { return reinterpret_cast<cpu_set_t*>(words.data()); }
  std::vector<unsigned long> words;
};

Status refused(const char* what) { return unavailable(concat(what, ": ", std::strerror(errno))); }

}  // namespace

CpuList allowed_cpus() {
  CpuSet set;
  CpuList out;
  if (sched_getaffinity(0, kSetBytes, set.get()) != 0) return out;
  for (int cpu = 0; cpu <= kMaxCpu; ++cpu) {
    if (CPU_ISSET_S(static_cast<unsigned>(cpu), kSetBytes, set.get())) out.push_back(cpu);
  }
  return out;
}

Status bind_to_cpus(const CpuList& cpus) {
  CpuSet set(cpus);
  if (sched_setaffinity(0, kSetBytes, set.get()) != 0) return refused("sched_setaffinity");
  // Threads that already run, such as the log writer. A thread that has ended meanwhile (ESRCH) needs
  // nothing.
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir("/proc/self/task"), closedir);
  while (const dirent* entry = tasks ? readdir(tasks.get()) : nullptr) {
    std::string_view name = entry->d_name;
    const int tid = take_number(name);
    if (tid > 0 && sched_setaffinity(tid, kSetBytes, set.get()) != 0 && errno != ESRCH)
      return refused("sched_setaffinity");
  }
  return ok_status();
}

ThreadPlace::ThreadPlace(const CpuList& cpus, std::optional<int> node) {
  if (!cpus.empty()) {
    const CpuList before = allowed_cpus();
    CpuSet set(cpus);
    if (sched_setaffinity(0, kSetBytes, set.get()) == 0) cpus_before_ = before;
  }
  if (!node) return;
  constexpr std::size_t kMostNodes = 4096;
  nodes_before_.resize(kMostNodes / kBits);
  int policy = 0;
  if (syscall(SYS_get_mempolicy, &policy, nodes_before_.data(), kMostNodes, nullptr, 0) == 0 &&
      prefer_memory_of(*node).ok())
    policy_before_ = policy;
}

ThreadPlace::~ThreadPlace() {
  if (!cpus_before_.empty()) {
    CpuSet set(cpus_before_);
    (void)sched_setaffinity(0, kSetBytes, set.get());
  }
  if (policy_before_ >= 0)
    (void)syscall(SYS_set_mempolicy, policy_before_, nodes_before_.data(), nodes_before_.size() * kBits);
}

Status prefer_memory_of(int node) {
  constexpr int kPreferred = 1;  // MPOL_PREFERRED
  std::vector<unsigned long> mask(static_cast<std::size_t>(node) / kBits + 1);
  mask.back() = 1UL << (static_cast<std::size_t>(node) % kBits);
  // The kernel reads one bit fewer than the given number.
  if (syscall(SYS_set_mempolicy, kPreferred, mask.data(), mask.size() * kBits + 1) != 0)
    return refused("set_mempolicy");
  return ok_status();
}

#else

CpuList allowed_cpus() { return {}; }
Status bind_to_cpus(const CpuList&) { return unavailable("threads cannot be bound on this system"); }
ThreadPlace::ThreadPlace(const CpuList&, std::optional<int>) {}
ThreadPlace::~ThreadPlace() = default;
Status prefer_memory_of(int) { return unavailable("memory cannot be bound on this system"); }

#endif

}  // namespace pagoda
