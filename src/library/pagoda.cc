// The C library of include/pagoda.h: arguments checked, errors told, memory handed over. What it does is done
// by what stands beside this file and below it.
#include <pagoda.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "api/api_context.h"
#include "api/json.h"
#include "api/openai/request_parser.h"
#include "api/openai/text_endpoints.h"
#include "base/metric_label.h"
#include "base/strings.h"
#include "base/version.h"
#include "cli/assembly/assemble.h"
#include "cli/assembly/hub_settings.h"
#include "cli/assembly/memory_modes.h"
#include "library/engine_options.h"
#include "library/output_queue.h"
#include "server/protocols.h"
#include "server/server.h"

namespace {

using namespace pagoda;  // NOLINT: the room's own names; the C ones all begin with pagoda_

struct Engine {
  EngineFlags flags;
  std::unique_ptr<AssembledEngine> assembled;
  std::atomic<std::uint64_t> next_id{1};
};

}  // namespace

struct pagoda_engine {
  std::shared_ptr<Engine> engine;  // queues have it, too
};

struct pagoda_queue {
  std::shared_ptr<Engine> engine;
  OutputQueue outputs;
};

namespace {

thread_local std::string last_error;

pagoda_status fail(pagoda_status code, std::string message) {
  last_error = std::move(message);
  return code;
}
pagoda_status told(const Status& status) {
  return status.ok() ? PAGODA_OK : fail(c_status(status), status.message());
}

// No exception leaves the library.
template <class Body>
pagoda_status guarded(Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(PAGODA_INTERNAL, "there is not enough memory");
  } catch (const std::exception& error) {
    return fail(PAGODA_INTERNAL, error.what());
  }
}

pagoda_status missing(const char* what) { return fail(PAGODA_INVALID, concat(what, " is NULL")); }

// For pagoda_free.
template <class T>
T* hand_over(const T* data, std::size_t count) {
  T* copy = static_cast<T*>(std::malloc(sizeof(T) * (count + 1)));
  if (copy == nullptr) throw std::bad_alloc();
  if (count > 0) std::memcpy(copy, data, sizeof(T) * count);
  copy[count] = T{};
  return copy;
}
void hand_over(const std::string& from, char** text, std::size_t* length) {
  *text = hand_over(from.data(), from.size());
  *length = from.size();
}

// Fills in what the caller's version of the struct has.
template <class T>
pagoda_status copy_out(const T& from, T* to, std::size_t size) {
  std::memcpy(to, &from, std::min(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(reinterpret_cast<char*>(to) + sizeof(T), 0, size - sizeof(T));
  return PAGODA_OK;
}

pagoda_status submit(pagoda_queue* queue, CallKind kind, const char* field, boost::json::value prompt,
                     const char* params, std::uint64_t* id) {
  Result<boost::json::value> body = parse_json(params == nullptr ? "{}" : params);
  if (!body || !body->is_object())
    return fail(PAGODA_INVALID, concat("params must be a JSON object",
                                       body ? std::string() : concat(": ", body.error().message())));
  boost::json::object& fields = body->as_object();
  // The prompt comes beside them, and whoever asks has it already.
  for (const char* given : {"prompt", "messages", "echo"})
    if (fields.contains(given)) return fail(PAGODA_INVALID, concat("params must not have '", given, "'"));
  fields[field] = std::move(prompt);
  const std::uint64_t number = queue->engine->next_id.fetch_add(1);
  Result<ParsedCall> call =
      parse_call(kind, boost::json::serialize(fields), {.id = std::to_string(number), .created = 0},
                 queue->engine->assembled->api());
  if (!call) return told(call.error());
  if (const Status status = queue->outputs.submit(*std::move(call), number); !status.ok())
    return told(status);
  if (id != nullptr) *id = number;
  return PAGODA_OK;
}

// That of tokenizer_config.json.
TokenId pad_token(const ApiContext& api, const Tokenizer& tokenizer) {
  const Result<boost::json::value> info = parse_json(api.tokenizer_info);
  if (!info || !info->is_object()) return -1;
  const boost::json::value* named = info->as_object().if_contains("pad_token");
  if (named != nullptr && named->is_object()) named = named->as_object().if_contains("content");
  if (named == nullptr || !named->is_string()) return -1;
  return tokenizer.find(named->as_string()).value_or(-1);
}

// Waits for what the engine's thread does between two steps.
template <class Ask>
pagoda_status controlled(const Ask& ask) {
  const auto outcome = std::make_shared<std::promise<Status>>();
  auto ready = outcome->get_future();
  ask([outcome](Status status) { outcome->set_value(std::move(status)); });
  return told(ready.get());
}

std::int64_t count(const std::vector<RequestSnapshot>& requests, GroupState state) {
  return std::ranges::count(requests, state, &RequestSnapshot::state);
}

pagoda_stats stats_of(const EngineSnapshot& held) {
  return {.block_size = held.block_size,
          .num_blocks = held.num_blocks,
          .num_free_blocks = held.num_free_blocks,
          .num_running = count(held.requests, GroupState::running),
          .num_waiting = count(held.requests, GroupState::waiting),
          .num_swapped = count(held.requests, GroupState::swapped),
          .total_slots = held.usage.total_slots,
          .token_slots = held.usage.token_slots,
          .reserved_slots = held.usage.reserved_slots,
          .internal_slots = held.usage.internal_slots,
          .external_slots = held.usage.external_slots,
          .cached_slots = held.usage.cached_slots,
          .blocks_in_use = held.usage.blocks_in_use,
          .blocks_without_sharing = held.usage.blocks_without_sharing,
          .num_steps = held.totals.steps,
          .num_batched_tokens = held.totals.batched_tokens,
          .num_preemptions = held.totals.preemptions,
          .num_blocks_copied = held.totals.blocks_copied,
          .num_blocks_swapped_out = held.totals.blocks_swapped_out,
          .num_blocks_swapped_in = held.totals.blocks_swapped_in};
}

}  // namespace

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
    if (!flags) return told(flags.error());
    auto made = std::make_shared<Engine>();
    made->flags = *std::move(flags);
    if (const Status fetched = fetch_if_missing(made->flags); !fetched.ok()) return told(fetched);
    auto assembled = AssembledEngine::create(made->flags, AssembledEngine::Report::quiet);
    if (!assembled) return told(assembled.error());
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
    Engine& engine = *queue->engine;
    ApiCall call;
    call.method = route.row->facts.method;
    call.path = route.row->facts.path;
    call.parameter = route.parameter;
    call.body = body;
    call.id = std::to_string(engine.next_id.fetch_add(1));
    call.created = std::time(nullptr);
    Result<ApiGeneration> made = (*handler)(call, engine.assembled->api());
    if (!made) return told(made.error());
    if (made->at_once || made->answer->streaming())
      return fail(PAGODA_INVALID,
                  concat(made->at_once ? "background" : "stream", " is not for calls that come whole"));
    const std::uint64_t number = engine.next_id.fetch_add(std::max<std::size_t>(1, made->requests.size()));
    if (const Status status = queue->outputs.submit(*std::move(made), number); !status.ok())
      return told(status);
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
    constexpr std::int64_t kDay = 86'400'000;
    std::optional<std::chrono::milliseconds> timeout;
    if (timeout_ms >= 0) timeout.emplace(std::min(timeout_ms, kDay));
    OutputQueue::Taken taken = queue->outputs.next(timeout);
    *output = taken.record.release();
    if (*output != nullptr) return PAGODA_OK;
    switch (taken.why) {
      case OutputQueue::Nothing::timeout:
        return PAGODA_TIMEOUT;
      case OutputQueue::Nothing::idle:
        return PAGODA_IDLE;
      case OutputQueue::Nothing::dead:
        break;
    }
    return fail(PAGODA_UNAVAILABLE, "the engine has stopped");
  });
}
void pagoda_output_free(pagoda_output* output) { delete static_cast<OutputRecord*>(output); }

pagoda_status pagoda_tokenize(pagoda_engine* engine, const char* text, size_t text_length,
                              int32_t add_special_tokens, int32_t** ids, size_t* num_ids) {
  return guarded([&] {
    if (engine == nullptr || text == nullptr || ids == nullptr || num_ids == nullptr)
      return missing("engine, text, ids or num_ids");
    const Result<std::vector<TokenId>> encoded = engine->engine->assembled->tokenizer()->encode(
        {text, text_length}, {.add_special_tokens = add_special_tokens != 0});
    if (!encoded) return told(encoded.error());
    *ids = hand_over(encoded->data(), encoded->size());
    *num_ids = encoded->size();
    return PAGODA_OK;
  });
}

pagoda_status pagoda_detokenize(pagoda_engine* engine, const int32_t* ids, size_t num_ids,
                                int32_t skip_special_tokens, char** text, size_t* text_length) {
  return guarded([&] {
    if (engine == nullptr || (ids == nullptr && num_ids > 0) || text == nullptr || text_length == nullptr)
      return missing("engine, ids, text or text_length");
    hand_over(to_valid_utf8(
                  engine->engine->assembled->tokenizer()->decode({ids, num_ids}, skip_special_tokens != 0)),
              text, text_length);
    return PAGODA_OK;
  });
}

pagoda_status pagoda_token_text(pagoda_engine* engine, int32_t id, char** text, size_t* text_length) {
  return guarded([&] {
    if (engine == nullptr || text == nullptr || text_length == nullptr)
      return missing("engine, text or text_length");
    const Tokenizer& tokenizer = *engine->engine->assembled->tokenizer();
    if (id < 0 || id >= tokenizer.vocab_size())
      return fail(PAGODA_NOT_FOUND, concat("there is no token ", id));
    hand_over(to_valid_utf8(tokenizer.token_string(id)), text, text_length);
    return PAGODA_OK;
  });
}

pagoda_status pagoda_token_id(pagoda_engine* engine, const char* text, size_t text_length, int32_t* id) {
  return guarded([&] {
    if (engine == nullptr || text == nullptr || id == nullptr) return missing("engine, text or id");
    *id = engine->engine->assembled->tokenizer()->find({text, text_length}).value_or(-1);
    return PAGODA_OK;
  });
}

pagoda_status pagoda_apply_chat_template(pagoda_engine* engine, const char* body, char** text,
                                         size_t* text_length) {
  return guarded([&] {
    if (engine == nullptr || body == nullptr || text == nullptr || text_length == nullptr)
      return missing("engine, body, text or text_length");
    const Result<std::string> answer = apply_template_body(body, engine->engine->assembled->api());
    if (!answer) return told(answer.error());
    const boost::json::value value = boost::json::parse(*answer);
    const boost::json::string& prompt = value.at("prompt").as_string();
    hand_over(std::string(prompt.data(), prompt.size()), text, text_length);
    return PAGODA_OK;
  });
}

pagoda_status pagoda_get_facts(pagoda_engine* engine, pagoda_facts* facts, size_t size) {
  return guarded([&] {
    if (engine == nullptr || facts == nullptr) return missing("engine or facts");
    const Engine& own = *engine->engine;
    const ApiContext& api = own.assembled->api();
    const MemoryTable& memory = own.assembled->memory();
    const Tokenizer& tokenizer = *own.assembled->tokenizer();
    return copy_out(pagoda_facts{.model = own.assembled->model_name().c_str(),
                                 .architecture = api.facts.architecture.c_str(),
                                 .scheduler = own.flags.scheduler.c_str(),
                                 .scheduling_policy = pagoda::facts(scheduling_policy(own.flags)).name.data(),
                                 .kv_manager = is_baseline(own.flags)  ? "reserved"
                                               : is_virtual(own.flags) ? "virtual"
                                                                       : "paged",
                                 .max_model_len = api.max_model_len,
                                 .max_num_seqs = api.max_num_seqs,
                                 .vocab_size = api.vocab_size,
                                 .kv_cache_bytes = memory.kv_bytes,
                                 .kv_cache_tokens = memory.kv_tokens,
                                 .weight_bytes = memory.weight_bytes + memory.embedding_bytes,
                                 .num_threads = own.assembled->num_threads(),
                                 .bos_token_id = tokenizer.bos(),
                                 .eos_token_id = tokenizer.eos(),
                                 .pad_token_id = pad_token(api, tokenizer)},
                    facts, size);
  });
}

pagoda_status pagoda_get_stats(pagoda_engine* engine, pagoda_stats* stats, size_t size) {
  return guarded([&] {
    if (engine == nullptr || stats == nullptr) return missing("engine or stats");
    using Held = Result<std::shared_ptr<const EngineSnapshot>>;
    const auto outcome = std::make_shared<std::promise<Held>>();
    auto ready = outcome->get_future();
    engine->engine->assembled->client().snapshot(
        [outcome](Held held) { outcome->set_value(std::move(held)); });
    const Held held = ready.get();
    if (!held) return told(held.error());
    return copy_out(stats_of(**held), stats, size);
  });
}

pagoda_status pagoda_sleep(pagoda_engine* engine, int32_t level, const char* mode) {
  return guarded([&] {
    if (engine == nullptr) return missing("engine");
    if (level < 0 || level > 2) return fail(PAGODA_INVALID, "level is 0, 1 or 2");
    const std::string_view running = mode == nullptr ? "abort" : mode;
    if (running != "abort" && running != "wait" && running != "keep")
      return fail(PAGODA_INVALID, "mode is abort, wait or keep");
    using Running = SleepOrder::Running;
    const SleepOrder order{.level = level,
                           .running = running == "abort"  ? Running::abort
                                      : running == "wait" ? Running::wait
                                                          : Running::keep};
    EngineClient& client = engine->engine->assembled->client();
    return controlled([&](auto done) { client.sleep(order, std::move(done)); });
  });
}

pagoda_status pagoda_wake_up(pagoda_engine* engine, const char* tags) {
  return guarded([&] {
    if (engine == nullptr) return missing("engine");
    WakeOrder order;
    if (tags != nullptr) order = {.weights = false, .kv_cache = false, .scheduling = false};
    for (std::string_view rest = tags == nullptr ? "" : tags; !rest.empty();) {
      const std::string_view tag = rest.substr(0, rest.find(','));
      bool* part = tag == "weights"      ? &order.weights
                   : tag == "kv_cache"   ? &order.kv_cache
                   : tag == "scheduling" ? &order.scheduling
                                         : nullptr;
      if (part == nullptr) return fail(PAGODA_INVALID, "tags are weights, kv_cache and scheduling");
      *part = true;
      rest.remove_prefix(std::min(rest.size(), tag.size() + 1));
    }
    EngineClient& client = engine->engine->assembled->client();
    return controlled([&](auto done) { client.wake_up(order, std::move(done)); });
  });
}

pagoda_status pagoda_is_sleeping(pagoda_engine* engine, int32_t* is_sleeping) {
  return guarded([&] {
    if (engine == nullptr || is_sleeping == nullptr) return missing("engine or is_sleeping");
    *is_sleeping = engine->engine->assembled->client().is_sleeping() ? 1 : 0;
    return PAGODA_OK;
  });
}

pagoda_status pagoda_reset_prefix_cache(pagoda_engine* engine) {
  return guarded([&] {
    if (engine == nullptr) return missing("engine");
    EngineClient& client = engine->engine->assembled->client();
    return controlled([&](auto done) { client.reset_prefix_cache(std::move(done)); });
  });
}

pagoda_status pagoda_get_metrics(pagoda_engine* engine, char** text, size_t* text_length) {
  return guarded([&] {
    if (engine == nullptr || text == nullptr || text_length == nullptr)
      return missing("engine, text or text_length");
    AssembledEngine& own = *engine->engine->assembled;
    const std::string labels = concat("model_name=\"", label_value(own.model_name()), "\"");
    hand_over(own.metrics().expose(ServerConfig().metrics_prefix, labels), text, text_length);
    return PAGODA_OK;
  });
}
