// The text of a custom tool's call, wherever the arguments are cut.
#include "api/custom_input.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

std::string read_input(std::string_view arguments, std::size_t piece) {
  CustomInput input;
  std::string out;
  for (std::size_t at = 0; at < arguments.size(); at += piece) out += input.push(arguments.substr(at, piece));
  return out + input.finish();
}

void expect(std::string_view arguments, std::string_view text) {
  for (std::size_t piece = 1; piece <= arguments.size() + 1; ++piece)
    EXPECT_EQ(read_input(arguments, piece), text) << arguments << " in pieces of " << piece;
}

TEST(CustomInput, IsTheStringOfItsArgument) {
  expect(R"({"input":"a"})", "a");
  expect("{ \n\t\"input\" : \"*** Begin\\n+\\\"x\\\"\\\\ \\u00e9\\/\" }", "*** Begin\n+\"x\"\\ \u00e9/");
  expect(R"({"input":"\ud83d\ude00!"})", "\U0001F600!");
  expect(R"({"input":""})", "");
  expect(R"({"input":"a","other":"b"})", "a");
}

TEST(CustomInput, IsWhatThereIsOfACutOne) {
  expect(R"({"input":"ab)", "ab");
  expect(R"({"input":"ab\u00)", "ab");
  expect(R"({"input":"ab\ud83d)", "ab");
}

TEST(CustomInput, OtherArgumentsAreGivenAsTheyAre) {
  for (const std::string_view other : {R"({"patch":"a"})", R"({"input":3})", "plain", "{}", R"({"inp)"})
    expect(other, other);
  expect(R"({"input":"\ud83dx"})", "\\ud83dx");
}

}  // namespace
}  // namespace pagoda
