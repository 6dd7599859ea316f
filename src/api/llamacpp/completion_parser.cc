#include "api/llamacpp/completion_parser.h"

#include <boost/json/array.hpp>

#include "api/fill_in_middle.h"
#include "api/grammar_fields.h"
#include "api/json.h"
#include "api/tool_fields.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxPieces = std::size_t{1} << 20;

// A text, or a list of token ids and texts.
Result<std::vector<TokenId>> read_prompt(FieldReader& fields, const ApiContext& context) {
  const json::value* prompt = fields.raw("prompt", {"string", "array"});
  if (prompt == nullptr) fields.fail("prompt", "is required");
  if (!fields.ok()) return fields.status();
  const auto encode = [&context](const json::value& text, const std::string& path, bool first) {
    return text_prompt_tokens(context, path, std::string_view(text.as_string()),
                              {.add_special_tokens = first});
  };
  if (prompt->is_string()) return encode(*prompt, "prompt", true);
  const json::array* pieces = fields.array("prompt", kMaxPieces);
  if (pieces == nullptr) return fields.status();
  std::size_t num_texts = 0;
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < pieces->size(); ++i) {
    const json::value& piece = (*pieces)[i];
    const std::string path = concat("prompt.", i);
    if (piece.is_string()) {
      ++num_texts;
      Result<std::vector<TokenId>> more = encode(piece, path, i == 0);
      if (!more) return more.error();
      ids.insert(ids.end(), more->begin(), more->end());
    } else {
      const std::optional<std::int64_t> id = whole_number(piece);
      if (!id || *id < 0 || *id >= context.vocab_size) {
        fields.fail(path, "must be a string or a token id of the vocabulary");
        return fields.status();
      }
      ids.push_back(static_cast<TokenId>(*id));
    }
    if (ids.size() > static_cast<std::size_t>(context.max_model_len))
      return token_budget(context, "prompt", ids.size(), {}).error();
  }
  if (num_texts == pieces->size() && num_texts > 1) {
    fields.fail("prompt", "must be one prompt; for several use /v1/completions");
    return fields.status();
  }
  return ids;
}

// Other files, then the text before; the text after.
Result<std::vector<TokenId>> read_infill(FieldReader& fields, const ApiContext& context) {
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

void refuse_what_is_not_built(FieldReader& fields) {
  if (fields.integer("n_probs", 0, 1000).value_or(0) > 0)
    fields.not_built("n_probs", "for log-probabilities use /v1/completions");
  if (fields.integer("mirostat", 0, 2).value_or(0) != 0)
    fields.not_built("mirostat", "this server does not implement it");
  if (fields.number("typical_p", 0, 1).value_or(1) < 1)
    fields.not_built("typical_p", "this server does not implement it");
  if (fields.number("dry_multiplier", 0, 100).value_or(0) > 0)
    fields.not_built("dry_multiplier", "this server does not implement it");
  if (fields.number("xtc_probability", 0, 1).value_or(0) > 0)
    fields.not_built("xtc_probability", "this server does not implement it");
  fields.not_built("lora", "this server does not implement it");
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
  read_sampling(fields,
                {.min_p = "min_p",
                 .repetition_penalty = "repeat_penalty",
                 .presence_penalty = "presence_penalty",
                 .frequency_penalty = "frequency_penalty",
                 .seed = "seed"},
                call.sampling);
  read_stops(fields, "stop", call.answer);
  call.sampling.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  call.answer.return_token_ids = fields.boolean("return_tokens").value_or(false);
  // -1: as many as there is room for.
  if (const auto count = fields.integer("n_predict", -1, 1 << 30); count && *count > 0)
    call.max_tokens = *count;
  call.form = read_llamacpp_grammar(fields);
  refuse_what_is_not_built(fields);
  if (!fields.ok()) return fields.status();
  Result<std::vector<TokenId>> ids = infill ? read_infill(fields, context) : read_prompt(fields, context);
  if (!ids) return ids.error();
  out.prompt = context.tokenizer->decode(*ids, /*skip_special_tokens=*/false);
  Result<ChatRequest> made = make_request(call, "prompt", *std::move(ids), context);
  if (!made) return made.error();
  out.request = std::move(made->request);
  out.grammars = std::move(made->grammars);
  out.answer = std::move(call.answer);
  return out;
}

}  // namespace pagoda
