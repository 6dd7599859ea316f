// Goal: which cores and memory each engine has, on machines that this one is not.
#include "cli/assembly/data_parallel.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/flags/cpu_list_flag.h"

namespace pagoda {
namespace {

// A machine whose nodes have the cores that this process may use, two of them at least.
class EnginePlaces : public ::testing::Test {
 protected:
  void SetUp() override {
    const CpuList allowed = allowed_cpus();
    if (allowed.size() < 2) GTEST_SKIP() << "one core";
    const auto middle = allowed.begin() + static_cast<std::ptrdiff_t>(allowed.size() / 2);
    halves = {CpuList(allowed.begin(), middle), CpuList(middle, allowed.end())};
    folder = std::filesystem::path(::testing::TempDir()) / ("places" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "online") << "0-1\n";
    for (int node = 0; node < 2; ++node) {
      const std::filesystem::path of_node = folder / ("node" + std::to_string(node));
      std::filesystem::create_directories(of_node);
      std::ofstream(of_node / "cpulist") << cpu_list_text(halves[static_cast<std::size_t>(node)]) << "\n";
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::vector<RankPlace> places(std::int32_t engines, const std::string& list) {
    EngineFlags flags;
    flags.data_parallel_size = engines;
    flags.cpu_list = *parse_cpu_list_flag(list);
    auto out = engine_places(flags, folder.string());
    EXPECT_TRUE(out) << (out ? "" : out.error().message());
    return out ? *out : std::vector<RankPlace>();
  }

  std::vector<CpuList> halves;
  std::filesystem::path folder;
};

TEST_F(EnginePlaces, OneANode) {
  const std::vector<RankPlace> two = places(2, "auto");
  ASSERT_EQ(two.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(two[i].cpus, halves[i]);
    EXPECT_EQ(two[i].node, static_cast<int>(i));
  }
}

TEST_F(EnginePlaces, NoneWhereNoneIsAskedForOrThereIsOneEngine) {
  for (const RankPlace& place : places(2, "none")) EXPECT_TRUE(place.cpus.empty());
  for (const RankPlace& place : places(1, "auto")) EXPECT_TRUE(place.cpus.empty());
  for (const RankPlace& place : places(3, cpu_list_text(halves[0])))
    EXPECT_TRUE(place.cpus.empty()) << "the list is the process's";
}

TEST_F(EnginePlaces, AListForEach) {
  const std::vector<RankPlace> two = places(2, cpu_list_text(halves[1]) + "|" + cpu_list_text(halves[0]));
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].cpus, halves[1]);
  EXPECT_EQ(two[0].node, 1);
  EXPECT_EQ(two[1].cpus, halves[0]);
}

}  // namespace
}  // namespace pagoda
