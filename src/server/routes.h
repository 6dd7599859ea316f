#pragma once
// RouteTable: which path is served, by which methods, for whom and by whose handler. Routes are rows: the
// server's own (endpoints.h, debug_endpoints.h, prefix_endpoints.h) and those of protocols (api/protocol.h);
// 404, 405, Allow and OPTIONS follow from them. Paths match exactly as sent, without normalising, so that
// nothing can disagree about them, but for one thing: a path that is not known is looked up with /v1 before
// it, or without, or with /v1 in place of another service's prefix ("/openai/v1", "/api/v1", "/api/v0"). What
// does not match needs a key too. Invariant: no two rows have the
// same method and path. Threads: any; fixed once made.
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

// Something that the engine has been asked for and will bring. answer() once ready(), off the I/O threads.
class EngineWait {
 public:
  virtual ~EngineWait() = default;
  virtual bool ready() const = 0;
  virtual HttpResponse answer(const ServerContext& server) = 0;
  // How long it may take; zero: as long as it does.
  virtual std::chrono::milliseconds limit() const { return std::chrono::milliseconds(0); }
};

using ServerHandler = HttpResponse (*)(const ApiCall& call, ServerContext& server);
// Asks the engine. `wake` is called once, from any thread, when it is ready.
using WaitHandler = Result<std::shared_ptr<EngineWait>> (*)(const ApiCall& call, ServerContext& server,
                                                            std::function<void()> wake);

// An answer that goes on until either side ends it. take() off no particular thread; `wake` when it has more.
class EngineStream {
 public:
  virtual ~EngineStream() = default;
  virtual bool take(std::string& out) = 0;  // moves what there is into `out`; false: that was the end
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
    std::string_view path = "none";      // for metrics and logs: no text of the client's
    std::string_view allow = {};         // the Allow header of the path; empty: no such path
    std::string_view rest = {};          // the path's part in braces, as sent
    Role role = Role::user;              // others are told that there is no such route
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
  // A path that is not there is answered in the form of the route that shares most of its folders.
  const Protocol* nearest_protocol(std::string_view path) const;

  std::vector<Place> places_;
};

// The rows of the server and of these protocols; the page's too, unless it is off.
std::vector<Route> all_routes(const std::vector<const Protocol*>& protocols, bool page = true);

}  // namespace pagoda
