#include "api/openai/sampling_fields.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <charconv>
#include <limits>

#include "api/chat_call.h"
#include "api/peer_sampling.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMaxChoices = 128, kMaxBestOf = 256;
constexpr std::size_t kMaxWordBytes = 1024;
constexpr std::size_t kMaxStopTokenIds = 128;
constexpr std::size_t kMaxBadWords = 128;
constexpr std::size_t kMaxLogitBias = 1024;

void read_logit_bias(FieldReader& fields, const ApiContext& context, SamplingParams& sampling) {
  const json::object* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  if (biases->size() > kMaxLogitBias)
    return fields.fail("logit_bias", concat("must have at most ", kMaxLogitBias, " entries"));
  FieldReader entries(*biases, "logit_bias");
  for (const auto& entry : *biases) {
    const std::string_view name(entry.key().data(), entry.key().size());
    TokenId id = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc{} || end != name.data() + name.size() || id < 0 || id >= context.vocab_size)
      return fields.fail("logit_bias",
                         concat("must have token ids below ", context.vocab_size, " as its keys"));
    if (const std::optional<double> bias = entries.number(name, -100, 100))
      sampling.logit_bias.emplace_back(id, static_cast<float>(*bias));
    else
      return fields.fail(entries.ok() ? Status(StatusCode::invalid_argument, "'logit_bias' has a null value.")
                                      : entries.status());
  }
}

// Tokenizes each word as at the start of a text and as after a space. As in vLLM, the second form is used
// only if the space changes the first token but not the length.
void read_bad_words(FieldReader& fields, const ApiContext& context, SamplingParams& sampling) {
  const std::vector<std::string> words = fields.strings("bad_words", kMaxBadWords, kMaxWordBytes);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t begin = words[i].find_first_not_of(" \t\r\n");
    if (begin == std::string::npos) return fields.fail(concat("bad_words.", i), "must not be blank");
    const std::string word = words[i].substr(begin);
    const Result<std::vector<TokenId>> plain = context.tokenizer->encode(word);
    const Result<std::vector<TokenId>> spaced = context.tokenizer->encode(concat(" ", word));
    if (!plain || !spaced || plain->empty())
      return fields.fail(concat("bad_words.", i), "cannot be tokenized");
    const bool distinct =
        !spaced->empty() && spaced->front() != plain->front() && spaced->size() == plain->size();
    sampling.bad_words.push_back(*plain);
    if (distinct) sampling.bad_words.push_back(*spaced);
  }
}

// For completions, logprobs is a number. For chat, logprobs is a switch and top_logprobs the number.
void read_logprobs(FieldReader& fields, const ApiContext& context, SamplingParams& sampling,
                   ResponseOptions& response) {
  if (response.kind == CallKind::completion) {
    if (const auto count = fields.integer("logprobs", 0, context.max_logprobs))
      response.logprobs = static_cast<std::int32_t>(*count);
  } else {
    const bool wanted = fields.boolean("logprobs").value_or(false);
    const auto count = fields.integer("top_logprobs", 0, context.max_logprobs);
    if (count.value_or(0) > 0 && !wanted) fields.fail("top_logprobs", "needs 'logprobs' to be true");
    if (wanted) response.logprobs = static_cast<std::int32_t>(count.value_or(0));
  }
  // llama.cpp's fields.
  const auto count = fields.integer("n_probs", 0, context.max_logprobs);
  if (count.value_or(0) > 0 && !response.logprobs) response.logprobs = static_cast<std::int32_t>(*count);
  if (fields.boolean("post_sampling_probs").value_or(false)) {
    if (response.kind == CallKind::completion)
      fields.not_built("post_sampling_probs", "use /completion or /v1/chat/completions");
    sampling.processed_logprobs = response.after_sampling = true;
  }
  sampling.logprobs = response.logprobs;
  if (const auto count = fields.integer("prompt_logprobs", 0, context.max_logprobs)) {
    sampling.prompt_logprobs = static_cast<std::int32_t>(*count);
    response.prompt_logprobs = true;
    if (response.stream) fields.fail("prompt_logprobs", "is not available when 'stream' is true");
  }
}

// Reads early_stopping: true, false or "never", with vLLM's meanings.
void read_early_stopping(FieldReader& fields, SamplingParams& sampling) {
  const json::value* value = fields.raw("early_stopping", {"boolean", "string"});
  if (value == nullptr) return;
  if (value->is_bool())
    sampling.early_stopping = value->as_bool() ? EarlyStopping::first : EarlyStopping::heuristic;
  else if (!value->is_string() || value->as_string() != "never")
    fields.fail("early_stopping", "must be true, false or \"never\"");
}

// Reads types and ranges; the engine checks combinations.
void read_beam_search(FieldReader& fields, SamplingParams& sampling, const ResponseOptions& response) {
  assign_if_given(sampling.beam_width, fields.integer("beam_width", 1, kMaxChoices));
  assign_if_given(sampling.length_penalty, fields.number("length_penalty", -10, 10));
  assign_if_given(sampling.num_beam_groups, fields.integer("num_beam_groups", 1, kMaxChoices));
  assign_if_given(sampling.diversity_penalty, fields.number("diversity_penalty", 0, 100));
  read_early_stopping(fields, sampling);
  assign_if_given(sampling.best_so_far, fields.boolean("stream_best_so_far"));
  if (sampling.best_so_far && !sampling.use_beam_search)
    fields.fail("stream_best_so_far", "needs 'use_beam_search'");
  if (sampling.best_so_far && !response.stream) fields.fail("stream_best_so_far", "needs 'stream'");
  sampling.best_of = sampling.n;
  if (const auto best_of = fields.integer("best_of", 1, kMaxBestOf)) {
    if (*best_of < sampling.n) fields.fail("best_of", "must be at least 'n'");
    sampling.best_of = static_cast<std::int32_t>(*best_of);
  }
  if (response.stream && !sampling.use_beam_search && sampling.best_of > sampling.n)
    fields.fail("best_of", "above 'n' is not available when 'stream' is true");
}

// Reads other names of the seed (Mistral, SGLang), and do_sample (transformers, TGI), which is false for
// greedy.
void read_other_names(FieldReader& fields, SamplingParams& sampling) {
  for (const std::string_view name : {"random_seed", "sampling_seed"})
    if (const auto seed = fields.integer(name, -1, std::numeric_limits<std::int64_t>::max());
        seed.value_or(-1) >= 0 && !sampling.seed)
      sampling.seed = static_cast<std::uint64_t>(*seed);
  if (!fields.boolean("do_sample").value_or(true)) sampling.temperature = 0;
}

}  // namespace

void read_sampling_fields(FieldReader& fields, const ApiContext& context, SamplingParams& sampling,
                          ResponseOptions& response, Warnings& warnings) {
  assign_if_given(sampling.use_beam_search, fields.boolean("use_beam_search"));
  response.cumulative_logprob = sampling.use_beam_search;
  // The model's defaults only apply to sampling, not to beam search.
  const bool beams = sampling.use_beam_search;
  if (!beams) sampling = default_sampling(context);
  if (beams) sampling.temperature = 0;

  assign_if_given(sampling.n, fields.integer("n_cmpl", 1, kMaxChoices));  // llama.cpp's
  assign_if_given(sampling.n, fields.integer("n", 1, kMaxChoices));
  response.n = sampling.n;
  read_sampling(fields, kVllmSampling, sampling);
  if (!fields.has("repetition_penalty"))
    assign_if_given(sampling.repetition_penalty, fields.number_above("repeat_penalty", 0, 100));
  read_other_names(fields, sampling);
  read_peer_sampling(fields, sampling, warnings);
  read_logit_bias(fields, context, sampling);

  sampling.eos_token_ids = context.eos_token_ids;
  assign_if_given(sampling.ignore_eos, fields.boolean("ignore_eos"));
  assign_if_given(sampling.min_tokens,
                  fields.integer("min_new_tokens", 0, context.max_model_len));  // SGLang's
  assign_if_given(sampling.min_tokens, fields.integer("min_tokens", 0, context.max_model_len));
  response.min_tokens = sampling.min_tokens;
  if (auto ids = fields.token_ids("stop_token_ids", kMaxStopTokenIds, context.vocab_size))
    sampling.stop_token_ids = std::move(*ids);
  if (auto ids = fields.token_ids("allowed_token_ids", static_cast<std::size_t>(context.vocab_size),
                                  context.vocab_size)) {
    if (ids->empty()) fields.fail("allowed_token_ids", "must not be empty");
    sampling.allowed_token_ids = std::move(*ids);
  }
  read_stops(fields, "stop", response);
  assign_if_given(response.include_stop, fields.boolean("include_stop_str_in_output"));
  assign_if_given(response.skip_special_tokens, fields.boolean("skip_special_tokens"));
  (void)fields.boolean("spaces_between_special_tokens");  // only affects transformers' slow tokenizers
  read_logprobs(fields, context, sampling, response);
  read_beam_search(fields, sampling, response);
  if (sampling.processed_logprobs && (beams || sampling.best_of > sampling.n))
    fields.fail("post_sampling_probs", "is not for beam search and 'best_of', which compare whole answers");
  if (fields.ok()) read_bad_words(fields, context, sampling);
}

}  // namespace pagoda
