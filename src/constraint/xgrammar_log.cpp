// XGrammar's messages: part of its library (cmake/xgrammar.cmake), since it declares what is defined here. What
// it calls a warning is, mostly, a part of a grammar that it does not hold; xgrammar_backend.cc makes an error of
// it. Nothing goes to stderr: clients could fill the log.
#include <string>

#include "support/logging.h"

namespace pagoda {

thread_local std::string* xgrammar_warning = nullptr;  // where the thread's first one goes; null: nowhere

}  // namespace pagoda

namespace xgrammar {
namespace {

// Says the message alone: the other has the time and a source file's path in it.
struct PlainError final : LogFatalError {
  PlainError(const std::string& file, int lineno, const std::string& text)
      : LogFatalError(file, lineno, text), message(text) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};

}  // namespace

void LogFatalImpl(const std::string& file, int lineno, const std::string& message) {
  throw PlainError(file, lineno, message);
}

void LogMessageImpl(const std::string&, int, int level, const std::string& message) {
  std::string* out = pagoda::xgrammar_warning;
  if (level == XGRAMMAR_LOG_LEVEL_WARNING && out != nullptr && out->empty()) *out = message;
}

}  // namespace xgrammar
