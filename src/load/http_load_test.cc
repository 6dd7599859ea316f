// Goal: the generator times good answers rightly and survives every kind of bad server: each request ends,
// with its reason, within the limits.
#include "load/http_load.h"

#include <gtest/gtest.h>

#include <set>

#include "load/fake_server.h"
#include "load/request_body.h"
#include "load/workload_spec.h"

namespace pagoda {
namespace {

using namespace std::chrono_literals;
using Call = FakeServer::Call;
using Bool = boost::asio::awaitable<bool>;

LoadOptions options_for(const FakeServer& server) {
  LoadOptions options;
  options.server = {"127.0.0.1", std::to_string(server.port()), ""};
  options.connect_timeout = 2000ms;
  options.read_timeout = 300ms;
  options.texts = AnswerReader::Texts::keep;
  options.body = [](const WorkloadRequest& request, std::uint64_t index) {
    BodyOptions body;
    body.model = "m";
    return write_body(request, index, body);
  };
  return options;
}

LoadResult run(const LoadOptions& options, const std::string& spec) {
  auto workload = open_workload(std::string_view(spec));
  EXPECT_TRUE(workload) << workload.error().message();
  auto result = run_load(**workload, options);
  EXPECT_TRUE(result) << result.error().message();
  return result ? std::move(*result) : LoadResult{};
}

RequestOutcome run_single(const FakeServer& server) {
  LoadResult result = run(options_for(server), "fixed:input=7,output=3,requests=1");
  EXPECT_EQ(result.outcomes.size(), 1u);
  return result.outcomes.empty() ? RequestOutcome{} : result.outcomes[0];
}

std::string token(int completion_tokens) {
  return FakeServer::event(concat(R"({"choices":[{"index":0,"text":"a\n","finish_reason":null}],"usage":)",
                                  R"({"prompt_tokens":7,"completion_tokens":)", completion_tokens, "}}"));
}

// Three tokens, 30 ms apart, the last two in one chunk.
Bool good_answer(Call& call) {
  co_await call.send(FakeServer::kStreamHead);
  co_await call.sleep(30ms);
  co_await call.send(token(1));
  co_await call.sleep(30ms);
  std::string rest = token(3);
  rest += FakeServer::event(R"({"choices":[{"index":0,"text":"","finish_reason":"length"}],"usage":null})");
  rest += FakeServer::event(R"({"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":3}})");
  rest += FakeServer::event("[DONE]") + "0\r\n\r\n";
  co_return co_await call.send(rest);
}

TEST(HttpLoad, TimesAStream) {
  FakeServer server(good_answer);
  // A first chunk that is read late shortens the gap behind it: then another look.
  const auto came_late = [](const RequestOutcome& seen) {
    return seen.ttft_s > 0.0302 && !seen.itl_s.empty() && seen.itl_s[0] < 0.0149f;
  };
  RequestOutcome outcome = run_single(server);
  for (int look = 0; look < 10 && came_late(outcome); ++look) outcome = run_single(server);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.prompt_tokens, 8);
  EXPECT_EQ(outcome.output_tokens, 3);
  EXPECT_EQ(outcome.text, "a\na\n");
  EXPECT_GE(outcome.ttft_s, 0.03);
  EXPECT_LT(outcome.ttft_s, 0.25);
  ASSERT_EQ(outcome.itl_s.size(), 2u);  // the chunk of two tokens is two gaps of half its wait
  EXPECT_EQ(outcome.itl_s[0], outcome.itl_s[1]);
  EXPECT_GE(outcome.itl_s[0], 0.0149f);
  EXPECT_GE(outcome.e2e_s, 0.0598);  // both waits of the script, 30 ms each
  EXPECT_NEAR(outcome.e2e_s, outcome.ttft_s + 2 * double(outcome.itl_s[0]), 1e-4);
}

TEST(HttpLoad, ReusesConnections) {
  FakeServer server(good_answer);
  LoadOptions options = options_for(server);
  options.max_concurrency = 3;
  const LoadResult result = run(options, "fixed:requests=12,input=5,output=3");
  for (const RequestOutcome& outcome : result.outcomes) EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(server.num_requests(), 12);
  EXPECT_EQ(server.num_connections(), 3);
  EXPECT_EQ(result.max_running, 3);
  EXPECT_EQ(server.max_open(), 3);
}

TEST(HttpLoad, AKeptConnectionThatIsGoneCostsNoRequest) {
  FakeServer server([](Call& call) -> Bool {
    const std::string head =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n";
    co_await call.send(head + R"({"choices":[{"text":1}]})");
    co_return false;  // hangs up, although it promised to keep the connection
  });
  LoadOptions options = options_for(server);
  options.max_concurrency = 1;
  const LoadResult result = run(options, "fixed:requests=5");
  for (const RequestOutcome& outcome : result.outcomes) EXPECT_EQ(outcome.error, "no token was received");
  EXPECT_EQ(server.num_requests(), 5);
}

TEST(HttpLoad, OpenLoopSendsOnTime) {
  FakeServer server(good_answer);
  const LoadResult result = run(options_for(server), "fixed:requests=20,rate=100,burstiness=inf");
  ASSERT_EQ(result.outcomes.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(result.outcomes[i].error, "");
    EXPECT_GE(result.outcomes[i].start_s, 0.01 * double(i + 1) - 1e-6);
    EXPECT_LT(result.outcomes[i].start_s, 0.01 * double(i + 1) + 0.2);
  }
  EXPECT_GT(result.max_running, 3);  // 60 ms each at 100 a second: not one after the other
}

TEST(HttpLoad, CountsAnErrorWithTheServersMessage) {
  FakeServer server([](Call& call) -> Bool {
    co_return co_await call.send(FakeServer::answer(
        "429 Too Many Requests", R"({"error":{"message":"the queue\nis full","code":429}})"));
  });
  EXPECT_EQ(run_single(server).error, "HTTP 429: the queue is full");
}

TEST(HttpLoad, AnAnswerThatIsNotStreamedCounts) {
  FakeServer server([](Call& call) -> Bool {
    co_return co_await call.send(FakeServer::answer(
        "200 OK", R"({"choices":[{"text":"abc"}],"usage":{"prompt_tokens":7,"completion_tokens":3}})"));
  });
  const RequestOutcome outcome = run_single(server);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.output_tokens, 3);
  EXPECT_EQ(outcome.text, "abc");
  EXPECT_EQ(outcome.ttft_s, outcome.e2e_s);
}

TEST(HttpLoad, AServerThatSaysNothingTimesOut) {
  FakeServer server([](Call& call) -> Bool {
    co_await call.sleep(3s);
    co_return false;
  });
  const LoadResult result = run(options_for(server), "fixed:requests=5");
  for (const RequestOutcome& outcome : result.outcomes)
    EXPECT_EQ(outcome.error, "timed out: not a byte for 0.3 s");
  EXPECT_LT(result.duration_s, 1.5);
}

TEST(HttpLoad, AServerThatStopsInTheMidstTimesOut) {
  FakeServer server([](Call& call) -> Bool {
    co_await call.send(FakeServer::kStreamHead + token(1) + token(2));
    co_await call.sleep(3s);
    co_return false;
  });
  EXPECT_EQ(run_single(server).error, "timed out: not a byte for 0.3 s, after 2 chunks");
}

TEST(HttpLoad, ASlowStreamIsBoundedAsAWhole) {
  FakeServer server([](Call& call) -> Bool {
    co_await call.send(FakeServer::kStreamHead);
    for (int i = 1; i < 100; ++i) {
      if (!co_await call.send(token(i))) co_return false;
      co_await call.sleep(50ms);
    }
    co_return false;
  });
  LoadOptions options = options_for(server);
  options.total_timeout = 400ms;
  const LoadResult result = run(options, "fixed:requests=1");
  EXPECT_TRUE(result.outcomes[0].error.starts_with("timed out: no end after 0.4 s, after "));
  EXPECT_LT(result.duration_s, 2);
}

TEST(HttpLoad, AServerThatHangsUpFailsTheRequest) {
  FakeServer early([](Call&) -> Bool { co_return false; });
  EXPECT_EQ(run_single(early).error, "the server hung up without an answer");
  FakeServer late([](Call& call) -> Bool {
    co_await call.send(FakeServer::kStreamHead + token(1));
    co_return false;
  });
  EXPECT_EQ(run_single(late).error, "the server hung up in the midst of the answer, after 1 chunks");
  FakeServer clean([](Call& call) -> Bool {
    co_return co_await call.send(FakeServer::kStreamHead + token(1) + "0\r\n\r\n");
  });
  EXPECT_EQ(run_single(clean).error, "the stream ended without [DONE], after 1 chunks");
}

TEST(HttpLoad, GarbageFailsTheRequest) {
  FakeServer binary([](Call& call) -> Bool { co_return co_await call.send(std::string(5000, '\x01')); });
  EXPECT_TRUE(run_single(binary).error.starts_with("the answer is not HTTP")) << run_single(binary).error;
  FakeServer chunk([](Call& call) -> Bool {
    co_return co_await call.send(FakeServer::kStreamHead + FakeServer::event("{\"choices\":[{]}"));
  });
  EXPECT_TRUE(run_single(chunk).error.starts_with("malformed chunk: {")) << run_single(chunk).error;
  FakeServer inside([](Call& call) -> Bool {
    co_return co_await call.send(FakeServer::kStreamHead + token(1) +
                                 FakeServer::event(R"({"error":{"message":"engine died"}})"));
  });
  EXPECT_EQ(run_single(inside).error, "error in the stream: engine died");
}

TEST(HttpLoad, DoneEndsTheRequestEvenIfTheMessageDoesNot) {
  FakeServer server([](Call& call) -> Bool {
    co_await call.send(FakeServer::kStreamHead + token(1) + FakeServer::event("[DONE]"));
    co_await call.sleep(3s);
    co_return false;
  });
  const RequestOutcome outcome = run_single(server);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.output_tokens, 1);
}

TEST(HttpLoad, NobodyListening) {
  std::uint16_t port = 0;
  {
    FakeServer server(good_answer);
    port = server.port();
  }
  FakeServer other(good_answer);
  LoadOptions options = options_for(other);
  options.server.port = std::to_string(port);
  const LoadResult result = run(options, "fixed:requests=3");
  for (const RequestOutcome& outcome : result.outcomes)
    EXPECT_EQ(outcome.error, "cannot connect: Connection refused");
}

TEST(HttpLoad, AMalformedWorkloadEndsTheRun) {
  FakeServer server(good_answer);
  struct Broken final : Workload {
    Result<std::optional<WorkloadRequest>> next() override { return corrupt_data("t:1: bad"); }
  } broken;
  const auto result = run_load(broken, options_for(server));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message(), "t:1: bad");
}

TEST(Fetch, GetsAndTimesOut) {
  FakeServer server([](Call& call) -> Bool {
    if (call.head.starts_with("GET /v1/models "))
      co_return co_await call.send(FakeServer::answer("200 OK", R"({"data":[{"id":"m"}]})"));
    co_await call.sleep(3s);
    co_return false;
  });
  const auto models = fetch(options_for(server), "/v1/models");
  ASSERT_TRUE(models) << models.error().message();
  EXPECT_EQ(models->status, 200);
  EXPECT_EQ(models->body, R"({"data":[{"id":"m"}]})");
  const auto nothing = fetch(options_for(server), "/other");
  ASSERT_FALSE(nothing);
  EXPECT_TRUE(nothing.error().message().ends_with("/other: timed out")) << nothing.error().message();
}

TEST(BaseUrl, IsParsed) {
  const auto plain = parse_base_url("http://localhost:8000");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host, "localhost");
  EXPECT_EQ(plain->port, "8000");
  EXPECT_EQ(plain->path, "");
  const auto path = parse_base_url("http://[::1]:80/a/b/");
  ASSERT_TRUE(path);
  EXPECT_EQ(path->host, "::1");
  EXPECT_EQ(path->path, "/a/b");
  EXPECT_EQ(parse_base_url("http://host")->port, "80");
  EXPECT_EQ(parse_base_url("https://host").error().code(), StatusCode::unimplemented);
  for (const char* bad : {"", "http://", "ftp://x", "http://x:99999", "http://x:a", "http://x y",
                          "http://u@x", "http://x\r\n:1", "http://[::1", "http://x:"})
    EXPECT_FALSE(parse_base_url(bad)) << bad;
}

}  // namespace
}  // namespace pagoda
