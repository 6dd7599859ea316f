#include "cli/flags/parse_command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>

#include "base/check.h"
#include "base/strings.h"
#include "cli/flags/foreign_flags.h"
#include "cli/flags/suggest.h"

namespace pagoda {
namespace {

using Shape = FlagValue::Shape;

// A command as the parser knows it. CLI11 stores nothing itself: it collects each flag's texts.
struct Node {
  const Command* command;
  CLI::App* app;
  std::vector<CLI::Option*> options = {};  // by flag
  std::deque<Node> children = {};
};

CLI::Option* add(CLI::App& app, const Flag& flag) {
  std::string names = flag.positional;
  const auto append = [&names](const std::string& name) { names += (names.empty() ? "" : ",") + name; };
  if (!flag.name.empty()) append("--" + flag.name);
  if (flag.value.shape == Shape::on_off) append("!--no-" + flag.name);
  for (const std::string& alias : flag.aliases) append(alias);
  CLI::Option* option = flag.value.takes_value() ? app.add_option(names) : app.add_flag(names);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (flag.value.shape == Shape::several) option->expected(1, CLI::detail::expected_max_vector_size);
  option->allow_extra_args(flag.value.shape == Shape::several);
  return option;
}

void build(Node& node) {
  for (const Flag& flag : node.command->flags) node.options.push_back(add(*node.app, flag));
  if (!node.command->subcommands.empty()) node.app->require_subcommand(0, 1);
  for (const Command& command : node.command->subcommands) {
    node.children.push_back({.command = &command, .app = node.app->add_subcommand(command.name)});
    build(node.children.back());
  }
}

// "--max_num_seqs" -> "--max-num-seqs": vLLM takes both. Values after '=' are left alone.
std::string with_dashes(std::string argument) {
  if (argument.starts_with("--")) {
    const std::size_t end = std::min(argument.find('='), argument.size());
    std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  }
  return argument;
}

// vLLM's "--served-model-name A B" as "--served-model-name A --served-model-name B". Where nothing before
// says which model it is, the last of the words is the model: "--served-model-name A MODEL".
std::vector<std::string> with_a_flag_for_each_name(const Command& root, std::vector<std::string> arguments) {
  const std::string flag = "--served-model-name";
  const auto is_word = [](const std::string& argument) { return !argument.starts_with('-'); };
  std::size_t at = 0;
  for (const Command* command = &root; at < arguments.size(); ++at) {
    const auto named = std::ranges::find(command->subcommands, arguments[at], &Command::name);
    if (named == command->subcommands.end()) break;
    command = &*named;
  }
  const bool has_model = (at < arguments.size() && is_word(arguments[at])) ||
                         std::ranges::any_of(arguments, [](const std::string& argument) {
                           return argument == "--model" || argument.starts_with("--model=");
                         });
  std::vector<std::string> out;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    out.push_back(arguments[i]);
    if (arguments[i] == "--") {
      out.insert(out.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
      break;
    }
    if (arguments[i] != flag || i + 1 == arguments.size()) continue;
    out.push_back(arguments[++i]);
    std::size_t end = i + 1;
    while (end < arguments.size() && is_word(arguments[end])) ++end;
    if (!has_model && end > i + 1) --end;
    while (i + 1 < end) out.insert(out.end(), {flag, arguments[++i]});
  }
  return out;
}

// The innermost subcommand that was named.
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
    if (flag.value.shape == Shape::on_off) names.push_back("--no-" + flag.name);
    names.insert(names.end(), flag.aliases.begin(), flag.aliases.end());
  }
  return names;
}

std::string describe_unexpected(const CLI::App& app, const Command& command) {
  const std::vector<std::string> left = app.remaining(true);
  const auto flag =
      std::find_if(left.begin(), left.end(), [](const std::string& s) { return s.starts_with("-"); });
  if (flag != left.end()) {
    const std::string name = flag->substr(0, flag->find('='));
    if (std::string known = foreign_flag(name); !known.empty()) return known;
    return concat("unknown flag ", name, suggestion(name, flag_names(command)));
  }
  const std::string word = left.empty() ? std::string() : left.front();
  std::vector<std::string> commands;
  for (const Command& sub : command.subcommands) commands.push_back(sub.name);
  if (!commands.empty()) return concat("unknown command '", word, "'", suggestion(word, commands));
  return concat("unexpected argument '", word, "'");
}

}  // namespace

Result<CommandLine> parse_command_line(const Command& root, std::vector<std::string> arguments) {
  CLI::App app(root.summary, root.name);
  app.set_help_flag("-h,--help");
  Node tree{.command = &root, .app = &app};
  build(tree);
  // What follows "--" is no flag of ours.
  for (auto at = arguments.begin(); at != std::ranges::find(arguments, "--"); ++at)
    *at = with_dashes(with_two_dashes(*at));
  arguments = with_a_flag_for_each_name(root, std::move(arguments));
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  CommandLine line;
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    line.wanted = CommandLine::Wanted::help;
  } catch (const CLI::ExtrasError&) {
    return invalid_argument(describe_unexpected(app, *chosen(tree, line.path).command));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string message = error.what();  // "--port: 1 required N missing"
    return invalid_argument(concat(message.substr(0, message.find(':')), " needs a value"));
  } catch (const CLI::Error& error) {
    return invalid_argument(error.what());
  }
  const Node& node = chosen(tree, line.path);
  line.command = node.command;
  for (const CLI::Option* option : node.options) line.values.push_back(option->results());
  if (app.get_option_no_throw("--version") != nullptr && app.count("--version") > 0)
    line.wanted = CommandLine::Wanted::version;
  return line;
}

}  // namespace pagoda
