#include "api/tool_types.h"

#include <algorithm>

namespace pagoda {
namespace {

constexpr std::string_view kShell =
    R"({"type":"object","properties":{"command":{"type":"string","description":"The bash command to run."},
"restart":{"type":"boolean","description":"Restarts the shell instead of running a command."}}})";

constexpr std::string_view kEditor =
    R"({"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","undo_edit"]},
"path":{"type":"string","description":"Path of the file or directory."},
"file_text":{"type":"string","description":"For create: the content of the new file."},
"old_str":{"type":"string","description":"For str_replace: the text to replace, which must be unique in the file."},
"new_str":{"type":"string","description":"For str_replace: the replacement. For insert: the text to insert."},
"insert_text":{"type":"string","description":"For insert: the text to insert."},
"insert_line":{"type":"integer","description":"For insert: the line after which to insert; 0 for the beginning of the file."},
"view_range":{"type":"array","items":{"type":"integer"},"description":"For view: the first and the last line; -1 for the end of the file."}},
"required":["command","path"]})";

constexpr std::string_view kMemory =
    R"({"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},
"path":{"type":"string","description":"Path of the file or directory, under /memories."},
"file_text":{"type":"string","description":"For create: the content of the new file."},
"old_str":{"type":"string","description":"For str_replace: the text to replace."},
"new_str":{"type":"string","description":"For str_replace: the replacement."},
"insert_line":{"type":"integer","description":"For insert: the line after which to insert."},
"insert_text":{"type":"string","description":"For insert: the text to insert."},
"old_path":{"type":"string","description":"For rename: the path as it is."},
"new_path":{"type":"string","description":"For rename: the new path."},
"view_range":{"type":"array","items":{"type":"integer"},"description":"For view: the first and the last line."}},
"required":["command"]})";

using enum ToolForm;

// The first matching row applies.
constexpr ToolType kTypes[] = {
    {"function", function, function, function},
    {"custom", custom, custom, function},
    {"namespace", group, group, left_out},
    {"bash_code_execution*", left_out, left_out, left_out},
    {"bash_*", left_out, left_out, known, "Runs a command in a bash shell that stays open between calls.",
     kShell},
    {"text_editor_code_execution*", left_out, left_out, left_out},
    {"text_editor_*", left_out, left_out, known, "Views, creates and edits files.", kEditor},
    {"memory_*", left_out, left_out, known,
     "Stores and reads files in a directory that stays from one conversation to the next.", kMemory},
    {"web_search*", left_out, left_out, left_out},
    {"web_fetch*", left_out, left_out, left_out},
    {"file_search*", left_out, left_out, left_out},
    {"tool_search*", left_out, left_out, left_out},
    {"code_interpreter*", left_out, left_out, left_out},
    {"code_execution*", left_out, left_out, left_out},
    {"programmatic_tool_calling*", left_out, left_out, left_out},
    {"image_generation*", left_out, left_out, left_out},
    {"computer*", left_out, left_out, left_out},
    {"mcp*", left_out, left_out, left_out},
    {"local_shell", left_out, left_out, left_out},
    {"shell", left_out, left_out, left_out},
    {"apply_patch", left_out, left_out, left_out},
    {"advisor*", left_out, left_out, left_out},
    {"google_search*", left_out, left_out, left_out},
    {"url_context", left_out, left_out, left_out},
    {"x_search", left_out, left_out, left_out},
    {"retrieval", left_out, left_out, left_out},
    {"web_browser", left_out, left_out, left_out},
    {"builtin_function", left_out, left_out, left_out},
    {"openrouter:*", left_out, left_out, left_out},
};

bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  pattern.remove_suffix(1);
  return name.starts_with(pattern);
}

// True if the name ends in a date: "…_20251119".
bool has_date(std::string_view name) {
  constexpr std::size_t kDigits = 8;
  if (name.size() <= kDigits + 1) return false;
  const std::string_view date = name.substr(name.size() - kDigits);
  return name[name.size() - kDigits - 1] == '_' && date.starts_with("20") &&
         std::ranges::all_of(date, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

const ToolType* find_tool_type(std::string_view name) {
  // Anthropic's types end in a date. A type newer than this table is assumed to run on Anthropic's servers.
  static constexpr ToolType kDated{"*", left_out, left_out, left_out};
  for (const ToolType& type : kTypes)
    if (matches(type.name, name)) return &type;
  return has_date(name) ? &kDated : nullptr;
}

}  // namespace pagoda
