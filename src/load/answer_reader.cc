#include "load/answer_reader.h"

#include <algorithm>

#include "base/strings.h"

namespace pagoda {
namespace {

// Shortens a message to one line of bounded length, for a table or a JSON field.
std::string short_message(std::string_view text) {
  std::string out(text.substr(0, 500));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return out;
}

}  // namespace

void AnswerReader::head(int status, bool is_event_stream, bool is_lines) {
  status_ = status;
  is_lines_ = is_lines && status == 200;
  is_event_stream_ = (is_event_stream || is_lines) && status == 200;
}

bool AnswerReader::take_lines(TimeNs now, std::string_view bytes) {
  whole_body_.append(bytes);
  std::size_t begin = 0;
  for (std::size_t end; (end = whole_body_.find('\n', begin)) != std::string::npos; begin = end + 1)
    if (end > begin) event(now, std::string_view(whole_body_).substr(begin, end - begin));
  whole_body_.erase(0, begin);
  if (whole_body_.size() > kMaxBody) error_ = "a line of the stream is too large";
  return error_.empty();
}

bool AnswerReader::body(TimeNs now, std::string_view bytes) {
  if (!is_event_stream_) {
    last_ = now;
    if (whole_body_.size() + bytes.size() > kMaxBody) {
      error_ = "the answer is too large";
      return false;
    }
    whole_body_.append(bytes);
    return true;
  }
  if (is_lines_) return take_lines(now, bytes);
  if (!scanner_.feed(bytes, [&](std::string_view data) { event(now, data); }))
    error_ = "an event of the stream is too large";
  return error_.empty();
}

void AnswerReader::event(TimeNs now, std::string_view data) {
  if (done_ || !error_.empty()) return;
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  if (!scan_chunk(data, facts_)) {
    error_ = concat("malformed chunk: ", short_message(data.substr(0, 80)));
    return;
  }
  if (facts_.error) {
    error_ = concat("error in the stream: ", short_message(*facts_.error));
    return;
  }
  add_chunk(now);
}

void AnswerReader::add_chunk(TimeNs now) {
  // Ignore impossible counts, because memory is allocated according to the count.
  if (facts_.completion_tokens && (*facts_.completion_tokens < 0 || *facts_.completion_tokens > kMaxTokens))
    facts_.completion_tokens.reset();
  if (facts_.prompt_tokens) prompt_tokens_ = facts_.prompt_tokens;
  finished_ = finished_ || facts_.finished;
  for (const ChoiceFacts& facts : facts_.choices) {
    last_ = now;
    finished_ = finished_ || facts.finished;
    std::int64_t tokens = -1;
    if (facts.num_token_ids >= 0) {
      tokens = facts.num_token_ids;
    } else if (facts_.completion_tokens && choices_.size() <= 1 && facts.index == 0) {
      const std::int64_t before = choices_.empty() ? 0 : choices_[0].known_tokens;
      tokens = std::max<std::int64_t>(0, *facts_.completion_tokens - before);
    }
    add_tokens(now, facts, tokens);
    if (texts_ == Texts::keep && facts.index == 0) text_ += unescape_json(facts.text);
  }
  if (facts_.completion_tokens) completion_tokens_ = facts_.completion_tokens;
}

void AnswerReader::add_tokens(TimeNs now, const ChoiceFacts& facts, std::int64_t tokens) {
  // Without a count, a chunk with text counts as a token. The role that begins a chat stream and the
  // finish_reason that ends one have no text.
  if (tokens == 0 || (tokens < 0 && facts.text.empty())) return;
  if (facts.index < 0 || facts.index >= static_cast<std::int64_t>(kMaxChoices)) {
    error_ = concat("malformed chunk: choice ", facts.index);
    return;
  }
  const auto index = static_cast<std::size_t>(facts.index);
  if (choices_.size() <= index) choices_.resize(index + 1);
  Choice& choice = choices_[index];
  if (first_ == 0) first_ = now;
  ++num_chunks_;
  if (tokens < 0)
    all_known_ = false;
  else
    known_tokens_ += tokens;
  choice.known_tokens += std::max<std::int64_t>(tokens, 0);
  if (choice.last != 0)
    gaps_.push_back({static_cast<float>(to_seconds(now - choice.last)),
                     static_cast<float>(std::max<std::int64_t>(tokens, 0))});
  choice.last = now;
}

RequestOutcome AnswerReader::finish(std::int64_t prompt_tokens, std::string_view transport_error) {
  if (is_event_stream_ && transport_error.empty())
    scanner_.finish([&](std::string_view data) { event(last_, data); });
  RequestOutcome outcome;
  if (!error_.empty()) {
    outcome.error = error_;
  } else if (status_ != 0 && status_ != 200) {
    outcome.error = concat("HTTP ", status_);
    if (scan_chunk(whole_body_, facts_) && facts_.error)
      outcome.error += concat(": ", short_message(*facts_.error));
    else if (!whole_body_.empty())
      outcome.error += concat(": ", short_message(std::string_view(whole_body_).substr(0, 200)));
  } else if (!transport_error.empty() && !done_) {
    outcome.error = std::string(transport_error);
    if (num_chunks_ > 0) outcome.error += concat(", after ", num_chunks_, " chunks");
  } else if (!is_event_stream_) {
    if (!scan_chunk(whole_body_, facts_))
      outcome.error =
          concat("the answer is not JSON: ", short_message(std::string_view(whole_body_).substr(0, 80)));
    else if (facts_.error)
      outcome.error = short_message(*facts_.error);
    else
      add_chunk(last_);
  } else if (!done_ && !finished_ && num_chunks_ > 0) {
    outcome.error = concat("the stream ended without [DONE], after ", num_chunks_, " chunks");
  }
  const bool vector = wants_ == Wants::vectors && prompt_tokens_ && *prompt_tokens_ > 0;
  if (outcome.error.empty() && vector) first_ = last_;
  if (outcome.error.empty() && first_ == 0) outcome.error = "no token was received";
  if (first_ != 0) {
    outcome.ttft_s = to_seconds(first_ - start_);
    outcome.e2e_s = to_seconds(last_ - start_);
  }
  outcome.prompt_tokens = prompt_tokens_.value_or(prompt_tokens);
  outcome.output_tokens =
      completion_tokens_.value_or(all_known_ ? known_tokens_ : std::max(num_chunks_, known_tokens_));
  if (outcome.error.empty() && outcome.output_tokens < 1) outcome.output_tokens = num_chunks_;

  // Chunks without a count share the tokens of the usage that exceed one per chunk.
  const std::int64_t chunks_after = static_cast<std::int64_t>(gaps_.size());
  const std::int64_t tokens_after = outcome.output_tokens - static_cast<std::int64_t>(choices_.size());
  const float share = !all_known_ && chunks_after > 0 && tokens_after > chunks_after
                          ? static_cast<float>(tokens_after) / static_cast<float>(chunks_after)
                          : 1.0f;
  for (const Gap& gap : gaps_) {
    const float tokens = gap.tokens > 0 ? gap.tokens : share;
    const int times = std::max(1, static_cast<int>(std::min(tokens + 0.5f, 1e6f)));
    outcome.longest_gap_s = std::max(outcome.longest_gap_s, static_cast<double>(gap.seconds));
    outcome.itl_s.insert(outcome.itl_s.end(), static_cast<std::size_t>(times), gap.seconds / tokens);
  }
  outcome.text = std::move(text_);
  return outcome;
}

}  // namespace pagoda
