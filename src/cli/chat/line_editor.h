#pragma once
// LineEditor: reads lines from a terminal, with arrow keys, search and a persistent history, through libedit
// if it is installed. Otherwise, or if input is not a terminal, reads plain lines. libedit is loaded on
// demand; the program does not link to it. Threads: one; one editor per process.
#include <optional>
#include <string>

namespace pagoda {

class LineEditor {
 public:
  // `history_file`: the persistent history, readable by its owner only; empty: not kept. `interrupts`: a
  // nonblocking eventfd to which a signal handler writes; it must outlive the editor, which only reads it.
  LineEditor(std::string history_file, int interrupts);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;

  // Returns the next line without its end; nullopt at the end of input, or after a signal, which discards the
  // line.
  std::optional<std::string> read(const std::string& prompt);
  void remember(const std::string& text);  // adds the text to the history as one entry
  bool on_terminal() const { return terminal_; }

 private:
  struct Functions;
  std::optional<std::string> edit_line(const std::string& prompt);
  const std::string history_file_;
  const int interrupts_;
  bool terminal_ = false;
  const Functions* edit_ = nullptr;  // null: plain lines
};

}  // namespace pagoda
