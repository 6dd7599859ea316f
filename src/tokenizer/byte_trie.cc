#include "tokenizer/byte_trie.h"

#include <algorithm>

namespace pagoda {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> entries) {
  std::fill(std::begin(first_), std::end(first_), -1);
  std::sort(entries.begin(), entries.end());
  std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
  // Breadth first: a node represents a run of sorted entries that share their first `depth` bytes.
  struct Pending {
    std::int32_t node;  // -1: the root
    std::size_t begin, end, depth;
  };
  std::vector<Pending> queue = {{-1, 0, entries.size(), 0}};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const Pending run = queue[head];
    std::size_t at = run.begin;
    const auto first_child = static_cast<std::int32_t>(nodes_.size());
    std::uint16_t num_children = 0;
    while (at < run.end && entries[at].first.size() == run.depth) {  // entries that end here come first
      nodes_[static_cast<std::size_t>(run.node)].value = entries[at].second;
      ++at;
    }
    while (at < run.end) {
      const char byte = entries[at].first[run.depth];
      std::size_t end = at + 1;
      while (end < run.end && entries[end].first[run.depth] == byte) ++end;
      const auto node = static_cast<std::int32_t>(nodes_.size());
      nodes_.push_back({-1, 0, static_cast<unsigned char>(byte), -1});
      if (run.node < 0) first_[static_cast<unsigned char>(byte)] = node;
      queue.push_back({node, at, end, run.depth + 1});
      ++num_children;
      at = end;
    }
    if (run.node >= 0 && num_children > 0) {
      nodes_[static_cast<std::size_t>(run.node)].first_child = first_child;
      nodes_[static_cast<std::size_t>(run.node)].num_children = num_children;
    }
  }
}

}  // namespace pagoda
