#include "api/openai/response_builder.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "api/error_body.h"
#include "api/errors.h"
#include "api/openai/choice_writer.h"
#include "api/timings.h"
#include "base/check.h"

namespace pagoda {
namespace {
constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max();
}  // namespace

struct ResponseBuilder::State {
  const ResponseOptions options;
  const ApiContext& context;
  AnswerState answer;
  PieceBuffer buffer;
  ChoiceWriter writer;
  std::vector<bool> closed;                  // by choice: its last chunk has been written
  std::vector<std::int32_t> written_tokens;  // by choice: tokens accounted for in its last chunk
  std::size_t num_written = 0;               // choices written to a body
  Steps writing;                             // steps that take() has begun
  bool ended = false;                        // [DONE], or the body, has been written

  State(ResponseOptions call, const ApiContext& api)
      : options(std::move(call)),
        context(api),
        answer(options, *api.tokenizer),
        writer(options, *api.tokenizer, buffer),
        closed(answer.num_choices()),
        written_tokens(answer.num_choices()) {}

  void begin_answer(JsonWriter& json, std::string_view object) const {
    json.begin_object().key("id").string(options.id).key("object").string(object);
    json.key("created")
        .integer(options.created)
        .key("model")
        .string(answering_model(options.adapter, context));
    if (!context.system_fingerprint.empty())
      json.key("system_fingerprint").string(context.system_fingerprint);
  }

  Steps write_choice(JsonWriter& json, std::size_t index, bool chunk) {
    const std::size_t prompt = index / answer.width();
    return writer.write(json, index, answer.choices[index], options.prompts[prompt], answer.prompts[prompt],
                        chunk);
  }

  // A chat answer has one prompt, so the prompt's tokens are written beside the choices (as in vLLM).
  Steps write_prompt_fields(JsonWriter& json) const {
    if (options.return_token_ids && options.prompts.size() == 1)
      json.key("prompt_token_ids").integers(options.prompts.front().token_ids);
    if (!options.prompt_logprobs || options.kind != CallKind::chat) co_return;
    json.key("prompt_logprobs");
    Steps part = writer.write_prompt_logprobs(json, options.prompts.front(), answer.prompts.front());
    while (part.step()) co_await rest();
  }

  bool has_news(std::size_t index) const {
    const ChoiceState& choice = answer.choices[index];
    if (choice.finished()) return !closed[index];
    if (!choice.fresh.text.empty() || !choice.fresh.reasoning.empty() || !choice.fresh.calls.empty() ||
        !choice.fresh.token_ids.empty() || !choice.fresh.logprobs.empty())
      return true;
    return options.continuous_usage && choice.num_tokens != written_tokens[index];
  }

  // The role is sent in a separate chunk, as by OpenAI.
  void write_role_chunk(std::size_t index) {
    std::string& out = buffer.text;
    out.append("data: ");
    JsonWriter json(out);
    begin_answer(json, "chat.completion.chunk");
    json.key("choices").begin_array().begin_object().key("index").integer(static_cast<std::int64_t>(index));
    json.key("delta").begin_object().key("role").string("assistant").key("content").string("").end_object();
    json.key("finish_reason").null().end_object().end_array();
    write_stream_prompt_ids(json);
    write_continuous_usage(json, index, 0);
    json.end_object();
    out.append("\n\n");
    answer.choices[index].begun = true;
  }

  Steps write_chunk(std::size_t index) {
    std::string& out = buffer.text;
    const bool chat = options.kind == CallKind::chat;
    ChoiceState& choice = answer.choices[index];
    if (chat && !choice.begun && !options.echo) write_role_chunk(index);
    const bool first = !choice.begun;
    out.append("data: ");
    JsonWriter json(out);
    begin_answer(json, chat ? "chat.completion.chunk" : "text_completion");
    json.key("choices").begin_array();
    for (Steps part = write_choice(json, index, /*chunk=*/true); part.step();) co_await rest();
    json.end_array();
    if (first) write_stream_prompt_ids(json);
    write_continuous_usage(json, index, choice.num_tokens);
    closed[index] = choice.finished();
    if (answer.finished() && std::ranges::all_of(closed, std::identity{})) {
      json.key("timings");
      write_timings(json, answer);
    }
    json.end_object();
    out.append("\n\n");
    written_tokens[index] = choice.num_tokens;
  }

  // An extension beside OpenAI's fields, in a chunk without choices, which other clients skip.
  void write_best_so_far(std::size_t prompt) {
    std::string& out = buffer.text;
    const SequenceDelta best = std::exchange(answer.best_so_far[prompt], {});
    out.append("data: ");
    JsonWriter json(out);
    begin_answer(json, options.kind == CallKind::chat ? "chat.completion.chunk" : "text_completion");
    json.key("choices").begin_array().end_array().key("best_so_far").begin_object();
    json.key("index").integer(static_cast<std::int64_t>(prompt * answer.width()));
    json.key("text").string(
        to_valid_utf8(context.tokenizer->decode(best.token_ids, options.skip_special_tokens)));
    json.key("cumulative_logprob")
        .float64(std::isfinite(best.cumulative_logprob) ? best.cumulative_logprob : -9999.0);
    json.key("num_tokens").integer(static_cast<std::int64_t>(best.token_ids.size()));
    if (options.return_token_ids) json.key("token_ids").integers(best.token_ids);
    json.end_object().end_object();
    out.append("\n\n");
  }

  void write_continuous_usage(JsonWriter& json, std::size_t index, std::int32_t num_tokens) const {
    if (!options.continuous_usage) return;
    Usage usage = answer.usage_of(index / answer.width(), index / answer.width() + 1);
    usage.completion_tokens = num_tokens;
    json.key("usage");
    ChoiceWriter::write_usage(json, usage);
  }

  void write_stream_prompt_ids(JsonWriter& json) const {
    if (options.return_token_ids && options.prompts.size() == 1)
      json.key("prompt_token_ids").integers(options.prompts.front().token_ids);
  }

  Steps write_events() {
    std::string& out = buffer.text;
    for (std::size_t p = 0; p < answer.prompts.size() && !answer.finished(); ++p)
      if (!answer.best_so_far[p].token_ids.empty()) write_best_so_far(p);
    for (std::size_t i = 0; i < answer.num_choices(); ++i) {
      if (!has_news(i)) continue;
      for (Steps part = write_chunk(i); part.step();) co_await rest();
      if (buffer.full()) co_await rest();
    }
    if (!answer.finished()) co_return;
    ended = true;
    if (!answer.error().ok()) {
      out.append("data: ").append(openai_error_body(api_error(answer.error()))).append("\n\n");
    } else if (options.include_usage) {
      out.append("data: ");
      JsonWriter json(out);
      begin_answer(json, options.kind == CallKind::chat ? "chat.completion.chunk" : "text_completion");
      json.key("choices").begin_array().end_array().key("usage");
      ChoiceWriter::write_usage(json, answer.usage(), &answer);
      json.end_object();
      out.append("\n\n");
    }
    out.append("data: [DONE]\n\n");
  }

  Steps write_body() {
    ended = true;
    JsonWriter json(buffer.text);
    begin_answer(json, options.kind == CallKind::chat ? "chat.completion" : "text_completion");
    json.key("choices").begin_array();
    for (std::size_t i = 0; i < answer.num_choices(); ++i) {
      for (Steps part = write_choice(json, i, /*chunk=*/false); part.step();) co_await rest();
      num_written = i + 1;
      const bool last_of_prompt = num_written % answer.width() == 0;
      if (last_of_prompt && options.kind == CallKind::completion)
        answer.prompts[i / answer.width()].logprobs = {};
      if (buffer.full()) co_await rest();
    }
    json.end_array().key("usage");
    ChoiceWriter::write_usage(json, answer.usage(), &answer);
    for (Steps part = write_prompt_fields(json); part.step();) co_await rest();
    if (options.for_remote_decode && !context.kv_transfer_params.empty())
      json.key("kv_transfer_params").raw(context.kv_transfer_params);
    json.end_object();
  }

  // Returns true if there is more to write.
  bool write(std::size_t limit) {
    buffer.limit = limit;
    while (writing.step())
      if (buffer.full()) return true;
    writing = {};
    return false;
  }
};

ResponseBuilder::ResponseBuilder(ResponseOptions options, const ApiContext& context)
    : state_(std::make_unique<State>(std::move(options), context)) {}
ResponseBuilder::~ResponseBuilder() = default;

void ResponseBuilder::add(std::size_t prompt_index, RequestOutput output) {
  state_->answer.add(prompt_index, std::move(output));
}
void ResponseBuilder::fail(Status error) { state_->answer.fail(std::move(error)); }
std::vector<SequenceStop> ResponseBuilder::take_stops() { return state_->answer.take_stops(); }

bool ResponseBuilder::streaming() const { return state_->options.stream; }
bool ResponseBuilder::needs_every_output() const { return streaming() || !state_->options.stop.empty(); }
bool ResponseBuilder::finished() const { return state_->answer.finished(); }
const Status& ResponseBuilder::error() const { return state_->answer.error(); }

bool ResponseBuilder::take(std::string& out, std::size_t max_bytes) {
  State& s = *state_;
  if (!s.writing) {
    if (s.ended || (!streaming() && (!finished() || !error().ok()))) return false;
    s.writing = streaming() ? s.write_events() : s.write_body();
  }
  const bool more = s.write(max_bytes > out.size() ? max_bytes - out.size() : 1);
  out.append(s.buffer.text);
  s.buffer.text.clear();
  return more;
}

double ResponseBuilder::held() const {
  const State& s = *state_;
  return 1 - static_cast<double>(s.num_written) / static_cast<double>(s.answer.num_choices());
}

std::string ResponseBuilder::take_events() {
  std::string out;
  while (take(out, kWhole)) {
  }
  return out;
}

std::string ResponseBuilder::body() {
  CHECK(finished() && error().ok());
  return take_events();
}

Usage ResponseBuilder::usage() const { return state_->answer.usage(); }

}  // namespace pagoda
