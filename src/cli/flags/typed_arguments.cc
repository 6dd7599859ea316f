#include "cli/flags/typed_arguments.h"

#include <algorithm>
#include <boost/json.hpp>
#include <iterator>
#include <set>
#include <utility>

namespace pagoda {
namespace {

constexpr std::size_t kLongestShortName = 5;  // "-ncmoe"
constexpr int kMaxDepth = 16;                 // depth of --a.b.c

void add_typed_names(const Command& command, std::set<std::string>& names) {
  for (const Flag& flag : command.flags) {
    if (!flag.name.empty()) names.insert("--" + flag.name);
    names.insert(flag.aliases.begin(), flag.aliases.end());
  }
  for (const Command& sub : command.subcommands) add_typed_names(sub, names);
}

void replace_underscores(std::string& argument) {
  if (!argument.starts_with("--")) return;
  const std::size_t end = std::min({argument.find('='), argument.find('.'), argument.size()});
  std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
}

void double_dash(std::string& argument, const std::set<std::string>& names) {
  const std::size_t end = std::min(argument.find('='), argument.size());
  if (argument.size() < 3 || argument[0] != '-' || argument[1] == '-' || end > kLongestShortName + 1) return;
  if (names.contains("-" + argument.substr(0, end))) argument.insert(0, 1, '-');
}

// Text that is not JSON becomes a string.
boost::json::value value_of(const std::string& text) {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(text, error);
  return error ? boost::json::value(text) : value;
}

// Stores the value at "a.b.c". Returns false if a key is empty, the path is too deep, or a prefix of it
// already has a value.
bool put(boost::json::object& object, std::string_view keys, boost::json::value value) {
  boost::json::object* inner = &object;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const std::size_t dot = keys.find('.');
    const std::string key(keys.substr(0, dot));
    if (key.empty()) return false;
    if (dot == std::string_view::npos) {
      (*inner)[key] = std::move(value);
      return true;
    }
    boost::json::value& next = (*inner)[key];
    if (next.is_null()) next = boost::json::object();
    if (!next.is_object()) return false;
    inner = &next.get_object();
    keys.remove_prefix(dot + 1);
  }
  return false;
}

}  // namespace

std::vector<std::string> in_declared_spelling(const Command& root, std::vector<std::string> arguments) {
  std::set<std::string> names;
  add_typed_names(root, names);
  std::vector<std::string> out;
  std::vector<std::pair<std::size_t, boost::json::object>> objects;  // index in `out` of each object's text
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string& argument = arguments[i];
    if (argument == "--") {  // the rest are not flags
      std::move(arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end(), std::back_inserter(out));
      break;
    }
    replace_underscores(argument);
    double_dash(argument, names);
    const std::size_t equals = std::min(argument.find('='), argument.size()), dot = argument.find('.');
    const bool dotted = argument.starts_with('-') && dot < equals && names.contains(argument.substr(0, dot));
    const bool has_value = equals < argument.size() || i + 1 < arguments.size();
    if (!dotted || !has_value) {
      out.push_back(std::move(argument));
      continue;
    }
    const std::string name = argument.substr(0, dot), keys = argument.substr(dot + 1, equals - dot - 1);
    auto known =
        std::ranges::find_if(objects, [&](const auto& object) { return out[object.first - 1] == name; });
    if (known == objects.end()) {
      out.push_back(name);
      out.emplace_back();
      known = objects.insert(objects.end(), {out.size() - 1, {}});
    }
    const std::string text = equals < argument.size() ? argument.substr(equals + 1) : arguments[++i];
    if (!put(known->second, keys, value_of(text))) out.push_back(argument);  // reported as an unknown flag
    out[known->first] = boost::json::serialize(known->second);
  }
  return out;
}

}  // namespace pagoda
