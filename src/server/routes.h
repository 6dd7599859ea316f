#pragma once
// RouteTable: maps a path and method to a handler and the role that it requires. Routes are rows: the
// server's own (endpoints.h, debug_endpoints.h, prefix_endpoints.h) and those of protocols (api/protocol.h).
// 404, 405, Allow and OPTIONS follow from them. Paths match exactly as sent, without normalisation, so that
// two readers cannot disagree about them. The exceptions: an unknown path is looked up with /v1 added,
// removed, or in place of another service's prefix ("/openai/v1", "/api/v1", "/openai/deployments/NAME"), and
// where the role user suffices also without spare slashes. Unknown paths need a key, too. Invariant: no two
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

// A pending answer of the engine. Call answer() once ready(), off the I/O threads.
class EngineWait {
 public:
  virtual ~EngineWait() = default;
  virtual bool ready() const = 0;
  virtual HttpResponse answer(const ServerContext& server) = 0;
  // Time limit; zero: none.
  virtual std::chrono::milliseconds limit() const { return std::chrono::milliseconds(0); }
};

using ServerHandler = HttpResponse (*)(const ApiCall& call, ServerContext& server);
// Asks the engine. `wake` is called once, from any thread, when it is ready.
using WaitHandler = Result<std::shared_ptr<EngineWait>> (*)(const ApiCall& call, ServerContext& server,
                                                            std::function<void()> wake);

// An answer that continues until either side ends it. take(): any thread; calls `wake` when it has more.
class EngineStream {
 public:
  virtual ~EngineStream() = default;
  virtual bool take(std::string& out) = 0;  // moves pending text into `out`; false: the end
};
using StreamHandler = Result<std::shared_ptr<EngineStream>> (*)(const ApiCall& call, ServerContext& server,
                                                                std::function<void()> wake);

struct Route {
  RouteFacts facts;
  std::variant<AnswerHandler, GenerationHandler, ServerHandler, WaitHandler, StreamHandler> handler;
  const Protocol* protocol = nullptr;  // whose errors it answers with; null: the default one's
};

// `path` without the root that a proxy in front adds, where it begins with it: "/m/v1/models" below "/m" is
// "/v1/models".
std::string_view below_root(std::string_view path, std::string_view root);

class RouteTable {
 public:
  explicit RouteTable(std::vector<Route> routes);

  struct Match {
    const Route* route = nullptr;        // null: no such path (404), or not with this method (405)
    std::string_view path = "none";      // for metrics and logs: never the client's text
    std::string_view allow = {};         // the Allow header of the path; empty: no such path
    std::string_view rest = {};          // the path's part in braces, as sent
    Role role = Role::user;              // others get 404
    const Protocol* protocol = nullptr;  // whose errors are answered with; null: the default one's
  };
  Match find(std::string_view method, std::string_view path) const;

  template <class Visit>
  void for_each_path(Visit visit) const {
    for (const Place& place : places_) visit(place.path, place.routes);
  }

 private:
  struct Place {
    std::string_view path, prefix;  // the prefix of a path with braces; else empty
    std::vector<Route> routes;
    std::string allow;
  };
  const Place* place_of(std::string_view path) const;  // null: no such path
  struct Found {
    const Place* place = nullptr;
    std::size_t length = 0;  // length of the path that was found
  };
  Found spelled(std::string_view method, std::string_view path) const;
  // An unknown path is answered in the protocol of the route with the longest common prefix of folders.
  const Protocol* nearest_protocol(std::string_view path) const;

  std::vector<Place> places_;
};

// The routes of the server, of these protocols, and of the page unless it is off.
std::vector<Route> all_routes(const std::vector<const Protocol*>& protocols, bool page = true);

}  // namespace pagoda
