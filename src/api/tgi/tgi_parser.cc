#include "api/tgi/tgi_parser.h"

#include <boost/json/object.hpp>
#include <limits>
#include <utility>

#include "api/field_reader.h"
#include "api/grammar_fields.h"
#include "api/json.h"
#include "api/tool_fields.h"
#include "api/unknown_fields.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMaxBestOf = 128;
constexpr std::int64_t kDefaultTokens = 1024;
constexpr SamplingNames kTgiSampling = {
    .repetition_penalty = "repetition_penalty", .frequency_penalty = "frequency_penalty", .seed = "seed"};

// Other servers also have a route /generate, with other bodies; the error message names the right route.
std::string read_inputs(FieldReader& fields) {
  std::optional<std::string> inputs = fields.string("inputs", kAnyLength);
  if (inputs && inputs->empty()) fields.fail("inputs", "must not be empty");
  if (inputs || !fields.ok()) return std::move(inputs).value_or("");
  for (const std::string_view other : {"text", "input_ids", "prompt", "message", "messages"})
    if (fields.has(other))
      fields.fail("inputs",
                  concat("is required: this is text-generation-inference's route, and '", other, "' is for ",
                         other.starts_with("message") ? "/v1/chat/completions" : "/v1/completions"));
  fields.fail("inputs", "is required");
  return {};
}

void read_tgi_sampling(FieldReader& fields, TgiCall& out, ChatCall& call) {
  SamplingParams& sampling = call.sampling;
  bool samples = fields.boolean("do_sample").value_or(false);
  for (const std::string_view name : {"temperature", "top_k", "top_p", "typical_p"})
    samples = samples || fields.has(name);
  read_sampling(fields, kTgiSampling, sampling);
  assign_if_given(sampling.typical_p, fields.number_above("typical_p", 0, 1));
  if (!samples) sampling.temperature = 0;
  out.seed = sampling.seed;
  sampling.n = static_cast<std::int32_t>(fields.integer("best_of", 1, kMaxBestOf).value_or(1));
  sampling.best_of = call.answer.n = sampling.n;
  if (out.stream && sampling.n > 1) fields.fail("best_of", "above 1 is not available in a stream");
  if (fields.has("max_new_tokens"))
    call.max_tokens = fields.integer("max_new_tokens", 1, std::numeric_limits<std::int32_t>::max());
  call.clip_max_tokens = !call.max_tokens;
  if (!call.max_tokens) call.max_tokens = kDefaultTokens;
}

// Reads the fields that select details beside the answer's text.
void read_details(FieldReader& fields, const ApiContext& context, TgiCall& out, ChatCall& call) {
  AnswerOptions& answer = call.answer;
  out.prefill = fields.boolean("decoder_input_details").value_or(false);
  out.details = fields.boolean("details").value_or(false) || out.prefill;
  out.num_top =
      static_cast<std::int32_t>(fields.integer("top_n_tokens", 0, context.max_logprobs).value_or(0));
  answer.include_stop = true;
  read_stops(fields, fields.has("stop") ? "stop" : "stop_sequences", answer);
  if (out.prefill) call.sampling.prompt_logprobs = 0;
  if (!out.stream && !out.details) return;
  answer.return_token_ids = true;
  call.sampling.logprobs = answer.logprobs = out.num_top;
}

}  // namespace

Result<TgiCall> parse_tgi_call(std::string_view body, TgiRoute route, const ApiContext& context) {
  const Result<json::value> value = parse_json_body(body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  TgiCall out;
  ChatCall call;
  call.sampling = default_sampling(context);
  const bool asks_for_stream = fields.boolean("stream").value_or(false);
  out.stream = route == TgiRoute::generate_stream || (route == TgiRoute::root && asks_for_stream);
  const std::string inputs = read_inputs(fields);
  const json::object none;
  const json::object* given = fields.object("parameters");
  FieldReader parameters(given == nullptr ? none : *given, "parameters");
  read_tgi_sampling(parameters, out, call);
  read_details(parameters, context, out, call);
  call.form = read_response_format(parameters, "grammar");
  if (parameters.boolean("return_full_text").value_or(false)) out.inputs = inputs;
  const auto keep = parameters.integer("truncate", 1, context.max_model_len);
  for (const std::string_view name : {"watermark", "adapter_id"}) parameters.not_built(name);
  if (!parameters.ok()) fields.fail(parameters.status());
  if (!fields.ok()) return fields.status();
  Result<std::vector<TokenId>> ids = text_prompt_tokens(
      context, "inputs", inputs, {.add_special_tokens = fields.boolean("add_special_tokens").value_or(true)});
  if (!ids) return ids.error();
  if (keep && static_cast<std::int64_t>(ids->size()) > *keep)
    ids->erase(ids->begin(), ids->end() - static_cast<std::ptrdiff_t>(*keep));
  note_unknown_fields(fields, out.warnings, {"model", "options"});
  note_unknown_fields(parameters, out.warnings, {});
  Result<ChatRequest> made = make_request(call, "inputs", *std::move(ids), context);
  if (!made) return made.error();
  out.request = std::move(made->request);
  out.grammars = std::move(made->grammars);
  out.answer = std::move(call.answer);
  return out;
}

}  // namespace pagoda
