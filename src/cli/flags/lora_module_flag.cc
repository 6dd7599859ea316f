#include "cli/flags/lora_module_flag.h"

#include <boost/json.hpp>

#include "base/strings.h"
#include "cli/flags/flag_members.h"

namespace pagoda {
namespace {

Result<LoraModule> parse_module_object(const std::string& text) {
  boost::system::error_code error;
  const boost::json::value parsed = boost::json::parse(text, error);
  if (error || !parsed.is_object())
    return invalid_argument(R"(must be NAME=PATH, or JSON such as {"name":"sql","path":"/adapters/sql"})");
  LoraModule out;
  for (const auto& member : parsed.as_object()) {
    const std::string name(member.key());
    std::string* const place = name == "name"              ? &out.name
                               : name == "path"            ? &out.path
                               : name == "base_model_name" ? &out.base_model_name
                                                           : nullptr;
    if (place == nullptr) return refuse_member(name, "is none of name, path and base_model_name");
    if (member.value().is_null()) continue;
    if (!member.value().is_string()) return refuse_member(name, "must be a string");
    *place = member.value().as_string();
  }
  return out;
}

}  // namespace

Result<LoraModule> parse_lora_module(const std::string& text) {
  LoraModule out;
  if (text.starts_with('{')) {
    auto parsed = parse_module_object(text);
    if (!parsed) return parsed;
    out = *std::move(parsed);
  } else {
    const std::size_t equals = text.find('=');
    if (equals == text.npos) return invalid_argument(concat("'", text, "' is not NAME=PATH"));
    out = {.name = text.substr(0, equals), .path = text.substr(equals + 1)};
  }
  if (out.name.empty() || out.path.empty())
    return invalid_argument(concat("'", text, "' lacks the adapter's ", out.name.empty() ? "name" : "path"));
  return out;
}

}  // namespace pagoda
