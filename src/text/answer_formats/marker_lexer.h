#pragma once
// MarkerLexer: cuts a text that arrives in pieces into markers and the text between them, for one stage. It
// holds back a tail that may be the beginning of a marker, and nothing else. Invariant: what the stage is
// told, pieces of text joined, does not depend on where the text was cut. Cost: each byte is compared with
// the few markers of the present state; text that the stage gives back is looked at again, which it does only
// when its state changes. Threads: none.
#include <string>
#include <string_view>

#include "text/answer_formats/answer_stage.h"

namespace pagoda::answer {

class MarkerLexer {
 public:
  explicit MarkerLexer(AnswerStage& stage) : stage_(stage) {}

  void push(std::string_view text);
  void push_token(std::string_view text, bool special);  // a marker is a special token or none (by_token)
  void finish();                                         // held text is text; then ends the stage

 private:
  void run(bool ended);
  void give(std::string_view text);

  AnswerStage& stage_;
  std::string held_;
};

}  // namespace pagoda::answer
