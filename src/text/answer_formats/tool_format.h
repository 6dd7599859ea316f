#pragma once
// ToolFormat: a row of the table of tool formats (registry.cc), and helpers shared by their stages.
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "text/answer_formats/answer_stage.h"
#include "text/answer_formats/tool_types.h"

namespace pagoda::answer {

// A tool-call stage's view of the pipeline; everything in it outlives the stage.
struct ToolContext {
  const ToolTypes& tools;
  AnswerOutput& out;
  bool held = false;  // a grammar constrains the calls
};

using Markers = std::vector<std::string_view>;

struct ToolFormat {
  std::string_view name;  // vLLM's name for --tool-call-parser
  std::unique_ptr<AnswerStage> (*make)(const ToolContext& context, std::string_view name);
  // Strings that occur in the source of chat templates for this format; a template must contain all of them.
  // Rows are tried in table order. Empty: `auto` never chooses this format.
  std::vector<std::string_view> template_signs = {};
};

// The families, each in its own file.
std::vector<ToolFormat> json_block_formats();   // JSON between markers, or bare
std::vector<ToolFormat> header_call_formats();  // name, separator, JSON: DeepSeek V3, Kimi K2
std::vector<ToolFormat> python_call_formats();  // f(a=1)
std::vector<ToolFormat> tag_call_formats();     // markup around each argument

ToolFormat mistral_format();

// Formats whose messages declare their own kind, reasoning included: a single stage parses both. Selected by
// either flag.
struct MessageFormat {
  std::string_view tool_parser;
  std::vector<std::string_view> reasoning_parsers;
  std::unique_ptr<AnswerStage> (*make)(const ToolContext& context, bool tools_wanted, bool reasoning_wanted,
                                       std::optional<bool> starts_in_reasoning);
  std::vector<std::string_view> template_signs = {};
};
MessageFormat harmony_format();       // gpt-oss
MessageFormat muse_glimmer_format();  // Muse Glimmer
MessageFormat inkling_format();       // Inkling

// Policy for content after a stage's calls: most models write none, and vLLM drops it if they do.
class ContentPolicy {
 public:
  ContentPolicy(AnswerOutput& out, bool keep_after_calls) : out_(out), keep_(keep_after_calls) {}
  void text(std::string_view text) {
    if (!called_ || keep_) out_.content(text);
  }
  // Malformed text is never dropped, nor is the text after it, which may belong to it.
  void malformed(std::string_view text) {
    keep_ = true;
    out_.content(text);
  }
  void call(const WrittenCall& call) {
    called_ = true;
    out_.call(call);
  }

 private:
  AnswerOutput& out_;
  bool keep_;
  bool called_ = false;
};

inline bool contains(const Markers& markers, std::string_view marker) {
  for (const std::string_view one : markers)
    if (one == marker) return true;
  return false;
}
inline bool any_holds(const Markers& markers, std::string_view token) {
  for (const std::string_view one : markers)
    if (one.find(token) != std::string_view::npos) return true;
  return false;
}

// A find() that caches its result: the next `needle` at or after `from`, for ascending `from`. Keeps a scan
// for either of two needles linear, even if one never occurs.
class NextFinder {
 public:
  NextFinder(std::string_view text, std::string_view needle) : text_(text), needle_(needle) {}
  std::size_t from(std::size_t at) {
    if (!looked_ || (found_ != std::string_view::npos && found_ < at)) found_ = text_.find(needle_, at);
    looked_ = true;
    return found_;
  }

 private:
  std::string_view text_, needle_;
  std::size_t found_ = 0;
  bool looked_ = false;
};

}  // namespace pagoda::answer
