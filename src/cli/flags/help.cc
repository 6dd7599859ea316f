#include "cli/flags/help.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace pagoda {
namespace {

constexpr std::size_t kColumn = 36;  // column of the descriptions

std::string line(std::string left, const std::string& right) {
  left.insert(0, "  ");
  if (left.size() + 2 > kColumn)
    left += "\n" + std::string(kColumn, ' ');
  else
    left.resize(kColumn, ' ');
  return left + right + "\n";
}

std::string describe(const Flag& flag) {
  std::string text = flag.help;
  std::string choices;
  for (const std::string& choice : flag.value.choices) choices += (choices.empty() ? "" : ", ") + choice;
  if (!choices.empty()) text += " (" + choices + ")";
  if (flag.required && flag.positional.empty()) text += " (required)";
  if (!flag.shown_default().empty()) text += " [" + flag.shown_default() + "]";
  return text;
}

}  // namespace

Flag help_flag() {
  return {.name = "help", .value = {.shape = FlagValue::Shape::on}, .help = "this text", .aliases = {"-h"}};
}

std::string flag_heading(const Flag& flag) {
  std::string text;
  const auto add = [&text](const std::string& name) { text += (text.empty() ? "" : ", ") + name; };
  const auto is_short = [](const std::string& name) { return !name.starts_with("--"); };
  for (const std::string& alias : flag.aliases)
    if (is_short(alias)) add(alias);
  add((flag.value.shape == FlagValue::Shape::on_off ? "--[no-]" : "--") + flag.name);
  for (const std::string& alias : flag.aliases)
    if (!is_short(alias)) add(alias);
  return flag.shown_type().empty() ? text : text + " " + flag.shown_type();
}

std::string usage_line(const std::string& path, const Command& command) {
  if (!command.subcommands.empty()) return path + " COMMAND [FLAGS]";
  std::string text = path;
  for (const Flag& flag : command.flags)
    if (!flag.positional.empty() && flag.required) text += " " + flag.positional;
  for (const Flag& flag : command.flags)
    if (!flag.positional.empty() && !flag.required) text += " [" + flag.positional + "]";
  return text + " [FLAGS]";
}

std::string help_text(const std::string& path, const Command& command) {
  std::string text = "Usage: " + usage_line(path, command) + "\n\n" + command.summary + "\n";
  if (!command.subcommands.empty()) {
    text += "\nCommands:\n";
    for (const Command& sub : command.subcommands) text += line(sub.name, sub.summary);
  }
  std::vector<Flag> flags = {help_flag()};
  flags.insert(flags.end(), command.flags.begin(), command.flags.end());
  std::erase_if(flags, [](const Flag& flag) { return flag.hidden; });
  std::string positionals;
  std::vector<std::string> groups;
  for (const Flag& flag : flags) {
    if (!flag.positional.empty()) positionals += line(flag.positional, describe(flag));
    if (std::find(groups.begin(), groups.end(), flag.group) == groups.end()) groups.push_back(flag.group);
  }
  if (!positionals.empty()) text += "\n" + positionals;
  for (const std::string& group : groups) {
    text += "\n" + (group.empty() ? std::string("Flags") : group) + ":\n";
    for (const Flag& flag : flags)
      if (flag.group == group && flag.positional.empty()) text += line(flag_heading(flag), describe(flag));
  }
  return text;
}

}  // namespace pagoda
