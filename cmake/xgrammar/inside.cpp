// What has to be a part of XGrammar's library (cmake/xgrammar.cmake), since it needs its inner headers.
// Its messages: what it calls a warning is, mostly, a part of a grammar that it does not hold;
// xgrammar_backend.cc makes an error of it. Nothing goes to stderr: clients could fill the log.
#include "inside.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "grammar_functor.h"
#include "support/logging.h"

namespace pagoda {

thread_local std::string* xgrammar_warning = nullptr;

bool xgrammar_holds_pattern(const std::string& pattern) {
  if (!std::all_of(pattern.begin(), pattern.end(), [](unsigned char c) { return c >= 0x20 && c <= 0x7e; }))
    return false;
  // What it warns of it would leave out.
  std::string warning;
  std::string* const outer = xgrammar_warning;
  xgrammar_warning = &warning;
  auto built = xgrammar::GrammarFSMBuilder::Regex(pattern, true);
  xgrammar_warning = outer;
  if (built.IsErr() || !warning.empty()) return false;
  std::unordered_set<int> reachable;
  built.ValueRef().GetReachableStates(&reachable);
  return std::any_of(reachable.begin(), reachable.end(),
                     [&](int state) { return built.ValueRef().IsEndState(state); });
}

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
