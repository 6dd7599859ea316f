#include "loader/json_object.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/strings.h"
#include "base/utf8.h"

namespace pagoda {
namespace {

// Python writes numbers that JSON does not have; in quotes, the field's reader can decide about
// them.
std::string quoted_infinities(std::string_view text) {
  constexpr std::string_view kNames[] = {"-Infinity", "Infinity", "NaN"};
  std::string out;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') in_string = !in_string;
    if (in_string && text[at] == '\\' && at + 1 < text.size()) out += text[at++];
    const auto name = std::ranges::find_if(
        kNames, [&](std::string_view each) { return !in_string && text.substr(at).starts_with(each); });
    if (name == std::end(kNames)) {
      out += text[at];
    } else {
      out += concat("\"", *name, "\"");
      at += name->size() - 1;
    }
  }
  return out;
}

}  // namespace

Result<boost::json::object> parse_json_object(std::string_view text, std::string_view what) {
  namespace json = boost::json;
  boost::system::error_code error;
  text = without_byte_order_mark(text);
  json::value value = json::parse(json::string_view(text.data(), text.size()), error);
  // As people's editors leave files, and as Python writes them.
  json::parse_options tolerant;
  tolerant.allow_trailing_commas = true;
  if (error) value = json::parse(quoted_infinities(text), error, {}, tolerant);
  if (error) return corrupt_data(concat(what, " is not well-formed JSON: ", error.message()));
  if (!value.is_object()) return corrupt_data(concat(what, " is not a JSON object"));
  return std::move(value.get_object());
}

const boost::json::object* language_part(const boost::json::object& config) {
  for (const std::string_view name : {"text_config", "llm_config", "language_config"}) {
    const boost::json::value* const part = config.if_contains(name);
    if (part == nullptr || !part->is_object()) continue;
    const boost::json::object* const inner =
        language_part(part->get_object());  // as deep as the parser allows
    return inner != nullptr ? inner : &part->get_object();
  }
  return nullptr;
}

boost::json::object* language_part(boost::json::object& config) {
  return const_cast<boost::json::object*>(language_part(std::as_const(config)));
}

}  // namespace pagoda
