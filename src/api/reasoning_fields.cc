#include "api/reasoning_fields.h"

#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMaxBudget = 1 << 30;

void read_budget(FieldReader& fields, std::string_view name, ReasoningWish& wish) {
  if (const auto budget = fields.integer(name, 0, kMaxBudget))
    wish.budget = static_cast<std::int32_t>(*budget);
}

void read_thinking(FieldReader& fields, ReasoningWish& wish) {
  const json::value* value = fields.raw("thinking", {"boolean"});
  if (value == nullptr) return;
  if (value->is_bool()) {
    wish.thinks = value->as_bool();
    return;
  }
  const json::object* thinking = fields.object("thinking");
  if (thinking == nullptr) return;
  FieldReader reader(*thinking, fields.path_of("thinking"));
  const std::string type = reader.string("type", 64).value_or("enabled");
  if (type == "disabled")
    wish.thinks = false;
  else if (type == "enabled" || type == "adaptive" || type == "between_tools")
    wish.thinks = true;
  else if (reader.ok() && type != "auto")
    reader.fail("type", "must be 'enabled', 'adaptive', 'between_tools', 'auto' or 'disabled'");
  wish.adaptive = type == "adaptive";
  if (type != "disabled") read_budget(reader, "budget_tokens", wish);
  if (!reader.ok()) fields.fail(reader.status());
}

void read_reasoning(FieldReader& fields, ReasoningWish& wish) {
  const json::object* reasoning = fields.object("reasoning");
  if (reasoning == nullptr) return;
  FieldReader reader(*reasoning, fields.path_of("reasoning"));
  if (std::optional<std::string> effort = reader.string("effort", 32)) wish.effort = std::move(effort);
  if (const std::optional<bool> enabled = reader.boolean("enabled")) wish.thinks = *enabled;
  read_budget(reader, "max_tokens", wish);
  if (reader.boolean("exclude").value_or(false)) wish.is_returned = false;
  if (!reader.ok()) fields.fail(reader.status());
}

}  // namespace

void ReasoningWish::add_template_variables(json::object& kwargs, const json::object& server) const {
  const auto set = [&](std::string_view name, const json::value& value) {
    if (!kwargs.contains(name)) kwargs[name] = value;
  };
  if (effort) set("reasoning_effort", json::string(*effort));
  if (!thinks || (adaptive && server.contains("enable_thinking"))) return;
  set("enable_thinking", *thinks);
  set("thinking", *thinks);
}

ReasoningWish read_reasoning_wish(FieldReader& fields) {
  ReasoningWish wish;
  read_thinking(fields, wish);
  read_reasoning(fields, wish);
  if (std::optional<std::string> effort = fields.string("reasoning_effort", 32))
    wish.effort = std::move(effort);
  if (const std::optional<bool> on = fields.boolean("enable_thinking")) wish.thinks = *on;
  if (wish.effort == "none" && !wish.thinks) wish.thinks = false;
  read_budget(fields, "thinking_budget", wish);  // Qwen's API
  wish.budget_is_rule = fields.has("thinking_token_budget");
  read_budget(fields, "thinking_token_budget", wish);
  return wish;
}

}  // namespace pagoda
