// Shell completions. The scripts complete commands, flags and choices, and file names for flags that take a
// path.
#include "cli/flags/texts_of_flags.h"

namespace pagoda {
namespace {

std::vector<std::string> names_of(const Flag& flag) {
  std::vector<std::string> names;
  if (!flag.name.empty()) names.push_back("--" + flag.name);
  if (flag.value.shape == FlagValue::Shape::on_off) names.push_back("--no-" + flag.name);
  names.insert(names.end(), flag.aliases.begin(), flag.aliases.end());
  return names;
}

std::string words(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : " ") + item;
  return out;
}

// Returns "bench serve" for "pagoda bench serve".
std::string below_root(const std::string& path) {
  const std::size_t space = path.find(' ');
  return space == std::string::npos ? std::string() : path.substr(space + 1);
}

// Quotes a text in single quotes for bash, zsh or fish.
std::string quoted(const std::string& text, bool fish) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'')
      out += fish ? "\\'" : "'\\''";
    else if (c == '\\' && fish)
      out += "\\\\";
    else
      out += c;
  }
  return out + "'";
}

// The branches of a case statement that map the words typed so far to a command.
std::string walk(const Command& root, const char* line_end) {
  std::string out;
  for (const NamedCommand& named : all_commands(root)) {
    const std::string path = below_root(named.path);
    if (path.empty()) continue;
    const std::size_t space = path.rfind(' ');
    const std::string typed = space == std::string::npos ? " " + path : path;
    out += "      \"" + typed + "\") command=\"" + path + "\"" + line_end + "\n";
  }
  return out;
}

std::string bash(const Command& root) {
  std::string values, lists;
  for (const auto& [full, command] : all_commands(root)) {
    const std::string path = below_root(full);
    std::vector<std::string> offered = {"--help", "-h"};
    std::string paths, others;
    for (const Flag& flag : command->flags) {
      if (flag.hidden) continue;
      for (const std::string& name : names_of(flag)) {
        offered.push_back(name);
        if (!flag.value.takes_value()) continue;
        std::string& list = flag.value.choices.empty() ? paths : others;
        if (flag.value.choices.empty())
          list += (list.empty() ? "" : "|") + ("\"" + path + " " + name + "\"");
        else
          list += "    \"" + path + " " + name + "\") COMPREPLY=($(compgen -W \"" +
                  words(flag.value.choices) + "\" -- \"$current\")); return ;;\n";
      }
    }
    if (!paths.empty()) values += "    " + paths + ") COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n";
    values += others;
    std::vector<std::string> subcommands;
    for (const Command& sub : command->subcommands) subcommands.push_back(sub.name);
    lists += "    \"" + path + "\") flags=\"" + words(offered) + "\"; commands=\"" + words(subcommands) +
             "\" ;;\n";
  }
  return "# bash completion for pagoda, made by: pagoda completion bash\n"
         "_pagoda() {\n"
         "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
         "  local command=\"\" flags=\"\" commands=\"\" i\n"
         "  COMPREPLY=()\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    case \"$command ${COMP_WORDS[i]}\" in\n" +
         walk(root, " ;;") +
         "    esac\n"
         "  done\n"
         "  case \"$command $previous\" in\n" +
         values +
         "  esac\n"
         "  case \"$command\" in\n" +
         lists +
         "  esac\n"
         "  if [[ \"$current\" == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$flags\" -- \"$current\"))\n"
         "  elif [[ -n \"$commands\" ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$commands\" -- \"$current\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _pagoda pagoda\n";
}

// Returns "name:description", the form that _describe expects.
std::string described(const std::string& name, const std::string& what) {
  std::string text;
  for (const char c : name) text += c == ':' ? std::string("\\:") : std::string(1, c);
  return quoted(text + ":" + what, false);
}

std::string zsh(const Command& root) {
  std::string values, lists;
  for (const auto& [full, command] : all_commands(root)) {
    const std::string path = below_root(full);
    std::string flags = described("--help", "this text"), commands, paths;
    for (const Flag& flag : command->flags) {
      if (flag.hidden) continue;
      for (const std::string& name : names_of(flag)) {
        flags += " " + described(name, flag.help);
        if (!flag.value.takes_value()) continue;
        if (flag.value.choices.empty())
          paths += (paths.empty() ? "" : "|") + ("\"" + path + " " + name + "\"");
        else
          values +=
              "    \"" + path + " " + name + "\") compadd -- " + words(flag.value.choices) + "; return ;;\n";
      }
    }
    if (!paths.empty()) values += "    " + paths + ") _files; return ;;\n";
    for (const Command& sub : command->subcommands) commands += " " + described(sub.name, sub.summary);
    lists += "    \"" + path + "\") flags=(" + flags + "); commands=(" + commands + ") ;;\n";
  }
  return "#compdef pagoda\n"
         "# zsh completion for pagoda, made by: pagoda completion zsh\n"
         "_pagoda() {\n"
         "  local command=\"\" i\n"
         "  local -a flags commands\n"
         "  for (( i = 2; i < CURRENT; ++i )); do\n"
         "    case \"$command ${words[i]}\" in\n" +
         walk(root, " ;;") +
         "    esac\n"
         "  done\n"
         "  case \"$command ${words[CURRENT-1]}\" in\n" +
         values +
         "  esac\n"
         "  case \"$command\" in\n" +
         lists +
         "  esac\n"
         "  if [[ \"${words[CURRENT]}\" == -* ]]; then\n"
         "    _describe -o flag flags\n"
         "  elif (( ${#commands} )); then\n"
         "    _describe command commands\n"
         "  else\n"
         "    _files\n"
         "  fi\n"
         "}\n"
         "if [[ \"$funcstack[1]\" == _pagoda ]]; then _pagoda \"$@\"; else compdef _pagoda pagoda; fi\n";
}

std::string fish(const Command& root) {
  std::string out =
      "# fish completion for pagoda, made by: pagoda completion fish\n"
      "function __pagoda_command\n"
      "  set -l command ''\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    switch \"$command $word\"\n";
  for (const NamedCommand& named : all_commands(root)) {
    const std::string path = below_root(named.path);
    if (path.empty()) continue;
    const std::string typed = path.find(' ') == std::string::npos ? " " + path : path;
    out += "      case '" + typed + "'\n        set command '" + path + "'\n";
  }
  out +=
      "    end\n"
      "  end\n"
      "  echo $command\n"
      "end\n";
  for (const auto& [full, command] : all_commands(root)) {
    const std::string at =
        "complete -c pagoda -n 'test \"$(__pagoda_command)\" = \"" + below_root(full) + "\"'";
    for (const Command& sub : command->subcommands)
      out += at + " -f -a " + sub.name + " -d " + quoted(sub.summary, true) + "\n";
    out += at + " -l help -s h -d 'this text'\n";
    for (const Flag& flag : command->flags) {
      if (flag.hidden) continue;
      for (const std::string& name : names_of(flag)) {
        out += at + (name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1));
        if (flag.value.takes_value())
          out += flag.value.choices.empty() ? " -r -F" : " -x -a " + quoted(words(flag.value.choices), true);
        out += " -d " + quoted(flag.help, true) + "\n";
      }
    }
  }
  return out;
}

void add_below(const Command& command, const std::string& path, std::vector<NamedCommand>& all) {
  all.push_back({path, &command});
  for (const Command& sub : command.subcommands) add_below(sub, path + " " + sub.name, all);
}

}  // namespace

std::vector<NamedCommand> all_commands(const Command& root) {
  std::vector<NamedCommand> all;
  add_below(root, root.name, all);
  return all;
}

std::string completion_script(const std::string& shell, const Command& root) {
  if (shell == "bash") return bash(root);
  if (shell == "zsh") return zsh(root);
  if (shell == "fish") return fish(root);
  return {};
}

}  // namespace pagoda
