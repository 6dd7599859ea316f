#pragma once
// TgiWriter: writes the answers of /generate and /generate_stream. A stream has one event per token; the last
// event has the whole text. As in TGI, the text includes the stop string that ended it. With several answers,
// the one with the best mean log-probability comes first. Threads: none.
#include <string>
#include <vector>

#include "api/errors.h"
#include "api/json.h"
#include "api/state_writer.h"
#include "api/tgi/tgi_parser.h"

namespace pagoda {

class TgiWriter final : public StateWriter {
 public:
  TgiWriter(TgiCall call, bool in_list, const ApiContext& context);  // in_list: body is a one-element list

 private:
  void write_events(std::string& out) override;
  void write_body(std::string& out) override;
  void write_event(TokenId id, const std::string& text, const TokenLogprobs* logprobs, bool last,
                   std::string& out);
  void write_end(const ChoiceState& choice, JsonWriter& json) const;
  void write_tokens(std::size_t index, JsonWriter& json) const;
  void write_prefill(JsonWriter& json) const;

  const std::string inputs_;
  const std::vector<TokenId> prompt_;
  const std::optional<std::uint64_t> seed_;
  const std::int32_t num_top_;
  const bool details_, prefill_, in_list_;
  IncrementalDetokenizer stream_;
  std::string text_;             // sent in events so far
  std::int64_t num_events_ = 0;  // events sent
};

// {"error", "error_type"}
std::string tgi_error_body(const ApiError& error);

}  // namespace pagoda
