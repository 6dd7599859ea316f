#include "cli/flags/config_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/strings.h"
#include "cli/exit_code.h"
#include "cli/flags/suggest.h"

namespace pagoda {
namespace {

using Shape = FlagValue::Shape;

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr int kMaxNodes = 10'000;  // per value; aliases count each time

int line_of(const YAML::Node& node) { return node.Mark().line + 1; }

class Reader {
 public:
  Reader(std::string name, const Command& command)
      : name_(std::move(name)), command_(command), out_(command.flags.size()) {}

  Result<std::vector<ConfigValue>> read(const YAML::Node& root) {
    if (root.IsNull()) return out_;  // an empty file
    if (!root.IsMap()) return refuse(1, "is not a mapping of flags to values");
    for (const auto& pair : root)
      if (const Status status = entry(pair.first, pair.second); !status.ok()) return status;
    return out_;
  }

 private:
  Status refuse(int line, const std::string& problem) const {
    return invalid_argument(concat(name_, ":", line, ": ", problem));
  }

  Status entry(const YAML::Node& key_node, const YAML::Node& value) {
    const int line = line_of(key_node);
    if (!key_node.IsScalar()) return refuse(line, "a key must be a flag's name");
    const std::string& written = key_node.Scalar();
    std::string key = written;
    std::replace(key.begin(), key.end(), '_', '-');
    bool inverted = false;
    const auto flag = find(key, inverted);
    if (!flag) return refuse(line, concat("unknown key '", written, "'", nearest(key)));
    const Flag& row = command_.flags[*flag];
    if (row.name == "config") return refuse(line, "'config' cannot be set in a file of flags");
    ConfigValue& out = out_[*flag];
    if (out.line != 0) return refuse(line, concat("'", written, "' was already set on line ", out.line));
    out.line = line;
    return fill(row, value, inverted, line, written, out.values);
  }

  std::optional<std::size_t> find(const std::string& key, bool& inverted) const {
    for (std::size_t i = 0; i < command_.flags.size(); ++i) {
      const Flag& flag = command_.flags[i];
      if (flag.name.empty()) continue;
      if (key == flag.name || std::ranges::count(flag.aliases, "--" + key) > 0) return i;
      if (flag.value.shape == Shape::on_off && key == "no-" + flag.name) {
        inverted = true;
        return i;
      }
    }
    return std::nullopt;
  }

  // Compares names with their dashes, as on the command line, where the dashes make short names
  // count as similar.
  std::string nearest(const std::string& key) const {
    std::string text = suggestion("--" + key, names());
    if (const std::size_t at = text.find("--"); at != std::string::npos) text.erase(at, 2);
    return text;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Flag& flag : command_.flags)
      if (!flag.name.empty() && !flag.hidden) all.push_back("--" + flag.name);
    return all;
  }

  Status fill(const Flag& flag, const YAML::Node& value, bool inverted, int line, const std::string& key,
              std::vector<std::string>& out) {
    if (value.IsNull()) return refuse(line, concat("'", key, "' has no value"));
    if (!flag.value.takes_value()) {
      bool on = false;
      if (!value.IsScalar() || !YAML::convert<bool>::decode(value, on))
        return refuse(line, concat("'", key, "' must be true or false"));
      on = on != inverted;
      if (on || flag.value.shape == Shape::on_off) out = {on ? "true" : "false"};
      return ok_status();
    }
    if (value.IsScalar()) {
      out = {value.Scalar()};
      return ok_status();
    }
    int nodes = 0;
    if (value.IsMap()) {
      const auto json = to_json(value, nodes, 0);
      if (!json) return refuse(line, concat("'", key, "' is too long"));
      out = {boost::json::serialize(*json)};
      return ok_status();
    }
    if (!flag.value.takes_many()) return refuse(line, concat("'", key, "' takes one value, not a list"));
    for (const YAML::Node& item : value) {
      if (!item.IsScalar()) return refuse(line_of(item), concat("'", key, "' takes a list of plain values"));
      if (++nodes > kMaxNodes) return refuse(line, concat("'", key, "' is too long"));
      out.push_back(item.Scalar());
    }
    return out.empty() ? refuse(line, concat("'", key, "' is an empty list")) : ok_status();
  }

  // nullopt if there are too many nodes, or too many levels.
  static std::optional<boost::json::value> to_json(const YAML::Node& node, int& nodes, int depth) {
    constexpr int kMaxDepth = 20;
    if (++nodes > kMaxNodes || depth > kMaxDepth) return std::nullopt;
    if (node.IsMap()) {
      boost::json::object object;
      for (const auto& pair : node) {
        auto value = to_json(pair.second, nodes, depth + 1);
        if (!value || !pair.first.IsScalar()) return std::nullopt;
        object[pair.first.Scalar()] = *std::move(value);
      }
      return object;
    }
    if (node.IsSequence()) {
      boost::json::array array;
      for (const YAML::Node& item : node) {
        auto value = to_json(item, nodes, depth + 1);
        if (!value) return std::nullopt;
        array.push_back(*std::move(value));
      }
      return array;
    }
    if (node.IsNull()) return boost::json::value(nullptr);
    // An unquoted text that parses as a number or a boolean is one.
    if (node.Tag() != "!") {
      boost::system::error_code error;
      boost::json::value plain = boost::json::parse(node.Scalar(), error);
      if (!error && (plain.is_number() || plain.is_bool())) return plain;
    }
    return boost::json::value(node.Scalar());
  }

  const std::string name_;
  const Command& command_;
  std::vector<ConfigValue> out_;
};

}  // namespace

Result<std::vector<ConfigValue>> parse_config(const std::string& text, const std::string& name,
                                              const Command& command) {
  if (text.size() > kMaxBytes) return invalid_argument(concat(name, ": is larger than 1 MiB"));
  try {
    return Reader(name, command).read(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    return invalid_argument(concat(name, ":", error.mark.line + 1, ": ", error.msg));
  }
}

Result<std::vector<ConfigValue>> read_config_file(const std::string& path, const Command& command) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof()))
    return not_found(file_failure("read", path));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_config(text, path, command);
}

}  // namespace pagoda
