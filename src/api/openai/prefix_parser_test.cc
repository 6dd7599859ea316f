#include "api/openai/prefix_parser.h"

#include <gtest/gtest.h>

#include "api/test_support.h"

namespace pagoda {
namespace {

std::string refused(std::string_view body) {
  const TestModel model;
  const auto prefix = parse_prefix(body, model.context);
  EXPECT_FALSE(prefix.has_value()) << body;
  return prefix ? "" : prefix.error().param();
}

TEST(PrefixParser, TakesTextIdsAndMessages) {
  const TestModel model;
  const auto text = parse_prefix(R"({"name":"a","text":"hi"})", model.context);
  ASSERT_TRUE(text.has_value()) << text.error().message();
  const auto prompt = parse_prefix(R"({"name":"a","prompt":"hi"})", model.context);
  ASSERT_TRUE(prompt.has_value());
  EXPECT_EQ(text->token_ids, prompt->token_ids);
  const auto ids = parse_prefix(R"({"name":"a","prompt":[104,105]})", model.context);
  ASSERT_TRUE(ids.has_value());
  EXPECT_EQ(ids->token_ids, (std::vector<TokenId>{104, 105}));
  EXPECT_EQ(parse_prefix(R"({"name":"a","token_ids":[104,105]})", model.context)->token_ids, ids->token_ids);

  const auto chat =
      parse_prefix(R"({"name":"a","messages":[{"role":"system","content":"be"}]})", model.context);
  ASSERT_TRUE(chat.has_value()) << chat.error().message();
  const std::string rendered = model.tokenizer.decode(chat->token_ids, false);
  EXPECT_NE(rendered.find("system\nbe\n"), std::string::npos) << rendered;
  EXPECT_EQ(rendered.find("assistant"), std::string::npos) << "the next message comes first";
}

TEST(PrefixParser, NamesWhatIsWrong) {
  EXPECT_EQ(refused(R"({"text":"hi"})"), "name");
  EXPECT_EQ(refused(R"({"name":"","text":"hi"})"), "name");
  EXPECT_EQ(refused(R"({"name":7,"text":"hi"})"), "name");
  EXPECT_EQ(refused(R"({"name":"a"})"), "text");
  EXPECT_EQ(refused(R"({"name":"a","text":"hi","token_ids":[1]})"), "token_ids");
  EXPECT_EQ(refused(R"({"name":"a","text":["hi"]})"), "text");
  EXPECT_EQ(refused(R"({"name":"a","text":""})"), "text") << "its beginning of sequence alone is no prefix";
  EXPECT_EQ(refused(R"({"name":"a","token_ids":"hi"})"), "token_ids");
  EXPECT_EQ(refused(R"({"name":"a","token_ids":[]})"), "token_ids");
  EXPECT_EQ(refused(R"({"name":"a","prompt":[1,99999]})"), "prompt.1");
  EXPECT_EQ(refused(R"({"name":"a","messages":[{"role":"system"}]})").substr(0, 10), "messages.0");
  EXPECT_EQ(refused("[]"), "");
  EXPECT_EQ(refused("{"), "");
}

TEST(PrefixParser, AFileIsAListOrOne) {
  const TestModel model;
  const auto one = parse_prefix_file(R"({"name":"a","text":"hi"})", model.context);
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->size(), 1u);
  const auto two =
      parse_prefix_file(R"([{"name":"a","text":"hi"},{"name":"b","token_ids":[1]}])", model.context);
  ASSERT_TRUE(two.has_value());
  EXPECT_EQ((*two)[1].name, "b");
  for (const char* bad :
       {R"([{"name":"a","text":"hi"},{"name":"a","text":"x"}])", "7", "[7]", "[", R"([{"name":"a"}])"})
    EXPECT_FALSE(parse_prefix_file(bad, model.context).has_value()) << bad;
  EXPECT_EQ(
      parse_prefix_file(R"([{"name":"a","text":"hi"},{"name":"b","text":1}])", model.context).error().param(),
      "1.text");
  EXPECT_TRUE(parse_prefix_file("[]", model.context)->empty());
}

TEST(PrefixParser, AnEnginesRefusalSpeaksOfTheFieldThatWasGiven) {
  const PrefixSpec prefix{.name = "a", .token_ids = {1}, .source = "messages"};
  EXPECT_EQ(rename_param(invalid_argument("long").with_param("prompt"), prefix).param(), "messages");
  EXPECT_EQ(rename_param(invalid_argument("taken").with_param("name"), prefix).param(), "name");
}

}  // namespace
}  // namespace pagoda
