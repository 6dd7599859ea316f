#include "cli/flags/parse_command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <filesystem>
#include <optional>

#include "base/check.h"
#include "base/strings.h"
#include "cli/flags/suggest.h"
#include "cli/flags/typed_arguments.h"
#include "hub/pull.h"

namespace pagoda {
namespace {

using Shape = FlagValue::Shape;

// A command and its CLI11 objects. CLI11 stores no values; it only collects each flag's texts.
struct Node {
  const Command* command;
  CLI::App* app;
  std::vector<CLI::Option*> options = {};  // by flag
  std::deque<Node> children = {};
};

// "--no-ui" for a switch, and the same for each of its long aliases.
std::vector<std::string> negative_names(const Flag& flag) {
  std::vector<std::string> names = {"--no-" + flag.name};
  for (const std::string& alias : flag.aliases)
    if (alias.starts_with("--")) names.push_back("--no-" + alias.substr(2));
  return names;
}

CLI::Option* add(CLI::App& app, const Flag& flag) {
  std::string names = flag.positional;
  const auto append = [&names](const std::string& name) { names += (names.empty() ? "" : ",") + name; };
  if (!flag.name.empty()) append("--" + flag.name);
  for (const std::string& alias : flag.aliases) append(alias);
  if (flag.value.shape == Shape::on_off)
    for (const std::string& name : negative_names(flag)) append("!" + name);
  CLI::Option* option = flag.value.takes_value() ? app.add_option(names) : app.add_flag(names);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (flag.value.shape == Shape::several) option->expected(1, CLI::detail::expected_max_vector_size);
  if (flag.value.shape == Shape::maybe) option->expected(0, 1);
  option->allow_extra_args(flag.value.shape == Shape::several);
  return option;
}

void build(Node& node) {
  for (const Flag& flag : node.command->flags) node.options.push_back(add(*node.app, flag));
  if (!node.command->subcommands.empty()) node.app->require_subcommand(0, 1);
  for (const Command& command : node.command->subcommands) {
    node.children.push_back({.command = &command, .app = node.app->add_subcommand(command.name)});
    for (const std::string& alias : command.aliases) node.children.back().app->alias(alias);
    build(node.children.back());
  }
}

// Returns the innermost subcommand given on the command line.
const Node& chosen(const Node& root, std::string& path) {
  const Node* node = &root;
  path = root.command->name;
  for (bool deeper = true; deeper;) {
    deeper = false;
    for (const Node& child : node->children) {
      if (!child.app->parsed()) continue;
      node = &child;
      path += " " + child.command->name;
      deeper = true;
      break;
    }
  }
  return *node;
}

std::vector<std::string> flag_names(const Command& command) {
  std::vector<std::string> names = {"--help"};
  for (const Flag& flag : command.flags) {
    if (!flag.name.empty()) names.push_back("--" + flag.name);
    if (flag.value.shape == Shape::on_off)
      for (std::string& negative : negative_names(flag)) names.push_back(std::move(negative));
    names.insert(names.end(), flag.aliases.begin(), flag.aliases.end());
  }
  return names;
}

// `path`: the words that name the command.
std::string describe_unexpected(const CLI::App& app, const Command& command, const std::string& path) {
  const auto or_help = [&](std::string near) {
    return near.empty() ? concat("; see ", path, " --help") : near;
  };
  const std::vector<std::string> left = app.remaining(true);
  const auto flag =
      std::find_if(left.begin(), left.end(), [](const std::string& s) { return s.starts_with("-"); });
  if (flag != left.end()) {
    const std::string name = flag->substr(0, flag->find('='));
    return concat("unknown flag ", name, or_help(suggestion(name, flag_names(command))));
  }
  const std::string word = left.empty() ? std::string() : left.front();
  std::vector<std::string> commands;
  for (const Command& sub : command.subcommands) commands.push_back(sub.name);
  if (!commands.empty()) return concat("unknown command '", word, "'", or_help(suggestion(word, commands)));
  return concat("unexpected argument '", word, "'; see ", path, " --help");
}

bool names_a_model(const std::string& word) {
  std::error_code error;
  return word.ends_with(".gguf") || std::filesystem::exists(word, error);
}

// True for a name on the hub or a short name.
bool names_a_model_of_the_hub(const std::string& word) { return parse_pull_name(word).has_value(); }

// A flag that takes several words also takes a MODEL that follows: `--served-model-name n m.gguf`. If no
// MODEL is given and the last of several words can name one, that word becomes the MODEL.
Status move_model_out(CommandLine& line) {
  const std::vector<Flag>& flags = line.command->flags;
  std::optional<std::size_t> model;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i].positional != "MODEL" && flags[i].name != "model") continue;
    if (!line.values[i].empty()) return ok_status();
    if (!model || flags[i].positional == "MODEL") model = i;
  }
  if (!model) return ok_status();
  for (std::size_t i = 0; i < flags.size(); ++i) {
    std::vector<std::string>& words = line.values[i];
    const bool maybe = flags[i].value.shape == Shape::maybe;
    if (!maybe && (flags[i].value.shape != Shape::several || words.size() < 2)) continue;
    if (words.empty()) continue;
    const bool of_hub = names_a_model_of_the_hub(words.back());
    if (names_a_model(words.back()) || (of_hub && !flags[i].secret)) {
      line.values[*model] = {words.back()};
      if (maybe)
        words.back() = "true";
      else
        words.pop_back();
      return ok_status();
    }
    // The last value of a secret flag may be a key or a hub name: do not guess.
    if (of_hub)
      return invalid_argument(
          concat(flags[i].spelled(), ": the last value could be MODEL: put MODEL before this flag"));
  }
  return ok_status();
}

}  // namespace

Result<CommandLine> parse_command_line(const Command& root, std::vector<std::string> arguments) {
  CLI::App app(root.summary, root.name);
  app.set_help_flag("-h,--help");
  Node tree{.command = &root, .app = &app};
  build(tree);
  arguments = in_declared_spelling(root, std::move(arguments));
  std::reverse(arguments.begin(), arguments.end());  // CLI11 expects reverse order
  CommandLine line;
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    line.wanted = CommandLine::Wanted::help;
  } catch (const CLI::ExtrasError&) {
    const Command& command = *chosen(tree, line.path).command;
    return invalid_argument(describe_unexpected(app, command, line.path));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string message = error.what();  // "--port: 1 required N missing"
    return invalid_argument(concat(message.substr(0, message.find(':')), " needs a value"));
  } catch (const CLI::Error& error) {
    return invalid_argument(error.what());
  }
  const Node& node = chosen(tree, line.path);
  line.command = node.command;
  for (const CLI::Option* option : node.options) line.values.push_back(option->results());
  PAGODA_RETURN_IF_ERROR(move_model_out(line));
  if (app.get_option_no_throw("--version") != nullptr && app.count("--version") > 0)
    line.wanted = CommandLine::Wanted::version;
  return line;
}

}  // namespace pagoda
