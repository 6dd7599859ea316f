#pragma once
// AnswerStage: one format, driven by the marker lexer. A stage declares the markers that count in its current
// state, and receives the text between markers and the markers themselves, in order. It passes its results to
// an AnswerOutput. A stage must give the same result however its text is split into pieces. Threads: none.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::answer {

struct WrittenCall {
  std::string name;
  std::string arguments = {};  // JSON, or whatever the model wrote instead
  std::string id = {};         // chosen by the model; empty if none
};

// The output of a stage: the message, or the next stage.
class AnswerOutput {
 public:
  virtual ~AnswerOutput() = default;
  virtual void reasoning(std::string_view text) = 0;
  virtual void content(std::string_view text) = 0;
  virtual void call(const WrittenCall& call) = 0;
  // Report a call that a grammar constrains, while it is generated.
  virtual void call_begun(std::string_view name, std::string_view id) = 0;
  virtual void call_arguments(std::string_view text) = 0;
  virtual void call_ended() = 0;
};

class AnswerStage {
 public:
  virtual ~AnswerStage() = default;

  // The markers that currently count; none is empty. If several begin at the same position, the longest wins.
  virtual const std::vector<std::string_view>& markers() const = 0;
  // Receives text in which no current marker begins. Returns the number of bytes consumed: fewer than all
  // only if the state has changed; the rest is then scanned again with the new state's markers.
  virtual std::size_t on_text(std::string_view text) = 0;
  virtual void on_marker(std::string_view marker) = 0;
  virtual void on_end() = 0;

  // True if this special token has a meaning in the format; other special tokens are dropped, as the
  // detokenizer would do.
  virtual bool uses_special(std::string_view token_text) const = 0;
  // True if markers count only as special tokens when tokens are available (harmony).
  virtual bool by_token() const { return false; }
};

}  // namespace pagoda::answer
