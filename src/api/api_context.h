#pragma once
// ApiContext: what the API must know of the served model and engine, as plain values and borrowed
// text tools. Made once at start, then shared read-only.
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

// generation_config.json of the model: what a request gets when it says nothing.
struct SamplingDefaults {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int32_t> top_k, max_tokens;
};

class AnswerStore;
class DetachedCalls;
class GrammarService;

// Facts about a model that clients show; empty or 0: not known.
struct ModelFacts {
  std::string architecture, weight_type;
  std::int64_t weight_bytes = 0;  // as they lie in memory
  std::int32_t hidden_size = 0, num_layers = 0;
};

// A model that makes vectors and no text.
struct VectorModel {
  WorkKind kind = WorkKind::embed;  // score: the values of its classification head
  PoolingSpec pooling;              // pooling of requests that do not choose one
  bool whole_prompt = false;        // as in Work
  bool token_types = false;         // it tells two texts apart
  std::int32_t size = 0;            // elements of a vector
  std::vector<std::string> labels;  // labels of the scores, one each
};

struct ApiContext {
  const Tokenizer* tokenizer = nullptr;         // required; borrowed
  const ChatTemplate* chat_template = nullptr;  // borrowed; null: chat requests are refused
  const ChatTemplate* tool_template = nullptr;  // template of conversations with tools; null: chat_template
  GrammarService* grammars = nullptr;           // borrowed; null: answers cannot be held to a form
  // At least one; answers carry the first, or the name of the adapter that the request chose.
  std::vector<std::string> model_names;
  std::vector<std::string> model_patterns;    // further names, where '*' stands for any text; not listed
  std::string model_root;                     // shown by /v1/models
  std::string tool_parser, reasoning_parser;  // names of text/answer_formats.h; empty: their markup is text
  std::int32_t max_model_len = 0;
  std::int32_t max_num_seqs = 0;       // that run at the same time; only shown
  std::int32_t vocab_size = 0;         // ids that the model knows
  std::vector<TokenId> eos_token_ids;  // each ends a sequence unless ignore_eos
  SamplingDefaults defaults;
  std::int32_t max_logprobs = 20;
  bool allow_request_chat_template = false;  // vLLM's --trust-request-chat-template
  bool return_tokens_as_token_ids = false;   // default of the request's field
  boost::json::object template_kwargs;       // default of requests that set none
  std::string system_fingerprint;            // identifies model and build; empty: left out
  std::string version;
  std::string kv_transfer_params;  // JSON for whoever fetches an answer's K/V from here; empty: nobody can
  std::string tokenizer_info;      // tokenizer_config.json as JSON; empty: no tokenizer
  ModelFacts facts;
  std::optional<VectorModel> vectors;  // absent: it generates text
  AdapterCatalog* adapters = nullptr;  // borrowed; null: requests cannot choose one
  AnswerStore* answers = nullptr;      // borrowed; null: nothing is kept
  DetachedCalls* detached = nullptr;   // borrowed; null: no call goes on without its client
  std::int64_t model_created = 0;      // unix seconds

  std::size_t longest_token_bytes = 0;  // set by make_ready()

  // Computes what is derived. Call once, after the fields above are set.
  void make_ready();
};

// A name of --served-model-name with a '*' is a pattern; each '*' stands for any text.
inline bool is_pattern(std::string_view name) { return name.find('*') != std::string_view::npos; }
bool matches_pattern(std::string_view name, std::string_view pattern);

// The adapter that a request chooses by the name of its model; null: the model as it is. not_found
// (model_not_found): there is no such model here.
Result<AdapterCatalog::Handle> choose_model(std::string_view name, const ApiContext& context);
// The same, where it does not matter which.
Status check_model(std::string_view name, const ApiContext& context);

// The name of the model that an answer carries.
inline const std::string& answering_model(const AdapterCatalog::Handle& adapter, const ApiContext& context) {
  const RequestAdapter* chosen = adapter.get();
  return chosen != nullptr ? chosen->name : context.model_names.front();
}
// All names that are listed, the adapters' last.
std::vector<std::string> listed_models(const ApiContext& context);

}  // namespace pagoda
