#include "api/anthropic/message_writer.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <map>

#include "api/tool_fields.h"
#include "base/strings.h"

namespace pagoda {
namespace {

std::string_view messages_error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 408:
      return "timeout_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

// Writes one server-sent event; `write` fills its data object.
template <class Write>
void event(std::string& out, std::string_view type, Write write) {
  out.append("event: ").append(type).append("\ndata: ");
  JsonWriter json(out);
  json.begin_object().key("type").string(type);
  write(json);
  json.end_object();
  out.append("\n\n");
}

// A call's arguments as the object that clients expect. Arguments that are not an object become a string in
// one.
std::string input_of(const std::string& arguments) {
  if (arguments.empty()) return "{}";
  const Result<boost::json::value> value = parse_json(arguments);
  if (value && value->is_object()) return boost::json::serialize(*value);
  boost::json::object object;
  object["arguments"] = to_valid_utf8(arguments);
  return boost::json::serialize(object);
}

}  // namespace

std::string anthropic_error_body(const ApiError& error) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("type").string("error").key("error").begin_object();
  json.key("type")
      .string(messages_error_type(error.status))
      .key("message")
      .string(to_valid_utf8(error.message));
  json.end_object().end_object();
  return out;
}

MessageWriter::MessageWriter(std::string id, AnswerOptions options, bool stream, bool clipped,
                             const ApiContext& context)
    : StateWriter(std::move(options), stream, context), id_(std::move(id)), clipped_(clipped) {}

std::string MessageWriter::call_id(const ChoiceState::CallPiece& call) const {
  return call.id.empty() ? concat("toolu_", tool_call_id(id_, 0, call.index)) : to_valid_utf8(call.id);
}

// Clients keep a thought, and send it back, only if it is signed. This server does not check the signature.
std::string MessageWriter::signature() const {
  std::string out;
  for (const char part : std::string_view("abcd")) out += short_call_id(concat(id_, "/thinking/", part));
  return out;
}

void MessageWriter::write_usage(JsonWriter& json) const {
  const Usage usage = state_.usage();
  json.begin_object().key("input_tokens").integer(usage.prompt_tokens - usage.cached_tokens);
  json.key("cache_creation_input_tokens").integer(0);
  json.key("cache_read_input_tokens").integer(usage.cached_tokens);
  json.key("output_tokens").integer(usage.completion_tokens).end_object();
}

void MessageWriter::write_stop(JsonWriter& json) const {
  const ChoiceState& choice = state_.choices.front();
  const auto* text = std::get_if<std::string>(&choice.stop_reason);
  json.key("stop_reason");
  if (!choice.finish_reason)
    json.null();
  else if (*choice.finish_reason == FinishReason::length)
    json.string(clipped_ ? "model_context_window_exceeded" : "max_tokens");
  else
    json.string(text != nullptr ? "stop_sequence" : choice.num_calls > 0 ? "tool_use" : "end_turn");
  json.key("stop_sequence");
  text != nullptr ? json.string(*text) : json.null();
}

void MessageWriter::begin_message(std::string& out) {
  begun_ = true;
  event(out, "message_start", [this](JsonWriter& json) {
    json.key("message").begin_object().key("id").string(id_).key("type").string("message");
    json.key("role").string("assistant").key("model").string(model_name());
    json.key("content").begin_array().end_array();
    json.key("stop_reason").null().key("stop_sequence").null().key("usage");
    write_usage(json);
    json.end_object();
  });
  event(out, "ping", [](JsonWriter&) {});
}

void MessageWriter::ping(std::string& out) {
  if (!begun_) return begin_message(out);
  event(out, "ping", [](JsonWriter&) {});
}

void MessageWriter::open_block(std::string& out, Block kind, const ChoiceState::CallPiece* call) {
  close_block(out);
  open_ = kind;
  open_call_ = call == nullptr ? -1 : call->index;
  event(out, "content_block_start", [&](JsonWriter& json) {
    json.key("index").integer(num_blocks_).key("content_block").begin_object();
    if (kind == Block::text) json.key("type").string("text").key("text").string("");
    if (kind == Block::thinking)
      json.key("type").string("thinking").key("thinking").string("").key("signature").string("");
    if (call != nullptr) {
      json.key("type").string("tool_use").key("id").string(call_id(*call));
      json.key("name").string(to_valid_utf8(call->name.value_or("")));
      json.key("input").begin_object().end_object();
    }
    json.end_object();
  });
  ++num_blocks_;
}

void MessageWriter::close_block(std::string& out) {
  if (open_ == Block::none) return;
  if (open_ == Block::thinking) write_delta(out, "signature_delta", "signature", signature());
  event(out, "content_block_stop", [this](JsonWriter& json) { json.key("index").integer(num_blocks_ - 1); });
  open_ = Block::none;
}

void MessageWriter::write_delta(std::string& out, std::string_view type, std::string_view field,
                                std::string_view text) const {
  event(out, "content_block_delta", [&](JsonWriter& json) {
    json.key("index").integer(num_blocks_ - 1).key("delta").begin_object();
    json.key("type").string(type).key(field).string(to_valid_utf8(text)).end_object();
  });
}

void MessageWriter::end_message(std::string& out) {
  close_block(out);
  event(out, "message_delta", [this](JsonWriter& json) {
    json.key("delta").begin_object();
    write_stop(json);
    json.end_object().key("usage");
    write_usage(json);
  });
  event(out, "message_stop", [](JsonWriter&) {});
}

void MessageWriter::write_events(std::string& out) {
  if (!state_.error().ok()) {
    out.append("event: error\ndata: ").append(anthropic_error_body(api_error(state_.error()))).append("\n\n");
    return;
  }
  if (!begun_) begin_message(out);
  const ChoiceState::Fresh fresh = std::exchange(state_.choices.front().fresh, {});
  if (!fresh.reasoning.empty()) {
    if (open_ != Block::thinking) open_block(out, Block::thinking);
    write_delta(out, "thinking_delta", "thinking", fresh.reasoning);
  }
  if (!fresh.text.empty()) {
    if (open_ != Block::text) open_block(out, Block::text);
    write_delta(out, "text_delta", "text", fresh.text);
  }
  for (const ChoiceState::CallPiece& call : fresh.calls) {
    if (call.name || open_call_ != call.index || open_ != Block::tool) open_block(out, Block::tool, &call);
    if (!call.arguments.empty()) write_delta(out, "input_json_delta", "partial_json", call.arguments);
  }
  if (state_.finished()) end_message(out);
}

void MessageWriter::write_body(std::string& out) {
  const ChoiceState::Fresh fresh = std::exchange(state_.choices.front().fresh, {});
  JsonWriter json(out);
  json.begin_object().key("id").string(id_).key("type").string("message").key("role").string("assistant");
  json.key("model").string(model_name()).key("content").begin_array();
  if (!fresh.reasoning.empty()) {
    json.begin_object().key("type").string("thinking").key("thinking").string(to_valid_utf8(fresh.reasoning));
    json.key("signature").string(signature()).end_object();
  }
  if (!fresh.text.empty())
    json.begin_object().key("type").string("text").key("text").string(to_valid_utf8(fresh.text)).end_object();
  std::map<std::int32_t, std::string> arguments;
  for (const ChoiceState::CallPiece& call : fresh.calls) arguments[call.index] += call.arguments;
  for (const ChoiceState::CallPiece& call : fresh.calls) {
    if (!call.name) continue;
    json.begin_object().key("type").string("tool_use").key("id").string(call_id(call));
    json.key("name").string(to_valid_utf8(*call.name)).key("input").raw(input_of(arguments[call.index]));
    json.end_object();
  }
  json.end_array();
  write_stop(json);
  json.key("usage");
  write_usage(json);
  json.end_object();
}

}  // namespace pagoda
