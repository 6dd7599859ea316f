// Goal: bodies are JSON with the members that servers know, and equal prefixes become equal tokens.
#include "load/request_body.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

namespace pagoda {
namespace {

namespace json = boost::json;

json::object body_of(const WorkloadRequest& request, std::uint64_t index, const BodyOptions& options) {
  return json::parse(write_body(request, index, options)).as_object();
}

std::vector<std::int64_t> ids(const WorkloadRequest& request, std::uint64_t index,
                              const BodyOptions& options = {}) {
  std::vector<std::int64_t> out;
  const json::object body = body_of(request, index, options);
  for (const json::value& id : body.at("prompt").as_array()) out.push_back(id.as_int64());
  return out;
}

WorkloadRequest of_length(std::int32_t prompt, std::int32_t output = 3) {
  WorkloadRequest request;
  request.prompt_tokens = prompt;
  request.output_tokens = output;
  return request;
}

std::size_t common_prefix(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

TEST(RequestBody, Completions) {
  BodyOptions options;
  options.model = "a \"b\"";
  options.ignore_eos = true;
  options.extra_members = ",\"temperature\":0";
  options.token_low = 5;
  options.token_high = 7;
  const json::object body = body_of(of_length(50), 1, options);
  EXPECT_EQ(body.at("model").as_string(), "a \"b\"");
  EXPECT_EQ(body.at("max_tokens").as_int64(), 3);
  EXPECT_TRUE(body.at("stream").as_bool());
  EXPECT_TRUE(body.at("ignore_eos").as_bool());
  EXPECT_EQ(body.at("temperature").as_int64(), 0);
  EXPECT_TRUE(body.at("stream_options").as_object().at("include_usage").as_bool());
  EXPECT_TRUE(body.at("stream_options").as_object().at("continuous_usage_stats").as_bool());
  const auto tokens = ids(of_length(50), 1, options);
  ASSERT_EQ(tokens.size(), 50u);
  for (const std::int64_t id : tokens) EXPECT_TRUE(id >= 5 && id <= 7);
}

TEST(RequestBody, TextIsQuotedAndChatHasMessages) {
  WorkloadRequest request = of_length(2);
  request.prompt = "line\n\"quoted\" \xC3\xA9";
  EXPECT_EQ(body_of(request, 0, {}).at("prompt").as_string(), request.prompt);
  BodyOptions chat;
  chat.endpoint = BodyOptions::Endpoint::chat;
  const json::object body = body_of(request, 0, chat);
  EXPECT_EQ(body.at("messages").as_array().at(0).as_object().at("content").as_string(), request.prompt);
  EXPECT_EQ(body.at("max_completion_tokens").as_int64(), 3);
  EXPECT_FALSE(body.contains("prompt"));
  const json::object made_up = body_of(of_length(40), 0, chat);
  const std::string words(made_up.at("messages").as_array().at(0).as_object().at("content").as_string());
  EXPECT_EQ(std::count(words.begin(), words.end(), ' '), 39);
}

TEST(RequestBody, SharedPrefixesAreSharedAndNothingElse) {
  WorkloadRequest a = of_length(600), b = of_length(700);
  EXPECT_LT(common_prefix(ids(a, 0), ids(a, 1)), 3u);
  EXPECT_EQ(ids(a, 4), ids(a, 4));
  a.shared_prefix_tokens = b.shared_prefix_tokens = 300;
  a.shared_prefix_id = b.shared_prefix_id = 9;
  EXPECT_GE(common_prefix(ids(a, 0), ids(b, 1)), 300u);
  EXPECT_LT(common_prefix(ids(a, 0), ids(b, 1)), 303u);
  b.shared_prefix_id = 10;
  EXPECT_LT(common_prefix(ids(a, 0), ids(b, 1)), 3u);

  WorkloadRequest c = of_length(1100), d = of_length(1500);
  c.prefix_hash_ids = {1, 2, 3};
  d.prefix_hash_ids = {1, 2, 4};
  EXPECT_GE(common_prefix(ids(c, 0), ids(d, 1)), 1024u);
  EXPECT_LT(common_prefix(ids(c, 0), ids(d, 1)), 1027u);
}

TEST(RequestBody, ParallelSamplingAndBeams) {
  WorkloadRequest parallel = of_length(4);
  parallel.n = parallel.best_of = 4;
  json::object body = body_of(parallel, 0, {});
  EXPECT_EQ(body.at("n").as_int64(), 4);
  EXPECT_FALSE(body.contains("best_of"));
  EXPECT_FALSE(body.at("stream_options").as_object().contains("continuous_usage_stats"));
  WorkloadRequest beam = of_length(4);
  beam.best_of = 1;
  beam.beam_width = 6;
  body = body_of(beam, 0, {});
  EXPECT_TRUE(body.at("use_beam_search").as_bool());
  EXPECT_EQ(body.at("beam_width").as_int64(), 6);
}

}  // namespace
}  // namespace pagoda
