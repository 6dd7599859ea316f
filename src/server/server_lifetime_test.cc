// The server over loopback: calls that clients leave or do not read, draining, an engine that dies.
#include <gtest/gtest.h>

#include "engine/engine_group.h"
#include "server/running_server.h"

namespace pagoda {
namespace {

using std::chrono::milliseconds;

TEST(ServerLifetime, ADeadEngineTurnsHealthRedAndEndsCalls) {
  RunningServer running;
  running.engine.fault = unavailable("Xid 79: the GPU has fallen off the bus");
  running.engine.is_healthy = false;
  TestClient client(running.port());
  const TestResponse red = client.get("/health");
  EXPECT_EQ(red.status, 503);
  EXPECT_NE(red.body.find("The engine has stopped: Xid 79: the GPU has fallen"), std::string::npos)
      << red.body;
  EXPECT_EQ(client.post("/v1/completions", kPrompt).status, 503);
}

TEST(ServerLifetime, ADeadEngineEndsTheServer) {
  ServerConfig config;
  config.dead_engine_grace = milliseconds(1);
  RunningServer running(config);
  EXPECT_TRUE(running.ended.ok());
  running.engine.is_healthy = false;
  running.join();
  EXPECT_EQ(running.ended.code(), StatusCode::unavailable);
}

TEST(ServerLifetime, OneDeadEngineOfTwoTurnsHealthRedAndTheOtherServes) {
  FakeEngine engines[2];
  EngineGroup group({&engines[0], &engines[1]}, RouterKind::prefix_aware, 0);
  RunningServer running({}, &group);
  TestClient client(running.port());
  EXPECT_EQ(client.get("/health").status, 200);
  engines[0].fault = unavailable("its GPU is lost");
  engines[0].is_healthy = false;
  const TestResponse red = client.get("/health");
  EXPECT_EQ(red.status, 503);
  EXPECT_NE(red.body.find("Engine 0 of 2 has stopped; the others continue. It says: its GPU is lost"),
            std::string::npos)
      << red.body;
  EXPECT_EQ(client.get("/ping").status, 200);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(client.post("/v1/completions", kPrompt).status, 200);
  engines[1].hold(true);
  TestClient named(running.port());
  named.send_post("/v1/completions", kPrompt, "X-Data-Parallel-Rank: 1\r\n");
  EXPECT_TRUE(eventually([&] { return engines[1].num_running() == 1; }));
  engines[1].hold(false);
  EXPECT_EQ(named.read_response().status, 200);
  EXPECT_EQ(client.post("/v1/completions", kPrompt, "X-Data-Parallel-Rank: 2\r\n").status, 400);
  engines[1].is_healthy = false;
  EXPECT_EQ(client.get("/ping").status, 503);
}

TEST(ServerLifetime, AClientThatHangsUpWhileStreamingFreesItsRequest) {
  RunningServer running;
  running.engine.pause_ms = 1;
  for (int i = 0; i < 10; ++i) {
    TestClient client(running.port());
    client.send_post("/v1/completions", kLongStream);
    ASSERT_TRUE(client.wait_for("data: "));
    client.close();
    EXPECT_TRUE(eventually([&] { return running.engine.num_running() == 0; }, milliseconds(2000)));
  }
  EXPECT_EQ(running.engine.num_aborted, 10);
}

// It has said all that it has to say, and still wants its answer.
TEST(ServerLifetime, AClientThatEndsItsSideGetsItsAnswer) {
  RunningServer running;
  for (const std::string_view body : {kPrompt, kStream}) {
    TestClient client(running.port());
    client.send_post("/v1/completions", body);
    client.finish_sending();
    EXPECT_EQ(client.read_response().status, 200);
    EXPECT_TRUE(client.closed_by_peer());
  }
  running.engine.pause_ms = 1;
  TestClient patient(running.port());
  patient.send_post("/v1/completions", R"({"prompt":"abc","add_special_tokens":false,"max_tokens":300})");
  patient.finish_sending();
  ASSERT_TRUE(patient.wait_for("\"total_tokens\":303"));
  // Asked once whether it is still there.
  EXPECT_TRUE(patient.pending().starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(running.engine.num_aborted, 0);
}

TEST(ServerLifetime, AClientThatHangsUpWhileWaitingFreesItsRequest) {
  RunningServer running;
  running.engine.pause_ms = 1;
  TestClient client(running.port());
  client.send_post("/v1/completions", kLong);
  ASSERT_TRUE(eventually([&] { return running.engine.num_running() == 1; }));
  client.close();
  EXPECT_TRUE(eventually([&] { return running.engine.num_running() == 0; }, milliseconds(2000)));
}

TEST(ServerLifetime, AReaderThatTakesNothingIsCutOffAndHoldsNothingUp) {
  ServerConfig config;
  config.write_timeout = milliseconds(200);
  RunningServer running(config);
  TestClient slow(running.port());
  const std::string big =
      R"({"prompt":"abc","add_special_tokens":false,"max_tokens":4000,"n":100,"stream":true,"logprobs":0})";
  slow.send_post("/v1/completions", big);
  ASSERT_TRUE(eventually([&] { return running.engine.num_running() == 1; }));
  TestClient other(running.port());
  EXPECT_EQ(text_of(other.post("/v1/completions", kPrompt)), "bcab");
  EXPECT_TRUE(eventually([&] { return running.metrics.gauge("http_connections", "").value() == 1; },
                         milliseconds(20'000)))
      << "the stalled connection is still open";
}

TEST(ServerLifetime, AReaderThatTakesALittleAtATimeGetsItsWholeAnswer) {
  ServerConfig config;
  config.write_timeout = milliseconds(1500);
  RunningServer running(config);
  TestClient slow(running.port(), /*receive_buffer=*/16 << 10);
  slow.send_post("/v1/completions",
                 R"({"prompt":"abc","add_special_tokens":false,"max_tokens":4000,"n":100,"logprobs":0})");
  ASSERT_TRUE(slow.receive(20'000, 1024));
  // For several times the limit, at some hundred kB a second; then the rest at once.
  for (int i = 0; i < 80; ++i) {
    ASSERT_TRUE(slow.receive(1000, 16 << 10)) << i;
    std::this_thread::sleep_for(milliseconds(50));
  }
  const TestResponse response = slow.read_response();
  EXPECT_EQ(response.status, 200);
  EXPECT_GT(response.body.size(), 8'000'000u);
  EXPECT_TRUE(response.body.ends_with("}}}")) << "usage closes it";
}

TEST(ServerLifetime, StopStringsEndTheEnginesWork) {
  RunningServer running;
  running.engine.pause_ms = 1;
  TestClient client(running.port());
  const TestResponse response = client.post(
      "/v1/completions", R"({"prompt":"abcd","add_special_tokens":false,"max_tokens":4000,"stop":"da"})");
  EXPECT_EQ(text_of(response), "bc");
  EXPECT_TRUE(eventually([&] { return running.engine.num_running() == 0; }, milliseconds(1000)));
}

TEST(ServerLifetime, DrainLetsRunningRequestsFinish) {
  RunningServer running;
  running.engine.pause_ms = 1;
  TestClient client(running.port());
  const std::string body = R"({"prompt":"abc","add_special_tokens":false,"max_tokens":300,"stream":true})";
  TestClient kept(running.port());
  EXPECT_EQ(kept.get("/health").status, 200);
  client.send_post("/v1/completions", body);
  ASSERT_TRUE(client.wait_for("data: "));
  running.server->stop();
  ASSERT_TRUE(eventually([&] { return TestClient(running.port()).get("/health").status == 503; }));
  const TestResponse refused = kept.post("/v1/completions", kPrompt);
  EXPECT_EQ(refused.status, 503);
  TestClient fresh(running.port());
  EXPECT_EQ(fresh.post("/v1/completions", kPrompt).status, 503);
  EXPECT_TRUE(fresh.closed_by_peer());
  EXPECT_TRUE(client.read_response().body.ends_with("data: [DONE]\n\n"));
  running.join();
  EXPECT_FALSE(TestClient(running.port()).connected());
}

TEST(ServerLifetime, DrainEndsWhatTakesTooLongWithAnErrorEvent) {
  ServerConfig config;
  config.shutdown_timeout = milliseconds(50);
  RunningServer running(config);
  running.engine.pause_ms = 1;
  TestClient stream(running.port()), whole(running.port());
  for (auto& [client, body] : {std::pair{&stream, kLongStream}, std::pair{&whole, kLong}})
    client->send_post("/v1/completions", body);
  ASSERT_TRUE(stream.wait_for("data: "));
  ASSERT_TRUE(eventually([&] { return running.engine.num_running() == 2; }));
  running.server->stop();
  const TestResponse streamed = stream.read_response();
  EXPECT_NE(streamed.body.find("\"error\""), std::string::npos);
  EXPECT_TRUE(streamed.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(whole.read_response().status, 503);
  running.join();
  EXPECT_EQ(running.engine.num_aborted, 2);
}

TEST(ServerLifetime, ManyStreamsOfWhichAThirdHangsUpLoseNothing) {
  ServerConfig config;
  config.io_threads = 2;
  RunningServer running(config);
  running.engine.pause_ms = 1;
  const std::string body = R"({"prompt":"abcdefg","add_special_tokens":false,"max_tokens":60,"stream":true})";
  std::vector<std::thread> threads;
  std::atomic<int> complete{0};
  for (int t = 0; t < 60; ++t) {
    threads.emplace_back([&, t] {
      TestClient client(running.port());
      client.send_post("/v1/completions", body);
      if (t % 3 == 0) {
        client.wait_for("data: ");
        return;
      }
      const TestResponse response = client.read_response();
      if (response.status == 200 && response.body.ends_with("data: [DONE]\n\n")) ++complete;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(complete, 40);
  EXPECT_TRUE(eventually([&] { return running.engine.num_running() == 0; }));
  EXPECT_TRUE(eventually([&] { return running.metrics.gauge("http_connections", "").value() == 0; }));
}

TEST(ServerLifetime, APortInUseIsToldInOneLine) {
  RunningServer running;
  TestModel model;
  ServerConfig config;
  config.port = running.port();
  MetricsRegistry metrics;
  const auto second = Server::create(config, running.engine, model.context, metrics);
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message().find("in use"), std::string::npos);
  // The same, said without an engine; and not of a port that is free.
  const Status early = Server::check(config);
  EXPECT_EQ(early.message(), second.error().message());
  config.port = 0;
  EXPECT_TRUE(Server::check(config).ok());
}

}  // namespace
}  // namespace pagoda
