#include "cli/flags/help.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

namespace pagoda {
namespace {

constexpr std::size_t kColumn = 28;      // column where descriptions start
constexpr std::size_t kNarrowest = 50;   // minimum width, so that descriptions have some space
constexpr std::size_t kUsualWidth = 80;  // default width if the terminal's is unknown, as in argparse

std::string line(std::string left, const std::string& right, std::size_t width) {
  left.insert(0, "  ");
  if (left.size() + 2 > kColumn)
    left += "\n" + std::string(kColumn, ' ');
  else
    left.resize(kColumn, ' ');
  return left + wrapped(right, kColumn, width) + "\n";
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

// Formats a summary for the first line of a command's help: "Start an OpenAI-compatible server."
std::string sentence(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() -= 'a' - 'A';
  return text.ends_with('.') ? text : text + ".";
}

}  // namespace

Flag help_flag() {
  return {
      .name = "help", .value = {.shape = FlagValue::Shape::on}, .help = "show this help", .aliases = {"-h"}};
}

std::size_t terminal_width(const char* columns, int terminal) {
  std::size_t width = kUsualWidth;
  winsize size{};
  if (const std::string_view text = columns == nullptr ? "" : columns;
      std::from_chars(text.data(), text.data() + text.size(), width).ec == std::errc() && width > 0)
    return std::max(width, kNarrowest);
  if (ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) width = size.ws_col;
  return std::max(width, kNarrowest);
}

std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = indent;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = std::string_view(text).substr(at, end - at);
    if (column > indent && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (at > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    at = end + 1;
  }
  return out;
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

std::string help_text(const std::string& path, const Command& command, std::size_t width) {
  std::string text =
      "Usage: " + usage_line(path, command) + "\n\n" + wrapped(sentence(command.summary), 0, width) + "\n";
  if (!command.subcommands.empty()) {
    text += "\nCommands:\n";
    for (const Command& sub : command.subcommands) text += line(sub.name, sub.summary, width);
  }
  std::vector<Flag> flags = {help_flag()};
  flags.insert(flags.end(), command.flags.begin(), command.flags.end());
  std::erase_if(flags, [](const Flag& flag) { return flag.hidden; });
  std::string positionals;
  std::vector<std::string> groups;
  for (const Flag& flag : flags) {
    if (!flag.positional.empty()) positionals += line(flag.positional, describe(flag), width);
    if (std::find(groups.begin(), groups.end(), flag.group) == groups.end()) groups.push_back(flag.group);
  }
  if (!positionals.empty()) text += "\n" + positionals;
  for (const std::string& group : groups) {
    text += "\n" + (group.empty() ? std::string("Flags") : group) + ":\n";
    for (const Flag& flag : flags)
      if (flag.group == group && flag.positional.empty())
        text += line(flag_heading(flag), describe(flag), width);
  }
  return text;
}

}  // namespace pagoda
