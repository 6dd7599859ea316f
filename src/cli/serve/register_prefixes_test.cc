#include "cli/serve/register_prefixes.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "api/test_support.h"

namespace pagoda {
namespace {

// Takes every prefix but those of the one token 0.
class PinningEngine final : public EngineClient {
 public:
  const EngineLimits& limits() const override { return limits_; }
  Status submit(Request, std::shared_ptr<OutputSink>) override { return unavailable("no"); }
  void abort(RequestId) override {}
  void abort_sequence(RequestId, std::int32_t) override {}
  bool healthy() const override { return true; }
  Status add_prefix(std::string name, std::vector<TokenId> tokens,
                    std::shared_ptr<OutputSink> sink) override {
    RequestOutput output;
    output.finished = true;
    if (tokens == std::vector<TokenId>{0}) output.error = invalid_argument("no room");
    if (output.error.ok()) names.push_back(std::move(name));
    sink->on_output(std::move(output));
    return {};
  }
  std::vector<std::string> names;

 private:
  EngineLimits limits_;
};

std::string write_file(const char* text) {
  std::string path = ::testing::TempDir() + "pagoda_prefixes.json";
  std::ofstream(path) << text;
  return path;
}

TEST(RegisterPrefixes, PinsTheFilesPrefixesInTheirOrder) {
  const TestModel model;
  PinningEngine engine;
  const std::string path = write_file(R"([{"name":"a","text":"x"},{"name":"b","token_ids":[1]}])");
  EXPECT_TRUE(register_prefixes(path, model.context, engine).ok());
  EXPECT_EQ(engine.names, (std::vector<std::string>{"a", "b"}));
}

TEST(RegisterPrefixes, ErrorsNameTheFileAndWhatIsWrong) {
  const TestModel model;
  PinningEngine engine;
  const auto message = [&](const std::string& path) {
    const Status status = register_prefixes(path, model.context, engine);
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(status.message().starts_with("--prefix-file ")) << status.message();
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
    return status.message();
  };
  EXPECT_NE(message("/nowhere/p.json"), "");
  EXPECT_NE(message(write_file(R"([{"name":"a"}])")).find("0.text"), std::string::npos);
  EXPECT_NE(message(write_file(R"([{"name":"zero","token_ids":[0]}])")).find("\"zero\": no room"),
            std::string::npos);
  const ApiContext ids_only;
  EXPECT_FALSE(register_prefixes(write_file("[]"), ids_only, engine).ok());
}

}  // namespace
}  // namespace pagoda
