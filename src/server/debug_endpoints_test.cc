#include "server/debug_endpoints.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "api/query.h"
#include "base/metrics.h"
#include "server/http_request.h"
#include "server/server_context.h"

namespace pagoda {
namespace {

// Two samples of one request that share a block, and one that waits.
class StillEngine final : public EngineClient {
 public:
  const EngineLimits& limits() const override { return limits_; }
  Status submit(Request, std::shared_ptr<OutputSink>) override { return unavailable("no"); }
  void abort(RequestId) override {}
  void abort_sequence(RequestId, std::int32_t) override {}
  bool healthy() const override { return true; }
  void snapshot(SnapshotDone done) override {
    if (dead) return done(unavailable("The engine has stopped."));
    EngineSnapshot out;
    out.block_size = 4;
    out.num_blocks = 9;
    out.totals.blocks_copied = 5;
    out.totals.usage.internal_slots = 6;
    RequestSnapshot first;
    first.id = RequestId{7};
    first.state = GroupState::running;
    first.reason = "It is running.";
    for (std::int32_t i = 0; i < 2; ++i) {
      SequenceSnapshot sequence;
      sequence.index = i;
      sequence.state = SequenceState::resident;
      sequence.first_block = static_cast<std::uint32_t>(out.blocks.size());
      sequence.num_blocks = 2;
      out.blocks.insert(out.blocks.end(), {BlockId{3}, BlockId{4 + i}});
      out.ref_counts.insert(out.ref_counts.end(), {2, 1});
      out.sequences.push_back(sequence);
    }
    first.num_sequences = 2;
    RequestSnapshot second;
    second.id = RequestId{9};
    second.reason = "It waits.";
    out.requests = {first, second};
    done(std::make_shared<const EngineSnapshot>(std::move(out)));
  }
  bool dead = false;

 private:
  EngineLimits limits_;
};

HttpResponse ask(std::string_view path, ServerContext& server) {
  const RouteTable::Match match = server.routes.find("GET", path);
  ApiCall call;
  call.parameter = percent_decode(match.rest).value();
  bool woken = false;
  auto wait = std::get<WaitHandler>(match.route->handler)(call, server, [&woken] { woken = true; });
  EXPECT_TRUE(woken && (*wait)->ready());
  return (*wait)->answer(server);
}

TEST(DebugEndpoints, TellWhoSharesWhatAndWhyARequestWaits) {
  StillEngine engine;
  ApiContext api;
  MetricsRegistry metrics;
  ServerContext server(ServerConfig{}, true, engine, api, metrics);
  const LiveCalls::Entry first(server.live_calls, "cmpl-a", 7, 2),
      second(server.live_calls, "chatcmpl-b", 9, 1);
  EXPECT_EQ(server.live_calls.name_of(8), "cmpl-a");
  EXPECT_EQ(server.live_calls.name_of(6), "");
  EXPECT_EQ(server.live_calls.name_of(10), "");

  const auto body = boost::json::parse(ask("/debug/kv", server).body);
  EXPECT_EQ(body.at("num_blocks").as_int64(), 9);
  EXPECT_EQ(body.at("totals").at("blocks_copied").as_int64(), 5);
  EXPECT_EQ(body.at("totals").at("slots").at("internal_fragmentation").as_int64(), 6);
  const auto& sequence = body.at("requests").at(0).at("sequences").at(1);
  EXPECT_EQ(sequence.at("blocks").as_array(), boost::json::array({3, 5}));
  EXPECT_EQ(sequence.at("ref_counts").as_array(), boost::json::array({2, 1}));
  EXPECT_EQ(sequence.at("shares_blocks_with").as_array(), boost::json::array({"7/0"}));

  for (const char* path :
       {"/debug/requests/chatcmpl-b", "/debug/requests/9", "/debug/requests/chatcmpl%2Db"}) {
    const HttpResponse response = ask(path, server);
    EXPECT_EQ(response.status, 200) << path;
    const auto found = boost::json::parse(response.body);
    EXPECT_EQ(found.at("requests").as_array().size(), 1u);
    EXPECT_EQ(found.at("requests").at(0).at("reason").as_string(), "It waits.");
    EXPECT_EQ(found.at("requests").at(0).at("id").as_string(), "chatcmpl-b");
  }
  EXPECT_EQ(ask("/debug/requests/x", server).status, 404);
  EXPECT_EQ(server.routes.find("GET", "/debug/requests/x").role, Role::admin);
  engine.dead = true;
  EXPECT_EQ(ask("/debug/kv", server).status, 503);
}

// The first engine has the two requests, and the second nobody's.
class TwoEngines final : public EngineClient {
 public:
  const EngineLimits& limits() const override { return engines_[0].limits(); }
  Status submit(Request, std::shared_ptr<OutputSink>) override { return unavailable("no"); }
  void abort(RequestId) override {}
  void abort_sequence(RequestId, std::int32_t) override {}
  bool healthy() const override { return true; }
  std::size_t num_engines() const override { return 2; }
  StillEngine& engine(std::size_t rank) override { return engines_[rank]; }

 private:
  StillEngine engines_[2];
};

TEST(DebugEndpoints, TellOfEveryEngine) {
  TwoEngines engine;
  ApiContext api;
  MetricsRegistry metrics;
  ServerContext server(ServerConfig{}, true, engine, api, metrics);
  EXPECT_EQ(boost::json::parse(ask("/debug/kv", server).body).at("engines").as_array().size(), 2U);
  engine.engine(0).dead = true;
  const auto left = boost::json::parse(ask("/debug/kv", server).body);
  EXPECT_EQ(left.at("engines").at(0).at("error").as_string(), "The engine has stopped.");
  EXPECT_EQ(left.at("engines").at(1).at("num_blocks").as_int64(), 9);
  EXPECT_EQ(ask("/debug/requests/9", server).status, 200) << "the living are asked";
  engine.engine(1).dead = true;
  EXPECT_EQ(ask("/debug/kv", server).status, 503);
}

}  // namespace
}  // namespace pagoda
