#include "api/cache_hint_fields.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <utility>

#include "base/strings.h"

namespace pagoda {
namespace {
namespace json = boost::json;

constexpr std::size_t kMaxSession = 256;
constexpr std::int32_t kDay = 24 * 3600;

// Reads Anthropic's "ttl", "5m" or "1h". The longest one counts.
void read_control(FieldReader& control, CacheHint& hint) {
  const auto type = control.string("type", 64);
  if (control.ok() && type != "ephemeral") control.fail("type", "must be 'ephemeral'");
  const std::string ttl = control.string("ttl", 64).value_or("5m");
  if (control.ok() && ttl != "5m" && ttl != "1h") control.fail("ttl", "must be '5m' or '1h'");
  hint.ttl_s = std::max(hint.ttl_s, ttl == "1h" ? 3600 : 300);
}

// Reads "cache_control" of an object and, down to `depth`, of the objects in its lists.
void find_controls(FieldReader& fields, const json::object& object, const std::string& path, CacheHint& hint,
                   int depth) {
  if (const json::value* value = object.if_contains("cache_control"); value != nullptr && !value->is_null()) {
    const std::string name = path.empty() ? "cache_control" : path + ".cache_control";
    if (!value->is_object()) return fields.fail(invalid_argument("must be an object").with_param(name));
    FieldReader control(value->as_object(), name);
    read_control(control, hint);
    if (!control.ok()) fields.fail(control.status());
  }
  if (depth == 0) return;
  for (const std::string_view name : {"system", "messages", "tools", "content"}) {
    const json::value* list = object.if_contains(name);
    if (list == nullptr || !list->is_array()) continue;
    for (std::size_t i = 0; i < list->as_array().size() && fields.ok(); ++i) {
      if (const json::object* entry = list->as_array()[i].if_object())
        find_controls(fields, *entry, concat(path, path.empty() ? "" : ".", name, ".", i), hint, depth - 1);
    }
  }
}

std::int32_t seconds_until(double unix_seconds) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::int32_t>(std::clamp(unix_seconds - now.count(), 0.0, static_cast<double>(kDay)));
}

}  // namespace

CacheHint read_cache_hint(FieldReader& fields) {
  CacheHint hint;
  constexpr int kDepth = 3;                       // messages, their blocks, and blocks of tool results
  (void)fields.raw("cache_control", {"object"});  // marks the field as known
  find_controls(fields, fields.whole(), {}, hint, kDepth);
  hint.session = fields.string("prompt_cache_key", kMaxSession).value_or("");
  if (const auto kept = fields.string("prompt_cache_retention", 64)) {
    if (*kept == "24h")
      hint.ttl_s = kDay;
    else if (*kept != "in_memory" && *kept != "in-memory")
      fields.fail("prompt_cache_retention", "must be 'in_memory' or '24h'");
  }
  const json::object* own = fields.object("cache_hint");
  if (own == nullptr) return hint;
  FieldReader inner(*own, "cache_hint");
  if (auto session = inner.string("session", kMaxSession)) hint.session = *std::move(session);
  if (inner.has("session") && hint.session.empty()) inner.fail("session", "must not be empty");
  if (const auto ttl = inner.integer("ttl", 1, kDay)) hint.ttl_s = static_cast<std::int32_t>(*ttl);
  if (const auto priority = inner.integer("priority", 0, 100))
    hint.priority = static_cast<std::int32_t>(*priority);
  constexpr double kLatest = 1e12;
  if (const auto until = inner.number("pin_until", 0, kLatest)) hint.pin_s = seconds_until(*until);
  for (const std::string_view name : inner.unread()) inner.fail(name, "is not a field of a cache hint");
  if (!inner.ok()) fields.fail(inner.status());
  return hint;
}

}  // namespace pagoda
