// /tokenize and /detokenize by vLLM's names and by llama.cpp's.
#include "api/openai/text_endpoints.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "api/test_support.h"

namespace pagoda {
namespace {

namespace json = boost::json;

TEST(Tokenize, KnowsTheNamesOfTwoServers) {
  const TestModel model;
  const auto tokens = [&](std::string_view body) {
    const auto answer = tokenize_body(body, model.context);
    return answer ? json::serialize(parse_json(*answer)->at("tokens")) : std::string(answer.error().param());
  };
  const std::string bos = std::to_string(FakeTokenizer::kBos);
  EXPECT_EQ(tokens(R"({"prompt":"hi"})"), "[" + bos + ",104,105]");
  EXPECT_EQ(tokens(R"({"prompt":"hi","add_special_tokens":false})"), "[104,105]");
  EXPECT_EQ(tokens(R"({"content":"hi"})"), "[104,105]");
  EXPECT_EQ(tokens(R"({"content":"hi","add_special":true})"), "[" + bos + ",104,105]");
  EXPECT_EQ(tokens(R"({"content":"hi","with_pieces":true})"),
            R"([{"id":104,"piece":"h"},{"id":105,"piece":"i"}])");
  EXPECT_EQ(tokens(R"({"content":"\u00e1","with_pieces":true})"),
            R"([{"id":195,"piece":[195]},{"id":161,"piece":[161]}])");
  EXPECT_EQ(tokens(R"({"content":5})"), "content");
  EXPECT_EQ(tokens("{}"), "prompt");
}

TEST(CountChat, IsTheLengthOfTheRenderedPrompt) {
  const TestModel model;
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}]})";
  const auto counted = count_chat_body(body, model.context);
  ASSERT_TRUE(counted) << counted.error().message();
  EXPECT_EQ(parse_json(*counted)->at("object"), "response.input_tokens");
  EXPECT_EQ(parse_json(*counted)->at("input_tokens"),
            parse_json(*tokenize_body(body, model.context))->at("count"));
  EXPECT_EQ(count_chat_body("{}", model.context).error().param(), "messages");
}

TEST(Detokenize, KnowsTheNamesOfTwoServers) {
  const TestModel model;
  const auto answer = detokenize_body(R"({"tokens":[104,105]})", model.context);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(parse_json(*answer)->at("prompt"), "hi");
  EXPECT_EQ(parse_json(*answer)->at("content"), "hi");
}

}  // namespace
}  // namespace pagoda
