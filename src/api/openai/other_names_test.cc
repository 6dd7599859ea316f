// Fields of chat and completions as clients of other servers call them: SGLang's, llama.cpp's, TGI's,
// Mistral's. Each is heeded, refused by name, or named in the answer's warnings.
#include <gtest/gtest.h>

#include "api/openai/request_parser.h"
#include "api/test_support.h"
#include "base/strings.h"

namespace pagoda {
namespace {

struct Asked {
  explicit Asked(std::string_view fields, CallKind kind = CallKind::chat) {
    const char* rest =
        kind == CallKind::chat ? R"("messages":[{"role":"user","content":"hi"}])" : R"("prompt":"hi")";
    call.emplace(
        parse_call(kind, concat("{", fields, ",", rest, "}"), {.id = "id", .created = 1}, model.context));
  }
  const SamplingParams& sampling() const { return (*call)->requests[0].sampling; }
  TestModel model;
  std::optional<Result<ParsedCall>> call;
};

TEST(OtherNames, AreHeeded) {
  for (const CallKind kind : {CallKind::chat, CallKind::completion}) {
    const auto sampling = [kind](std::string_view fields) {
      Asked asked(fields, kind);
      EXPECT_TRUE(*asked.call) << fields << asked.call->error().message();
      EXPECT_TRUE((*asked.call)->warnings.empty()) << (*asked.call)->warnings.header();
      return *asked.call ? asked.sampling() : SamplingParams();
    };
    EXPECT_EQ(sampling(R"("max_new_tokens":7)").max_tokens, 7);
    EXPECT_EQ(sampling(R"("max_new_tokens":7,"max_tokens":5)").max_tokens, 5);
    EXPECT_EQ(sampling(R"("min_new_tokens":3,"max_tokens":5)").min_tokens, 3);
    EXPECT_EQ(sampling(R"("random_seed":9)").seed, 9u);
    EXPECT_EQ(sampling(R"("sampling_seed":9,"seed":4)").seed, 4u);
    EXPECT_FALSE(sampling(R"("random_seed":-1)").seed);
    EXPECT_EQ(sampling(R"("do_sample":false,"temperature":0.8)").temperature, 0);
    EXPECT_EQ(sampling(R"("do_sample":true,"temperature":0.5)").temperature, 0.5F);
    EXPECT_EQ(sampling(R"("n_cmpl":3)").n, 3);
    EXPECT_EQ(sampling(R"("n_cmpl":3,"n":2)").n, 2);
    EXPECT_EQ(sampling(R"("n_probs":2)").logprobs, 2);
    EXPECT_EQ(sampling(R"("no_repeat_ngram_size":0,"top_a":0,"num_beams":1,"lora_path":null)").n, 1);
  }
}

TEST(OtherNames, AreRefusedWhereTheyWouldChangeTheAnswer) {
  for (const char* field :
       {R"("no_repeat_ngram_size":3)", R"("top_a":0.1)", R"("epsilon_cutoff":1)", R"("eta_cutoff":1)",
        R"("penalty_alpha":0.6)", R"("smoothing_factor":1)", R"("num_beams":4)", R"("lora_path":"x")",
        R"("adapter_id":"x")", R"("custom_logit_processor":"x")", R"("repetition_detection":{"a":1})"}) {
    const std::string_view name = std::string_view(field).substr(1, std::string_view(field).find(':') - 2);
    const Asked asked(field);
    ASSERT_FALSE(*asked.call) << field;
    EXPECT_EQ(asked.call->error().param(), name);
  }
}

TEST(OtherNames, ThatNobodyKnowsAreWarnings) {
  const auto warnings = [](std::string_view fields) {
    Asked asked(fields);
    EXPECT_TRUE(*asked.call) << fields;
    return *asked.call ? (*asked.call)->warnings.header() : std::string();
  };
  EXPECT_EQ(warnings(R"("heat":0.1)"),
            "299 pagoda \"heat: the field 'heat' is not known here and is left aside\"");
  EXPECT_EQ(warnings(R"("extra_body":{"top_k":1})").find("299 pagoda \"extra_body: "), 0u);
  EXPECT_EQ(warnings(R"("future_field":null)"), "") << "asks for nothing";
  EXPECT_EQ(warnings(R"("\u00e4 b":1)"), "") << "not a name that may stand in a header";
  EXPECT_EQ(warnings(R"("store":true,"metadata":{},"service_tier":"auto","cache_prompt":true)"), "");
}

TEST(OtherNames, ProbabilitiesAfterSampling) {
  const Asked asked(R"("logprobs":true,"top_logprobs":2,"post_sampling_probs":true)");
  ASSERT_TRUE(*asked.call) << asked.call->error().message();
  EXPECT_TRUE(asked.sampling().processed_logprobs);
  EXPECT_TRUE((*asked.call)->response.after_sampling);
  const Asked beams(R"("post_sampling_probs":true,"use_beam_search":true,"n":2)");
  EXPECT_EQ(beams.call->error().param(), "post_sampling_probs");
  const Asked best(R"("post_sampling_probs":true,"best_of":2)");
  EXPECT_EQ(best.call->error().param(), "post_sampling_probs");
  const Asked text(R"("post_sampling_probs":true)", CallKind::completion);
  EXPECT_EQ(text.call->error().param(), "post_sampling_probs");
}

}  // namespace
}  // namespace pagoda
