#include "server/routes.h"

namespace pagoda {
namespace {

constexpr std::string_view kGet = "GET, HEAD, OPTIONS", kPost = "POST, OPTIONS",
                           kBoth = "GET, HEAD, POST, OPTIONS";

constexpr Route get(Endpoint endpoint, std::string_view path, bool open = false) {
  return {.endpoint = endpoint, .path = path, .get = true, .open = open, .allow = kGet};
}
constexpr Route post(Endpoint endpoint, std::string_view path) {
  return {.endpoint = endpoint, .path = path, .post = true, .allow = kPost};
}

constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr Route kModel = get(Endpoint::model, "/v1/models/{model}");
constexpr std::string_view kDebugPrefix = "/debug/requests/";
constexpr Route kDebugRequest = get(Endpoint::debug_request, "/debug/requests/{id}");
constexpr std::string_view kAdminPrefix = "/admin/prefixes/";
constexpr Route kPrefix = {.endpoint = Endpoint::admin_prefix,
                           .path = "/admin/prefixes/{name}",
                           .del = true,
                           .allow = "DELETE, OPTIONS"};
constexpr Route kNone = {.endpoint = Endpoint::none, .path = "none", .allow = {}};
constexpr Route kRoutes[] = {
    get(Endpoint::health, "/health", /*open=*/true),
    {.endpoint = Endpoint::ping, .path = "/ping", .get = true, .post = true, .allow = kBoth},
    get(Endpoint::version, "/version"),
    get(Endpoint::metrics, "/metrics"),
    get(Endpoint::load, "/load"),
    get(Endpoint::models, "/v1/models"),
    post(Endpoint::completions, "/v1/completions"),
    post(Endpoint::chat_completions, "/v1/chat/completions"),
    post(Endpoint::tokenize, "/tokenize"),
    post(Endpoint::detokenize, "/detokenize"),
    get(Endpoint::debug_kv, "/debug/kv"),
    {.endpoint = Endpoint::admin_prefixes,
     .path = "/admin/prefixes",
     .get = true,
     .post = true,
     .allow = kBoth},
};

}  // namespace

const Route& find_route(std::string_view path, std::string_view& rest) {
  rest = {};
  for (const Route& route : kRoutes)
    if (route.path == path) return route;
  if (path.starts_with(kModelPrefix) && path.size() > kModelPrefix.size()) {
    rest = path.substr(kModelPrefix.size());
    return kModel;
  }
  if (path.starts_with(kDebugPrefix) && path.size() > kDebugPrefix.size()) {
    rest = path.substr(kDebugPrefix.size());
    return kDebugRequest;
  }
  if (path.starts_with(kAdminPrefix) && path.size() > kAdminPrefix.size()) {
    rest = path.substr(kAdminPrefix.size());
    return kPrefix;
  }
  return kNone;
}

}  // namespace pagoda
