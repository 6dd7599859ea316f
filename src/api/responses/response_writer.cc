#include "api/responses/response_writer.h"

#include <boost/json/serialize.hpp>

#include "api/answer_store.h"
#include "api/logprob_writer.h"
#include "api/responses/stored_response.h"
#include "api/tool_fields.h"
#include "base/ends.h"
#include "base/strings.h"

namespace pagoda {

template <class Write>
void ResponseWriter::event(std::string_view type, Write write) {
  if (!streaming()) return;
  events_.append("event: ").append(type).append("\ndata: ");
  JsonWriter json(events_);
  json.begin_object().key("type").string(type).key("sequence_number").integer(num_events_++);
  write(json);
  json.end_object();
  events_.append("\n\n");
  if (log_ != nullptr) log_->append(std::exchange(events_, {}));
}

// Writes an event about the last item.
template <class Write>
void ResponseWriter::item_event(std::string_view type, Write write) {
  event(type, [&](JsonWriter& json) {
    json.key("item_id").string(items_.back().id);
    json.key("output_index").integer(static_cast<std::int64_t>(items_.size()) - 1);
    if (!items_.back().is_call()) json.key("content_index").integer(0);
    write(json);
  });
}

ResponseWriter::ResponseWriter(std::string id, std::int64_t created, std::string owner, ResponsesCall call,
                               bool stored, std::shared_ptr<AnswerLog> log, const ApiContext& context)
    : StateWriter(std::move(call.chat.answer), call.stream, context),
      id_(std::move(id)),
      owner_(std::move(owner)),
      created_(created),
      call_(std::move(call)),
      stored_(stored),
      log_(std::move(log)) {}

// Ends the log, so that clients following a cancelled or abandoned answer do not wait.
ResponseWriter::~ResponseWriter() {
  if (log_ != nullptr) log_->end();
}

std::string_view ResponseWriter::status() const {
  if (!state_.error().ok()) return "failed";
  if (!state_.finished()) return "in_progress";
  return state_.choices.front().finish_reason == FinishReason::length ? "incomplete" : "completed";
}

std::string ResponseWriter::logprobs_json(const std::vector<TokenLogprobs>& tokens) const {
  std::string out;
  for (const TokenLogprobs& token : tokens) {
    if (!out.empty()) out.push_back(',');
    JsonWriter json(out);
    write_token_logprobs(json, token, *context_.tokenizer, {});
  }
  return out;
}

// Writes the part in its current state, or (`begins`) its initial state.
void ResponseWriter::write_part(JsonWriter& json, const Item& item, bool begins) const {
  json.begin_object().key("type").string(item.kind == Kind::message ? "output_text" : "reasoning_text");
  json.key("text").string(begins ? std::string_view() : item.text);
  if (item.kind == Kind::message) {
    json.key("annotations").begin_array().end_array();
    json.key("logprobs").raw(begins ? "[]" : concat("[", item.logprobs, "]"));
  }
  json.end_object();
}

void ResponseWriter::write_item(JsonWriter& json, const Item& item) const {
  const bool cut = item.done && &item == last_of(items_) && status() == "incomplete";
  json.begin_object().key("id").string(item.id);
  switch (item.kind) {
    case Kind::reasoning:
      json.key("type").string("reasoning").key("summary").begin_array().end_array();
      break;
    case Kind::message:
      json.key("type").string("message").key("role").string("assistant");
      break;
    case Kind::call:
      json.key("type").string("function_call").key("call_id").string(item.call_id);
      json.key("name").string(item.name).key("arguments").string(item.text);
      break;
    case Kind::custom_call:
      json.key("type").string("custom_tool_call").key("call_id").string(item.call_id);
      json.key("name").string(item.name).key("input").string(item.text);
      break;
  }
  if (!item.group.empty()) json.key("namespace").string(item.group);
  if (!item.is_call()) {
    json.key("content").begin_array();
    if (item.done) write_part(json, item, /*begins=*/false);
    json.end_array();
  }
  json.key("status").string(cut ? "incomplete" : item.done ? "completed" : "in_progress").end_object();
}

void ResponseWriter::begin_item(Kind kind, const ChoiceState::CallPiece* call) {
  end_item();
  constexpr std::string_view kPrefixes[] = {"rs_", "msg_", "fc_", "ctc_"};
  Item item{.kind = kind, .id = concat(kPrefixes[static_cast<std::size_t>(kind)], items_.size(), "_", id_)};
  if (call != nullptr) {
    item.call = call->index;
    item.name = to_valid_utf8(call->name.value_or(""));
    if (call->origin != nullptr) item.group = call->origin->group;
    item.call_id =
        call->id.empty() ? concat("call_", tool_call_id(id_, 0, call->index)) : to_valid_utf8(call->id);
  }
  items_.push_back(std::move(item));
  event("response.output_item.added", [this](JsonWriter& json) {
    json.key("output_index").integer(static_cast<std::int64_t>(items_.size()) - 1).key("item");
    write_item(json, items_.back());
  });
  if (items_.back().is_call()) return;
  item_event("response.content_part.added", [this](JsonWriter& json) {
    json.key("part");
    write_part(json, items_.back(), /*begins=*/true);
  });
}

void ResponseWriter::grow(Kind kind, std::string_view text, const ChoiceState::CallPiece* call,
                          std::string_view logprobs) {
  const bool goes_on = !items_.empty() && !items_.back().done && items_.back().kind == kind &&
                       (call == nullptr || (items_.back().call == call->index && !call->name));
  if (!goes_on) begin_item(kind, call);
  const std::string valid = to_valid_utf8(text);
  Item& item = items_.back();
  item.text.append(valid);
  item.logprobs.append(item.logprobs.empty() || logprobs.empty() ? "" : ",").append(logprobs);
  if (valid.empty()) return;
  constexpr std::string_view kTypes[] = {"response.reasoning_text.delta", "response.output_text.delta",
                                         "response.function_call_arguments.delta",
                                         "response.custom_tool_call_input.delta"};
  item_event(kTypes[static_cast<std::size_t>(kind)], [&](JsonWriter& json) {
    json.key("delta").string(valid);
    if (kind == Kind::message) json.key("logprobs").raw(concat("[", logprobs, "]"));
  });
}

void ResponseWriter::end_item() {
  Item* const last = last_of(items_);
  if (last == nullptr || last->done) return;
  Item& item = *last;
  item.done = true;
  switch (item.kind) {
    case Kind::reasoning:
      item_event("response.reasoning_text.done",
                 [&](JsonWriter& json) { json.key("text").string(item.text); });
      break;
    case Kind::message:
      item_event("response.output_text.done", [&](JsonWriter& json) {
        json.key("text").string(item.text).key("logprobs").raw(concat("[", item.logprobs, "]"));
      });
      break;
    case Kind::call:
      item_event("response.function_call_arguments.done", [&](JsonWriter& json) {
        json.key("name").string(item.name).key("arguments").string(item.text);
      });
      break;
    case Kind::custom_call:
      item_event("response.custom_tool_call_input.done",
                 [&](JsonWriter& json) { json.key("input").string(item.text); });
      break;
  }
  if (!item.is_call())
    item_event("response.content_part.done", [&](JsonWriter& json) {
      json.key("part");
      write_part(json, item, /*begins=*/false);
    });
  event("response.output_item.done", [&](JsonWriter& json) {
    json.key("output_index").integer(static_cast<std::int64_t>(items_.size()) - 1).key("item");
    write_item(json, item);
  });
}

void ResponseWriter::take_fresh() {
  const ChoiceState::Fresh fresh = std::exchange(state_.choices.front().fresh, {});
  if (!fresh.reasoning.empty()) grow(Kind::reasoning, fresh.reasoning);
  if (!fresh.text.empty()) grow(Kind::message, fresh.text, nullptr, logprobs_json(fresh.logprobs));
  for (const ChoiceState::CallPiece& call : fresh.calls) {
    const bool custom = call.origin != nullptr && call.origin->custom;
    grow(custom ? Kind::custom_call : Kind::call, call.arguments, &call);
  }
  if (state_.finished()) end_item();
}

void ResponseWriter::write_response(JsonWriter& json) const {
  const std::string_view now = status();
  json.begin_object().key("id").string(id_).key("object").string("response");
  json.key("created_at").integer(created_).key("status").string(now);
  json.key("error");
  if (state_.error().ok()) {
    json.null();
  } else {
    json.begin_object().key("code").string("server_error");
    json.key("message").string(to_valid_utf8(api_error(state_.error()).message)).end_object();
  }
  json.key("incomplete_details");
  if (now == "incomplete")
    json.begin_object().key("reason").string("max_output_tokens").end_object();
  else
    json.null();
  json.key("model").string(model_name()).key("output").begin_array();
  for (const Item& item : items_) write_item(json, item);
  json.end_array();
  if (state_.finished() && state_.error().ok()) {
    const Usage usage = state_.usage();
    json.key("usage").begin_object().key("input_tokens").integer(usage.prompt_tokens);
    json.key("input_tokens_details").begin_object().key("cached_tokens").integer(usage.cached_tokens);
    json.key("cache_write_tokens").integer(0).end_object();
    json.key("output_tokens").integer(usage.completion_tokens);
    json.key("output_tokens_details").begin_object().key("reasoning_tokens").integer(usage.reasoning_tokens);
    json.end_object().key("total_tokens").integer(usage.prompt_tokens + usage.completion_tokens).end_object();
  }
  for (const auto& [key, value] : call_.shown) {
    json.key(std::string_view(key.data(), key.size()));
    value.is_double() ? json.float64(value.get_double()) : json.raw(boost::json::serialize(value));
  }
  json.end_object();
}

std::string ResponseWriter::response_json() const {
  std::string out;
  JsonWriter json(out);
  write_response(json);
  return out;
}

// An answer that does not fit is not stored; a later lookup does not find it.
void ResponseWriter::keep() {
  if (!call_.store || std::exchange(kept_, true)) return;
  if (stored_) {
    (void)context_.answers->finish(id_, response_json());
    return;
  }
  (void)context_.answers->add(
      id_, {.owner = owner_,
            .answer = response_json(),
            .conversation = to_text({.items = call_.conversation, .first_of_call = call_.first_of_this_call}),
            .running = false});
}

void ResponseWriter::note_output() {
  // take() is not called for a background answer that is not streamed.
  if (!stored_ || log_ != nullptr || !state_.finished()) return;
  take_fresh();
  keep();
}

// Writes the first events, once. Skipped if the answer has finished already: its end event suffices.
void ResponseWriter::begin() {
  if (std::exchange(begun_, true) || state_.finished()) return;
  const auto response = [this](JsonWriter& json) {
    json.key("response");
    write_response(json);
  };
  event("response.created", response);
  event("response.in_progress", response);
}

void ResponseWriter::ping(std::string& out) {
  if (begun_) return StateWriter::ping(out);
  begin();
  out.append(std::exchange(events_, {}));
}

void ResponseWriter::write_events(std::string& out) {
  begin();
  take_fresh();
  if (state_.finished()) {
    const std::string type = concat("response.", status());
    event(type, [this](JsonWriter& json) {
      json.key("response");
      write_response(json);
    });
    keep();
    if (log_ != nullptr) log_->end();
  }
  out.append(std::exchange(events_, {}));
}

void ResponseWriter::write_body(std::string& out) {
  take_fresh();
  out.append(response_json());
  keep();
}

}  // namespace pagoda
