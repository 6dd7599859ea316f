#include "api/openai/request_parser.h"

#include <gtest/gtest.h>

#include "api/errors.h"
#include "api/test_support.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr CallKind kText = CallKind::completion;
constexpr CallKind kChat = CallKind::chat;

Result<ParsedCall> parse(CallKind kind, std::string_view body, const ApiContext& context) {
  return parse_call(kind, body, {.id = "id", .created = 123}, context);
}

// A body with the required fields and `fields` beside them.
std::string with(CallKind kind, std::string_view fields) {
  const char* rest = kind == kText ? R"("prompt":"hi")" : R"("messages":[{"role":"user","content":"hi"}])";
  return concat("{", fields, fields.empty() ? "" : ",", rest, "}");
}

struct BadField {
  CallKind kind;
  const char* fields;
  const char* param;
  int status = 400;
};

class BadFields : public ::testing::TestWithParam<BadField> {};

TEST_P(BadFields, AreRefusedByName) {
  const TestModel model;
  const std::string body = with(GetParam().kind, GetParam().fields);
  const auto call = parse(GetParam().kind, body, model.context);
  ASSERT_FALSE(call.has_value()) << body;
  EXPECT_EQ(http_status(call.error()), GetParam().status) << body;
  EXPECT_EQ(call.error().param(), GetParam().param) << body << "\n" << call.error().message();
  EXPECT_FALSE(call.error().message().empty());
}

INSTANTIATE_TEST_SUITE_P(
    Completions, BadFields,
    ::testing::Values(
        BadField{kText, R"("model":1)", "model"}, BadField{kText, R"("model":"gpt-9")", "model", 404},
        BadField{kText, R"("n":0)", "n"}, BadField{kText, R"("n":129)", "n"},
        BadField{kText, R"("n":1.5)", "n"}, BadField{kText, R"("n":"2")", "n"},
        BadField{kText, R"("n":true)", "n"}, BadField{kText, R"("n":-1)", "n"},
        BadField{kText, R"("n":1e300)", "n"}, BadField{kText, R"("n":18446744073709551615)", "n"},
        BadField{kText, R"("temperature":-0.1)", "temperature"},
        BadField{kText, R"("temperature":"hot")", "temperature"},
        BadField{kText, R"("temperature":101)", "temperature"},
        BadField{kText, R"("temperature":1e400)", "temperature"},
        BadField{kText, R"("temperature":[1])", "temperature"}, BadField{kText, R"("top_p":-0.1)", "top_p"},
        BadField{kText, R"("top_p":1.01)", "top_p"}, BadField{kText, R"("top_p":false)", "top_p"},
        BadField{kText, R"("top_k":-2)", "top_k"}, BadField{kText, R"("top_k":1.5)", "top_k"},
        BadField{kText, R"("top_k":4294967296)", "top_k"}, BadField{kText, R"("min_p":-0.5)", "min_p"},
        BadField{kText, R"("min_p":2)", "min_p"},
        BadField{kText, R"("repetition_penalty":0)", "repetition_penalty"},
        BadField{kText, R"("repetition_penalty":-1)", "repetition_penalty"},
        BadField{kText, R"("repetition_penalty":1e-50)", "repetition_penalty"},
        BadField{kText, R"("presence_penalty":2.1)", "presence_penalty"},
        BadField{kText, R"("presence_penalty":-2.1)", "presence_penalty"},
        BadField{kText, R"("frequency_penalty":"x")", "frequency_penalty"},
        BadField{kText, R"("frequency_penalty":3)", "frequency_penalty"},
        BadField{kText, R"("length_penalty":"1")", "length_penalty"},
        BadField{kText, R"("seed":1.5)", "seed"}, BadField{kText, R"("seed":"7")", "seed"},
        BadField{kText, R"("max_tokens":0)", "max_tokens"},
        BadField{kText, R"("max_tokens":-2)", "max_tokens"},
        BadField{kText, R"("max_tokens":2.5)", "max_tokens"},
        BadField{kText, R"("max_tokens":"10")", "max_tokens"},
        BadField{kText, R"("max_tokens":1000)", "prompt"},
        BadField{kText, R"("min_tokens":-1)", "min_tokens"},
        BadField{kText, R"("min_tokens":9,"max_tokens":8)", "min_tokens"},
        BadField{kText, R"("min_tokens":17)", "min_tokens"},  // the default budget is 16
        BadField{kText, R"("ignore_eos":"yes")", "ignore_eos"},
        BadField{kText, R"("ignore_eos":1)", "ignore_eos"}, BadField{kText, R"("stream":"true")", "stream"},
        BadField{kText, R"("stream":1)", "stream"},
        BadField{kText, R"("stream_options":{"include_usage":true})", "stream_options"},
        BadField{kText, R"("stream":true,"stream_options":[])", "stream_options"},
        BadField{kText, R"("stream":true,"stream_options":{"include_usage":1})",
                 "stream_options.include_usage"},
        BadField{kText, R"("stream":true,"stream_options":{"continuous_usage_stats":"x"})",
                 "stream_options.continuous_usage_stats"},
        BadField{kText, R"("echo":"no")", "echo"}, BadField{kText, R"("logprobs":21)", "logprobs"},
        BadField{kText, R"("logprobs":-1)", "logprobs"}, BadField{kText, R"("logprobs":true)", "logprobs"},
        BadField{kText, R"("prompt_logprobs":21)", "prompt_logprobs"},
        BadField{kText, R"("prompt_logprobs":-1)", "prompt_logprobs"},
        BadField{kText, R"("prompt_logprobs":1,"stream":true)", "prompt_logprobs"},
        BadField{kText, R"("stop":"")", "stop"}, BadField{kText, R"("stop":[""])", "stop.0"},
        BadField{kText, R"("stop":["a",1])", "stop.1"}, BadField{kText, R"("stop":{})", "stop"},
        BadField{kText, R"("stop_token_ids":5)", "stop_token_ids"},
        BadField{kText, R"("stop_token_ids":[1,"2"])", "stop_token_ids.1"},
        BadField{kText, R"("stop_token_ids":[260])", "stop_token_ids.0"},
        BadField{kText, R"("stop_token_ids":[-1])", "stop_token_ids.0"},
        BadField{kText, R"("allowed_token_ids":[])", "allowed_token_ids"},
        BadField{kText, R"("allowed_token_ids":[1000])", "allowed_token_ids.0"},
        BadField{kText, R"("allowed_token_ids":[0.5])", "allowed_token_ids.0"},
        BadField{kText, R"("bad_words":[""])", "bad_words.0"},
        BadField{kText, R"("bad_words":["x"," "])", "bad_words.1"},
        BadField{kText, R"("bad_words":7)", "bad_words"}, BadField{kText, R"("logit_bias":[])", "logit_bias"},
        BadField{kText, R"("logit_bias":{"a":1})", "logit_bias"},
        BadField{kText, R"("logit_bias":{"260":1})", "logit_bias"},
        BadField{kText, R"("logit_bias":{"-1":1})", "logit_bias"},
        BadField{kText, R"("logit_bias":{"5":101})", "logit_bias.5"},
        BadField{kText, R"("logit_bias":{"5":"1"})", "logit_bias.5"},
        BadField{kText, R"("skip_special_tokens":0)", "skip_special_tokens"},
        BadField{kText, R"("spaces_between_special_tokens":"x")", "spaces_between_special_tokens"},
        BadField{kText, R"("include_stop_str_in_output":"x")", "include_stop_str_in_output"},
        BadField{kText, R"("truncate_prompt_tokens":0)", "truncate_prompt_tokens"},
        BadField{kText, R"("truncate_prompt_tokens":-2)", "truncate_prompt_tokens"},
        BadField{kText, R"("truncate_prompt_tokens":101)", "truncate_prompt_tokens"},
        BadField{kText, R"("add_special_tokens":"x")", "add_special_tokens"},
        BadField{kText, R"("priority":1.5)", "priority"},
        BadField{kText, R"("priority":3000000000)", "priority"},
        BadField{kText, R"("cache_salt":"")", "cache_salt"},
        BadField{kText, R"("cache_salt":5)", "cache_salt"},
        BadField{kText, R"("kv_transfer_params":5)", "kv_transfer_params"},
        BadField{kText, R"("kv_transfer_params":{"do_remote_decode":1})",
                 "kv_transfer_params.do_remote_decode"},
        BadField{kText, R"("request_id":"a b")", "request_id"},
        BadField{kText, R"("request_id":3)", "request_id"}, BadField{kText, R"("user":3)", "user"},
        BadField{kText, R"("best_of":0)", "best_of"}, BadField{kText, R"("n":3,"best_of":2)", "best_of"},
        BadField{kText, R"("best_of":2,"stream":true)", "best_of"},
        BadField{kText, R"("use_beam_search":"x")", "use_beam_search"},
        BadField{kText, R"("early_stopping":"always")", "early_stopping"},
        BadField{kText, R"("early_stopping":1)", "early_stopping"},
        BadField{kText, R"("beam_width":0)", "beam_width"},
        BadField{kText, R"("beam_width":129)", "beam_width"},
        BadField{kText, R"("n":128,"best_of":257)", "best_of"},
        BadField{kText, R"("stream_best_so_far":1,"use_beam_search":true)", "stream_best_so_far"},
        BadField{kText, R"("stream_best_so_far":true,"stream":true)", "stream_best_so_far"},
        BadField{kText, R"("stream_best_so_far":true,"use_beam_search":true)", "stream_best_so_far"},
        BadField{kText, R"("length_penalty":11)", "length_penalty"},
        BadField{kText, R"("num_beam_groups":0)", "num_beam_groups"},
        BadField{kText, R"("diversity_penalty":-1)", "diversity_penalty"},
        BadField{kText, R"("return_token_ids":1)", "return_token_ids"},
        BadField{kText, R"("return_tokens_as_token_ids":1)", "return_tokens_as_token_ids"},
        BadField{kText, R"("suffix":"x")", "suffix", 400},
        BadField{kText, R"("response_format":{"type":"json_object"})", "response_format", 400},
        BadField{kText, R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
        BadField{kText, R"("grammar":7)", "grammar"},
        BadField{kText, R"("guided_choice":"a")", "guided_choice"},
        BadField{kText, R"("structured_outputs":{"regex":"a","json":{}})", "structured_outputs.regex"},
        BadField{kText, R"("guided_regex":"a","grammar":"b")", "grammar"},
        BadField{kText, R"("response_format":{"type":"yaml"})", "response_format.type"},
        BadField{kText, R"("response_format":"text")", "response_format"},
        BadField{kText, R"("guided_json":{})", "guided_json", 400},
        BadField{kText, R"("structured_outputs":{"regex":"a"})", "structured_outputs", 400},
        BadField{kText, R"("prompt_embeds":"AAAA")", "prompt_embeds", 400}));

INSTANTIATE_TEST_SUITE_P(
    Chat, BadFields,
    ::testing::Values(
        BadField{kChat, R"("logprobs":1)", "logprobs"},
        BadField{kChat, R"("top_logprobs":2)", "top_logprobs"},
        BadField{kChat, R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
        BadField{kChat, R"("max_completion_tokens":0)", "max_completion_tokens"},
        BadField{kChat, R"("max_tokens":0)", "max_tokens"},
        BadField{kChat, R"("max_completion_tokens":1000)", "messages"},
        BadField{kChat, R"("min_tokens":100)", "min_tokens"},  // all of the context, and a prompt
        BadField{kChat, R"("chat_template":"x")", "chat_template"},
        BadField{kChat, R"("chat_template":1)", "chat_template"},
        BadField{kChat, R"("chat_template_kwargs":[])", "chat_template_kwargs"},
        BadField{kChat, R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs.messages"},
        BadField{kChat, R"("chat_template_kwargs":{"tokenize":true})", "chat_template_kwargs.tokenize"},
        BadField{kChat, R"("continue_final_message":true,"add_generation_prompt":true)",
                 "continue_final_message"},
        BadField{kChat, R"("add_generation_prompt":"x")", "add_generation_prompt"},
        BadField{kChat, R"("documents":{})", "documents"}, BadField{kChat, R"("tools":{})", "tools"},
        BadField{kChat, R"("tools":[1])", "tools.0"},
        BadField{kChat, R"("tools":[{"type":"x"}])", "tools.0.type"},
        BadField{kChat, R"("tools":[{"type":"function"}])", "tools.0.function"},
        BadField{kChat, R"("tools":[{"type":"function","function":{}}])", "tools.0.function.name"},
        BadField{kChat, R"("tools":[{"type":"function","function":{"name":"f","parameters":3}}])",
                 "tools.0.function.parameters"},
        BadField{kChat, R"("tool_choice":"required")", "tool_choice", 400},
        BadField{kChat, R"("tool_choice":{"type":"function"})", "tool_choice.function", 400},
        BadField{kChat, R"("tool_choice":"maybe")", "tool_choice"},
        BadField{kChat, R"("audio":{})", "audio", 400},
        BadField{kChat, R"("modalities":["audio"])", "modalities", 400},
        BadField{kChat, R"("modalities":"text")", "modalities"},
        BadField{kChat, R"("functions":[{}])", "functions", 400}));

struct BadBody {
  CallKind kind;
  std::string body;
  std::string param;
};

// Benchmarks of code end at some 20 texts, front ends for role-play at more.
TEST(RequestParser, ManyStopStrings) {
  const TestModel model;
  for (const auto& [count, ok] : {std::pair(128, true), std::pair(129, false)}) {
    std::string stops;
    for (int i = 0; i < count; ++i) stops.append(concat(i == 0 ? "" : ",", "\"s", i, "\""));
    EXPECT_EQ(parse(kText, with(kText, concat("\"stop\":[", stops, "]")), model.context).has_value(), ok);
  }
}

TEST(RequestParser, BadBodiesAreRefusedByName) {
  const TestModel model;
  const std::string long_text(3300, 'a');  // 101 times the assumed longest token
  const BadBody bad[] = {
      {kText, "", ""},
      {kText, "[]", ""},
      {kText, "1", ""},
      {kText, "{\"prompt\":\"\xff\"}", ""},
      {kText, "{}", "prompt"},
      {kText, R"({"prompt":null})", "prompt"},
      {kText, R"({"prompt":1})", "prompt"},
      {kText, R"({"prompt":5})", "prompt"},
      {kText, R"({"prompt":[]})", "prompt"},
      {kText, R"({"prompt":{}})", "prompt"},
      {kText, R"({"prompt":true})", "prompt"},
      {kText, R"({"prompt":[1,"a"]})", "prompt.1"},
      {kText, R"({"prompt":["a",1]})", "prompt.1"},
      {kText, R"({"prompt":[1,260]})", "prompt.1"},
      {kText, R"({"prompt":[-1]})", "prompt.0"},
      {kText, R"({"prompt":[1.5]})", "prompt.0"},
      {kText, R"({"prompt":[[1],[2,999]]})", "prompt.1.1"},
      {kText, R"({"prompt":["a",[]]})", "prompt.1"},
      {kText, R"({"prompt":[null]})", "prompt.0"},
      {kText, R"({"prompt":"","add_special_tokens":false})", "prompt"},
      {kText, concat(R"({"prompt":")", long_text, "\"}"), "prompt"},
      {kText, concat(R"({"prompt":")", long_text, R"(","truncate_prompt_tokens":5})"), "prompt"},
      {kText, concat(R"({"prompt":")", std::string(100, 'a'), "\"}"), "prompt"},
      {kText, R"({"prompt":["a","b","c","d","e","f","g","h","i"],"n":128})", "n"},
      {kText, R"({"prompt":["a","b","c","d","e","f","g","h","i"],"best_of":128})", "best_of"},
      {kChat, "{}", "messages"},
      {kChat, R"({"messages":[]})", "messages"},
      {kChat, R"({"messages":"hi"})", "messages"},
      {kChat, R"({"messages":[1]})", "messages.0"},
      {kChat, R"({"messages":[{}]})", "messages.0.role"},
      {kChat, R"({"messages":[{"role":1,"content":"x"}]})", "messages.0.role"},
      {kChat, R"({"messages":[{"role":"","content":"x"}]})", "messages.0.role"},
      {kChat, R"({"messages":[{"role":"user"}]})", "messages.0.content"},
      {kChat, R"({"messages":[{"role":"user","content":null}]})", "messages.0.content"},
      {kChat, R"({"messages":[{"role":"user","content":5}]})", "messages.0.content"},
      {kChat, R"({"messages":[{"role":"user","content":[5]}]})", "messages.0.content.0"},
      {kChat, R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages.0.content.0.text"},
      {kChat, R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})",
       "messages.0.content.0.type"},
      {kChat, R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{}]}]})",
       "messages.1.tool_calls.0.function"},
      {kChat,
       R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"function":{"arguments":"["}}]}]})",
       "messages.1.tool_calls.0.function.name"},
      {kChat, R"({"messages":[{"role":"user","content":"a","name":5}]})", "messages.0.name"},
      {kChat, concat(R"({"messages":[{"role":"user","content":")", long_text, "\"}]}"), "messages"},
      {kChat, concat(R"({"messages":[{"role":"user","content":")", std::string(99, 'a'), "\"}]}"),
       "messages"},
  };
  for (const BadBody& row : bad) {
    const auto call = parse(row.kind, row.body, model.context);
    ASSERT_FALSE(call.has_value()) << row.body;
    EXPECT_EQ(call.error().code(), StatusCode::invalid_argument) << row.body;
    EXPECT_EQ(call.error().param(), row.param) << row.body << "\n" << call.error().message();
  }
}

TEST(RequestParser, TooLongIsToldInOpenAisWords) {
  const TestModel model;
  const auto call = parse(kText, R"({"prompt":"abcd","max_tokens":96})", model.context);
  ASSERT_FALSE(call.has_value());
  EXPECT_EQ(call.error().reason(), "context_length_exceeded");
  EXPECT_TRUE(call.error().message().starts_with(
      "This model's maximum context length is 100 tokens. However, you requested 101"))
      << call.error().message();
  EXPECT_TRUE(parse(kText, R"({"prompt":"abcd","max_tokens":95})", model.context).has_value());
}

// Each call's arguments are a text of their own; their keys count together.
TEST(RequestParser, TheKeysOfAllToolCallsAreBounded) {
  const TestModel model;
  std::string arguments = "{";
  for (int i = 0; i < 60'000; ++i) arguments += concat(i == 0 ? "" : ",", "\\\"", i, "\\\":1");
  const std::string call = concat(R"({"function":{"name":"f","arguments":")", arguments, "}\"}}");
  const auto message = [&](const std::string& calls) {
    return concat(R"({"role":"assistant","tool_calls":[)", calls, "]}");
  };
  const auto body = [&](const std::string& messages) {
    return concat(R"({"messages":[{"role":"user","content":"a"},)", messages, "]}");
  };
  std::string in_one = call, in_many = message(call);
  for (int i = 0; i < 16; ++i) {
    in_one += "," + call;
    in_many += "," + message(call);
  }
  for (const std::string& messages : {message(in_one), in_many}) {
    const auto parsed = parse(kChat, body(messages), model.context);
    ASSERT_FALSE(parsed.has_value());
    EXPECT_TRUE(parsed.error().param().ends_with(".function.arguments")) << parsed.error().param();
    EXPECT_NE(parsed.error().message().find("1000000 keys"), std::string::npos) << parsed.error().message();
  }
  // Fewer are read: what is refused then is the prompt, which is too long for this model.
  const auto twice = parse(kChat, body(message(call + "," + call)), model.context);
  EXPECT_TRUE(twice.has_value() || twice.error().param() == "messages") << twice.error().message();
}

TEST(RequestParser, NullMeansAbsentForEveryOptionalField) {
  const TestModel model;
  for (const CallKind kind : {kText, kChat}) {
    std::string fields = R"("stream":null)";
    for (const char* name : {"model",
                             "n",
                             "temperature",
                             "top_p",
                             "top_k",
                             "min_p",
                             "repetition_penalty",
                             "presence_penalty",
                             "seed",
                             "frequency_penalty",
                             "max_tokens",
                             "min_tokens",
                             "ignore_eos",
                             "stream_options",
                             "echo",
                             "logprobs",
                             "prompt_logprobs",
                             "stop",
                             "stop_token_ids",
                             "allowed_token_ids",
                             "bad_words",
                             "logit_bias",
                             "suffix",
                             "skip_special_tokens",
                             "truncate_prompt_tokens",
                             "add_special_tokens",
                             "priority",
                             "cache_salt",
                             "request_id",
                             "user",
                             "best_of",
                             "use_beam_search",
                             "length_penalty",
                             "return_token_ids",
                             "tools",
                             "tool_choice",
                             "response_format",
                             "chat_template",
                             "chat_template_kwargs",
                             "documents",
                             "audio",
                             "add_generation_prompt",
                             "continue_final_message",
                             "top_logprobs",
                             "max_completion_tokens"})
      fields += concat(",\"", name, "\":null");
    const auto call = parse(kind, with(kind, fields), model.context);
    EXPECT_TRUE(call.has_value()) << call.error().message();
  }
}

// A tool's type is a function's unless it says another, and a tool may have nothing to say, as in vLLM.
TEST(RequestParser, SomeOfATool) {
  const TestModel model(1000);
  for (const char* content : {"", R"(,"content":null)", R"(,"content":[])"}) {
    const std::string body =
        concat(R"({"tools":[{"function":{"name":"f"}}],"messages":[{"role":"user","content":"hi"},
            {"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"c")",
               content, "}]}");
    const auto call = parse(kChat, body, model.context);
    EXPECT_TRUE(call) << call.error().message();
  }
  for (const char* wrong : {R"("tools":[{}])", R"("tools":[{"name":"f"}])"}) {
    const auto call = parse(kChat, with(kChat, wrong), model.context);
    ASSERT_FALSE(call) << wrong;
    EXPECT_EQ(call.error().param(), "tools.0.type");
  }
}

TEST(RequestParser, UnknownFieldsAreIgnored) {
  const TestModel model;
  EXPECT_TRUE(parse(kText, with(kText, R"("made_up":{"x":[1]},"store":true)"), model.context).has_value());
}

// As llama.cpp's page and LM Studio's clients send them to /v1/chat/completions.
TEST(RequestParser, LlamaCppsSamplingIsKnown) {
  const TestModel model(1000);
  const auto parse = [&](std::string_view fields) {
    return parse_call(CallKind::completion, concat(R"({"prompt":"a",)", fields, "}"), {}, model.context);
  };
  const auto off = parse(
      R"("repeat_penalty":1.2,"repeat_last_n":64,"dry_multiplier":0,"xtc_probability":0,"typ_p":1,
         "dynatemp_range":0,"top_k":4,"samplers":["top_k","penalties"],"top_p":0.5)");
  ASSERT_TRUE(off) << off.error().message();
  EXPECT_EQ(off->requests[0].sampling.repetition_penalty, 1.2F);
  EXPECT_EQ(off->requests[0].sampling.top_k, 4);
  EXPECT_EQ(off->requests[0].sampling.top_p, 1);
  EXPECT_NE(off->warnings.header().find("repeat_last_n"), std::string::npos);
  EXPECT_EQ(
      parse(R"("repeat_penalty":1.2,"repetition_penalty":1.1)")->requests[0].sampling.repetition_penalty,
      1.1F);
  EXPECT_EQ(parse(R"("n_predict":7)")->requests[0].sampling.max_tokens, 7);
  EXPECT_EQ(parse(R"("n_predict":7,"max_tokens":5)")->requests[0].sampling.max_tokens, 5);
  EXPECT_EQ(parse(R"("n_predict":0)").error().param(), "n_predict");
  for (const char* field : {"dry_multiplier", "xtc_probability", "mirostat", "top_n_sigma"})
    EXPECT_EQ(parse(concat('"', field, R"(":0.5)")).error().param(), field);
}

TEST(RequestParser, DefaultsAreOpenAis) {
  const TestModel model;
  const auto text = parse(kText, with(kText, ""), model.context);
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(text->requests.at(0).prompt_token_ids, (std::vector<TokenId>{256, 'h', 'i'}));
  EXPECT_EQ(text->requests[0].sampling.max_tokens, 16);
  EXPECT_EQ(text->requests[0].sampling.eos_token_ids, std::vector<TokenId>{257});
  EXPECT_FALSE(text->requests[0].sampling.logprobs.has_value());
  EXPECT_EQ(text->response.id, "cmpl-id");

  const auto chat = parse(kChat, with(kChat, ""), model.context);
  ASSERT_TRUE(chat.has_value());
  EXPECT_EQ(chat->response.id, "chatcmpl-id");
  EXPECT_EQ(chat->requests.at(0).sampling.max_tokens,
            100 - static_cast<int>(chat->requests[0].prompt_token_ids.size()));
}

TEST(RequestParser, EverySamplingFieldArrives) {
  const TestModel model;
  const auto call = parse(
      kText,
      with(kText, R"("n":3,"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"repetition_penalty":1.1,
    "presence_penalty":0.2,"frequency_penalty":-0.3,"seed":-5,"max_tokens":20,"min_tokens":2,"ignore_eos":true,"stop_token_ids":[7],
    "allowed_token_ids":[1,2.0],"logit_bias":{"65":-100,"66":2.5},"logprobs":2,"prompt_logprobs":1,"best_of":4,"use_beam_search":true,
    "length_penalty":0.7,"priority":-3,"cache_salt":"s","stop":["a","b"],"include_stop_str_in_output":true,"skip_special_tokens":false,
    "bad_words":["word","z"],"request_id":"abc","return_token_ids":true,"return_tokens_as_token_ids":true)"),
      model.context);
  ASSERT_TRUE(call.has_value()) << call.error().message();
  const Request& request = call->requests.at(0);
  const SamplingParams& sampling = request.sampling;
  EXPECT_EQ(sampling.n, 3);
  EXPECT_EQ(sampling.best_of, 4);
  EXPECT_FLOAT_EQ(sampling.temperature, 0.5f);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.9f);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_FLOAT_EQ(sampling.min_p, 0.1f);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty, 1.1f);
  EXPECT_FLOAT_EQ(sampling.presence_penalty, 0.2f);
  EXPECT_FLOAT_EQ(sampling.frequency_penalty, -0.3f);
  EXPECT_EQ(sampling.seed, static_cast<std::uint64_t>(-5));
  EXPECT_EQ(sampling.max_tokens, 20);
  EXPECT_EQ(sampling.min_tokens, 2);
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_EQ(sampling.stop_token_ids, std::vector<TokenId>{7});
  EXPECT_EQ(sampling.allowed_token_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(sampling.logit_bias.size(), 2u);
  EXPECT_EQ(sampling.logprobs, 2);
  EXPECT_EQ(sampling.prompt_logprobs, 1);
  EXPECT_TRUE(sampling.use_beam_search);
  EXPECT_FLOAT_EQ(sampling.length_penalty, 0.7f);
  // "word" is one token; " word" is two, so only the plain form counts. " z" is two as well.
  EXPECT_EQ(sampling.bad_words, (std::vector<std::vector<TokenId>>{{259}, {'z'}}));
  EXPECT_EQ(request.priority, -3);
  EXPECT_EQ(request.cache_salt, "s");
  EXPECT_EQ(call->response.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(call->response.include_stop);
  EXPECT_FALSE(call->response.skip_special_tokens);
  EXPECT_EQ(call->response.id, "cmpl-abc");
}

TEST(RequestParser, PromptsFanOut) {
  const TestModel model;
  const auto call =
      parse(kText, R"({"prompt":["a",[98,99],"d"],"add_special_tokens":false,"echo":true})", model.context);
  ASSERT_TRUE(call.has_value());
  ASSERT_EQ(call->requests.size(), 3u);
  EXPECT_EQ(call->requests[1].prompt_token_ids, (std::vector<TokenId>{'b', 'c'}));
  EXPECT_EQ(call->response.prompts[1].text, "bc");
}

TEST(RequestParser, ATinyTemperatureIsRaisedButZeroStaysGreedy) {
  const TestModel model;
  EXPECT_EQ(
      parse(kText, with(kText, R"("temperature":1e-300)"), model.context)->requests[0].sampling.temperature,
      0.0f);
  EXPECT_EQ(
      parse(kText, with(kText, R"("temperature":1e-9)"), model.context)->requests[0].sampling.temperature,
      0.01f);
  EXPECT_EQ(parse(kText, with(kText, R"("temperature":0)"), model.context)->requests[0].sampling.temperature,
            0.0f);
}

TEST(RequestParser, NoMassKeepsTheLikeliestToken) {
  const TestModel model;
  for (const std::string_view mass : {"0", "0.0", "1e-50"}) {
    const float top_p =
        parse(kText, with(kText, concat(R"("top_p":)", mass)), model.context)->requests[0].sampling.top_p;
    EXPECT_GT(top_p, 0.0f);
    EXPECT_LT(top_p, 1e-30f);
  }
}

// As llama.cpp's and LM Studio's clients say it.
TEST(RequestParser, MinusOneIsAsManyTokensAsThereIsRoomFor) {
  const TestModel model;
  const auto max_tokens = [&model](CallKind kind, std::string_view field) {
    const auto call = parse(kind, with(kind, concat(R"(")", field, R"(":-1)")), model.context);
    const Request& request = call->requests.at(0);
    return request.sampling.max_tokens + std::ssize(request.prompt_token_ids);
  };
  EXPECT_EQ(max_tokens(kText, "max_tokens"), 100);
  EXPECT_EQ(max_tokens(kChat, "max_tokens"), 100);
  EXPECT_EQ(max_tokens(kChat, "max_completion_tokens"), 100);
}

TEST(RequestParser, LogprobsOfOneCallAreBounded) {
  const TestModel model(100'000);
  const auto call = parse(kText, with(kText, R"("n":128,"max_tokens":90000,"logprobs":20)"), model.context);
  ASSERT_FALSE(call.has_value());
  EXPECT_EQ(call.error().param(), "logprobs");
  EXPECT_TRUE(parse(kText, with(kText, R"("n":128,"max_tokens":90000)"), model.context).has_value());
  EXPECT_TRUE(parse(kText, with(kText, R"("max_tokens":90000,"logprobs":20)"), model.context).has_value());
}

TEST(RequestParser, TokenListsOfOneCallAreBounded) {
  TestModel model;
  model.context.vocab_size = 100'000;
  std::string ids = "1";
  for (int i = 1; i < 100'000; ++i) ids += ",1";
  std::string prompts = R"("a")";
  for (int i = 1; i < 1024; ++i) prompts += R"(,"a")";
  const auto body = [&](std::string_view prompt, std::string_view fields) {
    return concat(R"({"prompt":[)", prompt, "],", fields, "}");
  };
  const std::string allowed = concat(R"("allowed_token_ids":[)", ids, "]");
  const auto call = parse(kText, body(prompts, allowed), model.context);
  ASSERT_FALSE(call.has_value());
  EXPECT_EQ(call.error().code(), StatusCode::invalid_argument);
  EXPECT_EQ(call.error().param(), "allowed_token_ids");
  EXPECT_TRUE(parse(kText, body(R"("a")", allowed), model.context).has_value());

  const std::string word = concat("\"", std::string(1000, 'x'), "\"");
  std::string words = word;
  for (int i = 1; i < 100; ++i) words += concat(",", word);
  const std::string bad_words = concat(R"("bad_words":[)", words, "]");
  const auto worded = parse(kText, body(prompts, bad_words), model.context);
  ASSERT_FALSE(worded.has_value());
  EXPECT_EQ(worded.error().param(), "bad_words");
  EXPECT_TRUE(parse(kText, body(R"("a")", bad_words), model.context).has_value());
}

TEST(RequestParser, TruncationKeepsTheEnd) {
  const TestModel model;
  const auto call = parse(kText, R"({"prompt":"abcdef","truncate_prompt_tokens":2})", model.context);
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->requests[0].prompt_token_ids, (std::vector<TokenId>{'e', 'f'}));
}

TEST(RequestParser, EchoWithLogprobsAsksForThePrompts) {
  const TestModel model;
  const auto call = parse(kText, with(kText, R"("echo":true,"logprobs":1,"max_tokens":0)"), model.context);
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->requests[0].sampling.prompt_logprobs, 1);
  EXPECT_EQ(call->requests[0].sampling.max_tokens, 1);
  EXPECT_TRUE(call->response.without_generation);
}

TEST(RequestParser, SpecialTokensTypedByAUserStayText) {
  const TestModel model;
  const auto call = parse(kChat, R"({"messages":[{"role":"user","content":"<x>"}]})", model.context);
  ASSERT_TRUE(call.has_value());
  const auto& ids = call->requests[0].prompt_token_ids;
  EXPECT_EQ(std::count(ids.begin(), ids.end(), FakeTokenizer::kSpecial), 2);  // the template's own two
  EXPECT_EQ(std::count(ids.begin(), ids.end(), '<'), 1);
}

TEST(RequestParser, TextPartsAreJoined) {
  const TestModel model;
  const auto parts = parse(
      kChat,
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})",
      model.context);
  const auto text = parse(kChat, R"({"messages":[{"role":"user","content":"a\nb"}]})", model.context);
  ASSERT_TRUE(parts.has_value() && text.has_value());
  EXPECT_EQ(parts->requests[0].prompt_token_ids, text->requests[0].prompt_token_ids);
}

TEST(RequestParser, AFinalMessageIsContinued) {
  const TestModel model;
  const auto call =
      parse(kChat, R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"so far"}],
    "continue_final_message":true,"add_generation_prompt":false,"echo":true})",
            model.context);
  ASSERT_TRUE(call.has_value()) << call.error().message();
  const auto& ids = call->requests[0].prompt_token_ids;
  EXPECT_EQ(model.tokenizer.decode(std::span(ids).last(6), false), "so far");
  EXPECT_EQ(call->response.echo_prefix, "so far");
}

// As DeepSeek, Mistral, Kimi and Qwen ask for it.
TEST(RequestParser, AFinalMessageMayAskToBeContinued) {
  const TestModel model;
  const auto ids = [&](std::string_view last, std::string_view beside = "") {
    const auto call =
        parse(kChat, concat(R"({"messages":[{"role":"user","content":"q"},{)", last, "}]", beside, "}"),
              model.context);
    EXPECT_TRUE(call) << call.error().message();
    return call ? call->requests[0].prompt_token_ids : std::vector<TokenId>();
  };
  constexpr std::string_view kLast = R"("role":"assistant","content":"so far")";
  const auto continued = ids(kLast, R"(,"continue_final_message":true)");
  for (const char* field : {"prefix", "partial"}) {
    EXPECT_EQ(ids(concat(kLast, ",\"", field, "\":true")), continued);
    EXPECT_NE(ids(concat(kLast, ",\"", field, "\":false")), continued);
    EXPECT_NE(ids(concat(R"("role":"user","content":"so far",")", field, "\":true")), continued);
  }
}

TEST(RequestParser, AModelMayHaveSeveralNames) {
  const TestModel model;
  EXPECT_TRUE(parse(kText, with(kText, R"("model":"alias")"), model.context).has_value());
  for (const std::string name : {"tgi", "dummy"})  // Hugging Face's clients send them
    EXPECT_TRUE(parse(kText, with(kText, concat(R"("model":")", name, "\"")), model.context).has_value())
        << name;
  const auto call = parse(kText, with(kText, R"("model":"no/such")"), model.context);
  ASSERT_FALSE(call.has_value());
  EXPECT_EQ(call.error().reason(), "model_not_found");
}

TEST(RequestParser, BeamSearchDoesWithoutTheModelsSamplingDefaults) {
  TestModel model;
  model.context.defaults.temperature = 0.7f;
  model.context.defaults.top_k = 20;
  model.context.defaults.repetition_penalty = 1.1f;
  const auto call =
      parse(kText, with(kText, R"("use_beam_search":true,"n":2,"beam_width":6,"length_penalty":0.5,
                                         "early_stopping":"never","num_beam_groups":3,"stream":true)"),
            model.context);
  ASSERT_TRUE(call.has_value()) << call.error().message();
  const SamplingParams& sampling = call->requests.front().sampling;
  EXPECT_TRUE(sampling.use_beam_search);
  EXPECT_EQ(sampling.width(), 6);
  EXPECT_EQ(sampling.n, 2);
  EXPECT_EQ(sampling.temperature, 0);
  EXPECT_LE(sampling.top_k, 0);
  EXPECT_EQ(sampling.repetition_penalty, 1);
  EXPECT_EQ(sampling.length_penalty, 0.5f);
  EXPECT_EQ(sampling.num_beam_groups, 3);
  EXPECT_EQ(sampling.early_stopping, EarlyStopping::never);
  EXPECT_TRUE(call->response.cumulative_logprob);
  const auto early = [&](const char* fields) {
    return parse(kText, with(kText, fields), model.context)->requests.front().sampling.early_stopping;
  };
  EXPECT_EQ(early(R"("early_stopping":true)"), EarlyStopping::first);
  EXPECT_EQ(early(R"("early_stopping":false)"), EarlyStopping::heuristic);
}

}  // namespace
}  // namespace pagoda
