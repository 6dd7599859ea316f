#include "api/ollama/ollama_parser.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "api/chat_prompt_tokens.h"
#include "api/content_parts.h"
#include "api/fill_in_middle.h"
#include "api/grammar_fields.h"
#include "api/json.h"
#include "api/peer_sampling.h"
#include "api/tool_fields.h"
#include "api/unknown_fields.h"
#include "base/ascii.h"
#include "base/assign_or_return.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::string_view kNoImages = "this model supports text only";

void read_options(FieldReader& fields, ChatCall& call) {
  const json::object* options = fields.object("options");
  const json::object none;
  FieldReader reader(options == nullptr ? none : *options, "options");
  read_sampling(reader, kLlamaSampling, call.sampling);
  call.sampling.ignore_eos = reader.boolean("ignore_eos").value_or(false);  // for benchmarks
  read_stops(reader, "stop", call.answer);
  // -1 and -2: as many tokens as fit.
  if (const auto count = reader.integer("num_predict", -2, 1 << 30); count && *count > 0)
    call.max_tokens = *count;
  call.clip_max_tokens = true;
  read_peer_sampling(reader, call.sampling, call.warnings);
  // These options tune Ollama's own machine; the server sets the context length.
  note_unknown_fields(reader, call.warnings,
                      {"num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "numa",
                       "low_vram", "use_mmap", "use_mlock", "f16_kv", "vocab_only", "mirostat_tau",
                       "mirostat_eta", "penalize_newline", "draft_num_predict"});
  if (!reader.ok()) fields.fail(reader.status());
}

// A whole answer is written in one piece, so its log-probabilities are bounded.
constexpr std::int64_t kMaxAnswerLogprobs = 1'000'000;

void read_logprobs(FieldReader& fields, const ApiContext& context, ChatCall& call) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto count =
      static_cast<std::int32_t>(fields.integer("top_logprobs", 0, context.max_logprobs).value_or(0));
  if (!wanted && count == 0) return;
  const std::int64_t most = kMaxAnswerLogprobs / (count + 1);
  if (std::min<std::int64_t>(context.max_model_len, call.max_tokens.value_or(most)) > most)
    fields.fail("top_logprobs",
                concat("asks for more than ", kMaxAnswerLogprobs, " log-probabilities in one call"));
  if (!call.max_tokens && context.max_model_len > most) call.max_tokens = most;
  call.sampling.logprobs = call.answer.logprobs = count;
}

// True for "keep_alive": 0, which asks to unload the model. Here, the model stays until the server ends.
bool read_unload(FieldReader& fields) {
  const json::value* keep = fields.raw("keep_alive", {"number", "string"});
  if (keep == nullptr) return false;
  if (keep->is_number()) return keep->to_number<double>() == 0;  // Python's client sends 0.0
  if (!keep->is_string()) return false;
  const std::string_view duration = keep->get_string();  // "0", "0s", "0m"
  return duration.starts_with('0') && duration.find_first_of("123456789") == std::string_view::npos;
}

void read_think(FieldReader& fields, Conversation& conversation) {
  const json::value* think = fields.raw("think", {"boolean", "string"});
  if (think == nullptr) return;
  if (think->is_bool()) {
    conversation.template_kwargs["enable_thinking"] = think->as_bool();
  } else if (think->is_string()) {
    conversation.template_kwargs["enable_thinking"] = true;
    conversation.template_kwargs["reasoning_effort"] = think->as_string();
  } else {
    fields.fail("think", "must be true, false or a level");
  }
}

std::vector<ToolCall> read_tool_calls(FieldReader& message, std::size_t& keys_left) {
  std::vector<ToolCall> out;
  const json::array* calls = message.array("tool_calls", kMaxTools);
  for (std::size_t i = 0; calls != nullptr && i < calls->size() && message.ok(); ++i) {
    const std::string path = concat("tool_calls.", i);
    const json::object* call = (*calls)[i].if_object();
    if (call == nullptr) {
      message.fail(path, "must be an object");
      break;
    }
    FieldReader reader(*call, message.path_of(path));
    const json::object* function = reader.object("function");
    if (reader.ok() && function == nullptr) reader.fail("function", "is required");
    if (reader.ok()) {
      FieldReader inner(*function, reader.path_of("function"));
      const std::optional<std::string> name = inner.string("name", kMaxToolNameBytes);
      if (inner.ok() && !name) inner.fail("name", "is required");
      ToolArguments arguments = read_call_arguments(inner, "arguments", keys_left);
      if (inner.ok())
        out.push_back(ToolCall::of(
            reader.string("id", 256).value_or(tool_call_id("ollama", 0, static_cast<std::int32_t>(i))), *name,
            std::move(arguments)));
      if (!inner.ok()) reader.fail(inner.status());
    }
    if (!reader.ok()) message.fail(reader.status());
  }
  return out;
}

void read_chat_messages(FieldReader& fields, const ApiContext& context, Conversation& conversation,
                        Warnings& warnings) {
  const json::array* messages = fields.array("messages", kMaxMessages);
  std::size_t keys_left = kMaxArgumentKeys;
  for (std::size_t i = 0; messages != nullptr && i < messages->size() && fields.ok(); ++i) {
    const std::string path = concat("messages.", i);
    const json::object* message = (*messages)[i].if_object();
    if (message == nullptr) return fields.fail(path, "must be an object");
    FieldReader reader(*message, path);
    ChatMessage read;
    read.role = lowered(reader.string("role", 64).value_or(""));  // as in Ollama
    if (reader.ok()) check_role(reader, read.role, context);
    std::string content = reader.string("content", kAnyLength).value_or("");
    if (read.role != "tool")
      reader.not_built("images", kNoImages);
    else if (const json::array* images = reader.array("images", kMaxMessages); images && !images->empty())
      content.append(content.empty() ? "" : "\n")
          .append(media_note(reader.path_of("images"), "image", warnings));
    read.tool_calls = read_tool_calls(reader, keys_left);
    read.content = Content::of(std::move(content));
    read.reasoning = reader.string("thinking", kAnyLength);
    read.name = reader.string("tool_name", kAnyLength);
    read.tool_call_id = reader.string("tool_call_id", kAnyLength);
    if (!reader.ok()) fields.fail(reader.status());
    conversation.messages.push_back(std::move(read));
  }
}

void read_tools(FieldReader& fields, Conversation& conversation) {
  const json::array* tools = fields.array("tools", kMaxTools);
  for (std::size_t i = 0; tools != nullptr && i < tools->size() && fields.ok(); ++i) {
    const std::string path = concat("tools.", i);
    const json::object* tool = (*tools)[i].if_object();
    if (tool == nullptr) return fields.fail(path, "must be an object");
    FieldReader reader(*tool, path);
    conversation.tools.push_back(read_function_tool(reader, *tool));
    if (!reader.ok()) fields.fail(reader.status());
  }
}

Result<std::optional<ChatRequest>> chat_request(FieldReader& fields, ChatCall& call,
                                                const ApiContext& context) {
  read_chat_messages(fields, context, call.conversation, call.warnings);
  read_tools(fields, call.conversation);
  if (!fields.ok()) return fields.status();
  if (call.conversation.messages.empty()) return std::optional<ChatRequest>();
  Result<ChatRequest> made = make_chat_request(call, context);
  if (!made) return made.error();
  return std::optional<ChatRequest>(*std::move(made));
}

Result<std::optional<ChatRequest>> generate_request(FieldReader& fields, ChatCall& call,
                                                    const ApiContext& context) {
  const std::string prompt = fields.string("prompt", kAnyLength).value_or("");
  const bool raw = fields.boolean("raw").value_or(false);
  std::optional<std::string> system = fields.string("system", kAnyLength);
  fields.not_built("images", kNoImages);
  fields.not_built("context", "send the conversation to /api/chat");
  const std::string suffix = fields.string("suffix", kAnyLength).value_or("");
  if (const auto text = fields.string("template", kAnyLength); text && !text->empty())
    fields.not_built("template", "this server does not implement it");
  if (!fields.ok()) return fields.status();
  if (prompt.empty() && suffix.empty()) return std::optional<ChatRequest>();
  Result<ChatRequest> made = internal_error("");
  if (!suffix.empty()) {
    Result<std::vector<TokenId>> ids = fill_in_middle_tokens(context, "suffix", prompt, suffix);
    if (!ids) return ids.error();
    made = make_request(call, "prompt", *std::move(ids), context);
  } else if (raw || context.chat_template == nullptr) {
    Result<std::vector<TokenId>> ids =
        text_prompt_tokens(context, "prompt", prompt, {.add_special_tokens = true});
    if (!ids) return ids.error();
    made = make_request(call, "prompt", *std::move(ids), context);
  } else {
    if (system && !system->empty())
      call.conversation.messages.push_back({.role = "system", .content = Content::of(*std::move(system))});
    call.conversation.messages.push_back({.role = "user", .content = Content::of(prompt)});
    made = make_chat_request(call, context);
  }
  if (!made) return made.error();
  return std::optional<ChatRequest>(*std::move(made));
}

}  // namespace

Result<AdapterCatalog::Handle> choose_ollama_model(std::string_view name, const ApiContext& context) {
  constexpr std::string_view kTag = ":latest";
  Result<AdapterCatalog::Handle> found = choose_model(name, context);
  if (found || !name.ends_with(kTag)) return found;
  return choose_model(name.substr(0, name.size() - kTag.size()), context);
}

Status check_ollama_model(std::string_view name, const ApiContext& context) {
  const Result<AdapterCatalog::Handle> chosen = choose_ollama_model(name, context);
  return chosen ? ok_status() : chosen.error();
}

Result<OllamaCall> parse_ollama_call(std::string_view body, bool chat, const ApiContext& context) {
  const Result<json::value> value = parse_json_body(body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  const std::optional<std::string> model = fields.string("model", 1024);
  if (fields.ok() && !model) fields.fail("model", "is required");

  OllamaCall out;
  out.chat = chat;
  out.stream = fields.boolean("stream").value_or(true);
  out.unloads = read_unload(fields);
  ChatCall call;
  if (model) {
    PAGODA_ASSIGN_OR_RETURN(call.answer.adapter, choose_ollama_model(*model, context));
  }
  call.sampling = default_sampling(context);
  read_options(fields, call);
  read_think(fields, call.conversation);
  call.form = read_ollama_format(fields);
  read_logprobs(fields, context, call);
  if (!fields.ok()) return fields.status();
  Result<std::optional<ChatRequest>> made =
      chat ? chat_request(fields, call, context) : generate_request(fields, call, context);
  if (!made) return made.error();
  note_unknown_fields(fields, call.warnings, {"truncate", "shift"});
  if (*made) {
    out.request = std::move((*made)->request);
    out.grammars = std::move((*made)->grammars);
  }
  out.answer = std::move(call.answer);
  out.warnings = std::move(call.warnings);
  return out;
}

}  // namespace pagoda
