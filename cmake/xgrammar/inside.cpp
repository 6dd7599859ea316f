// The part that must be in XGrammar's library (cmake/xgrammar.cmake), since it needs internal headers.
// XGrammar's warnings mostly report parts of a grammar that it does not enforce; xgrammar_backend.cc turns
// them into errors. Nothing goes to stderr, since clients could fill the log.
#include "inside.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "fsm_builder.h"
#include "grammar_functor.h"
#include "support/encoding.h"
#include "support/logging.h"
#include "work.h"

namespace pagoda {

thread_local std::string* xgrammar_warning = nullptr;
__thread std::int64_t work_left = 0;

namespace {

constexpr std::int64_t kSlice = 20'000;  // units between two checks of the bound and of given_up
constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::max();

struct Work {
  std::int64_t most = kNoBound, given = 0;  // units; `given` includes those in work_left
  const std::atomic<bool>* given_up = nullptr;
};
thread_local Work work;

}  // namespace

void next_slice() {
  if (work.most == kNoBound) {
    work_left = kNoBound;
    return;
  }
  const bool dropped = work.given_up != nullptr && work.given_up->load(std::memory_order_relaxed);
  if (work.given - work_left > work.most || dropped) throw std::length_error("it takes too long to compile");
  const std::int64_t more = kSlice - work_left;  // work beyond the slice counts, too
  work.given += more;
  work_left += more;
}

std::int64_t work_done() { return work.given - work_left; }

XgrammarWork::XgrammarWork(std::int64_t most, const std::atomic<bool>* given_up) {
  work = {most, 0, given_up};
  work_left = 0;
}
XgrammarWork::~XgrammarWork() {
  work = {};
  work_left = kNoBound;
}

bool xgrammar_holds_pattern(const std::string& pattern) {
  if (!std::all_of(pattern.begin(), pattern.end(), [](unsigned char c) { return c >= 0x20 && c <= 0x7e; }))
    return false;
  // Receives the first part of the pattern that XGrammar would ignore.
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

std::optional<bool> xgrammar_matches(const std::string& pattern, const std::string& text) {
  if (!xgrammar_holds_pattern(pattern)) return std::nullopt;
  auto built = xgrammar::GrammarFSMBuilder::Regex(pattern, false);
  if (built.IsErr() || !built.ValueRef().IsLeaf()) return std::nullopt;
  spend(static_cast<std::int64_t>(text.size()) * built.ValueRef().NumStates());
  return built.ValueRef().AcceptString(text);
}

}  // namespace pagoda

namespace xgrammar {
namespace {

// Its what() returns only the message: that of LogFatalError also contains the time and a source file path.
struct PlainError final : LogFatalError {
  PlainError(const std::string& file, int lineno, const std::string& text)
      : LogFatalError(file, lineno, text), message(text) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};

// Adds edges for the bytes of characters lo to hi, which have one length, from one state to another. States
// that accept any continuation bytes are shared, because their masks dominate the cost of compiling.
class Utf8Range {
 public:
  Utf8Range(FSM& fsm, int to) : fsm_(fsm), tails_{to} {}
  void add(int from, std::string_view lo, std::string_view hi) {
    const auto byte = [](char c) { return static_cast<unsigned char>(c); };
    const auto rest_is = [](std::string_view bytes, char c) {
      return bytes.find_first_not_of(c, 1) == std::string_view::npos;
    };
    int first = byte(lo[0]), last = byte(hi[0]);
    const bool from_least = rest_is(lo, '\x80'), to_most = rest_is(hi, '\xbf');
    if (first == last && !(from_least && to_most)) return add(step(from, first), lo.substr(1), hi.substr(1));
    const std::string least(lo.size() - 1, '\x80'), most(lo.size() - 1, '\xbf');
    if (!from_least) add(step(from, first++), lo.substr(1), most);
    if (!to_most) add(step(from, last--), least, hi.substr(1));
    if (first <= last) fsm_.AddEdge(from, tail(lo.size() - 1), first, last);
  }

 private:
  int step(int from, int byte) {
    const int state = fsm_.AddState();
    fsm_.AddEdge(from, state, byte, byte);
    return state;
  }
  // Returns the state that expects `bytes` arbitrary continuation bytes.
  int tail(std::size_t bytes) {
    while (tails_.size() <= bytes) {
      tails_.push_back(fsm_.AddState());
      fsm_.AddEdge(tails_.back(), tails_[tails_.size() - 2], 0x80, 0xbf);
    }
    return tails_[bytes];
  }

  FSM& fsm_;
  std::vector<int> tails_;
};

}  // namespace

// Replaces XGrammar's function (cmake/xgrammar.cmake). `min`, `max`: the bytes of a character as one number.
// Source: The Unicode Standard 17, table 3-7.
void AddPackedUTF8RangeEdges(FSM& fsm, int from, int to, uint32_t min, uint32_t max) {
  const auto character = [](uint32_t packed) -> uint32_t {
    if (packed < 0x80) return packed;
    const uint32_t rest = (packed & 0x3f) | (packed >> 2 & 0xfc0) | (packed >> 4 & 0x3f000);
    if (packed <= 0xffff) return (packed >> 8 & 0x1f) << 6 | (rest & 0x3f);
    if (packed <= 0xffffff) return (packed >> 16 & 0x0f) << 12 | (rest & 0xfff);
    return (packed >> 24 & 0x07) << 18 | rest;
  };
  XGRAMMAR_CHECK(min <= max) << "a range of characters that ends before it begins";
  constexpr uint32_t kOfOneLength[][2] = {
      {0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, 0x10ffff}};
  Utf8Range range(fsm, to);
  for (const auto& [least, most] : kOfOneLength) {
    const uint32_t lo = std::max(least, character(min)), hi = std::min(most, character(max));
    if (lo <= hi)
      range.add(from, CharToUTF8(static_cast<TCodepoint>(lo)), CharToUTF8(static_cast<TCodepoint>(hi)));
  }
}

void LogFatalImpl(const std::string& file, int lineno, const std::string& message) {
  throw PlainError(file, lineno, message);
}

void LogMessageImpl(const std::string&, int, int level, const std::string& message) {
  std::string* out = pagoda::xgrammar_warning;
  if (level == XGRAMMAR_LOG_LEVEL_WARNING && out != nullptr && out->empty()) *out = message;
}

}  // namespace xgrammar
