// ' tool="f" index="1"<|sep|><|open|>argument key="k" type="string"<|sep|>v<|close|>argument<|sep|>': Kimi
// K3. Values of type string are raw, others JSON; attributes escape & and ".
#include <algorithm>

#include "text/answer_formats/json_scanner.h"
#include "text/answer_formats/tag_calls.h"

namespace pagoda::answer {
namespace {

constexpr std::string_view kSeparator = "<|sep|>";
constexpr std::string_view kArgument = "<|open|>argument";
constexpr std::string_view kArgumentEnd = "<|close|>argument<|sep|>";

std::optional<std::string> attribute(std::string_view header, std::string_view name) {
  const std::string wanted = " " + std::string(name) + "=\"";
  const std::size_t at = header.find(wanted);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t begin = at + wanted.size();
  const std::size_t end = header.find('"', begin);
  if (end == std::string_view::npos) return std::nullopt;
  std::string out;
  for (std::string_view text = header.substr(begin, end - begin); !text.empty();) {
    const bool amp = text.starts_with("&amp;");
    const bool quote = text.starts_with("&quot;");
    out += amp ? '&' : quote ? '"' : text.front();
    text.remove_prefix(amp ? 5 : quote ? 6 : 1);
  }
  return out;
}

}  // namespace

std::optional<TagCall> read_kimi_k3(std::string_view body, const BodyContext& context) {
  std::size_t at = body.find(kSeparator);
  if (at == std::string_view::npos) return std::nullopt;
  const std::optional<std::string> name = attribute(body.substr(0, at), "tool");
  if (!name || name->empty()) return std::nullopt;
  TagCall call{.name = *name, .arguments = {}};
  for (at = body.find(kArgument, at); at != std::string_view::npos; at = body.find(kArgument, at)) {
    const std::size_t header = at + kArgument.size();
    const std::size_t header_end = body.find(kSeparator, header);
    if (header_end == std::string_view::npos) break;
    const std::size_t value = header_end + kSeparator.size();
    std::size_t end = body.find(kArgumentEnd, value);
    if (end == std::string_view::npos) {
      if (context.cut) break;
      end = body.size();
    }
    const std::string_view attributes = body.substr(header, header_end - header);
    const std::optional<std::string> key = attribute(attributes, "key");
    const std::string_view text = body.substr(value, end - value);
    at = end;
    if (!key) continue;
    const auto parsed = attribute(attributes, "type") == "string" ? std::nullopt : parse_json(text);
    call.arguments[*key] = parsed ? *parsed : boost::json::value(boost::json::string(text));
  }
  return call;
}

}  // namespace pagoda::answer
