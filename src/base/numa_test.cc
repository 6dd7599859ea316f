// Goal: lists of cores are read as the kernel writes them, nodes as a folder of sysfs tells them, and a
// process that is bound says so itself. The folder is made here, for this machine may have one node.
#include "base/numa.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace pagoda {
namespace {

TEST(CpuListText, IsReadAndWritten) {
  EXPECT_EQ(parse_cpu_list("0").value(), (CpuList{0}));
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11").value(), (CpuList{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list("8,0-2,1").value(), (CpuList{0, 1, 2, 8}));
  EXPECT_EQ(parse_cpu_list("0-6:3,1").value(), (CpuList{0, 1, 3, 6}));
  EXPECT_EQ(parse_cpu_list("8191").value(), (CpuList{8191}));
  for (const char* text : {"0", "0-3,8,10-11", "1,3,5", "0-1"})
    EXPECT_EQ(cpu_list_text(*parse_cpu_list(text)), text);
  EXPECT_EQ(cpu_list_text({}), "");
}

TEST(CpuListText, WrongOnesAreRefused) {
  for (const char* text : {"",
                           ",",
                           "0,",
                           ",0",
                           "a",
                           "-1",
                           "3-1",
                           "0-",
                           "0-3:0",
                           "0-3:",
                           "0:2",
                           "0 ",
                           " 0",
                           "0,,1",
                           "0-1-2",
                           "8192",
                           "0-8192",
                           "99999999999",
                           "0x1",
                           "0-99999999999",
                           "1-8:2147483647",
                           "0-8:99999999999"}) {
    const auto list = parse_cpu_list(text);
    ASSERT_FALSE(list) << text;
    EXPECT_EQ(list.error().code(), StatusCode::invalid_argument);
    EXPECT_NE(list.error().message().find(std::string("'") + text + "'"), std::string::npos)
        << list.error().message();
  }
}

class NumaFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("numa" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  std::filesystem::path folder_;
};

TEST_F(NumaFolder, NodesComeWithTheirCores) {
  write("online", "0-1,4\n");
  write("node0/cpulist", "0-3,8-11\n");
  write("node1/cpulist", "4-7,12-15\n");
  write("node4/cpulist", "\n");  // memory without cores
  const auto nodes = read_numa_nodes(folder_.string());
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].id, 0);
  EXPECT_EQ(cpu_list_text(nodes[0].cpus), "0-3,8-11");
  EXPECT_EQ(nodes[1].id, 1);
  EXPECT_EQ(cpu_list_text(nodes[1].cpus), "4-7,12-15");
}

TEST_F(NumaFolder, WhatCannotBeReadIsNotThere) {
  EXPECT_TRUE(read_numa_nodes(folder_.string()).empty());
  write("online", "nonsense");
  EXPECT_TRUE(read_numa_nodes(folder_.string()).empty());
  write("online", "0-1");
  write("node1/cpulist", "0-");
  EXPECT_TRUE(read_numa_nodes(folder_.string()).empty());
}

#ifdef __linux__

std::string status_line(const std::string& file, const std::string& name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(name)) return line.substr(line.find('\t') + 1);
  }
  return {};
}

TEST(Binding, HoldsForAllThreads) {
  const CpuList before = allowed_cpus();
  ASSERT_FALSE(before.empty());
  EXPECT_EQ(status_line("/proc/thread-self/status", "Cpus_allowed_list:"), cpu_list_text(before));
  const CpuList one{before.back()};
  std::atomic<bool> stop{false};
  std::atomic<int> tid{0};
  std::thread earlier([&] {
    tid = gettid();
    tid.notify_all();
    stop.wait(false);
  });
  tid.wait(0);
  ASSERT_TRUE(bind_to_cpus(one).ok());
  std::string later_list;
  std::thread([&] { later_list = status_line("/proc/thread-self/status", "Cpus_allowed_list:"); }).join();
  EXPECT_EQ(later_list, cpu_list_text(one));
  EXPECT_EQ(status_line("/proc/self/task/" + std::to_string(tid) + "/status", "Cpus_allowed_list:"),
            cpu_list_text(one));
  EXPECT_EQ(allowed_cpus(), one);
  EXPECT_EQ(bind_to_cpus({kMaxCpu}).code(), StatusCode::unavailable);
  EXPECT_TRUE(bind_to_cpus(before).ok());
  stop = true;
  stop.notify_all();
  earlier.join();
}

TEST(Binding, OfAThreadIsForThoseThatItBeginsAndEnds) {
  const CpuList before = allowed_cpus();
  const CpuList one{before.back()};
  const auto allowed_of_a_thread = [] {
    CpuList out;
    std::thread([&] { out = allowed_cpus(); }).join();
    return out;
  };
  CpuList of_earlier;
  std::atomic<bool> stop{false};
  std::thread earlier([&] {
    stop.wait(false);
    of_earlier = allowed_cpus();
  });
  {
    const ThreadPlace place(one, 0);
    EXPECT_EQ(allowed_cpus(), one);
    EXPECT_EQ(allowed_of_a_thread(), one);
    stop = true;
    stop.notify_all();
    earlier.join();
  }
  EXPECT_EQ(of_earlier, before);
  EXPECT_EQ(allowed_cpus(), before);
  EXPECT_EQ(allowed_of_a_thread(), before);
  const ThreadPlace nowhere({}, std::nullopt);
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(Binding, OfMemoryNamesANodeThatIsThere) {
  EXPECT_EQ(prefer_memory_of(1000).code(), StatusCode::unavailable);
}

#endif

}  // namespace
}  // namespace pagoda
