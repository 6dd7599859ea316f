#include "library/output_json.h"

#include <cmath>
#include <span>
#include <string_view>

namespace pagoda {
namespace {

// [[id, rank, logprob, text], …] for each position.
void write_logprobs(JsonWriter& json, std::span<const pagoda_logprobs> positions) {
  json.begin_array();
  for (const pagoda_logprobs& position : positions) {
    json.begin_array();
    for (const pagoda_logprob& item : std::span(position.items, position.count)) {
      json.begin_array().integer(item.id).integer(item.rank);
      if (std::isfinite(item.logprob))
        json.float32(item.logprob);
      else
        json.null();
      json.string({item.text, item.text_length}).end_array();
    }
    json.end_array();
  }
  json.end_array();
}

void write_choice(JsonWriter& json, const pagoda_choice& choice) {
  json.begin_object().key("index").integer(choice.index);
  json.key("text").string({choice.text, choice.text_length});
  json.key("ids").integers({choice.ids, choice.num_ids});
  if (choice.logprobs != nullptr) write_logprobs(json.key("logprobs"), {choice.logprobs, choice.num_ids});
  if (std::isfinite(choice.cumulative_logprob))
    json.key("cumulative_logprob").float64(choice.cumulative_logprob);
  if (choice.finish_reason != nullptr) json.key("finish_reason").string(choice.finish_reason);
  if (choice.stop_string != nullptr) json.key("stop_string").string(choice.stop_string);
  if (choice.stop_token >= 0) json.key("stop_token").integer(choice.stop_token);
  json.end_object();
}

}  // namespace

void write_output(JsonWriter& json, const OutputRecord& output) {
  json.begin_object().key("id").integer(static_cast<std::int64_t>(output.id));
  json.key("finished").boolean(output.finished != 0);
  json.key("status").integer(output.status);
  if (output.message != nullptr) json.key("message").string(to_valid_utf8(output.message));
  json.key("choices").begin_array();
  for (const pagoda_choice& choice : std::span(output.choices, output.num_choices))
    write_choice(json, choice);
  json.end_array();
  if (output.is_first) json.key("prompt_ids").integers({output.prompt_ids, output.num_prompt_ids});
  if (output.prompt_logprobs != nullptr)
    write_logprobs(json.key("prompt_logprobs"), {output.prompt_logprobs, output.num_prompt_ids});
  json.key("num_cached_tokens").integer(output.num_cached_tokens);
  if (output.body != nullptr) json.key("body").raw({output.body, output.body_length});
  json.end_object();
}

}  // namespace pagoda
