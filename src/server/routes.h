#pragma once
// RouteTable: maps a path and method to a handler and the role that it requires. Routes are rows: the
// server's own (endpoints.h, debug_endpoints.h, prefix_endpoints.h) and those of protocols (api/protocol.h).
// 404, 405, Allow and OPTIONS are derived from the rows. Paths match exactly as sent, without normalisation,
// so that a proxy cannot interpret them differently. Exceptions: an unknown path is looked up with /v1 added,
// removed, or in place of another service's prefix ("/openai/v1", "/api/v1", "/openai/deployments/NAME"),
// and, for routes of role user, without extra slashes. Unknown paths also require a key. Invariant: no two
// rows have the same method and path. Threads: any; immutable.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/protocol.h"
#include "server/http_response.h"

namespace pagoda {

struct ServerContext;

// A pending engine answer. Once ready(), call answer() off the I/O threads.
class EngineWait {
 public:
  virtual ~EngineWait() = default;
  virtual bool ready() const = 0;
  virtual HttpResponse answer(const ServerContext& server) = 0;
  // Time limit of the wait; zero if none.
  virtual std::chrono::milliseconds limit() const { return std::chrono::milliseconds(0); }
};

using ServerHandler = HttpResponse (*)(const ApiCall& call, ServerContext& server);
// Starts a request to the engine. `wake` is called once, from any thread, when the answer is ready.
using WaitHandler = Result<std::shared_ptr<EngineWait>> (*)(const ApiCall& call, ServerContext& server,
                                                            std::function<void()> wake);

// An answer that continues until either side ends it. take() may be called on any thread; the handler's
// `wake` is called when there is more to take.
class EngineStream {
 public:
  virtual ~EngineStream() = default;
  virtual bool take(std::string& out) = 0;  // moves pending text to `out`; false at the end
};
using StreamHandler = Result<std::shared_ptr<EngineStream>> (*)(const ApiCall& call, ServerContext& server,
                                                                std::function<void()> wake);

struct Route {
  RouteFacts facts;
  std::variant<AnswerHandler, GenerationHandler, ServerHandler, WaitHandler, StreamHandler> handler;
  const Protocol* protocol = nullptr;  // for the form of errors; null: the default
};

// `path` without the prefix `root`, which a proxy in front adds, if present: "/m/v1/models" below "/m" is
// "/v1/models".
std::string_view below_root(std::string_view path, std::string_view root);

class RouteTable {
 public:
  explicit RouteTable(std::vector<Route> routes);

  struct Match {
    const Route* route = nullptr;        // null: no such path (404), or wrong method (405)
    std::string_view path = "none";      // for metrics and logs; never client text
    std::string_view allow = {};         // Allow header of the path; empty: no such path
    std::string_view rest = {};          // the part of the path in braces, as sent
    Role role = Role::user;              // required role; others get 404
    const Protocol* protocol = nullptr;  // for the form of errors; null: the default
  };
  Match find(std::string_view method, std::string_view path) const;

  template <class Visit>
  void for_each_path(Visit visit) const {
    for (const Place& place : places_) visit(place.path, place.routes);
  }

 private:
  struct Place {
    std::string_view path, prefix;  // prefix: of a path with braces; else empty
    std::vector<Route> routes;
    std::string allow;
  };
  const Place* place_of(std::string_view path) const;  // null if there is none
  struct Found {
    const Place* place = nullptr;
    std::size_t length = 0;  // length of the matched path
  };
  Found spelled(std::string_view method, std::string_view path) const;
  // The protocol of the route that shares the most leading path components with an unknown path.
  const Protocol* nearest_protocol(std::string_view path) const;

  std::vector<Place> places_;
};

// The routes of the server, of these protocols, and of the page if `page`.
std::vector<Route> all_routes(const std::vector<const Protocol*>& protocols, bool page = true);

}  // namespace pagoda
