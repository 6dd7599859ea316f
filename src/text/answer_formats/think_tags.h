#pragma once
// ThinkTags: reasoning between two markers, followed by the answer. Each row of a table describes a model
// family (think_tags.cc). Content goes on to the tool format, reasoning to the message.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer_formats/answer_stage.h"

namespace pagoda::answer {

struct ThinkTags {
  std::string_view name;  // vLLM's name for --reasoning-parser
  std::vector<std::string_view> begin = {};
  std::vector<std::string_view> end = {};
  bool usually_open = false;      // default if it is unknown whether the prompt opened the reasoning
  bool only_if_open = false;      // no reasoning unless the prompt opened it
  bool repeats = false;           // reasoning may begin again after the answer has begun
  bool markers_are_text = false;  // stray markers in the answer are part of its text
  std::vector<std::string_view> implied_end =
      {};                                      // call markers that end the reasoning without its end marker
  std::vector<std::string_view> dropped = {};  // markup around the answer
  std::string_view label = {};   // first word of the block, not part of the reasoning ("thought")
  std::string_view prefix = {};  // prepended to the content
  bool cites = false;            // <co>…</co: 0:[1]>: removes these tags
};

std::span<const ThinkTags> think_tags();
const ThinkTags* find_think_tags(std::string_view name);

std::unique_ptr<AnswerStage> make_think_stage(const ThinkTags& tags, std::optional<bool> starts_open,
                                              AnswerOutput& next);

}  // namespace pagoda::answer
