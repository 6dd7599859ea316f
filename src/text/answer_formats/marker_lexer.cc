#include "text/answer_formats/marker_lexer.h"

#include <array>

#include "base/check.h"

namespace pagoda::answer {
namespace {

struct Found {
  std::size_t at = 0;       // start of a marker or possible marker, or the end of the text
  std::string_view marker;  // empty: a marker may begin here, but the text ends too early to tell
};

// The leftmost marker of `text` from `from` on. With `ended`, an incomplete marker does not count.
Found find_marker(std::string_view text, std::size_t from, const std::vector<std::string_view>& markers,
                  bool ended) {
  std::array<bool, 256> first{};
  for (const std::string_view marker : markers) first[static_cast<unsigned char>(marker.front())] = true;
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!first[static_cast<unsigned char>(text[at])]) continue;
    const std::string_view rest = text.substr(at);
    std::string_view best;
    for (const std::string_view marker : markers) {
      if (rest.size() >= marker.size()) {
        if (marker.size() > best.size() && rest.starts_with(marker)) best = marker;
      } else if (!ended && marker.starts_with(rest)) {
        return {at, {}};  // even if a shorter marker matches: the longest wins
      }
    }
    if (!best.empty()) return {at, best};
  }
  return {text.size(), {}};
}

}  // namespace

void MarkerLexer::push(std::string_view text) {
  held_ += text;
  run(false);
}

void MarkerLexer::push_token(std::string_view text, bool special) {
  if (special) {
    for (const std::string_view marker : stage_.markers())
      if (marker == text) return stage_.on_marker(marker);
  }
  give(text);
}

void MarkerLexer::finish() {
  run(true);
  stage_.on_end();
}

void MarkerLexer::give(std::string_view text) {
  while (!text.empty()) text.remove_prefix(stage_.on_text(text));
}

void MarkerLexer::run(bool ended) {
  std::size_t done = 0;
  for (int idle = 0; done < held_.size();) {
    const std::vector<std::string_view>& markers = stage_.markers();
    const Found found = find_marker(held_, done, markers, ended);
    if (found.at > done) {
      const std::string_view text = std::string_view(held_).substr(done, found.at - done);
      const std::size_t taken = stage_.on_text(text);
      CHECK(taken <= text.size());
      idle = taken == 0 ? idle + 1 : 0;
      CHECK(idle < 8);  // a stage that consumes nothing must change to a state that does
      done += taken;
      if (taken < text.size()) continue;
    }
    if (found.marker.empty()) break;
    done += found.marker.size();
    idle = 0;
    stage_.on_marker(found.marker);
  }
  held_.erase(0, done);
}

}  // namespace pagoda::answer
