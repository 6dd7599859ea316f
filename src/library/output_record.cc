#include "library/output_record.h"

#include <utility>

#include "api/json.h"

namespace pagoda {

pagoda_status c_status(const Status& status) {
  switch (status.code()) {
    case StatusCode::ok:
      return PAGODA_OK;
    case StatusCode::resource_exhausted:
      return PAGODA_BUSY;
    case StatusCode::invalid_argument:
    case StatusCode::already_exists:
    case StatusCode::unauthenticated:
      return PAGODA_INVALID;
    case StatusCode::not_found:
      return PAGODA_NOT_FOUND;
    case StatusCode::unimplemented:
      return PAGODA_UNIMPLEMENTED;
    case StatusCode::corrupt_data:
      return PAGODA_CORRUPT;
    case StatusCode::unavailable:
    case StatusCode::cancelled:
      return PAGODA_UNAVAILABLE;
    case StatusCode::deadline_exceeded:
      return PAGODA_EXPIRED;
    case StatusCode::internal:
      break;
  }
  return PAGODA_INTERNAL;
}

namespace {

std::unique_ptr<OutputRecord> empty_record(std::uint64_t id, bool finished, const Status& error) {
  auto record = std::make_unique<OutputRecord>();
  static_cast<pagoda_output&>(*record) = {};
  record->id = id;
  record->finished = finished;
  if (error.ok()) return record;
  record->status = c_status(error);
  record->message_text = error.message();
  record->message = record->message_text.c_str();
  return record;
}

}  // namespace

std::unique_ptr<OutputRecord> body_record(std::uint64_t id, const Status& error, std::string body) {
  auto record = empty_record(id, true, error);
  if (!error.ok()) return record;
  record->body_text = std::move(body);
  record->body = record->body_text.c_str();
  record->body_length = record->body_text.size();
  return record;
}

RecordWriter::RecordWriter(AnswerOptions options, bool stream, const Tokenizer& tokenizer)
    : options_(std::make_shared<const AnswerOptions>(std::move(options))),
      tokenizer_(tokenizer),
      state_(*options_, tokenizer),
      stream_(stream) {}

pagoda_logprobs RecordWriter::logprobs(OutputRecord& record, const TokenLogprobs& from) const {
  std::vector<pagoda_logprob>& items = record.items.emplace_back();
  items.reserve(1 + from.top.size());
  const auto add = [&](const TokenLogprob& token) {
    const std::string& text = record.texts.emplace_back(to_valid_utf8(tokenizer_.token_bytes(token.token)));
    items.push_back({.id = token.token,
                     .rank = token.rank,
                     .logprob = token.logprob,
                     .text = text.c_str(),
                     .text_length = text.size()});
  };
  add(from.chosen);
  for (const TokenLogprob& token : from.top) add(token);
  return {.items = items.data(), .count = items.size()};
}

void RecordWriter::add_choice(OutputRecord& record, ChoiceState& choice, std::int32_t index) const {
  const ChoiceState::Fresh& fresh = record.fresh.emplace_back(std::exchange(choice.fresh, {}));
  pagoda_choice row{};
  row.index = index;
  row.text = fresh.text.c_str();
  row.text_length = fresh.text.size();
  row.ids = fresh.token_ids.data();
  row.num_ids = fresh.token_ids.size();
  row.cumulative_logprob = choice.cumulative_logprob;
  row.stop_token = -1;
  if (options_->logprobs) {
    std::vector<pagoda_logprobs>& table = record.tables.emplace_back();
    table.reserve(fresh.logprobs.size());
    for (const TokenLogprobs& position : fresh.logprobs) table.push_back(logprobs(record, position));
    if (table.size() == row.num_ids) row.logprobs = table.data();
  }
  if (choice.finish_reason) {
    row.finish_reason = finish_reason_name(*choice.finish_reason).data();
    if (const auto* text = std::get_if<std::string>(&choice.stop_reason))
      row.stop_string = record.texts.emplace_back(*text).c_str();
    else if (const auto* token = std::get_if<TokenId>(&choice.stop_reason))
      row.stop_token = *token;
  }
  record.choice_rows.push_back(row);
}

std::unique_ptr<OutputRecord> RecordWriter::take_record(std::uint64_t id) {
  if (ended_) return nullptr;
  ended_ = finished();
  if (!ended_ && !(stream_ && std::exchange(has_news_, false))) return nullptr;
  auto record = empty_record(id, ended_, error());
  record->options = options_;
  const PromptInfo& prompt = options_->prompts.front();
  record->prompt_ids = prompt.token_ids.data();
  record->num_prompt_ids = prompt.token_ids.size();
  record->num_cached_tokens = state_.prompts.front().num_cached_tokens;
  record->is_first = !begun_;
  if (!error().ok()) return record;
  for (std::size_t i = 0; i < state_.choices.size(); ++i) {
    ChoiceState& choice = state_.choices[i];
    // A stream's record only has choices with new output; a choice's end is reported once.
    const bool fresh = !choice.fresh.token_ids.empty() || !choice.fresh.text.empty();
    const bool ends = choice.finished() && !choice.begun;
    if (stream_ && !fresh && !ends) continue;
    choice.begun = choice.finished();
    add_choice(*record, choice, static_cast<std::int32_t>(i));
  }
  if (!ended_ && record->choice_rows.empty()) return nullptr;
  begun_ = true;
  record->choices = record->choice_rows.data();
  record->num_choices = record->choice_rows.size();
  if (const auto& positions = state_.prompts.front().logprobs; ended_ && !positions.empty()) {
    std::vector<pagoda_logprobs>& table = record->tables.emplace_back();
    table.reserve(positions.size());
    for (const auto& position : positions)
      table.push_back(position ? logprobs(*record, *position) : pagoda_logprobs{});
    record->prompt_logprobs = table.data();
  }
  return record;
}

}  // namespace pagoda
