// /completion, /infill and /props as llama.cpp's clients use them.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

#include "api/json.h"
#include "api/llamacpp/completion_parser.h"
#include "api/llamacpp/completion_writer.h"
#include "api/llamacpp/llamacpp_protocol.h"
#include "api/test_support.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

struct Asked {
  explicit Asked(std::string_view fields, bool infill = false) : model(1000) {
    call.emplace(parse_llama_completion(concat("{", fields, "}"), infill, model.context));
  }
  void say(std::string_view text, FinishReason reason = FinishReason::stop) {
    ASSERT_TRUE(*call) << call->error().message();
    const bool logprobs = (**call).answer.logprobs.has_value();
    LlamaCompletionWriter writer(**std::move(call), model.context);
    for (const char c : text) {
      SequenceDelta delta = delta_of(std::string_view(&c, 1));
      if (logprobs) delta.logprobs = {logprobs_of(c, -0.5f, {{.token = 'z', .logprob = -1.5f, .rank = 2}})};
      add(writer, std::move(delta), false);
    }
    SequenceDelta end;
    if (logprobs) end.logprobs = {logprobs_of(FakeTokenizer::kEos, -0.25f)};
    end.token_ids = {FakeTokenizer::kEos};
    end.finish_reason = reason;
    add(writer, std::move(end), true);
  }
  void add(LlamaCompletionWriter& writer, SequenceDelta delta, bool last) {
    RequestOutput output;
    output.deltas.push_back(std::move(delta));
    output.finished = last;
    writer.add(0, std::move(output));
    writer.take(out, std::size_t{1} << 20);
  }
  TestModel model;
  std::optional<Result<LlamaCompletion>> call;
  std::string out;
};

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all.append(text);
  return all;
}

std::vector<json::value> events_of(std::string_view stream) {
  std::vector<json::value> events;
  for (std::size_t at = 0; (at = stream.find("data: ", at)) != std::string_view::npos;) {
    const std::size_t end = stream.find("\n\n", at);
    events.push_back(*parse_json(stream.substr(at + 6, end - at - 6)));
    at = end;
  }
  return events;
}

TEST(LlamaCompletion, AWholeAnswer) {
  Asked asked(R"("prompt":"hi","n_predict":9,"seed":3,"return_tokens":true)");
  ASSERT_TRUE(*asked.call);
  EXPECT_EQ((*asked.call)->requests[0].sampling.max_tokens, 9);
  EXPECT_EQ((*asked.call)->requests[0].prompt_token_ids,
            (std::vector<TokenId>{FakeTokenizer::kBos, 'h', 'i'}));
  asked.say("ab");
  const json::value got = *parse_json(asked.out);
  EXPECT_EQ(got.at("content"), "ab");
  EXPECT_EQ(got.at("stop"), true);
  EXPECT_EQ(got.at("stop_type"), "eos");
  EXPECT_EQ(got.at("tokens_predicted"), 3);
  EXPECT_EQ(got.at("tokens_evaluated"), 3);
  EXPECT_EQ(got.at("tokens").as_array().size(), 3u);
}

TEST(LlamaCompletion, LogProbabilitiesOfEveryToken) {
  for (const bool stream : {false, true}) {
    Asked asked(concat(R"("prompt":"hi","n_probs":1,"stream":)", stream ? "true" : "false"));
    ASSERT_TRUE(*asked.call);
    EXPECT_EQ((*asked.call)->requests[0].sampling.logprobs, 1);
    asked.say("ab");
    json::array tokens;
    const std::string mark = stream ? "data: " : "";
    for (std::size_t at = 0; at < asked.out.size();) {
      const std::size_t end = stream ? asked.out.find("\n\n", at) : asked.out.size();
      const json::value piece =
          *parse_json(std::string_view(asked.out).substr(at + mark.size(), end - at - mark.size()));
      for (const json::value& token : piece.at("completion_probabilities").as_array())
        tokens.push_back(token);
      at = stream ? end + 2 : end;
    }
    ASSERT_EQ(tokens.size(), 3u);
    EXPECT_EQ(json::serialize(tokens[0]),
              R"({"id":97,"token":"a","logprob":-5E-1,"bytes":[97],)"
              R"("top_logprobs":[{"id":122,"token":"z","logprob":-1.5E0,"bytes":[122]}]})");
    EXPECT_EQ(tokens[2].at("id"), FakeTokenizer::kEos);
  }
  Asked none(R"("prompt":"hi","n_probs":0)");
  none.say("ab");
  EXPECT_FALSE(parse_json(none.out)->as_object().contains("completion_probabilities"));
}

// They are of what is drawn from, and called "prob".
TEST(LlamaCompletion, ProbabilitiesAfterSampling) {
  Asked asked(R"("prompt":"hi","n_probs":1,"post_sampling_probs":true)");
  ASSERT_TRUE(*asked.call);
  EXPECT_TRUE((*asked.call)->requests[0].sampling.processed_logprobs);
  asked.say("a");
  const json::object token = parse_json(asked.out)->at("completion_probabilities").at(0).as_object();
  EXPECT_EQ(token.at("id"), 97);
  EXPECT_NEAR(token.at("prob").as_double(), std::exp(-0.5), 1e-6);
  EXPECT_FALSE(token.contains("logprob") || token.contains("top_logprobs"));
  const json::object& top = token.at("top_probs").at(0).as_object();
  EXPECT_EQ(top.at("token"), "z");
  EXPECT_NEAR(top.at("prob").as_double(), std::exp(-1.5), 1e-6);
  Asked without(R"("prompt":"hi","post_sampling_probs":true)");
  EXPECT_FALSE((*without.call)->requests[0].sampling.logprobs);
}

// Answers of several prompts, several of each: a list, or events that name theirs.
TEST(LlamaCompletion, SeveralPromptsAndAnswers) {
  for (const bool stream : {false, true}) {
    Asked asked(concat(R"("prompt":["hi",[65,"b"],{"prompt_string":"c"}],"n_cmpl":2,"n_predict":3,"stream":)",
                       stream ? "true" : "false"));
    ASSERT_TRUE(*asked.call) << asked.call->error().message();
    ASSERT_EQ((*asked.call)->requests.size(), 3u);
    EXPECT_EQ((*asked.call)->requests[1].prompt_token_ids, (std::vector<TokenId>{65, 'b'}));
    EXPECT_EQ((*asked.call)->requests[2].sampling.n, 2);
    EXPECT_EQ((*asked.call)->requests[2].sampling.best_of, 2);
    LlamaCompletionWriter writer(**std::move(asked.call), asked.model.context);
    for (const std::size_t prompt : {2u, 0u, 1u})
      for (const int sequence : {1, 0}) {
        RequestOutput output;
        output.num_cached_tokens = static_cast<std::int32_t>(prompt);
        const std::size_t index = prompt * 2 + static_cast<std::size_t>(sequence);
        SequenceDelta delta = delta_of(std::string_view("abcdef").substr(index, 1), sequence);
        delta.finish_reason = FinishReason::length;
        output.deltas.push_back(std::move(delta));
        output.finished = sequence == 0;
        writer.add(prompt, std::move(output));
        writer.take(asked.out, std::size_t{1} << 20);
      }
    std::vector<json::value> ends;
    if (!stream) {
      const json::value all = *parse_json(concat(R"({"all":)", asked.out, "}"));
      for (const json::value& each : all.at("all").as_array()) ends.push_back(each);
    } else {
      ends.resize(6);
      for (const json::value& event : events_of(asked.out))
        if (event.at("stop") == true) ends[static_cast<std::size_t>(event.at("index").as_int64())] = event;
    }
    ASSERT_EQ(ends.size(), 6u);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(ends[i].at("index"), static_cast<std::int64_t>(i));
      EXPECT_EQ(ends[i].at("content"), json::string(1, static_cast<char>('a' + i)));
      EXPECT_EQ(ends[i].at("tokens_predicted"), 1);
      EXPECT_EQ(ends[i].at("tokens_evaluated"), i < 2 ? 3 : 2);
      EXPECT_EQ(ends[i].at("tokens_cached"), i / 2);
      EXPECT_EQ(ends[i].at("timings").at("predicted_n"), 1);
      EXPECT_EQ(ends[i].at("stop_type"), "limit");
    }
  }
}

TEST(LlamaCompletion, AListOfOnePromptIsOneAnswer) {
  for (const char* prompt : {R"(["hi"])", R"([{"prompt_string":"hi"}])", R"([[1,104,105]])"}) {
    Asked asked(concat("\"prompt\":", prompt));
    asked.say("a");
    EXPECT_EQ(parse_json(asked.out)->at("content"), "a") << prompt;
  }
}

TEST(LlamaCompletion, AStreamEndsWithTheCounts) {
  Asked asked(R"("prompt":"hi","stream":true,"stop":["c"])");
  asked.say("abc");
  std::string text;
  json::value last;
  for (std::size_t at = 0; (at = asked.out.find("data: ", at)) != std::string::npos;) {
    const std::size_t end = asked.out.find("\n\n", at);
    last = *parse_json(std::string_view(asked.out).substr(at + 6, end - at - 6));
    text.append(last.at("content").as_string());
    at = end;
  }
  EXPECT_EQ(text, "ab");
  EXPECT_EQ(last.at("stop_type"), "word");
  EXPECT_EQ(last.at("stopping_word"), "c");
}

// As editors send it to have the prompt in the cache.
TEST(LlamaCompletion, OfNoTokensComputesThePromptAlone) {
  for (const bool stream : {false, true}) {
    Asked asked(concat(R"("prompt":"hi","n_predict":0,"stream":)", stream ? "true" : "false"));
    ASSERT_TRUE(*asked.call);
    EXPECT_EQ((*asked.call)->requests[0].sampling.max_tokens, 1);
    asked.say("x");
    const std::string_view body = asked.out;
    const json::value got = *parse_json(stream ? body.substr(6, body.size() - 8) : body);
    EXPECT_EQ(got.at("content"), "");
    EXPECT_EQ(got.at("tokens_predicted"), 0);
    EXPECT_EQ(got.at("tokens_evaluated"), 3);
    EXPECT_EQ(got.at("stop_type"), "limit");
    EXPECT_EQ(got.at("generation_settings").at("n_predict"), 0);
  }
}

// As llama.vim asks, which shows the numbers beside its suggestion.
TEST(LlamaCompletion, HasTheFieldsThatAreAskedFor) {
  for (const bool stream : {false, true}) {
    Asked asked(concat(R"("prompt":"hi","response_fields":["content","timings/prompt_n","tokens_cached",)",
                       R"("generation_settings/stop","none/such","content/x"],"stream":)",
                       stream ? "true" : "false"));
    asked.say("ab");
    const std::size_t at = stream ? asked.out.rfind("data: ") + 6 : 0;
    const std::string_view body = std::string_view(asked.out).substr(at);
    EXPECT_EQ(json::serialize(*parse_json(body)),
              concat(R"({"content":")", stream ? "" : "ab",
                     R"(","timings/prompt_n":3,"tokens_cached":0,"generation_settings/stop":[]})"));
  }
}

TEST(LlamaCompletion, TimesOfEveryPieceWhereTheyAreAskedFor) {
  for (const bool asks : {false, true}) {
    Asked asked(concat(R"("prompt":"hi","stream":true,"timings_per_token":)", asks ? "true" : "false"));
    asked.say("ab");
    const json::value first = *parse_json(std::string_view(asked.out).substr(6, asked.out.find("\n\n") - 6));
    EXPECT_EQ(first.as_object().contains("timings"), asks);
  }
}

TEST(LlamaCompletion, SamplersThatAreNotListedAreOff) {
  const auto sampling = [](std::string_view fields) {
    Asked asked(concat(R"("prompt":"a","temperature":0.5,"top_k":5,"top_p":0.9,"min_p":0.1,)",
                       R"("repeat_penalty":1.5,"presence_penalty":1)", fields));
    EXPECT_TRUE(*asked.call) << fields;
    return *asked.call ? (*asked.call)->requests[0].sampling : SamplingParams();
  };
  const SamplingParams all = sampling("");
  EXPECT_EQ(all.top_k, 5);
  EXPECT_EQ(all.repetition_penalty, 1.5F);
  for (const char* fim : {R"(,"samplers":["top_k","top_p","infill"])", R"(,"samplers":"kpi")"}) {
    const SamplingParams some = sampling(fim);
    EXPECT_EQ(some.top_k, 5);
    EXPECT_EQ(some.top_p, 0.9F);
    EXPECT_EQ(some.min_p, 0);
    EXPECT_EQ(some.temperature, 1);
    EXPECT_EQ(some.repetition_penalty, 1);
    EXPECT_EQ(some.presence_penalty, 0);
  }
  EXPECT_EQ(sampling(R"(,"samplers":["temperature"])").temperature, 0.5F);
  for (const char* typical : {R"(,"typ_p":0.75)", R"(,"typical_p":0.75)", R"(,"typ_p":0.75,"samplers":"y")"})
    EXPECT_EQ(sampling(typical).typical_p, 0.75F) << typical;
  for (const char* off : {R"(,"typ_p":2)", R"(,"typ_p":0.75,"samplers":["top_k"])", ""})
    EXPECT_EQ(sampling(off).typical_p, 1.0F) << off;
  EXPECT_EQ(sampling(R"(,"samplers":["penalties"])").repetition_penalty, 1.5F);
  EXPECT_EQ(sampling(R"(,"repeat_last_n":0)").repetition_penalty, 1);
  EXPECT_EQ(sampling(R"(,"repeat_last_n":64)").repetition_penalty, 1.5F);
}

TEST(LlamaCompletion, WarnsOfWhatItLeavesOut) {
  const auto warnings = [](std::string_view fields) {
    Asked asked(concat(R"("prompt":"a",)", fields));
    EXPECT_TRUE(*asked.call) << fields;
    return *asked.call ? (*asked.call)->warnings.header() : std::string();
  };
  EXPECT_EQ(warnings(R"("repeat_last_n":64)"), "") << "no penalty";
  EXPECT_NE(warnings(R"("repeat_last_n":64,"repeat_penalty":1.1)").find("repeat_last_n: "),
            std::string::npos);
  EXPECT_EQ(warnings(R"("repeat_last_n":-1,"repeat_penalty":1.1)"), "");
  for (const char* name : {"min_keep", "n_indent", "t_max_predict_ms"}) {
    EXPECT_NE(warnings(concat('"', name, "\":500")).find(name), std::string::npos);
    EXPECT_EQ(warnings(concat('"', name, "\":0")), "");
  }
}

TEST(LlamaCompletion, OtherNamesOfTheNumberOfTokens) {
  const auto tokens = [](std::string_view fields) {
    Asked asked(concat(R"("prompt":"a",)", fields));
    return *asked.call ? (*asked.call)->requests[0].sampling.max_tokens : -1;
  };
  EXPECT_EQ(tokens(R"("max_tokens":7)"), 7);
  EXPECT_EQ(tokens(R"("max_completion_tokens":7)"), 7);
  EXPECT_EQ(tokens(R"("max_tokens":7,"n_predict":3)"), 3);
  EXPECT_EQ(tokens(R"("n_predict":-2)"), tokens(R"("n_predict":-1)"));
}

TEST(LlamaCompletion, ANegativeTemperatureIsGreedy) {
  Asked asked(R"("prompt":"a","temperature":-1)");
  ASSERT_TRUE(*asked.call) << asked.call->error().message();
  EXPECT_EQ((*asked.call)->requests[0].sampling.temperature, 0);
}

TEST(LlamaCompletion, PromptsOfIdsAndTexts) {
  const auto ids = [](std::string_view prompt) {
    Asked asked(concat("\"prompt\":", prompt));
    EXPECT_TRUE(*asked.call) << prompt;
    return *asked.call ? (*asked.call)->requests[0].prompt_token_ids : std::vector<TokenId>();
  };
  EXPECT_EQ(ids(R"([65,"b",67])"), (std::vector<TokenId>{65, 'b', 67}));
  EXPECT_EQ(ids(R"({"prompt_string":"hi"})"), (std::vector<TokenId>{FakeTokenizer::kBos, 'h', 'i'}));
  EXPECT_EQ(ids(R"({"prompt_string":"hi","multimodal_data":[]})").size(), 3u);
}

TEST(LlamaCompletion, BiasesArePairsOrAnObject) {
  using Biases = std::vector<std::pair<TokenId, float>>;
  const auto biases = [](std::string_view value) {
    Asked asked(concat(R"("prompt":"a","logit_bias":)", value));
    EXPECT_TRUE(*asked.call) << value;
    return *asked.call ? (*asked.call)->requests[0].sampling.logit_bias : Biases();
  };
  EXPECT_EQ(biases(R"([[65,1.5],["bc",-2]])"), (Biases{{65, 1.5f}, {'b', -2.0f}, {'c', -2.0f}}));
  EXPECT_EQ(biases(R"({"65":3,"b":1})"), (Biases{{65, 3.0f}, {'b', 1.0f}}));
  EXPECT_EQ(biases("[[65,false]]"), (Biases{{65, -1e9f}}));
  EXPECT_EQ(biases("[]"), Biases());
}

TEST(LlamaCompletion, WhatIsWrongIsNamed) {
  const auto param = [](std::string_view fields, bool infill = false) {
    const Asked asked(fields, infill);
    EXPECT_FALSE(*asked.call) << fields;
    return *asked.call ? std::string() : std::string(asked.call->error().param());
  };
  EXPECT_EQ(param(""), "prompt");
  EXPECT_EQ(param(R"("prompt":[99999])"), "prompt.0");
  EXPECT_EQ(param(R"("prompt":[])"), "prompt");
  EXPECT_EQ(param(R"("prompt":["a",true])"), "prompt.1");
  EXPECT_EQ(param(R"("prompt":["a",[5,99999]])"), "prompt.1.1");
  EXPECT_EQ(param(R"("prompt":["a",{"prompt_string":"b","multimodal_data":["AA"]}])"),
            "prompt.1.multimodal_data");
  EXPECT_EQ(param(R"("prompt":{"text":"a"})"), "prompt.prompt_string");
  EXPECT_EQ(param(R"("prompt":{"prompt_string":"a","multimodal_data":["AA"]})"), "prompt.multimodal_data");
  EXPECT_EQ(param(R"("prompt":"a","image_data":[{"data":"AA","id":1}])"), "image_data");
  EXPECT_EQ(param(R"("prompt":"a","mirostat":2)"), "mirostat");
  EXPECT_EQ(param(R"("prompt":"a","dynatemp_range":0.5)"), "dynatemp_range");
  EXPECT_EQ(param(R"("prompt":"a","top_n_sigma":2)"), "top_n_sigma");
  for (const char* field : {R"("dry_multiplier":0.8)", R"("xtc_probability":0.5)", R"("typical_p":-1)",
                            R"("typ_p":-1)", R"("tfs_z":0.9)"}) {
    const std::string_view name = std::string_view(field).substr(1, std::string_view(field).find(':') - 2);
    EXPECT_EQ(param(concat(R"("prompt":"a",)", field)), name);
  }
  EXPECT_TRUE(*Asked(R"("prompt":"a","xtc_probability":0.5,"xtc_threshold":0.6)").call) << "which is off";
  EXPECT_EQ(param(R"("prompt":"a","n_cmpl":129)"), "n_cmpl");
  EXPECT_EQ(param(R"("prompt":"a","n":0)"), "n");
  EXPECT_EQ(param(concat(R"("prompt":["a")", repeated(R"(,"a")", 9), R"(],"n_cmpl":128)")), "n_cmpl");
  for (const char* wrong :
       {"5", "[5]", "[[5]]", "[[99999,1]]", R"([["a","b"]])", "[[5,true]]", R"({"99999":1})"})
    EXPECT_EQ(param(concat(R"("prompt":"a","logit_bias":)", wrong)), "logit_bias");
  EXPECT_EQ(param(R"("prompt":"a","n_probs":99)"), "n_probs");
  EXPECT_EQ(param(R"("input_prefix":"a","input_suffix":"b")", true), "input_suffix")
      << "it has no such tokens";
}

// A byte a token, and three tokens for filling in the middle.
class FimTokenizer final : public Tokenizer {
 public:
  Result<std::vector<TokenId>> encode(std::string_view text,
                                      const EncodeOptions& options = {}) const override {
    return bytes_.encode(text, options);
  }
  std::string decode(std::span<const TokenId> ids, bool skip) const override {
    return bytes_.decode(ids, skip);
  }
  std::int32_t vocab_size() const override { return bytes_.vocab_size(); }
  std::string token_string(TokenId id) const override { return bytes_.token_string(id); }
  std::string token_bytes(TokenId id) const override { return bytes_.token_bytes(id); }
  std::optional<TokenId> find(std::string_view token) const override {
    if (token == "<fim_prefix>") return 1;
    if (token == "<fim_suffix>") return 2;
    if (token == "<fim_middle>") return 3;
    return std::nullopt;
  }
  TokenId bos() const override { return bytes_.bos(); }
  TokenId eos() const override { return bytes_.eos(); }
  bool is_special(TokenId id) const override { return bytes_.is_special(id); }

 private:
  FakeTokenizer bytes_;
};

TEST(LlamaInfill, IsThePromptOfTheModelsTokensAndTextsStayText) {
  const FimTokenizer tokenizer;
  TestModel model(1000);
  model.context.tokenizer = &tokenizer;
  const auto call = parse_llama_completion(R"({"input_prefix":"a","prompt":"b","input_suffix":"<x>"})", true,
                                           model.context);
  ASSERT_TRUE(call) << call.error().message();
  const std::vector<TokenId>& ids = call->requests[0].prompt_token_ids;
  EXPECT_EQ(ids, (std::vector<TokenId>{FakeTokenizer::kBos, 1, 'a', 'b', 2, '<', 'x', '>', 3}));
}

TEST(LlamaProps, StatesTheSamplingOfTheModelsFilesAlone) {
  TestModel model(1000);
  const auto params = [&model] {
    for (const ApiRoute& route : llamacpp_protocol().routes)
      if (route.facts.path == "/props")
        return parse_json(std::get<AnswerHandler>(route.handler)({}, model.context)->body)
            ->at("default_generation_settings")
            .at("params");
    return json::value();
  };
  EXPECT_EQ(params(), json::object());
  model.context.defaults.temperature = 0.5F;
  model.context.defaults.top_k = 20;
  EXPECT_EQ(params(), (json::object{{"temperature", 0.5}, {"top_k", 20}}));
}

}  // namespace
}  // namespace pagoda
