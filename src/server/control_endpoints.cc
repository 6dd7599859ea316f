#include "server/control_endpoints.h"

#include <atomic>
#include <map>
#include <vector>

#include "api/json.h"
#include "api/query.h"
#include "base/strings.h"
#include "server/http_request.h"
#include "server/server_context.h"

namespace pagoda {
namespace {

// As in vLLM: status 200 with `body`, which may be empty.
class ControlWait final : public EngineWait {
 public:
  ControlWait(std::function<void()> wake, std::string body)
      : wake_(std::move(wake)), body_(std::move(body)) {}
  void set(Status status) {
    status_ = std::move(status);
    ready_.store(true, std::memory_order_release);
    wake_();
  }
  bool ready() const override { return ready_.load(std::memory_order_acquire); }
  HttpResponse answer(const ServerContext&) override {
    if (!status_.ok()) return error_response(status_);
    HttpResponse response;
    response.body = body_;
    if (body_.empty()) response.content_type.clear();
    return response;
  }

 private:
  const std::function<void()> wake_;
  const std::string body_;
  Status status_;
  std::atomic<bool> ready_{false};
};

// The query's values by name. invalid_argument if a field is not in `known`.
Result<std::multimap<std::string, std::string>> fields_of(const ApiCall& call,
                                                          std::initializer_list<std::string_view> known) {
  const auto items = parse_query(call.query);
  if (!items) return invalid_argument("The query of the URL is malformed.");
  std::multimap<std::string, std::string> out;
  for (const auto& [name, value] : *items) {
    if (std::ranges::find(known, std::string_view(name)) == known.end())
      return invalid_argument("The query of the URL has an unknown field.");
    out.emplace(name, value);
  }
  return out;
}

template <class Ask>
std::shared_ptr<EngineWait> asked(std::function<void()> wake, const Ask& ask, std::string body = {}) {
  auto wait = std::make_shared<ControlWait>(std::move(wake), std::move(body));
  ask([wait](Status status) { wait->set(std::move(status)); });
  return wait;
}

Status bad_value(std::string param, std::string message) {
  return invalid_argument(std::move(message)).with_param(std::move(param));
}

Result<std::shared_ptr<EngineWait>> sleep(const ApiCall& call, ServerContext& server,
                                          std::function<void()> wake) {
  const auto fields = fields_of(call, {"level", "mode"});
  if (!fields) return fields.error();
  SleepOrder order;
  for (const auto& [name, value] : *fields) {
    if (name == "level") {
      if (value.size() != 1 || value[0] < '0' || value[0] > '2')
        return bad_value("level", "level is 0, 1 or 2.");
      order.level = value[0] - '0';
    } else if (value == "abort") {
      order.running = SleepOrder::Running::abort;
    } else if (value == "wait") {
      order.running = SleepOrder::Running::wait;
    } else if (value == "keep") {
      order.running = SleepOrder::Running::keep;
    } else {
      return bad_value("mode", "mode is abort, wait or keep.");
    }
  }
  return asked(std::move(wake), [&](auto done) { server.engine.sleep(order, std::move(done)); });
}

Result<std::shared_ptr<EngineWait>> wake_up(const ApiCall& call, ServerContext& server,
                                            std::function<void()> wake) {
  const auto fields = fields_of(call, {"tags"});
  if (!fields) return fields.error();
  WakeOrder order;
  if (!fields->empty()) order = {.weights = false, .kv_cache = false, .scheduling = false};
  for (const auto& [name, value] : *fields) {
    bool* part = value == "weights"      ? &order.weights
                 : value == "kv_cache"   ? &order.kv_cache
                 : value == "scheduling" ? &order.scheduling
                                         : nullptr;
    if (part == nullptr) return bad_value("tags", "tags are weights, kv_cache and scheduling.");
    *part = true;
  }
  return asked(std::move(wake), [&](auto done) { server.engine.wake_up(order, std::move(done)); });
}

// vLLM's two fields have no effect. reset_running_requests: running requests always keep their K/V here.
// reset_external: the tiers are always erased, too.
Result<std::shared_ptr<EngineWait>> reset_prefix_cache(const ApiCall& call, ServerContext& server,
                                                       std::function<void()> wake) {
  const auto fields = fields_of(call, {"reset_running_requests", "reset_external"});
  if (!fields) return fields.error();
  return asked(std::move(wake), [&](auto done) { server.engine.reset_prefix_cache(std::move(done)); });
}

// Clients choose session names, per key. Erases the sessions of this name of all keys, or of one `key`.
Result<std::shared_ptr<EngineWait>> erase_session(const ApiCall& call, ServerContext& server,
                                                  std::function<void()> wake) {
  const auto fields = fields_of(call, {"key"});
  if (!fields) return fields.error();
  if (call.parameter.empty()) return bad_value("id", "The session has no name.");
  CacheOwner owner{.tenant = 0, .session = CacheOwner::number_of(call.parameter)};
  if (const auto key = fields->find("key"); key != fields->end())
    owner.tenant = CacheOwner::number_of(key->second);
  std::string body;
  JsonWriter json(body);
  json.begin_object().key("object").string("session.deleted");
  json.key("id").string(to_valid_utf8(call.parameter)).key("deleted").boolean(true).end_object();
  return asked(
      std::move(wake), [&](auto done) { server.engine.erase_cached(owner, std::move(done)); },
      std::move(body));
}

HttpResponse is_sleeping(const ApiCall&, ServerContext& server) {
  HttpResponse response;
  response.body = server.engine.is_sleeping() ? R"({"is_sleeping":true})" : R"({"is_sleeping":false})";
  return response;
}

HttpResponse tokenizer_info(const ApiCall&, ServerContext& server) {
  if (server.api.tokenizer_info.empty())
    return error_response(Status(StatusCode::not_found, "The model has no tokenizer."));
  HttpResponse response;
  response.body = server.api.tokenizer_info;
  return response;
}

constexpr RouteFacts admin_route(std::string_view method, std::string_view path) {
  return {.method = method,
          .path = path,
          .role = Role::admin,
          .body = method == "POST" ? BodyForm::any : BodyForm::none};
}

constexpr Route kControlRoutes[] = {
    {admin_route("POST", "/reset_prefix_cache"), reset_prefix_cache},
    {admin_route("POST", "/sleep"), sleep},
    {admin_route("POST", "/wake_up"), wake_up},
    {admin_route("DELETE", "/admin/sessions/{id}"), erase_session},
    {admin_route("GET", "/is_sleeping"), is_sleeping},
    {admin_route("GET", "/tokenizer_info"), tokenizer_info},
};

}  // namespace

std::span<const Route> control_routes() { return kControlRoutes; }

}  // namespace pagoda
