#include "cli/commands/render_command.h"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/assign_or_return.h"
#include "cli/commands/json_line.h"
#include "cli/exit_code.h"
#include "cli/flags/flag_values.h"
#include "text/chat_template.h"

namespace pagoda {
namespace {

int refuse_render(const std::string& message) {
  std::fprintf(stderr, "pagoda render: %s\n", message.c_str());
  return 2;
}

// Parses "2025-07-10", "2025-07-10 12:00", "2025-07-10T12:00:30Z", "…+02:00". Returns the time as written and
// ignores the zone, because strftime_now prints local time.
std::optional<std::int64_t> parse_time(std::string_view text) {
  const auto take = [&](std::size_t digits) -> std::optional<int> {
    int value = 0;
    if (text.size() < digits) return std::nullopt;
    const auto parsed = std::from_chars(text.data(), text.data() + digits, value);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + digits) return std::nullopt;
    text.remove_prefix(digits);
    return value;
  };
  const auto skip = [&](std::string_view any_of) {
    if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
    text.remove_prefix(1);
    return true;
  };
  const auto year = take(4);
  if (!year || !skip("-")) return std::nullopt;
  const auto month = take(2);
  if (!month || !skip("-")) return std::nullopt;
  const auto day = take(2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  std::int64_t seconds = std::chrono::sys_days(date).time_since_epoch().count() * std::int64_t{86400};
  if (text.empty()) return seconds;
  if (!skip("T ")) return std::nullopt;
  const auto hour = take(2);
  if (!hour || !skip(":")) return std::nullopt;
  const auto minute = take(2);
  if (!minute) return std::nullopt;
  int second = 0;
  if (skip(":")) {
    const auto taken = take(2);
    if (!taken) return std::nullopt;
    second = *taken;
    if (skip(".")) text.remove_prefix(std::min(text.find_first_not_of("0123456789"), text.size()));
  }
  if (*hour > 23 || *minute > 59 || second > 60) return std::nullopt;
  if (!text.empty() && text != "Z" && text.front() != '+' && text.front() != '-') return std::nullopt;
  return seconds + *hour * 3600 + *minute * 60 + second;
}

Result<std::optional<std::int64_t>> take_now(boost::json::object& context) {
  const auto found = context.find("now");
  if (found == context.end()) return std::optional<std::int64_t>();
  const boost::json::value now = std::move(found->value());
  context.erase(found);
  if (now.is_null()) return std::optional<std::int64_t>();
  if (now.is_int64()) return std::optional<std::int64_t>(now.get_int64());
  if (now.is_double() && std::abs(now.get_double()) < 1e15) {
    return std::optional<std::int64_t>(static_cast<std::int64_t>(std::floor(now.get_double())));
  }
  if (now.is_string()) {
    if (const auto seconds = parse_time(now.get_string())) return seconds;
  }
  return invalid_argument("'now' must be seconds since 1970 or a date like 2025-07-10 12:00")
      .with_param("now");
}

// Renders one line. Parses the template again if the line has its own time.
Result<std::string> render_line(const std::string& line, const ChatTemplate& parsed,
                                const TemplateOptions& options) {
  boost::json::error_code error;
  boost::json::parse_options json_options;
  json_options.max_depth = 256;
  boost::json::value json = boost::json::parse(line, error, {}, json_options);
  if (error) return invalid_argument("not JSON: " + error.message());
  if (!json.is_object()) return invalid_argument("the line is not a JSON object");
  boost::json::object& context = json.get_object();
  PAGODA_ASSIGN_OR_RETURN(const std::optional<std::int64_t> now, take_now(context));
  if (!now) {
    PAGODA_ASSIGN_OR_RETURN(RenderedText prompt, parsed.render(context));
    return std::move(prompt.text);
  }
  TemplateOptions with_now = options;
  with_now.now_unix_seconds = now;
  const Result<ChatTemplate> again = ChatTemplate::parse(parsed.source(), with_now);
  if (!again) return again.error();
  PAGODA_ASSIGN_OR_RETURN(RenderedText prompt, again.value().render(context));
  return std::move(prompt.text);
}

}  // namespace

std::vector<Flag> render_flags(RenderArgs& args) {
  return {
      {.name = "template",
       .value = flags::text(args.template_path, "FILE"),
       .help = "Jinja chat template file",
       .required = true},
      {.name = "input",
       .value = flags::text(args.input_path, "FILE"),
       .help = "file of template contexts, one JSON object per line: messages, tools, add_generation_prompt, "
               "bos_token, …, now",
       .aliases = {"-i"},
       .required = true},
      {.name = "trim-blocks",
       .value = flags::on_off(args.trim_blocks),
       .help = "remove the newline after a block"},
      {.name = "lstrip-blocks",
       .value = flags::on_off(args.lstrip_blocks),
       .help = "remove the whitespace before a block"},
  };
}

int run_render(const RenderArgs& args) {
  std::ifstream template_file(args.template_path, std::ios::binary);
  std::ostringstream source;
  source << template_file.rdbuf();
  if (!template_file || source.fail()) return refuse_render(file_failure("read", args.template_path));
  std::ifstream input(args.input_path, std::ios::binary);
  if (!input) return refuse_render(file_failure("read", args.input_path));

  TemplateOptions options;
  options.trim_blocks = args.trim_blocks;
  options.lstrip_blocks = args.lstrip_blocks;
  const Result<ChatTemplate> parsed = ChatTemplate::parse(source.str(), options);

  for (std::string line; std::getline(input, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Result<std::string> text =
        parsed ? render_line(line, parsed.value(), options) : Result<std::string>(parsed.error());
    std::cout << (text ? json_line("text", *text) : json_line("error", text.error().message())) << '\n';
  }
  if (input.bad()) return refuse_render(file_failure("read", args.input_path));  // for example a directory
  std::cout.flush();
  return std::cout ? 0 : refuse_render("cannot write to standard output");
}

}  // namespace pagoda
