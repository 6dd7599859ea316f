#pragma once
// json.dumps as called by transformers' tojson: no HTML escaping, non-ASCII characters unescaped.
#include <optional>
#include <string>

#include "jinja/render.h"

namespace pagoda::jinja {

struct JsonOptions {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // indent of one level; nullopt: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

Value dump_json(Render& render, const Value& value, const JsonOptions& options);

}  // namespace pagoda::jinja
