#include "server/routes.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"
#include "server/adapter_endpoints.h"
#include "server/control_endpoints.h"
#include "server/debug_endpoints.h"
#include "server/endpoints.h"
#include "server/info_endpoints.h"
#include "server/live_endpoints.h"
#include "server/page_endpoints.h"
#include "server/prefix_endpoints.h"

namespace pagoda {
namespace {

constexpr std::string_view kMethods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};

bool takes(const Route& route, std::string_view method) {
  return route.facts.method == method || (method == "HEAD" && route.facts.method == "GET");
}

bool serves(const std::vector<Route>& routes, std::string_view method) {
  return method == "OPTIONS" ||
         std::ranges::any_of(routes, [method](const Route& route) { return takes(route, method); });
}

std::string allow_of(const std::vector<Route>& routes) {
  std::string allow;
  for (const std::string_view method : kMethods) {
    const bool served =
        std::ranges::any_of(routes, [method](const Route& route) { return route.facts.method == method; });
    if (!served) continue;
    allow.append(method).append(method == "GET" ? ", HEAD, " : ", ");
  }
  return allow.append("OPTIONS");
}

constexpr std::string_view kVersion = "/v1";

// Clients disagree on whether the base URL ends in /v1: returns the path without /v1, or with it if it had
// none.
std::string other_spelling(std::string_view path) {
  if (path.size() < 2 || path.front() != '/') return {};
  const bool has_version = path.starts_with("/v1/") && path.size() > kVersion.size() + 1;
  return has_version ? std::string(path.substr(kVersion.size())) : concat(kVersion, path);
}

// Removes the prefixes that other services put before the same paths: Groq, OpenRouter, LM Studio, Azure.
std::string without_prefix(std::string_view path) {
  constexpr std::string_view kAzure = "/openai/deployments/";  // a model's name follows
  if (path.starts_with(kAzure)) {
    const std::size_t end = path.find('/', kAzure.size());
    return end == std::string_view::npos ? std::string() : concat(kVersion, path.substr(end));
  }
  for (const std::string_view prefix : {"/openai/v1", "/api/v1", "/api/v0"})
    if (path.starts_with(prefix) && path.substr(prefix.size()).starts_with('/'))
      return concat(kVersion, path.substr(prefix.size()));
  return {};
}

std::string_view without_last_slashes(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

// Removes duplicate and trailing slashes, from base URLs and clients that add one: "//v1/completions/".
std::string without_spare_slashes(std::string_view path) {
  std::string out;
  for (const char c : without_last_slashes(path))
    if (c != '/' || !out.ends_with('/')) out.push_back(c);
  return out;
}

}  // namespace

RouteTable::RouteTable(std::vector<Route> routes) {
  for (Route& route : routes) {
    const std::string_view path = route.facts.path;
    CHECK(std::ranges::find(kMethods, route.facts.method) != std::end(kMethods));
    auto place = std::ranges::find(places_, path, &Place::path);
    if (place == places_.end()) {
      const std::string_view prefix = path.ends_with('}') ? path.substr(0, path.rfind('{')) : "";
      place = places_.insert(places_.end(), {.path = path, .prefix = prefix, .routes = {}, .allow = {}});
    }
    for (const Route& other : place->routes) CHECK(other.facts.method != route.facts.method);
    place->routes.push_back(std::move(route));
  }
  for (Place& place : places_) place.allow = allow_of(place.routes);
}

const RouteTable::Place* RouteTable::place_of(std::string_view path) const {
  const auto with_braces = [path](const Place& place) {
    return !place.prefix.empty() && path.starts_with(place.prefix) && path.size() > place.prefix.size();
  };
  auto place = std::ranges::find_if(
      places_, [path](const Place& known) { return known.prefix.empty() && known.path == path; });
  if (place == places_.end()) place = std::ranges::find_if(places_, with_braces);
  return place == places_.end() ? nullptr : &*place;
}

const Protocol* RouteTable::nearest_protocol(std::string_view path) const {
  const Protocol* nearest = nullptr;
  std::size_t most = 0;
  for (const Place& place : places_) {
    const auto end = std::ranges::mismatch(path, place.path).in1;
    const std::size_t folder = path.substr(0, static_cast<std::size_t>(end - path.begin())).rfind('/');
    const Protocol* const protocol = place.routes.front().protocol;
    if (folder == std::string_view::npos || folder <= most || protocol == nullptr) continue;
    most = folder;
    nearest = protocol;
  }
  return nearest;
}

RouteTable::Found RouteTable::spelled(std::string_view method, std::string_view path) const {
  if (const Place* place = place_of(path)) return {.place = place, .length = path.size()};
  const std::string other = other_spelling(path);
  if (const Place* place = place_of(other)) return {.place = place, .length = other.size()};
  const std::string bare = without_prefix(path);
  const Place* place = place_of(bare);
  if (place != nullptr && !serves(place->routes, method)) place = nullptr;  // a method of that service only
  return {.place = place, .length = bare.size()};
}

RouteTable::Match RouteTable::find(std::string_view method, std::string_view path) const {
  auto [place, length] = spelled(method, path);
  if (place == nullptr) {
    const Found tidied = spelled(method, without_spare_slashes(path));
    // Not for routes of other roles: a proxy may protect them by their exact paths.
    if (tidied.place != nullptr && tidied.place->routes.front().facts.role == Role::user) {
      place = tidied.place;
      length = tidied.length;
      path = without_last_slashes(path);
    }
  }
  Match match;
  if (place == nullptr) {
    match.protocol = nearest_protocol(path);
    return match;
  }
  match.path = place->path;
  match.allow = place->allow;
  const std::size_t rest = place->prefix.empty() ? 0 : length - place->prefix.size();
  match.rest = path.substr(path.size() - rest);
  match.role = place->routes.front().facts.role;
  match.protocol = place->routes.front().protocol;
  for (const Route& route : place->routes) {
    if (!takes(route, method)) continue;
    match.route = &route;
    match.role = route.facts.role;
  }
  return match;
}

std::vector<Route> all_routes(const std::vector<const Protocol*>& protocols, bool page) {
  std::vector<Route> routes = page ? page_routes() : std::vector<Route>();
  for (const std::span<const Route> rows : {small_routes(), debug_routes(), live_routes(), prefix_routes(),
                                            control_routes(), adapter_routes(), info_routes()})
    routes.insert(routes.end(), rows.begin(), rows.end());
  for (const Protocol* protocol : protocols) {
    for (const ApiRoute& row : protocol->routes) {
      Route route{.facts = row.facts, .handler = AnswerHandler{}, .protocol = protocol};
      std::visit([&route](auto handler) { route.handler = handler; }, row.handler);
      routes.push_back(route);
    }
  }
  return routes;
}

std::string_view below_root(std::string_view path, std::string_view root) {
  if (root.empty() || !path.starts_with(root)) return path;
  const std::string_view rest = path.substr(root.size());
  return rest.empty() ? "/" : rest.front() == '/' ? rest : path;
}

}  // namespace pagoda
