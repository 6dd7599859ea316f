#pragma once
// AnswerReader: parses one answer of an OpenAI-compatible server, streamed or whole, and measures its timing.
// The caller passes the bytes of the body with their arrival times; there is no socket here.
//
// A chunk may carry several tokens or none. Their number is taken, in this order, from token_ids, from the
// growth of usage.completion_tokens (continuous_usage_stats), or from the last chunk's usage, spread over the
// chunks. A chunk of k tokens after a gap g counts as k inter-token times of g/k, so the mean is the time per
// token however the server packs them. Further tokens in the first chunk add no inter-token times. Threads:
// none.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "load/chunk_facts.h"
#include "load/sse_scanner.h"

namespace pagoda {

// The result of one request; times in seconds.
struct RequestOutcome {
  double start_s = 0;  // send time since the start of the run
  double ttft_s = 0;
  double e2e_s = 0;  // until the last chunk of the answer
  std::int64_t prompt_tokens = 0, output_tokens = 0;
  std::vector<float> itl_s;
  // Longest time between two chunks of a choice, regardless of their number of tokens.
  double longest_gap_s = 0;
  std::string text;   // text of choice 0, with Texts::keep
  std::string error;  // empty on success
  bool ok() const { return error.empty(); }
};

class AnswerReader {
 public:
  enum class Texts { drop, keep };
  enum class Wants { tokens, vectors };  // vectors arrive in one piece and have no tokens
  AnswerReader(TimeNs start, Texts texts, Wants wants = Wants::tokens)
      : start_(start), texts_(texts), wants_(wants) {}

  // Sets the status from the response head and the format of the body: an event stream, or JSON lines as
  // Ollama streams them.
  void head(int status, bool is_event_stream, bool is_lines = false);
  // Returns false if no more bytes are wanted; error() has the reason.
  bool body(TimeNs now, std::string_view bytes);
  // True after the last event of the stream ([DONE]); the rest is ignored.
  bool done() const { return done_; }
  const std::string& error() const { return error_; }
  int status() const { return status_; }
  // Returns the body of an answer that is not a stream.
  std::string take_body() { return std::move(whole_body_); }

  // Call at the end of the body, or earlier with a `transport_error` that ended it. `prompt_tokens` is used
  // if the server does not report a count.
  RequestOutcome finish(std::int64_t prompt_tokens, std::string_view transport_error);

 private:
  struct Choice {
    TimeNs last = 0;  // time of the last chunk with a token; 0: none yet
    std::int64_t known_tokens = 0;
  };
  struct Gap {
    float seconds;
    float tokens;  // 0: unknown
  };

  void event(TimeNs now, std::string_view data);
  bool take_lines(TimeNs now, std::string_view bytes);
  void add_chunk(TimeNs now);
  void add_tokens(TimeNs now, const ChoiceFacts& facts, std::int64_t tokens);

  static constexpr std::size_t kMaxBody = std::size_t{16} << 20;  // limit for an answer that is not a stream
  static constexpr std::size_t kMaxChoices = 1024;
  static constexpr std::int64_t kMaxTokens = 10'000'000;

  TimeNs start_;
  Texts texts_;
  Wants wants_;
  int status_ = 0;
  bool is_event_stream_ = false, is_lines_ = false, done_ = false, finished_ = false;
  SseScanner scanner_;
  ChunkFacts facts_;
  std::string whole_body_;  // or an incomplete line
  std::vector<Choice> choices_;
  std::vector<Gap> gaps_;
  TimeNs first_ = 0, last_ = 0;
  std::int64_t num_chunks_ = 0;    // chunks with text or tokens
  std::int64_t known_tokens_ = 0;  // tokens of chunks with a known count
  bool all_known_ = true;
  std::optional<std::int64_t> prompt_tokens_, completion_tokens_;
  std::string text_;
  std::string error_;
};

}  // namespace pagoda
