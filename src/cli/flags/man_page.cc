// Man pages in man(7) macros.
#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "cli/flags/environment.h"
#include "cli/flags/help.h"
#include "cli/flags/texts_of_flags.h"

namespace pagoda {
namespace {

// Converts a text to roff. In Markdown, `code` becomes bold and [words](link) becomes the words.
std::string roff(const std::string& text, bool markdown = false) {
  std::string out;
  bool bold = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (markdown && c == '`') {
      out += bold ? "\\fR" : "\\fB";
      bold = !bold;
    } else if (markdown && !bold && c == '[') {
      continue;
    } else if (markdown && !bold && c == ']' && i + 1 < text.size() && text[i + 1] == '(') {
      i = std::min(text.find(')', i), text.size() - 1);
    } else if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += out.empty() ? "\\(aq" : "'";
    } else if (c == '.' && out.empty()) {
      out += "\\&.";
    } else if (c >= 0xc0) {  // only our own texts, which are valid UTF-8
      const int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
      std::uint32_t code = c & (0x3fu >> more);
      for (int k = 0; k < more && i + 1 < text.size(); ++k)
        code = code << 6 | (static_cast<unsigned char>(text[++i]) & 0x3fu);
      char buffer[16];
      std::snprintf(buffer, sizeof buffer, "\\[u%04X]", static_cast<unsigned>(code));
      out += buffer;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out;
}

std::string page_name(std::string path) {
  std::replace(path.begin(), path.end(), ' ', '-');
  return path;
}

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

std::string option(const Flag& flag) {
  const std::string heading = flag.positional.empty() ? flag_heading(flag) : flag.positional;
  std::string text = ".TP\n\\fB" + roff(heading) + "\\fR\n";
  text += roff(flag.details.empty() ? flag.help : flag.details, !flag.details.empty());
  std::string choices;
  for (const std::string& choice : flag.value.choices) choices += (choices.empty() ? "" : ", ") + choice;
  if (!choices.empty()) text += " (" + roff(choices) + ")";
  text += ".";
  if (flag.required) text += " Required.";
  if (!flag.shown_default().empty()) text += " Default: " + roff(flag.shown_default()) + ".";
  return text + "\n";
}

}  // namespace

std::string man_page(const NamedCommand& named, const std::string& version) {
  const Command& command = *named.command;
  const std::string name = page_name(named.path);
  std::string text = ".TH " + upper(roff(name)) + " 1 \"\" \"pagoda " + version + "\" \"Pagoda\"\n";
  text += ".SH NAME\n" + roff(name) + " \\- " + roff(command.summary) + "\n";
  text += ".SH SYNOPSIS\n.B " + roff(usage_line(named.path, command)) + "\n";
  if (!command.subcommands.empty()) {
    text += ".SH COMMANDS\n";
    for (const Command& sub : command.subcommands)
      text +=
          ".TP\n.BR " + roff(page_name(named.path + " " + sub.name)) + " (1)\n" + roff(sub.summary) + "\n";
  }
  std::vector<Flag> flags = {help_flag()};
  flags.insert(flags.end(), command.flags.begin(), command.flags.end());
  std::erase_if(flags, [](const Flag& flag) { return flag.hidden; });
  std::vector<std::string> groups;
  bool environment = false;
  for (const Flag& flag : flags) {
    if (std::find(groups.begin(), groups.end(), flag.group) == groups.end()) groups.push_back(flag.group);
    environment = environment || flag.environment;
  }
  text += ".SH OPTIONS\n";
  for (const std::string& group : groups) {
    if (!group.empty()) text += ".SS " + roff(group) + "\n";
    for (const Flag& flag : flags)
      if (flag.group == group) text += option(flag);
  }
  if (environment) {
    text +=
        ".SH ENVIRONMENT\n"
        "A flag of the groups above that the command line does not give is taken from its variable:\n"
        "\\fB\\-\\-max\\-model\\-len\\fR from \\fBPAGODA_MAX_MODEL_LEN\\fR and so on;\n"
        "then from the file of \\fB\\-\\-config\\fR.\n";
  }
  if (named.path != "pagoda") text += ".SH SEE ALSO\n.BR pagoda (1)\n";
  return text;
}

}  // namespace pagoda
