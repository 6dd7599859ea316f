#pragma once
// LineEditor: lines from a terminal, with arrows, search and a history that outlives the program, by libedit
// where it is installed; else, and where input is no terminal, plain lines. libedit is opened when a terminal
// asks for it: nothing links against it. Threads: one; one editor in a process.
#include <optional>
#include <string>

namespace pagoda {

class LineEditor {
 public:
  // `history_file`: kept there, readable by its owner only; empty: not kept. `interrupts`: an eventfd that
  // does not block and that a signal's handler adds to; it outlives the editor, which only reads it.
  LineEditor(std::string history_file, int interrupts);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;

  // The next line, without its end; nullopt: there are no more, or a signal came, and the line was dropped.
  std::optional<std::string> read(const std::string& prompt);
  void remember(const std::string& text);  // remembers an entry, in one piece
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
