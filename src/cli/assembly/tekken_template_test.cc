// Goal: prompts are those of mistral_common, for every version of tekken.json.
#include "cli/assembly/tekken_template.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <iterator>

#include "base/strings.h"
#include "text/chat_template.h"

namespace pagoda {
namespace {

std::string template_of(std::string_view version) {
  return template_of_tekken(concat(R"({"vocab": [], "config": {"version": ")", version, R"("}})"));
}

TEST(TekkenTemplate, PromptsAreThoseOfMistralCommon) {
  std::ifstream file(PAGODA_SOURCE_DIR "/tests/fixtures/tokenizers/tekken_prompts.json");
  const boost::json::value cases = boost::json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_GT(cases.as_array().size(), 20u);
  for (const boost::json::value& one : cases.as_array()) {
    SCOPED_TRACE(std::string(one.at("name").as_string()));
    const auto parsed =
        ChatTemplate::parse(template_of(one.at("version").as_string()), timed_template_options());
    ASSERT_TRUE(parsed) << parsed.error().message();
    const auto prompt = parsed->render(
        {{"messages", one.at("messages")}, {"tools", one.at("tools")}, {"add_generation_prompt", true}});
    ASSERT_TRUE(prompt) << prompt.error().message();
    EXPECT_EQ(prompt->text, std::string(one.at("prompt").as_string()));
  }
}

TEST(TekkenTemplate, NoneWithoutAVersionThatIsKnown) {
  EXPECT_EQ(template_of("v1"), "");
  EXPECT_EQ(template_of("new"), "");
  EXPECT_EQ(template_of_tekken("{}"), "");
  EXPECT_EQ(template_of_tekken("["), "");
  EXPECT_NE(template_of("v7m1"), "");
}

}  // namespace
}  // namespace pagoda
