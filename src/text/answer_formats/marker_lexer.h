#pragma once
// MarkerLexer: splits text that arrives in pieces into markers and the text between them, for one stage.
// Holds back only a tail that may be the beginning of a marker. Invariant: the concatenated text that the
// stage receives does not depend on how the input was split. Cost: each byte is compared with the few markers
// of the current state; text that the stage returns, which happens only when its state changes, is scanned
// again. Threads: none.
#include <string>
#include <string_view>

#include "text/answer_formats/answer_stage.h"

namespace pagoda::answer {

class MarkerLexer {
 public:
  explicit MarkerLexer(AnswerStage& stage) : stage_(stage) {}

  void push(std::string_view text);
  void push_token(std::string_view text, bool special);  // a marker counts only as a special token (by_token)
  void finish();                                         // passes on held text as text, then ends the stage

 private:
  void run(bool ended);
  void give(std::string_view text);

  AnswerStage& stage_;
  std::string held_;
};

}  // namespace pagoda::answer
