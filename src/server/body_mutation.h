#pragma once
// For tests only: changes one node of a JSON body: deletes, duplicates or replaces it. Nodes are numbered
// from the root on; changes are numbered below num_changes().
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <string_view>
#include <vector>

namespace pagoda {

inline std::size_t count_nodes(const boost::json::value& value) {
  std::size_t count = 1;
  if (const auto* object = value.if_object()) {
    for (const auto& entry : *object) count += count_nodes(entry.value());
  } else if (const auto* list = value.if_array()) {
    for (const boost::json::value& entry : *list) count += count_nodes(entry);
  }
  return count;
}

// Values that replace a node, of various types.
inline const std::vector<boost::json::value>& replacements() {
  static const auto* const values = new std::vector<boost::json::value>([] {
    std::vector<boost::json::value> out;
    constexpr std::string_view kTexts[] = {"null",
                                           "[]",
                                           "{}",
                                           R"("")",
                                           "true",
                                           "false",
                                           "0",
                                           "-1",
                                           "1",
                                           "0.5",
                                           "1e300",
                                           "9007199254740993",
                                           "18446744073709551615",
                                           R"("x")",
                                           R"(" \n")",
                                           R"("1")",
                                           R"("{")",
                                           R"("null")",
                                           R"("[]")",
                                           R"("\u0000")",
                                           "[null]",
                                           "[[]]",
                                           "[{}]",
                                           R"([""])",
                                           "[0]",
                                           "[[0]]",
                                           R"({"":null})",
                                           R"({"type":"text"})",
                                           R"({"type":"object","properties":{"a":{"$ref":"#"}}})"};
    for (const std::string_view text : kTexts) out.push_back(boost::json::parse(text));
    boost::json::value lists, objects;
    for (int depth = 0; depth < 45; ++depth) {
      lists = boost::json::array{std::move(lists)};
      objects = boost::json::object{{"a", std::move(objects)}};
    }
    out.push_back(std::move(lists));
    out.push_back(std::move(objects));
    return out;
  }());
  return *values;
}

// Number of changes: delete, duplicate (in a list), or one of the replacements.
inline std::size_t num_changes() { return 2 + replacements().size(); }

// Changes node number `node` of `value`. If there are fewer nodes, returns false and subtracts their number
// from `node`.
inline bool change_node(boost::json::value& value, std::size_t& node, std::size_t change) {
  const auto replace = [change](boost::json::value& old) {
    if (change >= 2) old = replacements()[change - 2];
  };
  if (node-- == 0) return replace(value), true;
  if (auto* object = value.if_object()) {
    for (auto entry = object->begin(); entry != object->end(); ++entry) {
      if (node == 0 && change == 0) return object->erase(entry), true;
      if (change_node(entry->value(), node, change)) return true;
    }
  } else if (auto* list = value.if_array()) {
    for (auto entry = list->begin(); entry != list->end(); ++entry) {
      if (node == 0 && change == 0) return list->erase(entry), true;
      if (node == 0 && change == 1) return list->insert(entry, boost::json::value(*entry)), true;
      if (change_node(*entry, node, change)) return true;
    }
  }
  return false;
}

}  // namespace pagoda
