#pragma once
// AnswerReader: one answer of an OpenAI-compatible server, streamed or whole, and what its timing was. Gets
// the body's bytes with the time they came; knows no socket.
//
// A chunk may carry several tokens, or none. How many is known, in this order, from its token_ids, from the
// growth of its usage.completion_tokens (continuous_usage_stats), else from the last chunk's usage, spread
// over the chunks. A chunk of k tokens after a gap g counts as k inter-token times of g/k, so that their mean
// is the time per token however a server packs them; tokens that come with the first one add none. Threads:
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

// How one request went, times in seconds.
struct RequestOutcome {
  double start_s = 0;  // since the run's start: when it was sent
  double ttft_s = 0;
  double e2e_s = 0;  // to the last chunk of the answer
  std::int64_t prompt_tokens = 0, output_tokens = 0;
  std::vector<float> itl_s;
  double longest_gap_s = 0;  // between two chunks of one choice, however many tokens the second brought
  std::string text;          // text of choice 0, where texts are kept
  std::string error;         // empty: it succeeded
  bool ok() const { return error.empty(); }
};

class AnswerReader {
 public:
  enum class Texts { drop, keep };
  enum class Wants { tokens, vectors };  // vectors come whole, and have no tokens
  AnswerReader(TimeNs start, Texts texts, Wants wants = Wants::tokens)
      : start_(start), texts_(texts), wants_(wants) {}

  // From the head: the answer's status, and whether its body is an event stream.
  void head(int status, bool is_event_stream,
            bool is_lines = false);  // lines: a JSON each, as Ollama streams
  // False: nothing more is wanted; error() says why.
  bool body(TimeNs now, std::string_view bytes);
  // The stream's last event ([DONE]) was seen: what follows is of no interest.
  bool done() const { return done_; }
  const std::string& error() const { return error_; }
  int status() const { return status_; }
  // The body of an answer that is no stream.
  std::string take_body() { return std::move(whole_body_); }

  // After the body's end, or in the midst of it when `transport_error` says why there is no more.
  // prompt_tokens stands in where the server does not tell.
  RequestOutcome finish(std::int64_t prompt_tokens, std::string_view transport_error);

 private:
  struct Choice {
    TimeNs last = 0;  // chunk with a token; 0: none yet
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

  static constexpr std::size_t kMaxBody = std::size_t{16} << 20;  // an answer that is not a stream
  static constexpr std::size_t kMaxChoices = 1024;
  static constexpr std::int64_t kMaxTokens = 10'000'000;

  TimeNs start_;
  Texts texts_;
  Wants wants_;
  int status_ = 0;
  bool is_event_stream_ = false, is_lines_ = false, done_ = false, finished_ = false;
  SseScanner scanner_;
  ChunkFacts facts_;
  std::string whole_body_;  // or a line that has not ended
  std::vector<Choice> choices_;
  std::vector<Gap> gaps_;
  TimeNs first_ = 0, last_ = 0;
  std::int64_t num_chunks_ = 0;    // with text or tokens
  std::int64_t known_tokens_ = 0;  // tokens of chunks that counted theirs
  bool all_known_ = true;
  std::optional<std::int64_t> prompt_tokens_, completion_tokens_;
  std::string text_;
  std::string error_;
};

}  // namespace pagoda
