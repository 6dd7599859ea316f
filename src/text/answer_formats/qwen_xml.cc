// "f>\n<parameter=k>\nv\n</parameter>\n": Qwen3-Coder, Qwen3.5, Nemotron 3, Seed-OSS, Step-3.5. One newline
// at each end of a value is markup.
#include "text/answer_formats/json_scanner.h"
#include "text/answer_formats/tag_calls.h"

namespace pagoda::answer {
namespace {

std::string_view without_newlines(std::string_view value) {
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

std::optional<TagCall> read_xml_body(std::string_view body, const BodyContext& context,
                                     ToolTypes::Reading reading) {
  constexpr std::string_view kOpen = "<parameter=";
  constexpr std::string_view kClose = "</parameter>";
  const std::size_t name_end = body.find('>');
  if (name_end == std::string_view::npos && context.cut) return std::nullopt;  // truncated within the name
  TagCall call{.name = std::string(trim(body.substr(0, name_end))), .arguments = {}};
  if (call.name.empty() || call.name.find_first_of("<\n") != std::string::npos) return std::nullopt;
  if (name_end == std::string_view::npos) return call;
  NextFinder next_open(body, kOpen);
  NextFinder next_close(body, kClose);
  for (std::size_t at = next_open.from(name_end); at != std::string_view::npos;) {
    const std::size_t key = at + kOpen.size();
    const std::size_t key_end = body.find('>', key);
    if (key_end == std::string_view::npos) break;
    const std::size_t value = key_end + 1;
    at = next_open.from(value);
    std::size_t end = std::min(next_close.from(value), at);
    if (end == std::string_view::npos) {
      if (context.cut) break;
      end = body.size();
    }
    add_argument(call, trim(body.substr(key, key_end - key)),
                 without_newlines(body.substr(value, end - value)), context.tools, reading);
  }
  return call;
}

}  // namespace

std::optional<TagCall> read_qwen_xml(std::string_view body, const BodyContext& context) {
  return read_xml_body(body, context, {.python = false});
}
std::optional<TagCall> read_step3p5(std::string_view body, const BodyContext& context) {
  return read_xml_body(body, context, {.python = true});
}

}  // namespace pagoda::answer
