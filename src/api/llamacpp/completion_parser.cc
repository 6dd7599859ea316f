#include "api/llamacpp/completion_parser.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <charconv>

#include "api/field_recorder.h"
#include "api/fill_in_middle.h"
#include "api/grammar_fields.h"
#include "api/json.h"
#include "api/model_fields.h"
#include "api/peer_sampling.h"
#include "api/prompt_limits.h"
#include "api/tool_fields.h"
#include "api/unknown_fields.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxPieces = std::size_t{1} << 20;
constexpr std::size_t kMaxBiases = 1024;
constexpr std::size_t kMaxResponseFields = 256;
constexpr std::int64_t kMaxAnswers = 128;  // per prompt
constexpr std::string_view kTextOnly = "this model supports text only";

using Ids = std::vector<TokenId>;

// Reads a list of token ids and texts that form one prompt.
Result<Ids> read_pieces(const json::array& pieces, const std::string& path, const ApiContext& context) {
  Ids ids;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const json::value& piece = pieces[i];
    const std::string where = concat(path, ".", i);
    if (piece.is_string()) {
      Result<Ids> more = text_prompt_tokens(context, where, std::string_view(piece.as_string()),
                                            {.add_special_tokens = i == 0});
      if (!more) return more.error();
      ids.insert(ids.end(), more->begin(), more->end());
    } else {
      const std::optional<std::int64_t> id = whole_number(piece);
      if (!id || *id < 0 || *id >= context.vocab_size)
        return invalid_argument(concat("'", where, "' must be a string or a token id of the vocabulary."))
            .with_param(where);
      ids.push_back(static_cast<TokenId>(*id));
    }
    if (ids.size() > static_cast<std::size_t>(context.max_model_len))
      return token_budget(context, path, ids.size(), {}).error();
  }
  return ids;
}

// Reads a string, a list of token ids and texts, or an object with a text and multimodal data.
Result<Ids> read_prompt(const json::value& prompt, const std::string& path, const ApiContext& context) {
  if (const json::array* pieces = prompt.if_array()) return read_pieces(*pieces, path, context);
  const json::string* text = prompt.if_string();
  std::string where = path;
  if (const json::object* object = prompt.if_object()) {
    FieldReader inner(*object, path);
    inner.not_built("multimodal_data", kTextOnly);
    const json::value* found = inner.raw("prompt_string", {"string"});
    if (found == nullptr || !found->is_string()) inner.fail("prompt_string", "must be a string");
    if (!inner.ok()) return inner.status();
    text = &found->get_string();
    where.append(".prompt_string");
  }
  if (text == nullptr)
    return invalid_argument(concat("'", path, "' must be a string, a list of token ids and strings, or an ",
                                   "object with a 'prompt_string'."))
        .with_param(path);
  return text_prompt_tokens(context, where, std::string_view(*text), {.add_special_tokens = true});
}

// A list that contains a number is one prompt; any other list has one prompt per entry.
Result<std::vector<Ids>> read_prompts(FieldReader& fields, const ApiContext& context) {
  const json::value* prompt = fields.raw("prompt", {"string", "array", "object"});
  if (prompt == nullptr) fields.fail("prompt", "is required");
  if (!fields.ok()) return fields.status();
  std::vector<Ids> prompts;
  const json::array* list = prompt->if_array();
  if (FieldRecorder* recorder = FieldRecorder::current(); recorder != nullptr && list != nullptr) {
    for (const std::string_view type : {"integer", "string", "array", "object"})
      recorder->note("prompt.0", {{"type", type}});
    for (const std::string_view type : {"integer", "string"}) recorder->note("prompt.0.0", {{"type", type}});
  }
  const bool several = list != nullptr && std::ranges::none_of(*list, &json::value::is_number);
  if (list != nullptr && list->size() > (several ? kMaxPrompts : kMaxPieces))
    fields.fail("prompt", concat("must have at most ", several ? kMaxPrompts : kMaxPieces, " entries"));
  if (list != nullptr && list->empty()) fields.fail("prompt", "must not be empty");
  if (!fields.ok()) return fields.status();
  for (std::size_t i = 0; i < (several ? list->size() : 1); ++i) {
    Result<Ids> ids = several ? read_prompt((*list)[i], concat("prompt.", i), context)
                              : read_prompt(*prompt, "prompt", context);
    if (!ids) return ids.error();
    prompts.push_back(*std::move(ids));
  }
  return prompts;
}

// Prefix: the texts of other files, then "input_prefix" and "prompt". Suffix: "input_suffix".
Result<Ids> read_infill(FieldReader& fields, const ApiContext& context) {
  std::string before;
  if (const json::array* extra = fields.array("input_extra", kMaxMessages)) {
    for (std::size_t i = 0; i < extra->size() && fields.ok(); ++i) {
      const std::string path = concat("input_extra.", i);
      const json::object* file = (*extra)[i].if_object();
      if (file == nullptr) {
        fields.fail(path, "must be an object");
        break;
      }
      FieldReader reader(*file, path);
      const std::optional<std::string> name = reader.string("filename", 4096),
                                       text = reader.string("text", kAnyLength);
      if (!reader.ok()) fields.fail(reader.status());
      before.append(concat("# ", name.value_or(""), "\n", text.value_or(""), "\n"));
    }
  }
  before.append(fields.string("input_prefix", kAnyLength).value_or(""));
  before.append(fields.string("prompt", kAnyLength).value_or(""));
  const std::string after = fields.string("input_suffix", kAnyLength).value_or("");
  if (!fields.ok()) return fields.status();
  return fill_in_middle_tokens(context, "input_suffix", before, after);
}

// Reads pairs, or an object. Each key is a token id, or a text whose tokens are meant; each value is a bias,
// or false to ban the token.
void read_biases(FieldReader& fields, const ApiContext& context, SamplingParams& sampling) {
  constexpr float kNever = -1e9f;
  const json::value* biases = fields.raw("logit_bias", {"array", "object"});
  if (biases == nullptr) return;
  const auto fail = [&](std::string_view problem) { fields.fail("logit_bias", problem); };
  const auto add = [&](const json::value& what, const json::value& value) {
    const bool never = value == json::value(false);
    if (!never && !value.is_number()) return fail("must have a number or false for each token");
    const float bias = never ? kNever : std::clamp(value.to_number<float>(), kNever, -kNever);
    std::vector<TokenId> ids;
    if (const std::optional<std::int64_t> id = whole_number(what)) {
      if (*id < 0 || *id >= context.vocab_size)
        return fail(concat("must have token ids below ", context.vocab_size));
      ids.push_back(static_cast<TokenId>(*id));
    } else if (what.is_string()) {
      auto encoded = context.tokenizer->encode(std::string_view(what.get_string()));
      if (!encoded) return fail("has a text that cannot be tokenized");
      ids = *std::move(encoded);
    } else {
      return fail("must have token ids or texts");
    }
    for (const TokenId id : ids) sampling.logit_bias.emplace_back(id, bias);
    if (sampling.logit_bias.size() > kMaxBiases) fail(concat("must have at most ", kMaxBiases, " tokens"));
  };
  if (biases->is_object()) {
    for (const auto& [key, value] : biases->get_object()) {
      std::int64_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      const bool number = error == std::errc() && end == key.data() + key.size();
      add(number ? json::value(id) : json::value(key), value);
      if (!fields.ok()) return;
    }
    return;
  }
  if (!biases->is_array()) return fail("must be a list of pairs, or an object");
  for (const json::value& each : biases->get_array()) {
    const json::array* pair = each.if_array();
    if (pair == nullptr || pair->size() != 2) return fail("must be a list of pairs, or an object");
    add((*pair)[0], (*pair)[1]);
    if (!fields.ok()) return;
  }
}

// Reads the number of answers per prompt, and which probabilities are returned.
void read_choices(FieldReader& fields, const ApiContext& context, ChatCall& call) {
  SamplingParams& sampling = call.sampling;
  for (const char* name : {"n", "n_cmpl"})
    if (const auto count = fields.integer(name, 1, kMaxAnswers))
      sampling.n = static_cast<std::int32_t>(*count);
  sampling.best_of = call.answer.n = sampling.n;
  if (const auto count = fields.integer("n_probs", 0, context.max_logprobs); count.value_or(0) > 0)
    sampling.logprobs = call.answer.logprobs = static_cast<std::int32_t>(*count);
  sampling.processed_logprobs = call.answer.after_sampling =
      fields.boolean("post_sampling_probs").value_or(false);
}

// Adds one request per prompt; the requests differ only in the prompt.
Status add_requests(std::vector<Ids> prompts, ChatCall& call, const ApiContext& context,
                    LlamaCompletion& out) {
  const SamplingParams sampling = call.sampling;
  std::int64_t entries = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    out.prompts.push_back(context.tokenizer->decode(prompts[i], /*skip_special_tokens=*/false));
    call.sampling = sampling;
    Result<ChatRequest> made = make_request(call, prompts.size() == 1 ? "prompt" : concat("prompt.", i),
                                            std::move(prompts[i]), context);
    if (!made) return made.error();
    entries +=
        std::int64_t{made->request.sampling.max_tokens} * sampling.n * (sampling.logprobs.value_or(-1) + 1);
    if (i == 0) out.grammars = std::move(made->grammars);
    out.requests.push_back(std::move(made->request));
  }
  if (entries > kMaxLogprobEntries)
    return invalid_argument(concat("'n_probs' asks for more than ", kMaxLogprobEntries,
                                   " log-probabilities in one call; see 'n_predict'."))
        .with_param("n_probs");
  return ok_status();
}

// llama.cpp's server has one model and ignores the name in a call. Here, the name of an adapter selects it.
void read_adapter(FieldReader& fields, const ApiContext& context, ChatCall& call) {
  const std::optional<std::string> model = fields.string("model", 1024);
  if (model && context.adapters != nullptr) call.answer.adapter = context.adapters->find(*model);
  read_lora(fields, context, call.answer.adapter);
}

}  // namespace

Result<LlamaCompletion> parse_llama_completion(std::string_view body, bool infill,
                                               const ApiContext& context) {
  const Result<json::value> value = parse_json_body(body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  LlamaCompletion out;
  ChatCall call;
  call.sampling = default_sampling(context);
  call.clip_max_tokens = true;
  out.stream = fields.boolean("stream").value_or(false);
  SamplingNames names = kLlamaSampling;
  names.negative_is_greedy = true;
  read_sampling(fields, names, call.sampling);
  read_peer_sampling(fields, call.sampling, out.warnings);
  read_stops(fields, "stop", call.answer);
  call.sampling.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  call.answer.return_token_ids = fields.boolean("return_tokens").value_or(false);
  out.response_fields = fields.strings("response_fields", kMaxResponseFields, 1024);
  out.timings_per_token = fields.boolean("timings_per_token").value_or(false);
  // -1 and -2: as many tokens as fit; 0: the prompt is only computed, to fill the prefix cache.
  std::optional<std::int64_t> count;
  for (const char* name : {"n_predict", "max_tokens", "max_completion_tokens"})
    if (const auto given = fields.integer(name, -2, 1 << 30); !count) count = given;
  if (count && *count >= 0) call.max_tokens = std::max<std::int64_t>(*count, 1);
  call.answer.without_generation = count == 0;
  read_biases(fields, context, call.sampling);
  call.form = read_llamacpp_grammar(fields);
  read_choices(fields, context, call);
  fields.not_built("image_data", kTextOnly);
  read_adapter(fields, context, call);
  if (!fields.ok()) return fields.status();
  std::vector<Ids> prompts;
  if (infill) {
    Result<Ids> ids = read_infill(fields, context);
    if (!ids) return ids.error();
    prompts.push_back(*std::move(ids));
  } else {
    Result<std::vector<Ids>> read = read_prompts(fields, context);
    if (!read) return read.error();
    prompts = *std::move(read);
  }
  if (prompts.size() * static_cast<std::size_t>(call.sampling.n) > kMaxPrompts) {
    fields.fail("n_cmpl", concat("times the number of prompts must be at most ", kMaxPrompts));
    return fields.status();
  }
  note_unknown_fields(
      fields, out.warnings,
      {"cache_prompt", "id_slot", "n_keep", "n_discard", "n_cache_reuse", "dry_base", "dry_allowed_length",
       "dry_penalty_last_n", "dry_sequence_breakers", "dynatemp_exponent", "mirostat_tau", "mirostat_eta",
       "t_max_prompt_ms", "sse_ping_interval", "penalize_nl", "slot_id"});
  PAGODA_RETURN_IF_ERROR(add_requests(std::move(prompts), call, context, out));
  out.answer = std::move(call.answer);
  return out;
}

}  // namespace pagoda
