#pragma once
// The table of routes: which path is which endpoint, by which methods, and whether it is open without a
// key. Paths match exactly as sent, without normalising, so that nothing can disagree about them;
// whatever does not match needs the key too.
#include <string>
#include <string_view>

namespace pagoda {

enum class Endpoint {
  none,
  health,
  ping,
  version,
  metrics,
  load,
  models,
  model,
  tokenize,
  detokenize,
  completions,
  chat_completions,
  debug_kv,
  debug_request,
  admin_prefixes,
  admin_prefix,
};

struct Route {
  Endpoint endpoint = Endpoint::none;
  std::string_view path;  // for metrics and logs: no client-chosen text
  bool get = false, post = false, del = false;
  bool open = false;       // served without a key
  std::string_view allow;  // value of the Allow header

  bool allows(std::string_view method) const {
    if (method == "GET" || method == "HEAD") return get;
    return method == "POST" ? post : method == "DELETE" && del;
  }
};

// Endpoint::none for a path that is not served. `rest` gets what follows "/v1/models/", "/debug/requests/" or
// "/admin/prefixes/".
const Route& find_route(std::string_view path, std::string_view& rest);

}  // namespace pagoda
