#pragma once
// ApiContext: what the API must know about the served model and engine, as plain values and borrowed text
// tools. Made once at startup, then shared read-only.
// Threads: any; everything here is const after make_ready().
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "request/ids.h"
#include "request/request_adapter.h"
#include "request/work.h"
#include "text/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// Defaults from the model's generation_config.json, for fields that a request does not set.
struct SamplingDefaults {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int32_t> top_k, max_tokens;
};

class AnswerStore;
class DetachedCalls;
class GrammarService;

// Facts about a model that clients show. Empty or 0 if unknown.
struct ModelFacts {
  std::string architecture, weight_type;
  std::int64_t weight_bytes = 0;  // as stored in memory
  std::int32_t hidden_size = 0, num_layers = 0;
};

// A model that produces vectors instead of text.
struct VectorModel {
  WorkKind kind = WorkKind::embed;  // score: the values of its classification head
  PoolingSpec pooling;              // for requests that do not choose a pooling
  bool whole_prompt = false;        // as in Work
  bool token_types = false;         // distinguishes the two texts of a pair
  std::int32_t size = 0;            // elements of a vector
  std::vector<std::string> labels;  // one label per score
};

struct ApiContext {
  const Tokenizer* tokenizer = nullptr;         // required; borrowed
  const ChatTemplate* chat_template = nullptr;  // borrowed; null: refuses chat requests
  const ChatTemplate* tool_template = nullptr;  // for conversations with tools; null: chat_template
  GrammarService* grammars = nullptr;           // borrowed; null: answers cannot be constrained
  // At least one name. Answers carry the first, or the name of the adapter that the request chose.
  std::vector<std::string> model_names;
  std::vector<std::string> model_patterns;    // further names; '*' matches any text; not listed
  std::string model_root;                     // shown by /v1/models
  std::string tool_parser, reasoning_parser;  // see text/answer_formats.h; empty: markup is text
  std::int32_t max_model_len = 0;
  std::int32_t max_num_seqs = 0;       // running at the same time; only shown
  std::int32_t vocab_size = 0;         // number of ids that the model knows
  std::vector<TokenId> eos_token_ids;  // each ends a sequence unless ignore_eos
  SamplingDefaults defaults;
  std::int32_t max_logprobs = 20;
  bool allow_request_chat_template = false;  // vLLM's --trust-request-chat-template
  bool return_tokens_as_token_ids = false;   // default of the request field
  boost::json::object template_kwargs;       // default for requests that set none
  std::string system_fingerprint;            // identifies model and build; empty: omitted
  std::string version;
  std::string kv_transfer_params;  // JSON for servers that fetch K/V from this one; empty if none can
  std::string tokenizer_info;      // tokenizer_config.json as JSON; empty: no tokenizer
  ModelFacts facts;
  std::optional<VectorModel> vectors;  // nullopt: the model generates text
  AdapterCatalog* adapters = nullptr;  // borrowed; null: requests cannot choose adapters
  AnswerStore* answers = nullptr;      // borrowed; null: no answers are stored
  DetachedCalls* detached = nullptr;   // borrowed; null: calls end when their client leaves
  std::int64_t model_created = 0;      // unix seconds

  std::size_t longest_token_bytes = 0;  // set by make_ready()

  // Computes the derived fields. Call once, after the fields above are set.
  void make_ready();
};

// A name in --served-model-name that contains '*' is a pattern; each '*' matches any text.
inline bool is_pattern(std::string_view name) { return name.find('*') != std::string_view::npos; }
bool matches_pattern(std::string_view name, std::string_view pattern);

// The adapter that a request chooses by its model name; null for the base model. not_found (model_not_found)
// if no model has this name.
Result<AdapterCatalog::Handle> choose_model(std::string_view name, const ApiContext& context);
// The same check, for callers that do not need the adapter.
Status check_model(std::string_view name, const ApiContext& context);

// The model name that an answer carries.
inline const std::string& answering_model(const AdapterCatalog::Handle& adapter, const ApiContext& context) {
  const RequestAdapter* chosen = adapter.get();
  return chosen != nullptr ? chosen->name : context.model_names.front();
}
// All listed names; adapters come last.
std::vector<std::string> listed_models(const ApiContext& context);

}  // namespace pagoda
