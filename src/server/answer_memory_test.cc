// Answers share one memory budget, and long ones are written in pieces.
#include "api/answer_memory.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "server/running_server.h"

namespace pagoda {
namespace {

std::string completion(int max_tokens, std::string_view more = "") {
  return concat(R"({"prompt":"abc","add_special_tokens":false,"max_tokens":)", max_tokens, more, "}");
}

TEST(AnswerMemory, IsToldFromTheRequest) {
  Request request;
  request.prompt_token_ids.resize(400);
  request.sampling.max_tokens = 1;
  const std::int64_t plain = answer_bytes(std::vector{request});
  EXPECT_LT(plain, 16'384);
  request.sampling.prompt_logprobs = 20;
  const std::vector<Request> attack(900, request);  // 459 MB as JSON
  EXPECT_GT(answer_bytes(attack), 900 * 400 * (20 * 12 + 40));
  EXPECT_LT(answer_bytes(attack), 900 * 400 * (20 * 12 + 160));
  request.sampling.logprobs = 20;
  request.sampling.max_tokens = 1'000'000;
  request.sampling.n = 128;
  EXPECT_GT(answer_bytes(std::vector{request}), std::int64_t{128} * 1'000'000 * 20 * 12);
}

TEST(AnswerMemory, BeyondTheBudgetIs429AndWhatCanNeverFitIs400) {
  ServerConfig config;
  config.max_answer_memory = 60'000;
  RunningServer running(config);
  running.engine.pause_ms = 5;
  TestClient first(running.port()), second(running.port());
  const TestResponse never = first.post("/v1/completions", completion(4000));
  EXPECT_EQ(never.status, 400) << never.body;
  EXPECT_NE(never.body.find("--max-answer-memory"), std::string::npos);

  first.send_post("/v1/completions", completion(2500));
  ASSERT_TRUE(eventually([&] { return running.engine.num_running() == 1; }));
  const TestResponse full = second.post("/v1/completions", completion(2500));
  EXPECT_EQ(full.status, 429) << full.body;
  EXPECT_TRUE(full.headers.contains("retry-after"));
  EXPECT_EQ(second.post("/v1/completions", completion(4)).status, 200) << "a small one still fits";
  first.close();
  EXPECT_TRUE(eventually([&] {
    TestClient again(running.port());
    again.send_post("/v1/completions", completion(2500));
    const bool taken = !again.receive(50);  // no refusal
    return taken;
  })) << "what was hung up on is given back";
}

TEST(AnswerMemory, ALongAnswerComesInPieces) {
  RunningServer running;
  TestClient client(running.port());
  const std::string body = completion(4000, R"(,"logprobs":5,"n":4,"return_token_ids":true)");
  const TestResponse response = client.post("/v1/completions", body);
  ASSERT_EQ(response.status, 200);
  ASSERT_TRUE(response.headers.contains("transfer-encoding"));
  EXPECT_GT(response.body.size(), std::size_t{256} << 10);
  const boost::json::value value = boost::json::parse(response.body);
  ASSERT_EQ(value.at("choices").as_array().size(), 4u);
  for (const auto& choice : value.at("choices").as_array()) {
    EXPECT_EQ(choice.at("text").as_string().size(), 4000u);
    EXPECT_EQ(choice.at("logprobs").at("tokens").as_array().size(), 4000u);
    EXPECT_EQ(choice.at("logprobs").at("top_logprobs").as_array().size(), 4000u);
    EXPECT_EQ(choice.at("logprobs").at("text_offset").at(3999).as_int64(), 3999);
  }
  EXPECT_EQ(client.get("/health").status, 200) << "the connection goes on";

  client.send(concat("POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: ",
                     body.size(), "\r\n\r\n", body));
  const TestResponse old = client.read_response();
  EXPECT_FALSE(old.headers.contains("transfer-encoding"));
  EXPECT_EQ(boost::json::parse(old.body).at("choices"), value.at("choices"));
}

// A reader that stands still makes the outputs that wait for it denser, not longer.
TEST(AnswerMemory, OutputsThatWaitLongArePutTogether) {
  RunningServer running;
  TestClient client(running.port(), /*receive_buffer=*/4096);
  client.send_post("/v1/completions", completion(4000, R"(,"stream":true,"n":3)"));
  ASSERT_TRUE(eventually([&] { return running.engine.num_running() == 0; }));
  const TestResponse response = client.read_response();
  std::string texts[3];
  for (std::size_t at = 0; (at = response.body.find("data: {", at)) != std::string::npos; at += 6) {
    const auto event =
        parse_json(std::string_view(response.body).substr(at + 6, response.body.find('\n', at) - at - 6));
    ASSERT_TRUE(event.has_value());
    for (const auto& choice : event->at("choices").as_array())
      texts[choice.at("index").as_int64()] += choice.at("text").as_string().c_str();
  }
  for (const std::string& text : texts) {
    EXPECT_EQ(text.size(), 4000u);
    EXPECT_EQ(text.substr(0, 6), "bcabca");
  }
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
}

}  // namespace
}  // namespace pagoda
