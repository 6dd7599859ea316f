#pragma once
// ResponseWriter: writes an answer as OpenAI's response object, whole or as stream events, and stores it once
// it is complete. The answer is a list of items (reasoning, message, function calls), each with at most one
// part; only the last item grows.
//     response.created, response.in_progress,
//     per item: output_item.added, [content_part.added], …delta*, …done, [content_part.done],
//               output_item.done,
//     response.completed | response.incomplete | response.failed
// Invariants: sequence_number counts events from 0; an item that is done does not change. Source: OpenAI's
// API reference and its OpenAPI file. Threads: none.
#include <cstdint>
#include <string>
#include <vector>

#include "api/answer_log.h"
#include "api/errors.h"
#include "api/json.h"
#include "api/responses/responses_parser.h"
#include "api/state_writer.h"

namespace pagoda {

class ResponseWriter final : public StateWriter {
 public:
  // `call`: without its conversation, which has moved into the request. `stored`: a background call, already
  // in the store under `id`; otherwise the answer is added at the end, for `owner`. `log`: receives the
  // events of a background stream, which take() then does not return; null otherwise.
  ResponseWriter(std::string id, std::int64_t created, std::string owner, ResponsesCall call, bool stored,
                 std::shared_ptr<AnswerLog> log, const ApiContext& context);
  ~ResponseWriter() override;

  void open(std::string& out) override { ping(out); }
  void ping(std::string& out) override;
  bool needs_every_output() const override { return streaming() || !options_.stop.empty(); }
  // The response in its current state: "in_progress" until it has ended.
  std::string response_json() const;

 private:
  enum class Kind : std::uint8_t { reasoning, message, call, custom_call };
  struct Item {
    Kind kind;
    std::string id;
    std::string text = {};      // its part's text, or arguments or input
    std::string logprobs = {};  // JSON of a message's tokens, without the list's brackets
    std::string name = {}, group = {}, call_id = {};
    std::int32_t call = -1;
    bool done = false;

    bool is_call() const { return kind == Kind::call || kind == Kind::custom_call; }
  };

  void note_output() override;
  std::int64_t num_copies() const override { return 6; }  // the item, its last events, the store
  void write_events(std::string& out) override;
  void write_body(std::string& out) override;

  void begin();
  void grow(Kind kind, std::string_view text, const ChoiceState::CallPiece* call = nullptr,
            std::string_view logprobs = {});
  std::string logprobs_json(const std::vector<TokenLogprobs>& tokens) const;
  void begin_item(Kind kind, const ChoiceState::CallPiece* call);
  void end_item();
  void take_fresh();
  void write_item(JsonWriter& json, const Item& item) const;
  void write_part(JsonWriter& json, const Item& item, bool begins) const;
  void write_response(JsonWriter& json) const;
  std::string_view status() const;
  void keep();

  template <class Write>
  void event(std::string_view type, Write write);
  template <class Write>
  void item_event(std::string_view type, Write write);

  const std::string id_, owner_;
  const std::int64_t created_;
  const ResponsesCall call_;
  const bool stored_;
  const std::shared_ptr<AnswerLog> log_;
  std::vector<Item> items_;
  std::string events_;  // written but not yet taken
  std::int64_t num_events_ = 0;
  bool begun_ = false, kept_ = false;
};

}  // namespace pagoda
