#include "server/prefix_endpoints.h"

#include <atomic>

#include "api/json.h"
#include "api/openai/prefix_parser.h"
#include "server/server_context.h"

namespace pagoda {
namespace {

void write_prefix(JsonWriter& json, const PrefixInfo& prefix) {
  json.begin_object().key("object").string("prefix");
  json.key("name").string(to_valid_utf8(prefix.name));
  json.key("num_tokens").integer(prefix.num_tokens);
  json.key("num_blocks").integer(prefix.num_blocks);
  json.end_object();
}

// Receives on the engine thread whether a prefix was pinned.
class PrefixWait final : public EngineWait, public OutputSink {
 public:
  PrefixWait(PrefixSpec prefix, std::function<void()> wake)
      : prefix_(std::move(prefix)), wake_(std::move(wake)) {}

  const PrefixSpec& prefix() const { return prefix_; }
  void on_output(RequestOutput output) override {
    if (!output.finished) return;
    status_ = std::move(output.error);
    ready_.store(true, std::memory_order_release);
    wake_();
  }
  bool ready() const override { return ready_.load(std::memory_order_acquire); }
  HttpResponse answer(const ServerContext& server) override {
    if (!status_.ok()) return error_response(rename_param(std::move(status_), prefix_));
    PrefixInfo info{.name = prefix_.name, .num_tokens = static_cast<std::int32_t>(prefix_.token_ids.size())};
    for (PrefixInfo& known : server.engine.list_prefixes())
      if (known.name == prefix_.name) info = std::move(known);
    HttpResponse response;
    JsonWriter json(response.body);
    write_prefix(json, info);
    return response;
  }

 private:
  const PrefixSpec prefix_;
  const std::function<void()> wake_;
  Status status_;
  std::atomic<bool> ready_{false};
};

HttpResponse list_prefixes(const ApiCall&, ServerContext& server) {
  HttpResponse response;
  JsonWriter json(response.body);
  json.begin_object().key("object").string("list").key("data").begin_array();
  for (const PrefixInfo& prefix : server.engine.list_prefixes()) write_prefix(json, prefix);
  json.end_array().end_object();
  return response;
}

HttpResponse drop_prefix(const ApiCall& call, ServerContext& server) {
  const std::string& name = call.parameter;
  if (Status status = server.engine.drop_prefix(name); !status.ok())
    return error_response(std::move(status).with_param("name"));
  HttpResponse response;
  JsonWriter json(response.body);
  json.begin_object().key("object").string("prefix.deleted");
  json.key("name").string(to_valid_utf8(name)).key("deleted").boolean(true).end_object();
  return response;
}

// Ready once the engine has computed the prefix. The prefix stays even if the client disconnects before.
Result<std::shared_ptr<EngineWait>> add_prefix(const ApiCall& call, ServerContext& server,
                                               std::function<void()> wake) {
  Result<PrefixSpec> prefix = parse_prefix(call.body, server.api);
  if (!prefix) return prefix.error();
  const auto wait = std::make_shared<PrefixWait>(*std::move(prefix), std::move(wake));
  Status status = server.engine.add_prefix(wait->prefix().name, wait->prefix().token_ids, wait);
  if (!status.ok()) return rename_param(std::move(status), wait->prefix());
  return std::shared_ptr<EngineWait>(wait);
}

constexpr RouteFacts prefix_route(std::string_view method, std::string_view path) {
  return {.method = method, .path = path, .role = Role::admin};
}

constexpr Route kPrefixRoutes[] = {
    {prefix_route("GET", "/admin/prefixes"), list_prefixes},
    {{.method = "POST",
      .path = "/admin/prefixes",
      .role = Role::admin,
      .cost = Cost::text,
      .body = BodyForm::json},
     add_prefix},
    {prefix_route("DELETE", "/admin/prefixes/{name}"), drop_prefix},
};

}  // namespace

std::span<const Route> prefix_routes() { return kPrefixRoutes; }

}  // namespace pagoda
