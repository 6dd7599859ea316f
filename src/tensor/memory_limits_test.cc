#include "tensor/memory_limits.h"

#include <gtest/gtest.h>

#include <map>

#include "tensor/system_limits.h"

namespace pagoda {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

class MemoryLimits : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) { files_[path] = text; }
  std::int64_t headroom() const { return cgroup_headroom(reader()); }
  FileReader reader() const {
    return [this](const std::string& path) -> std::optional<std::string> {
      const auto it = files_.find(path);
      return it == files_.end() ? std::nullopt : std::optional(it->second);
    };
  }
  void put_v2(const std::string& folder, const std::string& limit, std::int64_t used,
              std::int64_t cache = 0) {
    put(folder + "/memory.max", limit + "\n");
    put(folder + "/memory.current", std::to_string(used) + "\n");
    put(folder + "/memory.stat", "anon 5\ninactive_file " + std::to_string(cache) + "\n");
  }

  std::map<std::string, std::string> files_;
};

constexpr const char* kMountV2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

TEST_F(MemoryLimits, WithoutCgroupsThereIsNone) {
  EXPECT_EQ(headroom(), kNoMemoryLimit);
  put("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(headroom(), kNoMemoryLimit);
  put("/proc/self/mountinfo", kMountV2);
  EXPECT_EQ(headroom(), kNoMemoryLimit);
}

TEST_F(MemoryLimits, TheSmallestOnTheWholePathOfV2) {
  put("/proc/self/mountinfo", kMountV2);
  put("/proc/self/cgroup", "0::/system.slice/pagoda.service\n");
  put_v2("/sys/fs/cgroup/system.slice/pagoda.service", "max", 10 * kMiB);
  put_v2("/sys/fs/cgroup/system.slice", std::to_string(600 * kMiB), 100 * kMiB);
  EXPECT_EQ(headroom(), 500 * kMiB);
  put_v2("/sys/fs/cgroup/system.slice/pagoda.service", std::to_string(200 * kMiB), 50 * kMiB);
  EXPECT_EQ(headroom(), 150 * kMiB);
  put_v2("/sys/fs/cgroup", std::to_string(40 * kMiB), 50 * kMiB);  // already over it
  EXPECT_EQ(headroom(), 0);
}

TEST_F(MemoryLimits, FileCacheCanBeTakenBack) {
  put("/proc/self/mountinfo", kMountV2);
  put("/proc/self/cgroup", "0::/a\n");
  put_v2("/sys/fs/cgroup/a", std::to_string(600 * kMiB), 500 * kMiB, 300 * kMiB);
  EXPECT_EQ(headroom(), 400 * kMiB);
  put_v2("/sys/fs/cgroup/a", std::to_string(600 * kMiB), 500 * kMiB, 9000 * kMiB);
  EXPECT_EQ(headroom(), 600 * kMiB);
}

TEST_F(MemoryLimits, V1) {
  put("/proc/self/mountinfo",
      "40 23 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
      "41 23 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  put("/proc/self/cgroup", "9:cpu:/elsewhere\n4:memory:/outer/inner\n0::/unused\n");
  const std::string inner = "/sys/fs/cgroup/memory/outer/inner/", outer = "/sys/fs/cgroup/memory/outer/";
  put(inner + "memory.limit_in_bytes", "9223372036854771712\n");  // none
  put(inner + "memory.usage_in_bytes", "1000\n");
  put(outer + "memory.limit_in_bytes", std::to_string(600 * kMiB));
  put(outer + "memory.usage_in_bytes", std::to_string(300 * kMiB));
  put(outer + "memory.stat", "inactive_file 1\ntotal_inactive_file " + std::to_string(100 * kMiB));
  EXPECT_EQ(headroom(), 400 * kMiB);
}

TEST_F(MemoryLimits, AContainersOwnMountIsTheTop) {
  put("/proc/self/mountinfo", "41 23 0:31 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  put("/proc/self/cgroup", "4:memory:/docker/abc/job\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(100 * kMiB));
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(60 * kMiB));
  EXPECT_EQ(headroom(), 40 * kMiB);
  put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", std::to_string(10 * kMiB));
  put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "0");
  EXPECT_EQ(headroom(), 10 * kMiB);
  put("/proc/self/cgroup", "4:memory:/../../other\n");  // another namespace
  EXPECT_EQ(headroom(), 40 * kMiB);
}

TEST_F(MemoryLimits, Nonsense) {
  put("/proc/self/mountinfo", "cgroup2\n- cgroup2 x\n30 - cgroup2\n");
  put("/proc/self/cgroup", "0:\n::\nx");
  EXPECT_EQ(headroom(), kNoMemoryLimit);
}

TEST_F(MemoryLimits, Rlimits) {
  put("/proc/self/status", "Name:\tpagoda\nVmSize:\t  204800 kB\nVmData:\t 102400 kB\n");
  EXPECT_EQ(rlimit_headroom(reader(), kNoMemoryLimit, kNoMemoryLimit), kNoMemoryLimit);
  EXPECT_EQ(rlimit_headroom(reader(), 500 * kMiB, kNoMemoryLimit), 300 * kMiB);
  EXPECT_EQ(rlimit_headroom(reader(), 500 * kMiB, 150 * kMiB), 50 * kMiB);
  EXPECT_EQ(rlimit_headroom(reader(), 100 * kMiB, kNoMemoryLimit), 0);
}

TEST(SystemLimits, ThereIsSomethingHere) { EXPECT_GT(available_memory_bytes(), 0); }

}  // namespace
}  // namespace pagoda
