#pragma once
// Which cores and memory are near each other, and binding this process to some of them. A *node* is a part of
// the machine with cores and memory of its own; another node's memory is slower to reach. Source: the
// kernel's sysfs-devices-node and set_mempolicy(2); no library is needed for either. Outside Linux there are
// no nodes and nothing is bound. Threads: any, unless said otherwise.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pagoda {

// Numbers of cores, ascending, each once.
using CpuList = std::vector<int>;

// Parses "0-3,8,10-11", the kernel's and taskset's form, with steps ("0-7:2"). invalid_argument: it is no
// list, is empty, or names a core above kMaxCpu.
Result<CpuList> parse_cpu_list(std::string_view text);
inline constexpr int kMaxCpu = 8191;

std::string cpu_list_text(const CpuList& cpus);  // "0-3,8"

CpuList intersection(const CpuList& a, const CpuList& b);

struct NumaNode {
  int id = 0;
  CpuList cpus;
};

// The nodes that a folder such as /sys/devices/system/node tells of, by id, without those that have no cores.
// What cannot be read is not there: an empty answer means that nothing is known.
std::vector<NumaNode> read_numa_nodes(const std::string& folder);
inline constexpr const char* kNumaFolder = "/sys/devices/system/node";

// Cores that the calling thread may run on.
CpuList allowed_cpus();

// This process's threads, those of now and (as long as these begin them) those to come, run on `cpus` only.
// unavailable: the kernel says no.
Status bind_to_cpus(const CpuList& cpus);

// While it lives the calling thread, and for good the threads that it begins meanwhile, run on `cpus` (empty:
// wherever they may) and prefer the node's memory (absent: nobody's). What the kernel refuses stays as it is.
// It ends on the thread that began it.
class ThreadPlace {
 public:
  ThreadPlace(const CpuList& cpus, std::optional<int> node);
  ~ThreadPlace();
  ThreadPlace(const ThreadPlace&) = delete;
  ThreadPlace& operator=(const ThreadPlace&) = delete;

 private:
  CpuList cpus_before_;                      // empty: they were not changed
  int policy_before_ = -1;                   // -1: likewise
  std::vector<unsigned long> nodes_before_;  // that the policy names
};

// Pages that the calling thread, and those it begins, touch first come from this node while it has any: a
// preference and no order, since a full node must not end the process. unavailable: the kernel says no, as in
// some containers.
Status prefer_memory_of(int node);

}  // namespace pagoda
