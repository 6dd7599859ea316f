// Streams say that they have begun before anything is computed, and that they go on while nothing is ready;
// what is wrong before the engine has taken a call keeps its status.
#include <gtest/gtest.h>

#include "server/running_server.h"

namespace pagoda {
namespace {

ServerConfig with_pings(std::chrono::milliseconds interval) {
  ServerConfig config;
  config.stream_ping_interval = interval;
  return config;
}
constexpr std::chrono::milliseconds kOften{30}, kNever{600'000};

constexpr std::string_view kChat =
    R"({"messages":[{"role":"user","content":"abc"}],"max_tokens":3,"stream":true})";
constexpr std::string_view kMessages =
    R"({"model":"tiny","messages":[{"role":"user","content":"abc"}],"max_tokens":3,"stream":true})";
constexpr std::string_view kOllama =
    R"({"model":"tiny","messages":[{"role":"user","content":"abc"}],"options":{"num_predict":3}})";
constexpr std::string_view kResponses = R"({"input":"abc","max_output_tokens":3,"stream":true})";

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t number = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++number;
  return number;
}

struct Row {
  std::string_view path, body, first, second;
};

TEST(StreamPings, EachProtocolBeginsAtOnceAndGoesOnInItsOwnForm) {
  constexpr Row kRows[] = {
      {"/v1/completions", kStream, ": ping\n\n", ": ping\n\n"},
      {"/v1/chat/completions", kChat, ": ping\n\n", ": ping\n\n"},
      {"/completion", R"({"prompt":"abc","n_predict":3,"stream":true})", ": ping\n\n", ": ping\n\n"},
      {"/v1/responses", kResponses, "event: response.created\n", ": ping\n\n"},
      {"/v1/messages", kMessages, "event: message_start\n", "event: ping\ndata: {\"type\":\"ping\"}\n\n"},
  };
  RunningServer running(with_pings(kOften));
  running.engine.hold(true);
  for (const Row& row : kRows) {
    TestClient client(running.port());
    client.send_post(row.path, row.body);
    ASSERT_TRUE(client.wait_for(row.first)) << row.path;
    EXPECT_TRUE(client.pending().starts_with("HTTP/1.1 200 ")) << row.path;
    EXPECT_NE(client.pending().find("cache-control: no-cache\r\n"), std::string::npos);
    EXPECT_NE(client.pending().find("x-accel-buffering: no\r\n"), std::string::npos);
    ASSERT_TRUE(eventually([&] {
      (void)client.receive(100);
      return count(client.pending(), row.second) >= 4;
    })) << row.path;
    running.engine.hold(false);
    const TestResponse response = client.read_response();
    running.engine.hold(true);
    EXPECT_EQ(count(response.body, row.first),
              row.first == row.second ? count(response.body, row.second) : 1u);
    EXPECT_GT(response.body.rfind("data: {"), response.body.rfind(row.second)) << "no ping behind the end";
  }
}

TEST(StreamPings, WhatOpensAStreamNeedsNoTimer) {
  RunningServer running(with_pings(kNever));
  running.engine.hold(true);
  TestClient chat(running.port()), messages(running.port()), ollama(running.port());
  chat.send_post("/v1/chat/completions", kChat);
  EXPECT_TRUE(chat.wait_for("\r\n\r\n"));
  messages.send_post("/v1/messages", kMessages);
  EXPECT_TRUE(messages.wait_for("event: ping\n"));
  ollama.send_post("/api/chat", kOllama);
  EXPECT_TRUE(ollama.wait_for("\r\n\r\n"));
  EXPECT_NE(ollama.pending().find("application/x-ndjson"), std::string::npos);
  running.engine.hold(false);
  EXPECT_TRUE(chat.read_response().body.starts_with("data: ")) << "no comment before the data";
  const std::string body = messages.read_response().body;
  EXPECT_EQ(count(body, "message_start\n"), 1u);
  EXPECT_EQ(count(body, "event: ping\n"), 1u);
  EXPECT_TRUE(ollama.read_response().body.starts_with("{")) << "lines of JSON alone";
}

TEST(StreamPings, NoneInAStreamThatSpeaks) {
  RunningServer running(with_pings(kNever));
  running.engine.pause_ms = 1;
  TestClient client(running.port());
  const TestResponse response =
      client.post("/v1/completions", R"({"prompt":"abc","max_tokens":50,"stream":true})");
  EXPECT_EQ(count(response.body, ": ping"), 0u);
}

TEST(StreamPings, ErrorsBeforeTheEngineHasTheCallKeepTheirStatus) {
  RunningServer running(with_pings(kOften));
  TestClient client(running.port());
  EXPECT_EQ(client.post("/v1/chat/completions", R"({"messages":[],"stream":true})").status, 400);
  running.engine.capacity = 0;
  const TestResponse full = client.post("/v1/chat/completions", kChat);
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.headers.at("content-type"), "application/json");
  EXPECT_EQ(client.post("/v1/messages", kMessages).status, 429);
}

TEST(StreamPings, AnEngineThatDiesLaterEndsTheStreamWithAnEvent) {
  RunningServer running(with_pings(kOften));
  running.engine.hold(true);
  TestClient chat(running.port()), messages(running.port());
  chat.send_post("/v1/chat/completions", kChat);
  messages.send_post("/v1/messages", kMessages);
  ASSERT_TRUE(chat.wait_for(": ping") && messages.wait_for("event: ping"));
  running.engine.is_healthy = false;
  const TestResponse ended = chat.read_response();
  EXPECT_EQ(ended.status, 200);
  EXPECT_NE(ended.body.find("data: {\"error\":"), std::string::npos) << ended.body;
  EXPECT_NE(messages.read_response().body.find("event: error\n"), std::string::npos);
}

TEST(StreamPings, TextComesBeforeTheErrorThatEndedItAtOnce) {
  RunningServer running(with_pings(kNever));
  running.engine.fails_at_once = true;
  TestClient client(running.port());
  const std::pair<std::string_view, std::string_view> rows[] = {{"/v1/chat/completions", kChat},
                                                                {"/v1/responses", kResponses},
                                                                {"/v1/messages", kMessages},
                                                                {"/api/chat", kOllama}};
  for (const auto& [path, body] : rows) {
    const TestResponse response = client.post(path, body);
    EXPECT_EQ(response.status, 200) << path;
    EXPECT_NE(response.body.find("A dead end."), std::string::npos) << path << response.body;
  }
  EXPECT_EQ(client.post("/v1/responses", R"({"input":"abc"})").status, 400);
}

TEST(RequestIds, StandWhereEachProtocolsClientsLook) {
  RunningServer running;
  TestClient client(running.port());
  for (const std::string_view body : {kMessages, std::string_view("{}")}) {
    const TestResponse response = client.post("/v1/messages", body);
    ASSERT_TRUE(response.headers.contains("request-id"));
    EXPECT_EQ(response.headers.at("request-id"), response.headers.at("x-request-id"));
  }
  const TestResponse other = client.post("/v1/chat/completions", kChat);
  EXPECT_TRUE(other.headers.contains("x-request-id"));
  EXPECT_FALSE(other.headers.contains("request-id"));
}

}  // namespace
}  // namespace pagoda
