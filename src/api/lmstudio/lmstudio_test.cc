// LM Studio's lists of models, as its clients read them.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/array.hpp>

#include "api/json.h"
#include "api/lmstudio/lmstudio_protocol.h"
#include "api/test_support.h"

namespace pagoda {
namespace {

namespace json = boost::json;

Result<json::value> asked(std::string_view path, const ApiContext& context, std::string parameter = {},
                          std::string body = {}) {
  const auto& routes = lmstudio_protocol().routes;
  const auto route =
      std::ranges::find_if(routes, [path](const ApiRoute& row) { return row.facts.path == path; });
  ApiCall call;
  call.parameter = std::move(parameter);
  call.body = std::move(body);
  const Result<ApiAnswer> answer = std::get<AnswerHandler>(route->handler)(call, context);
  if (!answer) return answer.error();
  return parse_json(answer->body);
}

TEST(LmStudio, ListsTheModelAsLoaded) {
  TestModel model;
  model.context.model_names = {"org/tiny"};
  model.context.tool_parser = "hermes";
  const json::value row = asked("/api/v1/models", model.context)->at("models").at(0);
  EXPECT_EQ(row.at("key"), "org/tiny");
  EXPECT_EQ(row.at("publisher"), "org");
  EXPECT_EQ(row.at("type"), "llm");
  EXPECT_EQ(row.at("loaded_instances").at(0).at("config").at("context_length"), 100);
  EXPECT_EQ(row.at("capabilities").at("trained_for_tool_use"), true);
  const json::value old = asked("/api/v0/models", model.context)->at("data").at(0);
  EXPECT_EQ(old.at("id"), "org/tiny");
  EXPECT_EQ(old.at("state"), "loaded");
  EXPECT_EQ(old, *asked("/api/v0/models/{model}", model.context, "org/tiny"));
  EXPECT_FALSE(asked("/api/v0/models/{model}", model.context, "other"));
}

TEST(LmStudio, LoadingIsDoneAlready) {
  const TestModel model;
  EXPECT_EQ(asked("/api/v1/models/load", model.context, {}, R"({"model":"tiny"})")->at("status"), "loaded");
  EXPECT_EQ(asked("/api/v1/models/load", model.context, {}, "{}").error().param(), "model");
  EXPECT_FALSE(asked("/api/v1/models/load", model.context, {}, R"({"model":"other"})"));
}

}  // namespace
}  // namespace pagoda
