// /v1/embeddings, /pooling, /classify, /score and /rerank: bodies as OpenAI's, vLLM's, Cohere's and Jina's
// clients send them, answers as they read them.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <cmath>
#include <limits>

#include "api/answer_memory.h"
#include "api/json.h"
#include "api/pooling/pooling_parser.h"
#include "api/pooling/pooling_protocol.h"
#include "api/pooling/pooling_writer.h"
#include "api/test_support.h"
#include "base/strings.h"

namespace pagoda {
namespace {

struct Model : TestModel {
  explicit Model(WorkKind kind, std::int32_t size = 4) {
    VectorModel& vectors = context.vectors.emplace();
    vectors.kind = kind;
    vectors.pooling.type = PoolingType::mean;
    vectors.size = size;
    if (kind == WorkKind::score) vectors.labels = {"no", "yes"};
  }
  Result<PoolingCall> parse(PoolingForm form, std::string_view body) const {
    ApiCall call;
    call.body = body;
    call.id = "7";
    call.created = 5;
    return parse_pooling_call(form, call, context);
  }
  // Answered with these vectors, in pieces of a few bytes.
  boost::json::value answer(PoolingForm form, std::string_view body,
                            std::vector<std::vector<float>> vectors) const {
    auto call = parse(form, body);
    EXPECT_TRUE(call) << call.error().message();
    if (!call) return {};
    EXPECT_EQ(call->requests.size(), vectors.size());
    PoolingWriter writer(*std::move(call), context);
    std::string out;
    for (std::size_t i = vectors.size(); i-- > 0;) {
      EXPECT_FALSE(writer.finished());
      EXPECT_FALSE(writer.take(out, 10));
      RequestOutput output;
      output.deltas.emplace_back().vector = std::move(vectors[i]);
      output.finished = true;
      writer.add(i, std::move(output));
    }
    EXPECT_TRUE(writer.finished() && out.empty());
    double held = 1;
    while (writer.take(out, 10)) {
      EXPECT_LE(writer.held(), held);
      held = writer.held();
    }
    EXPECT_EQ(writer.held(), 0);
    const auto parsed = parse_json(out);
    EXPECT_TRUE(parsed) << out;
    return parsed ? *parsed : boost::json::value();
  }
};

TEST(Pooling, EachTextIsARequestOfItsOwn) {
  const Model model(WorkKind::embed);
  const auto call = model.parse(PoolingForm::embeddings,
                                R"({"model":"tiny","input":["ab",[5,6,7]],"dimensions":2,"priority":3})");
  ASSERT_TRUE(call) << call.error().message();
  EXPECT_EQ(call->id, "embd-7");
  ASSERT_EQ(call->requests.size(), 2u);
  EXPECT_EQ(call->requests[1].prompt_token_ids, std::vector<TokenId>({5, 6, 7}));
  for (const Request& request : call->requests) {
    EXPECT_EQ(request.work.kind, WorkKind::embed);
    EXPECT_EQ(request.work.pooling.type, PoolingType::mean);
    EXPECT_EQ(request.work.pooling.dimensions, 2);
    EXPECT_EQ(request.sampling.max_tokens, 0);
    EXPECT_EQ(request.priority, 3);
  }
  const auto raw = model.parse(PoolingForm::embeddings, R"({"input":"a","normalize":false})");
  ASSERT_TRUE(raw);
  EXPECT_FALSE(raw->requests[0].work.pooling.normalize);
  EXPECT_GT(answer_bytes(call->requests), 2 * 2048);
}

TEST(Pooling, EmbeddingsInNumbersAndInBytes) {
  const Model model(WorkKind::embed);
  const boost::json::value answer =
      model.answer(PoolingForm::embeddings, R"({"input":["ab","c"]})", {{1, -0.5f, 0, 0.25f}, {0, 0, 1, 0}});
  EXPECT_EQ(answer.at("object"), "list");
  EXPECT_EQ(answer.at("data").at(0).at("embedding").at(1), -0.5);
  EXPECT_EQ(answer.at("data").at(1).at("index"), 1);
  EXPECT_EQ(answer.at("usage").at("prompt_tokens"), answer.at("usage").at("total_tokens"));
  const boost::json::value bytes = model.answer(
      PoolingForm::embeddings, R"({"input":"ab","encoding_format":"base64"})", {{1, -0.5f, 0, 0.25f}});
  EXPECT_EQ(bytes.at("data").at(0).at("embedding"), "AACAPwAAAL8AAAAAAACAPg==");
}

// As text-embeddings-inference and Cohere have them.
TEST(Pooling, VectorsAloneAndByType) {
  const Model model(WorkKind::embed);
  const std::vector<std::vector<float>> vectors = {{1, -0.5f, 0, 0.25f}, {0, 0, 1, 0}};
  const boost::json::value alone = model.answer(
      PoolingForm::vector_list, R"({"inputs":["ab","c"],"normalize":true,"truncate":true})", vectors);
  EXPECT_EQ(alone.at(0).at(1), -0.5);
  EXPECT_EQ(alone.at(1).at(2), 1);
  EXPECT_EQ(model.answer(PoolingForm::vector_list, R"({"inputs":"ab"})", {vectors[1]}).as_array().size(), 1u);
  const boost::json::value typed = model.answer(
      PoolingForm::by_type,
      R"({"model":"tiny","texts":["ab","c"],"input_type":"search_query","embedding_types":["float"]})",
      vectors);
  EXPECT_EQ(typed.at("response_type"), "embeddings_by_type");
  EXPECT_EQ(typed.at("embeddings").at("float").at(0).at(3), 0.25);
  EXPECT_GT(typed.at("meta").at("billed_units").at("input_tokens").to_number<int>(), 0);
  for (const std::string_view bad :
       {R"({"texts":["a"],"embedding_types":["int8"]})", R"({"texts":["a"],"embedding_types":{"float":1}})",
        R"({"texts":["a"],"truncate":"LEFT"})", R"({"texts":[[1,2]]})", R"({"images":["a"]})", "{}"})
    EXPECT_FALSE(model.parse(PoolingForm::by_type, bad)) << bad;
  EXPECT_FALSE(model.parse(PoolingForm::vector_list, R"({"inputs":"a","prompt_name":"query"})"));
}

TEST(Pooling, RerankSortsAndCuts) {
  const Model model(WorkKind::score, 1);
  constexpr std::string_view kBody = R"({"query":"q","documents":["a",{"text":"b"},"c","d"],"top_n":3})";
  const boost::json::value answer =
      model.answer(PoolingForm::rerank, kBody, {{0.25f}, {0.75f}, {0.25f}, {0.125f}});
  const auto& results = answer.at("results").as_array();
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].at("index"), 1);
  EXPECT_EQ(results[0].at("document").at("text"), "b");
  EXPECT_EQ(results[0].at("relevance_score"), 0.75);
  EXPECT_EQ(results[1].at("index"), 0) << "of equal ones the first";
  EXPECT_EQ(results[2].at("index"), 2);
}

TEST(Pooling, ScoresOfEmbeddingsAreTheirCosines) {
  const Model model(WorkKind::embed, 2);
  const boost::json::value one = model.answer(PoolingForm::score, R"({"text_1":"q","text_2":["a","b"]})",
                                              {{1, 0}, {0.6f, 0.8f}, {0, 1}});
  EXPECT_NEAR(one.at("data").at(0).at("score").to_number<double>(), 0.6, 1e-6);
  EXPECT_EQ(one.at("data").at(1).at("score"), 0);
  const boost::json::value each = model.answer(
      PoolingForm::score, R"({"text_1":["q","r"],"text_2":["a","b"]})", {{1, 0}, {0, 1}, {1, 0}, {1, 0}});
  EXPECT_EQ(each.at("data").at(0).at("score"), 1);
  EXPECT_EQ(each.at("data").at(1).at("score"), 0);
}

TEST(Pooling, ClassesHaveLabels) {
  const Model model(WorkKind::score, 2);
  const boost::json::value answer =
      model.answer(PoolingForm::classify, R"({"input":["a","b"]})", {{0.9f, 0.1f}, {0.2f, 0.8f}});
  EXPECT_EQ(answer.at("data").at(0).at("label"), "no");
  EXPECT_EQ(answer.at("data").at(1).at("label"), "yes");
  EXPECT_EQ(answer.at("data").at(1).at("num_classes"), 2);
}

TEST(Pooling, WhatTheModelIsNotForIsRefused) {
  const Model embeds(WorkKind::embed), classifies(WorkKind::score, 2);
  const TestModel generates;
  ApiCall call;
  call.body = R"({"input":"a"})";
  EXPECT_EQ(parse_pooling_call(PoolingForm::embeddings, call, generates.context).error().code(),
            StatusCode::invalid_argument);
  EXPECT_FALSE(embeds.parse(PoolingForm::classify, call.body));
  EXPECT_FALSE(classifies.parse(PoolingForm::embeddings, call.body));
  EXPECT_FALSE(classifies.parse(PoolingForm::score, R"({"text_1":"a","text_2":"b"})"))
      << "two classes, no score";
}

TEST(Pooling, WhatASmallBodyCouldAskForIsBounded) {
  const Model model(WorkKind::score, 1);
  // A query in a thousand pairs.
  std::string documents;
  for (int i = 0; i < 2048; ++i) documents += concat(i == 0 ? "" : ",", "\"a\"");
  const std::string body =
      concat(R"({"query":")", std::string(90, 'q'), R"(","documents":[)", documents, "]}");
  EXPECT_TRUE(model.parse(PoolingForm::rerank, body));
  EXPECT_FALSE(
      model.parse(PoolingForm::rerank, concat(R"({"query":"q","documents":["a",)", documents, "]}")));
  EXPECT_FALSE(model.parse(PoolingForm::rerank, concat(R"({"query":")", std::string(1 << 20, 'q'),
                                                       R"(","documents":[)", documents, "]}")));
}

TEST(Pooling, AVectorThatIsNoNumberEndsTheCall) {
  const Model model(WorkKind::embed);
  PoolingWriter writer(*model.parse(PoolingForm::embeddings, R"({"input":"a"})"), model.context);
  RequestOutput output;
  output.deltas.emplace_back().vector = {0, std::numeric_limits<float>::quiet_NaN()};
  output.finished = true;
  writer.add(0, std::move(output));
  EXPECT_TRUE(writer.finished());
  EXPECT_EQ(writer.error().code(), StatusCode::internal);
}

// llama.cpp's /embedding, and its `content` at the other paths; rerank of text-embeddings-inference.
TEST(Pooling, ListsWithoutAnObject) {
  const Model model(WorkKind::embed, 2);
  EXPECT_EQ(
      boost::json::serialize(model.answer(PoolingForm::embedding_list, R"({"content":"ab"})", {{1, 2}})),
      R"([{"index":0,"embedding":[[1,2]]}])");
  for (const char* body : {R"({"content":["ab",[5,6]]})", R"({"input":["ab",[5,6]]})"}) {
    const auto call = model.parse(PoolingForm::embedding_list, body);
    ASSERT_TRUE(call) << call.error().message();
    ASSERT_EQ(call->requests.size(), 2u);
    EXPECT_TRUE(call->requests[0].work.pooling.normalize);
  }
  EXPECT_EQ(model.parse(PoolingForm::embeddings, R"({"content":"ab"})")->form, PoolingForm::embedding_list);
  EXPECT_EQ(model.parse(PoolingForm::embeddings, R"({"input":"a","content":"b"})")->form,
            PoolingForm::embeddings);
  const auto normalize = [&](std::string_view norm) {
    const auto call =
        model.parse(PoolingForm::embedding_list, concat(R"({"content":"a","embd_normalize":)", norm, "}"));
    return call ? (call->requests[0].work.pooling.normalize ? "yes" : "no") : call.error().param();
  };
  EXPECT_EQ(normalize("-1"), "no");
  EXPECT_EQ(normalize("2"), "yes");
  EXPECT_EQ(normalize("1"), "embd_normalize");

  const Model scorer(WorkKind::score, 1);
  EXPECT_EQ(boost::json::serialize(scorer.answer(
                PoolingForm::rerank, R"({"query":"q","texts":["a","b"],"return_text":true})", {{1}, {3}})),
            R"([{"index":1,"text":"b","score":3},{"index":0,"text":"a","score":1}])");
  EXPECT_EQ(
      boost::json::serialize(scorer.answer(PoolingForm::rerank, R"({"query":"q","texts":["a"]})", {{1}})),
      R"([{"index":0,"score":1}])");
}

}  // namespace
}  // namespace pagoda
