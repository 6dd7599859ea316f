#include "cli/flags/help.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "cli/flags/flags.h"

namespace pagoda {
namespace {

constexpr std::size_t kColumn = 36;  // where descriptions begin

std::string line(std::string left, const std::string& right) {
  left.insert(0, "  ");
  if (left.size() + 2 > kColumn)
    left += "\n" + std::string(kColumn, ' ');
  else
    left.resize(kColumn, ' ');
  return left + right + "\n";
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

// "-i, --input FILE", "--[no-]enable-prefix-caching".
std::string option_name(const CLI::Option& option) {
  std::string text;
  const auto add = [&text](const std::string& name) { text += (text.empty() ? "" : ", ") + name; };
  for (const std::string& name : option.get_snames()) add("-" + name);
  const auto& names = option.get_lnames();
  const auto has = [&names](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const std::string& name : names) {
    if (has("no-" + name))
      add("--[no-]" + name);
    else if (!(name.starts_with("no-") && has(name.substr(3))))
      add("--" + name);
  }
  // A switch takes no value, whatever the parser stores about it.
  const std::string type = option.get_expected_max() == 0 ? "" : option.get_type_name();
  return type.empty() ? text : text + " " + type;
}

std::string describe(const CLI::Option& option) {
  std::string text = option.get_description();
  if (option.get_required() && !option.get_positional()) text += " (required)";
  if (!option.get_default_str().empty()) text += " [" + option.get_default_str() + "]";
  return text;
}

std::string usage(const CLI::App& command) {
  std::string text = "Usage: " + full_name(command);
  if (!command.get_subcommands(nullptr).empty()) return text + " COMMAND [FLAGS]\n";
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional() && option->get_required()) text += " " + option->get_name(true);
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional() && !option->get_required()) text += " [" + option->get_name(true) + "]";
  return text + " [FLAGS]\n";
}

}  // namespace

std::string help_text(const CLI::App& command) {
  std::string text = usage(command) + "\n" + command.get_description() + "\n";
  const auto subcommands = command.get_subcommands(nullptr);
  if (!subcommands.empty()) {
    text += "\nCommands:\n";
    for (const CLI::App* sub : subcommands) text += line(sub->get_name(), sub->get_description());
  }
  std::string positionals;
  std::vector<std::string> groups;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) positionals += line(option->get_name(true), describe(*option));
    const std::string& group = option->get_group();
    if (!group.empty() && std::find(groups.begin(), groups.end(), group) == groups.end())
      groups.push_back(group);
  }
  if (!positionals.empty()) text += "\n" + positionals;
  for (const std::string& group : groups) {
    text += "\n" + (group == "Options" ? std::string("Flags") : group) + ":\n";
    for (const CLI::Option* option : command.get_options())
      if (option->get_group() == group && !option->get_positional())
        text += line(option_name(*option), describe(*option));
  }
  return text;
}

}  // namespace pagoda
