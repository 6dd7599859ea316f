#include "cli/assembly/rank_places.h"

#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "base/strings.h"

namespace pagoda {
namespace {

// Returns the node that contains all of these cores.
std::optional<int> node_of(const CpuList& cpus, const std::vector<NumaNode>& nodes) {
  for (const NumaNode& node : nodes) {
    if (std::ranges::includes(node.cpus, cpus)) return node.id;
  }
  return std::nullopt;
}

Result<std::vector<RankPlace>> places_of_lists(const std::vector<CpuList>& lists, std::int32_t num_ranks,
                                               const std::vector<NumaNode>& nodes, const CpuList& allowed,
                                               std::string_view kind) {
  if (std::ssize(lists) != num_ranks)
    return invalid_argument(concat(
        "--cpu-list: ", lists.size(), lists.size() == 1 ? " list" : " lists", " of cores, but ", num_ranks,
        " ", kind, num_ranks == 1 ? " runs" : "s run", " here (one list for each, with | between them)"));
  std::vector<RankPlace> places;
  for (const CpuList& list : lists) {
    CpuList missing;
    std::ranges::set_difference(list, allowed, std::back_inserter(missing));
    if (!missing.empty())
      return invalid_argument(concat("--cpu-list: this process may not use ", cpu_list_text(missing),
                                     ", only ", cpu_list_text(allowed)));
    places.push_back({.cpus = list,
                      .node = node_of(list, nodes),
                      .sharing = static_cast<int>(std::ranges::count(lists, list))});
  }
  return places;
}

}  // namespace

Result<std::vector<RankPlace>> plan_rank_places(const CpuListFlag& flag, std::int32_t num_ranks,
                                                const std::vector<NumaNode>& nodes, const CpuList& allowed,
                                                std::string_view kind) {
  if (!flag.lists.empty()) return places_of_lists(flag.lists, num_ranks, nodes, allowed, kind);
  std::vector<RankPlace> places(static_cast<std::size_t>(num_ranks));
  std::vector<NumaNode> usable;
  for (const NumaNode& node : nodes) {
    if (CpuList cpus = intersection(node.cpus, allowed); !cpus.empty())
      usable.push_back({.id = node.id, .cpus = std::move(cpus)});
  }
  const auto num_nodes = std::ssize(usable);
  if (!flag.automatic || num_ranks < 2 || num_nodes < 2) return places;
  for (std::int32_t rank = 0; rank < num_ranks; ++rank) {
    // With fewer ranks than nodes, a rank gets several nodes; with more, several ranks share a node.
    const auto first = rank * num_nodes / num_ranks;
    const auto end = std::max(first + 1, (rank + 1) * num_nodes / num_ranks);
    RankPlace& place = places[static_cast<std::size_t>(rank)];
    for (auto i = first; i < end; ++i) {
      const CpuList& cpus = usable[static_cast<std::size_t>(i)].cpus;
      place.cpus.insert(place.cpus.end(), cpus.begin(), cpus.end());
    }
    std::ranges::sort(place.cpus);
    if (end == first + 1) place.node = usable[static_cast<std::size_t>(first)].id;
  }
  for (RankPlace& place : places)
    place.sharing = static_cast<int>(std::ranges::count(places, place.cpus, &RankPlace::cpus));
  return places;
}

int threads_at(const RankPlace& place, int quota, std::int32_t num_ranks) {
  const int own = static_cast<int>(place.cpus.size()) / place.sharing;
  return std::max(1, std::min(own, std::max(1, quota / num_ranks)));
}

Status take_place(const RankPlace& place, const std::string& who, bool asked_for) {
  if (place.cpus.empty()) return ok_status();
  if (Status status = bind_to_cpus(place.cpus); !status.ok()) {
    if (asked_for) return status.annotate("--cpu-list");
    log_warning("rank",
                concat(who, "not bound to cores ", cpu_list_text(place.cpus), ": ", status.message()));
    return ok_status();
  }
  std::string memory = "memory where it is first touched";
  if (place.node) {
    if (const Status status = prefer_memory_of(*place.node); status.ok())
      memory = concat("memory of node ", *place.node);
    else
      memory +=
          concat(", for the kernel does not let it choose node ", *place.node, " (", status.message(), ")");
  }
  log_info("rank", concat(who, "cores ", cpu_list_text(place.cpus), ", ", memory));
  return ok_status();
}

}  // namespace pagoda
