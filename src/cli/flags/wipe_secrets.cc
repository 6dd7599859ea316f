#include "cli/flags/wipe_secrets.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

namespace pagoda {
namespace {

// Maps names without dashes to whether they take several values.
void add_secret_names(const Command& command, std::map<std::string, bool>& names) {
  for (const Flag& flag : command.flags) {
    if (!flag.secret) continue;
    const bool several = flag.value.shape == FlagValue::Shape::several;
    names[flag.name] = several;
    for (const std::string& alias : flag.aliases) names[alias.substr(alias.find_first_not_of('-'))] = several;
  }
  for (const Command& sub : command.subcommands) add_secret_names(sub, names);
}

void wipe(char* text) { std::memset(text, '*', std::strlen(text)); }

}  // namespace

void wipe_secrets(const Command& root, int argc, char** argv) {
  std::map<std::string, bool> names;
  add_secret_names(root, names);
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::size_t begin = argument.find_first_not_of('-');
    if (begin == 0 || begin == std::string_view::npos) continue;
    const std::size_t end = std::min(argument.find('='), argument.size());
    std::string name(argument.substr(begin, end - begin));
    std::replace(name.begin(), name.end(), '_', '-');
    const auto secret = names.find(name);
    if (secret == names.end()) continue;
    if (end < argument.size())
      wipe(argv[i] + end + 1);
    else if (i + 1 < argc)
      wipe(argv[++i]);
    while (secret->second && i + 1 < argc && *argv[i + 1] != '-') wipe(argv[++i]);
  }
}

}  // namespace pagoda
