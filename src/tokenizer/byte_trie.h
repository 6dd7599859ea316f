#pragma once
// ByteTrie: finds all strings of a set that occur in a text at a given position. Built once from the whole
// set.
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace pagoda {

class ByteTrie {
 public:
  ByteTrie() = default;
  // Pairs of a non-empty string and its value (>= 0); for equal strings the greatest value is kept.
  explicit ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> entries);

  bool empty() const { return nodes_.empty(); }
  bool can_start_with(char byte) const { return !empty() && first_[static_cast<unsigned char>(byte)] >= 0; }

  // Calls on_match(length, value) for each member that `text` starts with, shortest first.
  template <class OnMatch>
  void for_each_prefix(std::string_view text, const OnMatch& on_match) const {
    if (text.empty() || empty()) return;
    std::int32_t node = first_[static_cast<unsigned char>(text[0])];
    for (std::size_t length = 1; node >= 0; ++length) {
      const Node& here = nodes_[static_cast<std::size_t>(node)];
      if (here.value >= 0) on_match(length, here.value);
      if (length == text.size()) return;
      node = child(here, static_cast<unsigned char>(text[length]));
    }
  }

 private:
  struct Node {
    std::int32_t first_child = -1;  // children are contiguous, in ascending order of byte
    std::uint16_t num_children = 0;
    unsigned char byte = 0;
    std::int32_t value = -1;
  };
  std::int32_t child(const Node& node, unsigned char byte) const {
    std::int32_t low = 0, high = node.num_children;
    while (low < high) {
      const std::int32_t middle = (low + high) / 2;
      if (nodes_[static_cast<std::size_t>(node.first_child + middle)].byte < byte)
        low = middle + 1;
      else
        high = middle;
    }
    if (low == node.num_children || nodes_[static_cast<std::size_t>(node.first_child + low)].byte != byte)
      return -1;
    return node.first_child + low;
  }

  std::vector<Node> nodes_;
  std::int32_t first_[256];
};

}  // namespace pagoda
