#pragma once
// ThinkTags: reasoning between two markers, the answer behind it. One row of a table describes a model family
// (think_tags.cc). Content goes on to the tool format, reasoning to the message.
// Threads: none.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer_formats/answer_stage.h"

namespace pagoda::answer {

struct ThinkTags {
  std::string_view name;  // vLLM's, of --reasoning-parser
  std::vector<std::string_view> begin = {};
  std::vector<std::string_view> end = {};
  bool usually_open = false;      // the state where nobody says whether the prompt opened the reasoning
  bool only_if_open = false;      // no reasoning at all unless the prompt opened it
  bool repeats = false;           // reasoning may begin again after the answer has begun
  bool markers_are_text = false;  // stray markers in the answer are the answer's
  std::vector<std::string_view> implied_end =
      {};  // a call's marker that ends the reasoning without its end marker
  std::vector<std::string_view> dropped = {};  // markup around the answer
  std::string_view label = {};   // first word of the block, no part of the reasoning ("thought")
  std::string_view prefix = {};  // put before the content
  bool cites = false;            // <co>…</co: 0:[1]>: the tags are taken out
};

std::span<const ThinkTags> think_tags();
const ThinkTags* find_think_tags(std::string_view name);

std::unique_ptr<AnswerStage> make_think_stage(const ThinkTags& tags, std::optional<bool> starts_open,
                                              AnswerOutput& next);

}  // namespace pagoda::answer
