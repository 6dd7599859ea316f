// The functions of pagoda.h for engines, queues, requests and outputs.
#include <boost/json.hpp>
#include <chrono>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "api/api_context.h"
#include "api/json.h"
#include "api/openai/request_parser.h"
#include "base/version.h"
#include "cli/assembly/hub_settings.h"
#include "library/engine_options.h"
#include "library/handles.h"
#include "library/output_json.h"
#include "server/protocols.h"

using namespace pagoda;  // NOLINT: the room's own names; the C ones all begin with pagoda_

namespace {

thread_local std::string last_error;

constexpr std::chrono::milliseconds kNoWait{0};

std::optional<std::chrono::milliseconds> wait_of(std::int64_t timeout_ms) {
  constexpr std::int64_t kDay = 86'400'000;
  if (timeout_ms < 0) return std::nullopt;
  return std::chrono::milliseconds(std::min(timeout_ms, kDay));
}
pagoda_status nothing_came(OutputQueue::Nothing why) {
  switch (why) {
    case OutputQueue::Nothing::timeout:
      return PAGODA_TIMEOUT;
    case OutputQueue::Nothing::idle:
      return PAGODA_IDLE;
    case OutputQueue::Nothing::dead:
      break;
  }
  return fail(PAGODA_UNAVAILABLE, "the engine has stopped");
}

pagoda_status submit(pagoda_queue* queue, CallKind kind, const char* field, boost::json::value prompt,
                     const char* params, std::uint64_t* id) {
  Result<boost::json::value> body = parse_json(params == nullptr ? "{}" : params);
  if (!body || !body->is_object())
    return fail(PAGODA_INVALID, concat("params must be a JSON object",
                                       body ? std::string() : concat(": ", body.error().message())));
  boost::json::object& fields = body->as_object();
  // The prompt is passed separately, and the caller has it already (echo).
  for (const char* given : {"prompt", "messages", "echo"})
    if (fields.contains(given)) return fail(PAGODA_INVALID, concat("params must not have '", given, "'"));
  fields[field] = std::move(prompt);
  const std::uint64_t number = queue->engine->next_id.fetch_add(1);
  Result<ParsedCall> call =
      parse_call(kind, boost::json::serialize(fields), {.id = std::to_string(number), .created = 0},
                 queue->engine->assembled->api());
  if (!call) return record_error(call.error());
  if (const Status status = queue->outputs.submit(*std::move(call), number); !status.ok())
    return record_error(status);
  if (id != nullptr) *id = number;
  return PAGODA_OK;
}

}  // namespace

namespace pagoda {

pagoda_status fail(pagoda_status code, std::string message) {
  last_error = std::move(message);
  return code;
}
pagoda_status record_error(const Status& status) {
  return status.ok() ? PAGODA_OK : fail(c_status(status), status.message());
}

}  // namespace pagoda

const char* pagoda_version(void) {
  static const std::string text(version());
  return text.c_str();
}
const char* pagoda_last_error(void) { return last_error.c_str(); }
void pagoda_free(void* memory) { std::free(memory); }

pagoda_status pagoda_engine_create(const char* model, const pagoda_option* options, size_t num_options,
                                   pagoda_engine** engine) {
  return guarded([&] {
    if (engine == nullptr) return missing("engine");
    if (options == nullptr && num_options > 0) return missing("options");
    std::vector<std::pair<std::string, std::string>> given;
    for (std::size_t i = 0; i < num_options; ++i) {
      if (options[i].name == nullptr || options[i].value == nullptr)
        return missing("an option's name or value");
      given.emplace_back(options[i].name, options[i].value);
    }
    Result<EngineFlags> flags = engine_options(model, given);
    if (!flags) return record_error(flags.error());
    auto made = std::make_shared<LibraryEngine>();
    made->flags = *std::move(flags);
    if (const Status fetched = fetch_if_missing(made->flags); !fetched.ok()) return record_error(fetched);
    auto assembled = AssembledEngine::create(made->flags, AssembledEngine::Report::quiet);
    if (!assembled) return record_error(assembled.error());
    made->assembled = *std::move(assembled);
    if (made->assembled->tokenizer() == nullptr)
      return fail(PAGODA_INVALID, "the model has no tokenizer; give one with the option tokenizer");
    *engine = new pagoda_engine{std::move(made)};
    return PAGODA_OK;
  });
}

void pagoda_engine_destroy(pagoda_engine* engine) {
  if (engine == nullptr) return;
  engine->engine->assembled->stop();
  delete engine;
}

pagoda_status pagoda_queue_create(pagoda_engine* engine, pagoda_queue** queue) {
  return guarded([&] {
    if (engine == nullptr || queue == nullptr) return missing("engine or queue");
    AssembledEngine& assembled = *engine->engine->assembled;
    *queue = new pagoda_queue{.engine = engine->engine, .outputs = {assembled.client(), assembled.api()}};
    return PAGODA_OK;
  });
}
void pagoda_queue_destroy(pagoda_queue* queue) { delete queue; }

pagoda_status pagoda_submit_text(pagoda_queue* queue, const char* text, size_t text_length,
                                 const char* params, uint64_t* id) {
  return guarded([&] {
    if (queue == nullptr || text == nullptr) return missing("queue or text");
    return submit(queue, CallKind::completion, "prompt", boost::json::string(text, text_length), params, id);
  });
}
pagoda_status pagoda_submit_ids(pagoda_queue* queue, const int32_t* ids, size_t num_ids, const char* params,
                                uint64_t* id) {
  return guarded([&] {
    if (queue == nullptr || ids == nullptr) return missing("queue or ids");
    return submit(queue, CallKind::completion, "prompt", boost::json::array(ids, ids + num_ids), params, id);
  });
}
pagoda_status pagoda_submit_chat(pagoda_queue* queue, const char* messages, const char* params,
                                 uint64_t* id) {
  return guarded([&] {
    if (queue == nullptr || messages == nullptr) return missing("queue or messages");
    Result<boost::json::value> list = parse_json(messages);
    if (!list) return fail(PAGODA_INVALID, concat("messages: ", list.error().message()));
    return submit(queue, CallKind::chat, "messages", *std::move(list), params, id);
  });
}

pagoda_status pagoda_submit_call(pagoda_queue* queue, const char* path, const char* body, uint64_t* id) {
  return guarded([&] {
    if (queue == nullptr || path == nullptr || body == nullptr) return missing("queue, path or body");
    const FoundRoute route = find_api_route(all_protocols(), "POST", path);
    if (route.row == nullptr) return fail(PAGODA_NOT_FOUND, concat("there is nothing at ", path));
    const auto* handler = std::get_if<GenerationHandler>(&route.row->handler);
    if (handler == nullptr) return fail(PAGODA_UNIMPLEMENTED, concat("the engine does not work at ", path));
    LibraryEngine& engine = *queue->engine;
    ApiCall call;
    call.method = route.row->facts.method;
    call.path = route.row->facts.path;
    call.parameter = route.parameter;
    call.body = body;
    call.id = std::to_string(engine.next_id.fetch_add(1));
    call.created = std::time(nullptr);
    Result<ApiGeneration> made = (*handler)(call, engine.assembled->api());
    if (!made) return record_error(made.error());
    if (made->at_once || made->answer->streaming())
      return fail(PAGODA_INVALID,
                  concat(made->at_once ? "background" : "stream", " is not for calls that come whole"));
    const std::uint64_t number = engine.next_id.fetch_add(std::max<std::size_t>(1, made->requests.size()));
    if (const Status status = queue->outputs.submit(*std::move(made), number); !status.ok())
      return record_error(status);
    if (id != nullptr) *id = number;
    return PAGODA_OK;
  });
}

pagoda_status pagoda_abort(pagoda_queue* queue, uint64_t id) {
  return guarded([&] {
    if (queue == nullptr) return missing("queue");
    return queue->outputs.abort(id) ? PAGODA_OK : fail(PAGODA_NOT_FOUND, "this request has ended");
  });
}

pagoda_status pagoda_next(pagoda_queue* queue, int64_t timeout_ms, pagoda_output** output) {
  return guarded([&] {
    if (queue == nullptr || output == nullptr) return missing("queue or output");
    OutputQueue::Taken taken = queue->outputs.next(wait_of(timeout_ms));
    *output = taken.record.release();
    return *output != nullptr ? PAGODA_OK : nothing_came(taken.why);
  });
}
void pagoda_output_free(pagoda_output* output) { delete static_cast<OutputRecord*>(output); }

pagoda_status pagoda_next_json(pagoda_queue* queue, int64_t timeout_ms, size_t max_outputs, char** text,
                               size_t* text_length) {
  return guarded([&] {
    if (queue == nullptr || text == nullptr || text_length == nullptr)
      return missing("queue, text or text_length");
    if (max_outputs == 0) return fail(PAGODA_INVALID, "max_outputs is 0");
    OutputQueue::Taken taken = queue->outputs.next(wait_of(timeout_ms));
    if (taken.record == nullptr) return nothing_came(taken.why);
    std::string written;
    JsonWriter json(written);
    json.begin_array();
    for (std::size_t i = 0; taken.record != nullptr; taken = queue->outputs.next(kNoWait)) {
      write_output(json, *taken.record);
      if (++i == max_outputs) break;
    }
    json.end_array();
    hand_over(written, text, text_length);
    return PAGODA_OK;
  });
}
