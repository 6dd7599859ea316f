// /generate, /generate_stream, / and /info as the clients of text-generation-inference use them.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "api/test_support.h"
#include "api/tgi/tgi_parser.h"
#include "api/tgi/tgi_protocol.h"
#include "api/tgi/tgi_writer.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

struct Asked {
  explicit Asked(std::string_view fields, TgiRoute route = TgiRoute::generate) : model(3000), route(route) {
    call.emplace(parse_tgi_call(concat("{", fields, "}"), route, model.context));
  }
  // `text` and the end of sequence, each token in an output of its own.
  void say(std::string_view text, FinishReason reason = FinishReason::stop, int index = 0,
           float logprob = -0.5f) {
    ASSERT_TRUE(*call) << call->error().message();
    if (!writer) writer.emplace((*call).value(), route == TgiRoute::root, model.context);
    std::vector<TokenId> ids(text.begin(), text.end());
    if (reason == FinishReason::stop) ids.push_back(FakeTokenizer::kEos);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      SequenceDelta delta;
      delta.index = index;
      delta.token_ids = {ids[i]};
      delta.logprobs = {logprobs_of(ids[i], logprob, {{.token = 'z', .logprob = -1.5f, .rank = 2}})};
      delta.cumulative_logprob = logprob * static_cast<double>(i + 1);
      if (i + 1 == ids.size()) delta.finish_reason = reason;
      RequestOutput output;
      output.deltas.push_back(std::move(delta));
      writer->add(0, std::move(output));
      writer->take(out, std::size_t{1} << 20);
    }
  }
  TestModel model;
  TgiRoute route;
  std::optional<Result<TgiCall>> call;
  std::optional<TgiWriter> writer;
  std::string out;
};

std::vector<json::value> events_of(std::string_view stream) {
  std::vector<json::value> events;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t end = stream.find("\n\n", at);
    EXPECT_TRUE(stream.substr(at).starts_with("data:{"));
    events.push_back(*parse_json(stream.substr(at + 5, end - at - 5)));
    at = end + 2;
  }
  return events;
}

TEST(Tgi, AWholeAnswer) {
  Asked asked(R"("inputs":"hi","parameters":{"max_new_tokens":9,"return_full_text":true})");
  asked.say("ab");
  EXPECT_EQ(asked.out, R"({"generated_text":"hiab"})");
  Asked root(R"("inputs":"hi","parameters":{})", TgiRoute::root);
  root.say("ab");
  EXPECT_EQ(root.out, R"([{"generated_text":"ab"}])");
}

TEST(Tgi, DetailsOfAWholeAnswer) {
  Asked asked(R"("inputs":"hi","parameters":{"details":true,"top_n_tokens":1,"seed":18446744073709551615})");
  asked.say("ab", FinishReason::length);
  const json::value details = parse_json(asked.out)->at("details");
  EXPECT_EQ(details.at("finish_reason"), "length");
  EXPECT_EQ(details.at("generated_tokens"), 2);
  EXPECT_EQ(details.at("seed").as_uint64(), ~std::uint64_t{0});
  EXPECT_EQ(json::serialize(details.at("tokens").at(0)),
            R"({"id":97,"text":"a","logprob":-5E-1,"special":false})");
  EXPECT_EQ(details.at("top_tokens").at(1).at(0).at("text"), "z");
  EXPECT_TRUE(details.at("prefill").as_array().empty());
}

TEST(Tgi, AStreamHasAnEventForEachToken) {
  Asked asked(R"("inputs":"hi","parameters":{"details":true})", TgiRoute::generate_stream);
  asked.say("ab");
  const auto events = events_of(asked.out);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(json::serialize(events[0]),
            R"({"index":1,"token":{"id":97,"text":"a","logprob":-5E-1,"special":false},)"
            R"("generated_text":null,"details":null})");
  EXPECT_EQ(events[2].at("token").at("special"), true);
  EXPECT_EQ(events[2].at("generated_text"), "ab");
  EXPECT_EQ(events[2].at("details").at("finish_reason"), "eos_token");
  EXPECT_EQ(events[2].at("details").at("input_length"), 3);
}

// TGI's text ends with the stop string.
TEST(Tgi, AStopStringIsKept) {
  for (const TgiRoute route : {TgiRoute::generate, TgiRoute::generate_stream}) {
    Asked asked(R"("inputs":"hi","parameters":{"details":true,"stop":["bc"]})", route);
    asked.say("abcd");
    const json::value last =
        route == TgiRoute::generate ? *parse_json(asked.out) : events_of(asked.out).back();
    EXPECT_EQ(last.at("generated_text"), "abc");
    EXPECT_EQ(last.at("details").at("finish_reason"), "stop_sequence");
  }
}

TEST(Tgi, TheBestOfSeveralIsFirst) {
  Asked asked(R"("inputs":"hi","parameters":{"best_of":2,"do_sample":true,"details":true})");
  asked.say("a", FinishReason::length, 0, -2.0f);
  asked.say("bcd", FinishReason::length, 1, -1.0f);
  const json::value got = *parse_json(asked.out);
  EXPECT_EQ(got.at("generated_text"), "bcd");
  EXPECT_EQ(got.at("details").at("best_of_sequences").at(0).at("generated_text"), "a");
}

TEST(Tgi, IsGreedyUnlessAskedToSample) {
  for (const auto& [parameters, temperature] :
       std::initializer_list<std::pair<const char*, float>>{{R"("seed":1)", 0.0f},
                                                            {R"("do_sample":false)", 0.0f},
                                                            {R"("do_sample":true)", 1.0f},
                                                            {R"("top_p":0.5)", 1.0f},
                                                            {R"("temperature":0.5)", 0.5f}}) {
    Asked asked(concat(R"("inputs":"hi","parameters":{)", parameters, "}"));
    ASSERT_TRUE(*asked.call) << parameters;
    EXPECT_EQ((*asked.call)->request.sampling.temperature, temperature) << parameters;
    EXPECT_EQ((*asked.call)->request.sampling.max_tokens, 1024);
  }
  Asked typical(R"("inputs":"a","parameters":{"typical_p":0.95})");
  EXPECT_EQ((*typical.call)->request.sampling.typical_p, 0.95f);
  EXPECT_TRUE((*typical.call)->warnings.texts().empty());
  Asked cut(R"("inputs":"hello","parameters":{"truncate":2,"stream":true})");
  EXPECT_EQ((*cut.call)->request.prompt_token_ids, (std::vector<TokenId>{'l', 'o'}));
}

TEST(Tgi, WhatIsWrongIsNamed) {
  for (const auto& [fields, param] : std::initializer_list<std::pair<const char*, std::string_view>>{
           {R"("prompt":"a")", "inputs"},
           {R"("inputs":["a"])", "inputs"},
           {R"("inputs":"")", "inputs"},
           {R"("inputs":"a","parameters":{"watermark":true})", "parameters.watermark"},
           {R"("inputs":"a","parameters":{"typical_p":1.5})", "parameters.typical_p"},
           {R"("inputs":"a","parameters":{"max_new_tokens":0})", "parameters.max_new_tokens"},
           {R"("inputs":"a","parameters":{"max_new_tokens":5000})", "inputs"},
           {R"("inputs":"a","parameters":{"grammar":{"type":"x"}})", "parameters.grammar.type"}}) {
    Asked asked(fields);
    ASSERT_FALSE(*asked.call) << fields;
    EXPECT_EQ(asked.call->error().param(), param) << fields;
  }
  EXPECT_FALSE(*Asked(R"("inputs":"a","parameters":{"best_of":2})", TgiRoute::generate_stream).call);
  EXPECT_EQ(tgi_error_body({.status = 429, .message = "full"}),
            R"({"error":"full","error_type":"overloaded"})");
}

}  // namespace
}  // namespace pagoda
