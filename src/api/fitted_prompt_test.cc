// truncation "auto": the oldest messages go, and nothing is torn apart.
#include "api/fitted_prompt.h"

#include <gtest/gtest.h>

#include "api/test_support.h"
#include "base/strings.h"

namespace pagoda {
namespace {

ChatMessage said(std::string role, std::string text) {
  return {.role = std::move(role), .content = Content::of(std::move(text))};
}
ChatMessage calls(std::string text) {
  ChatMessage message = said("assistant", std::move(text));
  message.tool_calls.push_back(ToolCall::of("c", "f", {}));
  return message;
}

struct Fitted {
  Fitted(std::vector<ChatMessage> messages, std::int32_t room, std::int32_t length) {
    const TestModel model(length);
    Conversation conversation;
    conversation.messages = std::move(messages);
    const auto ids = fitted_prompt_tokens(conversation, room, model.context, {}, warnings);
    if (ids) text = model.tokenizer.decode(*ids, false);
    size = ids ? ids->size() : 0;
  }
  Warnings warnings;
  std::string text;
  std::size_t size = 0;
};

std::vector<ChatMessage> talk() {
  return {said("system", "RULES"), said("user", "one"),    calls("a"),           said("tool", "r"),
          said("user", "two"),     said("assistant", "b"), said("user", "three")};
}

TEST(FittedPrompt, WhatFitsStays) {
  const Fitted whole(talk(), 5, 1000);
  EXPECT_NE(whole.text.find("one"), std::string::npos);
  EXPECT_TRUE(whole.warnings.empty());
}

TEST(FittedPrompt, TheOldestTurnsGoAndTheRulesStay) {
  const Fitted whole(talk(), 0, 1000);
  const Fitted cut(talk(), 5, static_cast<std::int32_t>(whole.size));
  EXPECT_EQ(cut.text.find("one"), std::string::npos) << cut.text;
  EXPECT_EQ(cut.text.find("<x>tool"), std::string::npos) << "a result without its call";
  for (const std::string_view kept : {"RULES", "two", "three"})
    EXPECT_NE(cut.text.find(kept), std::string::npos) << cut.text;
  ASSERT_EQ(cut.warnings.texts().size(), 1u);
  EXPECT_EQ(cut.warnings.texts()[0], "truncation: the 3 oldest messages did not fit and are left out");
}

TEST(FittedPrompt, OfOneLongTurnTheQuestionAndTheLatestCallsStay) {
  std::vector<ChatMessage> messages = {said("user", "question")};
  for (int i = 0; i < 20; ++i) {
    messages.push_back(calls(concat("call", i, ".")));
    messages.push_back(said("tool", concat("result", i, ".")));
  }
  const Fitted cut(messages, 10, 200);
  EXPECT_LE(cut.size + 10, 200u);
  EXPECT_NE(cut.text.find("question"), std::string::npos) << cut.text;
  EXPECT_NE(cut.text.find("result19."), std::string::npos) << cut.text;
  EXPECT_EQ(cut.text.find("call0."), std::string::npos);
  EXPECT_GT(cut.size, 120u) << "no more is dropped than has to be";
}

TEST(FittedPrompt, WhatNeverFitsIsToldByWhoeverCounts) {
  const Fitted cut({said("user", std::string(300, 'x'))}, 5, 200);
  EXPECT_GT(cut.size, 300u);
  EXPECT_TRUE(cut.warnings.empty());
}

}  // namespace
}  // namespace pagoda
