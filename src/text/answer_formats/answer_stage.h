#pragma once
// AnswerStage: one format, as the marker lexer drives it. A stage says which markers count in its present
// state, and is told the text between them and the markers themselves, in order. It passes on to an
// AnswerOutput what it made of them. Not where text is cut: a stage must come to the same whatever pieces its
// text comes in. Threads: none.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::answer {

struct WrittenCall {
  std::string name;
  std::string arguments = {};  // JSON, or what the model wrote instead
  std::string id = {};         // the model's own; empty: none
};

// A stage's output: the message, or the next stage.
class AnswerOutput {
 public:
  virtual ~AnswerOutput() = default;
  virtual void reasoning(std::string_view text) = 0;
  virtual void content(std::string_view text) = 0;
  virtual void call(const WrittenCall& call) = 0;
  // A call that a grammar holds, while it is written.
  virtual void call_begun(std::string_view name, std::string_view id) = 0;
  virtual void call_arguments(std::string_view text) = 0;
  virtual void call_ended() = 0;
};

class AnswerStage {
 public:
  virtual ~AnswerStage() = default;

  // The markers that count now, none empty. Where several begin at one place, the longest counts.
  virtual const std::vector<std::string_view>& markers() const = 0;
  // Text in which no marker of now begins. Gives how many bytes of it were taken: fewer than all only when
  // the state has changed, and then the rest is looked at again with the markers of the new state.
  virtual std::size_t on_text(std::string_view text) = 0;
  virtual void on_marker(std::string_view marker) = 0;
  virtual void on_end() = 0;

  // Whether the format means something by this special token; others are dropped, as the detokenizer would
  // have.
  virtual bool uses_special(std::string_view token_text) const = 0;
  // Whether markers count only as special tokens where tokens are at hand (harmony).
  virtual bool by_token() const { return false; }
};

}  // namespace pagoda::answer
