#include "server/adapter_endpoints.h"

#include <atomic>
#include <boost/json/object.hpp>

#include "api/field_reader.h"
#include "api/json.h"
#include "base/log.h"
#include "base/strings.h"
#include "server/server_context.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxNameBytes = 256, kMaxPathBytes = 4096;
constexpr std::size_t kMaxBody = std::size_t{64} << 10;

// As in vLLM.
HttpResponse success(const std::string& name, std::string_view what) {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = concat("Success: LoRA adapter '", name, "' ", what, " successfully.");
  return response;
}

// Always a client error (404 or 400), whatever the code: the client chose the file.
HttpResponse refusal(const Status& status) {
  const int http = status.code() == StatusCode::not_found ? 404 : 400;
  return error_response({.status = http,
                         .message = std::string(status.message()),
                         .param = std::string(status.param()),
                         .code = std::string(status.reason())});
}

std::optional<HttpResponse> refuse_any(const ServerContext& server) {
  if (server.api.adapters == nullptr)
    return refusal(invalid_argument("This server was started without --enable-lora."));
  if (server.config.runtime_adapters) return std::nullopt;
  return error_response({.status = 403,
                         .message = "Adapters are those that the server was started with. "
                                    "--allow-runtime-lora-updating permits to load others: the server then "
                                    "reads whatever path a request of an administrator names.",
                         .code = "insufficient_permissions"});
}

struct Order {
  std::string name, path;
  bool replace = false;
};

Result<Order> read_order(const ApiCall& call, bool loads) {
  const Result<boost::json::value> value = parse_json_body(call.body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  Order out;
  out.name = fields.string("lora_name", kMaxNameBytes).value_or("");
  if (loads) {
    out.path = fields.string("lora_path", kMaxPathBytes).value_or("");
    out.replace = fields.boolean("load_inplace").value_or(false);
  }
  if (!fields.ok()) return fields.status();
  if (loads && (out.name.empty() || out.path.empty()))
    return invalid_argument("Both 'lora_name' and 'lora_path' must be provided.");
  if (out.name.empty()) return invalid_argument("'lora_name' needs to be provided to unload a LoRA adapter.");
  return out;
}

class LoadWait final : public EngineWait {
 public:
  explicit LoadWait(std::function<void()> wake) : wake_(std::move(wake)) {}
  void set(HttpResponse response) {
    response_ = std::move(response);
    ready_.store(true, std::memory_order_release);
    wake_();
  }
  bool ready() const override { return ready_.load(std::memory_order_acquire); }
  HttpResponse answer(const ServerContext&) override { return response_; }

 private:
  const std::function<void()> wake_;
  HttpResponse response_;
  std::atomic<bool> ready_{false};
};

HttpResponse load_now(const Order& order, AdapterCatalog& adapters) {
  const Result<AdapterCatalog::Handle> loaded = adapters.load(order.name, order.path, order.replace);
  if (loaded) {
    log_info("adapters", concat("'", order.name, "' is loaded"));
    return success(order.name, "added");
  }
  switch (loaded.error().code()) {
    case StatusCode::already_exists:
      return refusal(invalid_argument(concat("The lora adapter '", order.name,
                                             "' has already been loaded. If you want to load the adapter in "
                                             "place, set 'load_inplace' to True."))
                         .with_param("lora_name"));
    case StatusCode::not_found:
      return refusal(not_found(concat("Loading lora ", order.name, " failed: No adapter found for ",
                                      order.path, ": ", loaded.error().message()))
                         .with_param("lora_path"));
    default:
      return refusal(loaded.error());
  }
}

HttpResponse unload_now(const Order& order, AdapterCatalog& adapters) {
  if (!adapters.unload(order.name).ok())
    return refusal(
        not_found(concat("The lora adapter '", order.name, "' cannot be found.")).with_param("lora_name"));
  log_info("adapters", concat("'", order.name, "' is unloaded"));
  return success(order.name, "removed");
}

// Changes run one after another, in order, so that the last request determines the final state.
Result<std::shared_ptr<EngineWait>> change(const ApiCall& call, ServerContext& server,
                                           std::function<void()> wake, bool loads) {
  auto wait = std::make_shared<LoadWait>(std::move(wake));
  if (std::optional<HttpResponse> refused = refuse_any(server)) {
    wait->set(*std::move(refused));
    return std::shared_ptr<EngineWait>(wait);
  }
  Result<Order> order = read_order(call, loads);
  if (!order) return order.error();
  AdapterCatalog& adapters = *server.api.adapters;
  const bool taken = server.loading.run([wait, loads, &adapters, order = *std::move(order)] {
    wait->set(loads ? load_now(order, adapters) : unload_now(order, adapters));
  });
  if (!taken) return resource_exhausted("Other adapters are being loaded. Try again later.");
  return std::shared_ptr<EngineWait>(wait);
}

Result<std::shared_ptr<EngineWait>> load_adapter(const ApiCall& call, ServerContext& server,
                                                 std::function<void()> wake) {
  return change(call, server, std::move(wake), true);
}
Result<std::shared_ptr<EngineWait>> unload_adapter(const ApiCall& call, ServerContext& server,
                                                   std::function<void()> wake) {
  return change(call, server, std::move(wake), false);
}

constexpr RouteFacts adapter_route(std::string_view path) {
  return {.method = "POST",
          .path = path,
          .role = Role::admin,
          .cost = Cost::text,
          .body = BodyForm::json,
          .max_body_bytes = kMaxBody};
}

constexpr Route kAdapterRoutes[] = {
    {adapter_route("/v1/load_lora_adapter"), load_adapter},
    {adapter_route("/v1/unload_lora_adapter"), unload_adapter},
};

}  // namespace

std::span<const Route> adapter_routes() { return kAdapterRoutes; }

}  // namespace pagoda
