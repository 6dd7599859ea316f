// Goal: which cores and memory each rank has, on machines that this one is not.
#include "cli/assembly/rank_places.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/flags/cpu_list_flag.h"

namespace pagoda {
namespace {

std::vector<NumaNode> nodes(std::initializer_list<const char*> lists) {
  std::vector<NumaNode> out;
  for (const char* list : lists)
    out.push_back({.id = static_cast<int>(out.size()), .cpus = *parse_cpu_list(list)});
  return out;
}

const CpuList kAll = *parse_cpu_list("0-15");

// "0-3@0/1": cores, node, ranks that share them.
std::vector<std::string> places(const std::string& flag, std::int32_t num_ranks,
                                const std::vector<NumaNode>& machine, const CpuList& allowed = kAll) {
  const auto plan = plan_rank_places(*parse_cpu_list_flag(flag), num_ranks, machine, allowed);
  if (!plan) return {plan.error().message()};
  std::vector<std::string> out;
  for (const RankPlace& place : *plan) {
    out.push_back(place.cpus.empty()
                      ? "anywhere"
                      : cpu_list_text(place.cpus) + "@" + (place.node ? std::to_string(*place.node) : "-") +
                            "/" + std::to_string(place.sharing));
  }
  return out;
}

using Texts = std::vector<std::string>;

TEST(RankPlaces, OneRankANodeWithoutAFlag) {
  const auto two = nodes({"0-3,8-11", "4-7,12-15"});
  EXPECT_EQ(places("auto", 2, two), (Texts{"0-3,8-11@0/1", "4-7,12-15@1/1"}));
  EXPECT_EQ(places("auto", 4, two),
            (Texts{"0-3,8-11@0/2", "0-3,8-11@0/2", "4-7,12-15@1/2", "4-7,12-15@1/2"}));
  EXPECT_EQ(places("auto", 3, two), (Texts{"0-3,8-11@0/2", "0-3,8-11@0/2", "4-7,12-15@1/1"}));
  const auto four = nodes({"0-3", "4-7", "8-11", "12-15"});
  EXPECT_EQ(places("auto", 2, four), (Texts{"0-7@-/1", "8-15@-/1"}));
  EXPECT_EQ(places("auto", 3, four), (Texts{"0-3@0/1", "4-7@1/1", "8-15@-/1"}));
}

TEST(RankPlaces, NothingIsBoundWithoutNeed) {
  EXPECT_EQ(places("auto", 1, nodes({"0-7", "8-15"})), (Texts{"anywhere"}));
  EXPECT_EQ(places("auto", 2, nodes({"0-15"})), (Texts{"anywhere", "anywhere"}));
  EXPECT_EQ(places("auto", 2, {}), (Texts{"anywhere", "anywhere"}));
  EXPECT_EQ(places("none", 2, nodes({"0-7", "8-15"})), (Texts{"anywhere", "anywhere"}));
  // mpirun, a service or a container has bound the process to one of them.
  EXPECT_EQ(places("auto", 2, nodes({"0-7", "8-15"}), *parse_cpu_list("0-3")),
            (Texts{"anywhere", "anywhere"}));
}

TEST(RankPlaces, OnlyCoresThatTheProcessMayUse) {
  EXPECT_EQ(places("auto", 2, nodes({"0-7", "8-15"}), *parse_cpu_list("6-9")), (Texts{"6-7@0/1", "8-9@1/1"}));
}

TEST(RankPlaces, ListsAreTaken) {
  const auto two = nodes({"0-7", "8-15"});
  EXPECT_EQ(places("2-3", 1, two), (Texts{"2-3@0/1"}));
  EXPECT_EQ(places("6-9", 1, two), (Texts{"6-9@-/1"}));
  EXPECT_EQ(places("8-15|0-7", 2, two), (Texts{"8-15@1/1", "0-7@0/1"}));
  EXPECT_EQ(places("0-3|0-3", 2, two), (Texts{"0-3@0/2", "0-3@0/2"}));
  EXPECT_EQ(places("0-3", 1, {}), (Texts{"0-3@-/1"}));
}

TEST(RankPlaces, AnEnginesListsAreCalledSo) {
  const auto plan =
      plan_rank_places(*parse_cpu_list_flag("0-7|8-15"), 3, nodes({"0-7", "8-15"}), kAll, "engine");
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message(),
            "--cpu-list: 2 lists of cores, but 3 engines run here (one list for each, with | between them)");
}

TEST(RankPlaces, ListsThatDoNotFitAreRefusedInALine) {
  const auto two = nodes({"0-7", "8-15"});
  EXPECT_EQ(
      places("0-7|8-15", 1, two),
      (Texts{"--cpu-list: 2 lists of cores, but 1 rank runs here (one list for each, with | between them)"}));
  EXPECT_EQ(
      places("0-7", 2, two),
      (Texts{"--cpu-list: 1 list of cores, but 2 ranks run here (one list for each, with | between them)"}));
  EXPECT_EQ(places("12-20", 1, two), (Texts{"--cpu-list: this process may not use 16-20, only 0-15"}));
}

TEST(RankPlaces, ThreadsAreTheirsAndWithinTheQuota) {
  const RankPlace own{.cpus = *parse_cpu_list("0-7"), .node = 0, .sharing = 1},
      shared{.cpus = own.cpus, .node = 0, .sharing = 3};
  constexpr int kNoQuota = 1 << 20;
  EXPECT_EQ(threads_at(own, kNoQuota, 2), 8);
  EXPECT_EQ(threads_at(shared, kNoQuota, 3), 2);
  EXPECT_EQ(threads_at(own, 6, 2), 3);
  EXPECT_EQ(threads_at(own, 1, 2), 1);
}

TEST(CpuListFlag, SaysWhatIsWrong) {
  EXPECT_TRUE(parse_cpu_list_flag("auto")->automatic);
  EXPECT_FALSE(parse_cpu_list_flag("none")->automatic);
  EXPECT_EQ(parse_cpu_list_flag("0-1|3")->lists, (std::vector<CpuList>{{0, 1}, {3}}));
  for (const char* text : {"", "|", "0|", "|0", "0-1||2", "all", "auto|0", "3-1"})
    EXPECT_FALSE(parse_cpu_list_flag(text)) << text;
}

}  // namespace
}  // namespace pagoda
