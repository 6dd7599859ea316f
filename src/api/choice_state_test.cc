// Goal: an answer in which the grammar lets nothing but calls be written ends where the last call is said
// again. Method: calls in Hermes' form, byte by byte and whole, by hand.
#include "api/choice_state.h"

#include <gtest/gtest.h>

#include "api/fake_tokenizer.h"
#include "base/strings.h"

namespace pagoda {
namespace {

using Calls = std::vector<std::pair<std::string, std::string>>;

std::string call(std::string_view name, std::string_view arguments) {
  return concat("<tool_call>\n{\"name\": \"", name, "\", \"arguments\": ", arguments, "}\n</tool_call>");
}

struct ReadState {
  Calls calls;
  bool ended = false;  // before the model did
  std::optional<FinishReason> reason;
  std::size_t tokens = 0;
};

ReadState read_states(std::string_view text, bool forced, std::size_t at_once) {
  const FakeTokenizer tokenizer;
  AnswerOptions options;
  options.parser = AnswerParserOptions{
      .tool_parser = "hermes", .reasoning_parser = {}, .tools = {}, .starts_in_reasoning = {}};
  options.parser->calls_forced = forced;
  options.parser->held_shape = &hermes_call_shape();
  ChoiceState state(options, tokenizer, {});
  ReadState out;
  for (std::size_t i = 0; i < text.size() && !state.finished(); i += at_once) {
    SequenceDelta delta;
    for (const char byte : text.substr(i, at_once))
      delta.token_ids.push_back(static_cast<unsigned char>(byte));
    if (i + at_once >= text.size()) delta.finish_reason = FinishReason::length;
    out.ended = state.absorb(std::move(delta)) || out.ended;
  }
  for (const ChoiceState::CallPiece& piece : state.fresh.calls) {
    if (piece.name) out.calls.emplace_back(*piece.name, "");
    out.calls.back().second += piece.arguments;
  }
  out.reason = state.finish_reason;
  out.tokens = static_cast<std::size_t>(state.num_tokens);
  EXPECT_EQ(state.num_calls, std::ssize(out.calls));
  return out;
}

TEST(ChoiceState, AForcedAnswerEndsWhereTheLastCallIsSaidAgain) {
  const std::string one = call("f", R"({"a": 1, "b": [2, "x"]})"), other = call("f", R"({"a": 2})");
  const std::string again = call("f", R"({"b":[2,"\u0078"],"a":1})"), named = call("g", R"({"a": 2})");
  for (const std::size_t at_once : {1, 7, 10'000}) {
    SCOPED_TRACE(at_once);
    for (const std::string& repeated : {one, again}) {
      const ReadState told =
          read_states(one + "\n" + other + "\n" + one + "\n" + repeated + "\n" + one, true, at_once);
      EXPECT_EQ(told.calls.size(), 3u) << "others come between the first and the third";
      EXPECT_EQ(told.reason, FinishReason::stop);
      EXPECT_EQ(told.ended, at_once < 10'000);
    }
    const ReadState whole = read_states(one + "\n" + other + "\n" + named, true, at_once);
    EXPECT_EQ(whole.calls.size(), 3u);
    EXPECT_EQ(whole.calls[1], std::pair(std::string("f"), std::string(R"({"a": 2})")));
    EXPECT_EQ(whole.reason, FinishReason::length);
    // One that is cut may still have become another.
    EXPECT_EQ(read_states(one + "\n" + one.substr(0, one.size() - 25), true, at_once).calls.size(), 2u);
    EXPECT_EQ(read_states(one + "\n" + one + "\n" + one, false, at_once).calls.size(), 3u);
  }
}

}  // namespace
}  // namespace pagoda
