#include "text/answer_formats/think_tags.h"

#include <algorithm>

#include "text/answer_formats/citations.h"
#include "text/answer_formats/tool_format.h"

namespace pagoda::answer {
namespace {

const Markers kThink = {"<think>"};
const Markers kThinkEnd = {"</think>"};

const ThinkTags kTags[] = {
    {.name = "qwen3",
     .begin = kThink,
     .end = kThinkEnd,
     .usually_open = true,
     .implied_end = {"<tool_call>"}},
    {.name = "deepseek_r1", .begin = kThink, .end = kThinkEnd, .usually_open = true},
    {.name = "deepseek_v3", .begin = kThink, .end = kThinkEnd, .only_if_open = true},
    {.name = "deepseek_v4",
     .begin = kThink,
     .end = kThinkEnd,
     .usually_open = true,
     .repeats = true,
     .implied_end = {"<｜DSML｜tool_calls>"}},
    {.name = "glm45",
     .begin = kThink,
     .end = kThinkEnd,
     .usually_open = true,
     .repeats = true,
     .implied_end = {"<tool_call>"}},
    {.name = "glm47",
     .begin = kThink,
     .end = kThinkEnd,
     .usually_open = true,
     .repeats = true,
     .implied_end = {"<tool_call>"}},
    {.name = "gemma4",
     .begin = {"<|channel>"},
     .end = {"<channel|>"},
     .repeats = true,
     .implied_end = {"<|tool_call>"},
     .label = "thought"},
    {.name = "mistral", .begin = {"[THINK]"}, .end = {"[/THINK]"}, .repeats = true},
    {.name = "nemotron_v3",
     .begin = kThink,
     .end = kThinkEnd,
     .usually_open = true,
     .implied_end = {"<tool_call>"}},
    {.name = "granite",
     .begin = {"Here is my thought process:", "Here's my thought process:"},
     .end = {"Here is my response:", "Here's my response:"},
     .markers_are_text = true},
    {.name = "minimax_m2",
     .begin = kThink,
     .end = kThinkEnd,
     .usually_open = true,
     .implied_end = {"<minimax:tool_call>"}},
    {.name = "minimax_m2_append_think", .markers_are_text = true, .prefix = "<think>"},
    {.name = "minimax_m3",
     .begin = {"<mm:think>"},
     .end = {"</mm:think>"},
     .repeats = true,
     .implied_end = {"]<]minimax[>[<tool_call>"}},
    {.name = "kimi_k2",
     .begin = kThink,
     .end = kThinkEnd,
     .usually_open = true,
     .implied_end = {"<|tool_calls_section_begin|>"}},
    {.name = "kimi_k3",
     .begin = {"<|open|>think<|sep|>"},
     .end = {"<|close|>think<|sep|>"},
     .implied_end = {"<|open|>tools<|sep|>"},
     .dropped = {"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"}},
    {.name = "kimi", .begin = {"◁think▷"}, .end = {"◁/think▷"}},
    {.name = "ling3",
     .begin = kThink,
     .end = kThinkEnd,
     .usually_open = true,
     .implied_end = {"<tool_call>"}},
    {.name = "seed_oss",
     .begin = {"<seed:think>"},
     .end = {"</seed:think>"},
     .usually_open = true,
     .implied_end = {"<seed:tool_call>"}},
    {.name = "hunyuan_a13b", .begin = kThink, .end = kThinkEnd, .dropped = {"<answer>", "</answer>"}},
    {.name = "hy_v3", .begin = kThink, .end = kThinkEnd, .usually_open = true},
    {.name = "ernie45",
     .begin = kThink,
     .end = kThinkEnd,
     .usually_open = true,
     .dropped = {"<response>", "</response>", "</s>"}},
    {.name = "cohere_command3",
     .begin = {"<|START_THINKING|>"},
     .end = {"<|END_THINKING|>"},
     .dropped = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|END_OF_TURN_TOKEN|>"},
     .cites = true},
    {.name = "cohere_command4",
     .begin = {"<|START_THINKING|>"},
     .end = {"<|END_THINKING|>"},
     .dropped = {"<|START_TEXT|>", "<|END_TEXT|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>",
                 "<|END_OF_TURN_TOKEN|>"},
     .cites = true},
    {.name = "apriel",
     .begin = {"Here are my reasoning steps:"},
     .end = {"[BEGIN FINAL RESPONSE]"},
     .usually_open = true,
     .dropped = {"[END FINAL RESPONSE]"}},
    {.name = "step3", .begin = kThink, .end = kThinkEnd, .usually_open = true},
    {.name = "step3p5", .begin = kThink, .end = kThinkEnd, .usually_open = true},
    {.name = "holo2", .begin = kThink, .end = kThinkEnd, .usually_open = true},
    {.name = "olmo3", .begin = kThink, .end = kThinkEnd, .usually_open = true},
    {.name = "poolside_v1", .begin = kThink, .end = kThinkEnd, .usually_open = true},
    {.name = "mimo", .begin = kThink, .end = kThinkEnd, .usually_open = true},
};

class ThinkStage final : public AnswerStage {
 public:
  ThinkStage(const ThinkTags& tags, std::optional<bool> starts_open, AnswerOutput& next)
      : tags_(tags), next_(next) {
    open_ = starts_open.value_or(tags.usually_open) && !tags.end.empty();
    label_pending_ = open_;
    const auto add = [](Markers& to, const Markers& from) { to.insert(to.end(), from.begin(), from.end()); };
    add(before_, tags.begin);
    add(inside_, tags.begin);
    add(inside_, tags.end);
    add(inside_, tags.implied_end);
    add(before_, tags.dropped);
    add(after_, tags.dropped);
    if (!tags.markers_are_text) {
      add(before_, tags.end);
      add(after_, tags.end);
      add(after_, tags.begin);
    }
    if (tags.only_if_open && starts_open == false) before_.clear();
  }

  const Markers& markers() const override { return open_ ? inside_ : ended_ ? after_ : before_; }

  std::size_t on_text(std::string_view text) override {
    if (!open_) {
      put_content(text);
    } else if (label_pending_ && !tags_.label.empty()) {
      label_text_ += text;
      settle_label(false);
    } else {
      put_reasoning(text);
    }
    return text.size();
  }

  void on_marker(std::string_view marker) override {
    const auto in = [&](const Markers& set) { return std::ranges::find(set, marker) != set.end(); };
    if (open_) {
      if (in(tags_.begin)) return;  // repeated begin marker
      settle_label(true);
      open_ = false;
      ended_ = true;
      if (in(tags_.implied_end)) put_content(marker);
      return;
    }
    if (in(tags_.begin) && (!ended_ || tags_.repeats)) {
      open_ = true;
      label_pending_ = true;
    }
  }

  void on_end() override {
    if (open_) settle_label(true);
    citations_.finish([&](std::string_view text) { next_.content(text); });
    reasoning_citations_.finish([&](std::string_view text) { next_.reasoning(text); });
    if (!prefixed_ && !tags_.prefix.empty()) next_.content(tags_.prefix);
  }

  bool uses_special(std::string_view token) const override {
    const auto used = [&](const Markers& set) {
      return std::ranges::any_of(set,
                                 [&](std::string_view marker) { return marker.find(token) != marker.npos; });
    };
    return used(before_) || used(inside_) || used(after_);
  }

 private:
  void put_content(std::string_view text) {
    if (!prefixed_ && !tags_.prefix.empty()) next_.content(tags_.prefix);
    prefixed_ = true;
    if (tags_.cites)
      citations_.push(text, [&](std::string_view out) { next_.content(out); });
    else
      next_.content(text);
  }
  void put_reasoning(std::string_view text) {
    if (tags_.cites)
      reasoning_citations_.push(text, [&](std::string_view out) { next_.reasoning(out); });
    else
      next_.reasoning(text);
  }

  // Removes the label if it is alone on the first line of the reasoning, or is all of it.
  void settle_label(bool ended) {
    if (!label_pending_) return;
    if (!ended && label_text_.size() <= tags_.label.size() && tags_.label.starts_with(label_text_)) return;
    std::string_view text = label_text_;
    if (text.starts_with(tags_.label) &&
        (text.size() == tags_.label.size() || text[tags_.label.size()] == '\n'))
      text.remove_prefix(tags_.label.size());
    if (!text.empty()) put_reasoning(text);
    label_text_.clear();
    label_pending_ = false;
  }

  const ThinkTags& tags_;
  AnswerOutput& next_;
  Markers before_, inside_, after_;
  bool open_ = false;
  bool ended_ = false;  // a block of reasoning has ended
  bool prefixed_ = false;
  bool label_pending_ = false;
  std::string label_text_;
  CitationFilter citations_, reasoning_citations_;
};

}  // namespace

std::span<const ThinkTags> think_tags() { return kTags; }

const ThinkTags* find_think_tags(std::string_view name) {
  for (const ThinkTags& tags : kTags)
    if (tags.name == name) return &tags;
  return nullptr;
}

std::unique_ptr<AnswerStage> make_think_stage(const ThinkTags& tags, std::optional<bool> starts_open,
                                              AnswerOutput& next) {
  return std::make_unique<ThinkStage>(tags, starts_open, next);
}

}  // namespace pagoda::answer
