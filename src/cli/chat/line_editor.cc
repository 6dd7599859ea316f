#include "cli/chat/line_editor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <utility>

#include "base/opened_library.h"

namespace pagoda {
namespace {

constexpr int kHistoryLines = 1000;

// Global, because libedit's callback has no user argument.
struct Entered {
  bool done = false;
  std::optional<std::string> line;
} g_entered;

}  // namespace

// The part of readline's interface that libedit also implements.
struct LineEditor::Functions {
  void (*install)(const char*, void (*)(char*)) = nullptr;
  void (*remove)() = nullptr;
  void (*read_char)() = nullptr;
  int (*add_history)(const char*) = nullptr;
  int (*stifle_history)(int) = nullptr;
  int (*read_history)(const char*) = nullptr;
  int (*write_history)(const char*) = nullptr;

  static const Functions* open() {
    static Functions functions;
    for (const char* name : {"libedit.so.2", "libedit.so.0"}) {
      OpenedLibrary library;
      const auto find = [&](const char* symbol, auto& function) {
        return library.find(symbol, function).ok();
      };
      if (library.open(std::array{name}).ok() && find("rl_callback_handler_install", functions.install) &&
          find("rl_callback_handler_remove", functions.remove) &&
          find("rl_callback_read_char", functions.read_char) && find("add_history", functions.add_history) &&
          find("stifle_history", functions.stifle_history) && find("read_history", functions.read_history) &&
          find("write_history", functions.write_history)) {
        library.keep();
        return &functions;
      }
    }
    return nullptr;
  }
};

LineEditor::LineEditor(std::string history_file, int interrupts)
    : history_file_(std::move(history_file)),
      interrupts_(interrupts),
      terminal_(isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) {
  if (!terminal_) return;
  edit_ = Functions::open();
  if (edit_ == nullptr) return;
  edit_->stifle_history(kHistoryLines);
  if (!history_file_.empty()) edit_->read_history(history_file_.c_str());
}

LineEditor::~LineEditor() {
  if (edit_ == nullptr || history_file_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(history_file_).parent_path(), error);
  const mode_t before = umask(077);
  edit_->write_history(history_file_.c_str());
  umask(before);
}

// Reads key by key, so that a signal is noticed between two keys. The signal is polled through a descriptor,
// because a signal just before poll() would not interrupt it.
std::optional<std::string> LineEditor::edit_line(const std::string& prompt) {
  g_entered = {};
  eventfd_t earlier = 0;  // a Ctrl-C that ended an answer does not apply to this line
  eventfd_read(interrupts_, &earlier);
  edit_->install(prompt.c_str(), [](char* line) {
    g_entered.done = true;
    if (line != nullptr) g_entered.line = line;
    std::free(line);
  });
  while (!g_entered.done) {
    std::array<pollfd, 2> waited{{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                  {.fd = interrupts_, .events = POLLIN, .revents = 0}}};
    if (poll(waited.data(), waited.size(), -1) < 0) continue;  // interrupted by another signal
    if (waited[1].revents != 0) break;
    edit_->read_char();
  }
  edit_->remove();
  if (!g_entered.line) std::fputc('\n', stdout);
  return std::exchange(g_entered.line, std::nullopt);
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  if (edit_ != nullptr) return edit_line(prompt);
  if (terminal_) {
    std::fputs(prompt.c_str(), stdout);
    std::fflush(stdout);
  }
  std::string line;
  if (std::getline(std::cin, line)) return line;
  if (terminal_) std::fputc('\n', stdout);
  std::cin.clear();  // the stream may have failed because of a signal
  std::clearerr(stdin);
  return std::nullopt;
}

void LineEditor::remember(const std::string& text) {
  if (edit_ != nullptr) edit_->add_history(text.c_str());
}

}  // namespace pagoda
