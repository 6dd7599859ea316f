#include "cli/commands/parse_command.h"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/commands/json_line.h"
#include "cli/exit_code.h"
#include "cli/flags/flag_values.h"
#include "text/answer_formats.h"
#include "text/answer_parser.h"

namespace pagoda {
namespace {

namespace json = boost::json;

struct Message {
  struct Call {
    std::string name, arguments, id;
    bool operator==(const Call&) const = default;
  };
  std::string content, reasoning;
  std::vector<Call> calls;
  bool operator==(const Message&) const = default;
};

void gather(std::vector<AnswerEvent>& events, Message& message) {
  for (AnswerEvent& event : events) {
    const auto call = static_cast<std::size_t>(event.call);
    switch (event.kind) {
      case AnswerEvent::Kind::reasoning:
        message.reasoning += event.text;
        break;
      case AnswerEvent::Kind::content:
        message.content += event.text;
        break;
      case AnswerEvent::Kind::call_begun:
        message.calls.push_back({std::move(event.text), {}, std::move(event.call_id)});
        break;
      case AnswerEvent::Kind::call_arguments:
        message.calls.at(call).arguments += event.text;
        break;
      case AnswerEvent::Kind::call_ended:
        break;
    }
  }
  events.clear();
}

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

// The case of one input line, with the options to parse it repeatedly.
struct Case {
  std::string text;
  AnswerParserOptions options;
  std::string name;  // its id, or the number of its line
};

Result<Case> read_case(const std::string& line, std::size_t number, const ParseArgs& args) {
  json::error_code error;
  json::parse_options json_options;
  json_options.max_depth = 256;
  const json::value value = json::parse(line, error, {}, json_options);
  if (error) return invalid_argument(concat("the line is not JSON: ", error.message()));
  const json::object* object = value.if_object();
  if (object == nullptr) return invalid_argument("the line is not a JSON object");
  const auto member = [&](std::string_view key) -> const json::value* {
    const json::value* found = object->if_contains(key);
    return found == nullptr || found->is_null() ? nullptr : found;
  };
  Case out;
  const json::value* text = member("text");
  if (text == nullptr || !text->is_string()) return invalid_argument("'text' must be a string");
  out.text = view(text->get_string());
  const json::value* id = member("id");
  out.name = id && id->is_string() ? std::string(view(id->get_string())) : concat("line ", number);
  out.options.tool_parser = args.tool_parser;
  out.options.reasoning_parser = args.reasoning_parser;
  if (const json::value* choice = member("tool_choice"))
    out.options.calls_allowed = !(choice->is_string() && view(choice->get_string()) == "none");
  if (const json::value* starts = member("starts_in_reasoning")) {
    if (!starts->is_bool()) return invalid_argument("'starts_in_reasoning' must be true, false or null");
    out.options.starts_in_reasoning = starts->get_bool();
  }
  const json::value* tools = member("tools");
  if (tools == nullptr) return out;
  if (!tools->is_array()) return invalid_argument("'tools' must be a list");
  std::vector<DeclaredTool> list;
  for (const json::value& one : tools->get_array()) {
    const json::object* tool = one.if_object();
    const json::value* function = tool ? tool->if_contains("function") : nullptr;
    if (function != nullptr) tool = function->if_object();
    const json::value* name = tool ? tool->if_contains("name") : nullptr;
    if (name == nullptr || !name->is_string())
      return invalid_argument("a tool must have a function with a name");
    DeclaredTool declared{.name = std::string(view(name->get_string())), .parameters = {}};
    if (const json::value* parameters = tool->if_contains("parameters");
        parameters && parameters->is_object())
      declared.parameters = parameters->get_object();
    list.push_back(std::move(declared));
  }
  out.options.tools = std::make_shared<const std::vector<DeclaredTool>>(std::move(list));
  return out;
}

// Parses the text in pieces that end at `cut`, `cut` + `step`, … and at the end.
Result<Message> parse_cut(const Case& one, std::size_t cut, std::size_t step) {
  PAGODA_ASSIGN_OR_RETURN(AnswerParser parser, AnswerParser::create(one.options));
  Message message;
  std::vector<AnswerEvent> events;
  std::string_view rest = one.text;
  for (std::size_t length = cut; !rest.empty(); length = step) {
    const std::string_view piece = rest.substr(0, length);
    rest.remove_prefix(piece.size());
    parser.push({.text = piece, .token = {}}, events);
    gather(events, message);
    if (rest.empty()) break;
  }
  parser.finish(events);
  gather(events, message);
  return message;
}

// Returns valid JSON unchanged, on one line; anything else as a string.
std::string arguments_json(const std::string& arguments) {
  json::error_code error;
  json::parse_options options;
  options.max_depth = 256;
  json::parse(arguments, error, {}, options);
  if (error) return json_string(arguments);
  std::string out = arguments;
  for (char& c : out)
    // Only white space: strings contain no control characters.
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return out;
}

std::string message_line(const Message& message) {
  const auto text = [](const std::string& part) {
    return part.empty() ? std::string("null") : json_string(part);
  };
  std::string out = concat("{\"content\": ", text(message.content),
                           ", \"reasoning_content\": ", text(message.reasoning), ", \"tool_calls\": [");
  for (std::size_t i = 0; i < message.calls.size(); ++i) {
    const Message::Call& call = message.calls[i];
    out += concat(i > 0 ? ", " : "", "{\"name\": ", json_string(call.name),
                  ", \"arguments\": ", arguments_json(call.arguments), "}");
  }
  return ascii_json(out + "]}");
}

int refuse_parse(std::string_view message, int code = 2) {
  std::fputs(concat("pagoda parse: ", message, "\n").c_str(), stderr);
  return code;
}

// Describes the first cut at which the message differs from that of the whole text; empty if none.
std::string differing_cut(const Case& one, const Message& whole) {
  for (std::size_t step = 1; step <= 3; ++step) {
    const Result<Message> message = parse_cut(one, step, step);
    if (!message || !(*message == whole)) return concat("in pieces of ", step, " bytes");
  }
  for (std::size_t cut = 1; cut < one.text.size(); ++cut) {
    const Result<Message> message = parse_cut(one, cut, std::string::npos);
    if (!message || !(*message == whole)) return concat("cut after ", cut, " bytes");
  }
  return {};
}

}  // namespace

std::vector<Flag> parse_flags(ParseArgs& args) {
  return {
      {.name = "tool-call-parser",
       .value = flags::text(args.tool_parser, "NAME"),
       .help = "tool call parser: a name from vLLM, or auto"},
      {.name = "reasoning-parser",
       .value = flags::text(args.reasoning_parser, "NAME"),
       .help = "reasoning parser: a name from vLLM, or auto"},
      {.name = "input",
       .value = flags::text(args.input, "FILE"),
       .help = "file of model outputs, one JSON object per line: text, tools, tool_choice, "
               "starts_in_reasoning; without it, print the formats of --template",
       .aliases = {"-i"}},
      {.name = "template",
       .value = flags::text(args.template_path, "FILE"),
       .help = "chat template from which auto chooses the formats"},
      {.name = "every-cut",
       .value = flags::on(args.every_cut),
       .help = "also parse each text in two pieces, cut at every position, and check that the result is the "
               "same"},
  };
}

int run_parse(const ParseArgs& given) {
  ParseArgs args = given;
  // With only a template, print the formats that it uses.
  if (args.input.empty() && args.tool_parser.empty() && args.reasoning_parser.empty())
    args.tool_parser = args.reasoning_parser = "auto";
  if (args.tool_parser == "auto" || args.reasoning_parser == "auto") {
    if (args.template_path.empty())
      return refuse_parse(given.tool_parser.empty() && given.reasoning_parser.empty()
                              ? "give --input, --template or both"
                              : "auto needs --template, the model's chat template");
    std::ifstream file(args.template_path, std::ios::binary);
    const std::string source((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!file) return refuse_parse(file_failure("read", args.template_path));
    const AnswerFormatNames found = detect_answer_formats(source);
    if (args.tool_parser == "auto") args.tool_parser = found.tool_parser;
    if (args.reasoning_parser == "auto") args.reasoning_parser = found.reasoning_parser;
    const auto name = [](const std::string& parser) { return parser.empty() ? std::string("none") : parser; };
    std::fputs(concat("auto: --tool-call-parser ", name(args.tool_parser), ", --reasoning-parser ",
                      name(args.reasoning_parser), "\n")
                   .c_str(),
               args.input.empty() ? stdout : stderr);
  }
  if (args.input.empty())
    return std::fflush(stdout) == 0 ? 0 : refuse_parse("cannot write to standard output");
  AnswerParserOptions names;
  names.tool_parser = args.tool_parser;
  names.reasoning_parser = args.reasoning_parser;
  if (const auto parser = AnswerParser::create(std::move(names)); !parser)
    return refuse_parse(parser.error().message());
  std::ifstream input(args.input, std::ios::binary);
  if (!input) return refuse_parse(file_failure("read", args.input));
  std::size_t number = 0;
  for (std::string line; std::getline(input, line);) {
    number += 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Result<Case> one = read_case(line, number, args);
    const Result<Message> whole = one ? parse_cut(*one, std::string::npos, std::string::npos) : one.error();
    std::string out = whole ? message_line(*whole) : json_line("error", whole.error().message());
    out += '\n';
    if (std::fwrite(out.data(), 1, out.size(), stdout) != out.size())
      return refuse_parse("cannot write to standard output");
    if (!args.every_cut || !whole) continue;
    if (const std::string cut = differing_cut(*one, *whole); !cut.empty()) {
      std::fflush(stdout);
      return refuse_parse(concat(one->name, ": a different message ", cut), 1);
    }
  }
  if (input.bad()) return refuse_parse(file_failure("read", args.input));  // for example a directory
  return std::fflush(stdout) == 0 ? 0 : refuse_parse("cannot write to standard output");
}

}  // namespace pagoda
