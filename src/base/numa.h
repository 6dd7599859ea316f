#pragma once
// NUMA topology, and binding this process to cores and memory. A *node* is a part of the machine with its own
// cores and memory; another node's memory is slower to reach. Source: the kernel's sysfs-devices-node and
// set_mempolicy(2); neither needs a library. On systems other than Linux there are no nodes and nothing is
// bound. Threads: any, unless stated otherwise.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pagoda {

// Core numbers in ascending order, without duplicates.
using CpuList = std::vector<int>;

// Parses "0-3,8,10-11", the format of the kernel and taskset, including steps ("0-7:2"). invalid_argument if
// the text is not a list, is empty, or names a core above kMaxCpu.
Result<CpuList> parse_cpu_list(std::string_view text);
inline constexpr int kMaxCpu = 8191;

std::string cpu_list_text(const CpuList& cpus);  // "0-3,8"

CpuList intersection(const CpuList& a, const CpuList& b);

struct NumaNode {
  int id = 0;
  CpuList cpus;
};

// The nodes described by a folder such as /sys/devices/system/node, in order of id, without nodes that have
// no cores. Unreadable entries are skipped; an empty result means that the topology is unknown.
std::vector<NumaNode> read_numa_nodes(const std::string& folder);
inline constexpr const char* kNumaFolder = "/sys/devices/system/node";

// The cores that the calling thread may run on.
CpuList allowed_cpus();

// Restricts all existing threads of this process to `cpus`, and the threads that they start later.
// unavailable if the kernel refuses.
Status bind_to_cpus(const CpuList& cpus);

// For its lifetime, the calling thread runs on `cpus` (empty: no change) and prefers memory of `node`
// (nullopt: no preference). Threads started meanwhile inherit both for good. Settings that the kernel refuses
// are left unchanged. Must be destroyed on the thread that created it.
class ThreadPlace {
 public:
  ThreadPlace(const CpuList& cpus, std::optional<int> node);
  ~ThreadPlace();
  ThreadPlace(const ThreadPlace&) = delete;
  ThreadPlace& operator=(const ThreadPlace&) = delete;

 private:
  CpuList cpus_before_;                      // empty if the cores were not changed
  int policy_before_ = -1;                   // -1 if the memory policy was not changed
  std::vector<unsigned long> nodes_before_;  // the nodes of the previous policy
};

// Pages first touched by the calling thread, or by threads it starts, come from this node while it has free
// memory. A preference, not a binding: a full node must not end the process. unavailable if the kernel
// refuses, as in some containers.
Status prefer_memory_of(int node);

}  // namespace pagoda
