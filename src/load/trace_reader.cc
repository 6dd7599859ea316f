#include "load/trace_reader.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/strings.h"
#include "load/text_source.h"
#include "load/trace_forms.h"

namespace pagoda {
namespace {

constexpr std::size_t kDetectBytes = 4096;

// Detects the form from the first bytes; `detect` if the form is unknown.
TraceForm detect(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return TraceForm::jsonl;  // empty: no requests
  text.remove_prefix(first);
  if (text.starts_with("TIMESTAMP")) return TraceForm::azure;
  if (text.starts_with("[")) return TraceForm::sharegpt;
  if (!text.starts_with("{")) return TraceForm::detect;
  const auto has = [&](std::string_view name) { return text.find(name) != std::string_view::npos; };
  if (has("\"prompt_tokens\"")) return TraceForm::jsonl;
  if (has("\"input_length\"")) return TraceForm::mooncake;
  if (has("\"conversations\"") || has("\"conversation\"")) return TraceForm::sharegpt;
  if (has("\"prompt\"")) return TraceForm::custom;
  return TraceForm::jsonl;  // its reader names the missing field
}

}  // namespace

Result<TraceForm> parse_trace_form(std::string_view name) {
  static const std::map<std::string_view, TraceForm> kForms = {
      {"detect", TraceForm::detect},     {"jsonl", TraceForm::jsonl}, {"custom", TraceForm::custom},
      {"sharegpt", TraceForm::sharegpt}, {"azure", TraceForm::azure}, {"mooncake", TraceForm::mooncake}};
  const auto found = kForms.find(name);
  if (found != kForms.end()) return found->second;
  return invalid_argument(
      concat("'", name,
             "' is not a trace format; the formats are detect, jsonl, custom, sharegpt, azure, mooncake"));
}

std::int64_t approximate_tokens(std::string_view text) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>((text.size() + 3) / 4));
}

Result<std::unique_ptr<Workload>> read_trace(std::unique_ptr<std::istream> stream, std::string name,
                                             const TraceOptions& options) {
  TextSource source(std::move(stream), name);
  if (source.peek(3).starts_with("\xEF\xBB\xBF"))
    for (int i = 0; i < 3; ++i) source.get();
  TraceForm form = options.form;
  if (form == TraceForm::detect) form = detect(source.peek(kDetectBytes));
  if (options.max_rounds > 1 && form != TraceForm::sharegpt)
    return invalid_argument(concat(name, ": rounds: only ShareGPT's format has conversations"));
  switch (form) {
    case TraceForm::jsonl:
    case TraceForm::custom:
    case TraceForm::mooncake:
      return make_jsonl_trace(std::move(source), options, form);
    case TraceForm::sharegpt:
      return make_sharegpt_trace(std::move(source), options);
    case TraceForm::azure:
      return make_azure_trace(std::move(source));
    case TraceForm::detect:
      break;
  }
  return corrupt_data(
      concat(name, ":1: unknown trace format (known: JSON Lines, ShareGPT's array, Azure's CSV)"));
}

Result<std::unique_ptr<Workload>> open_trace(const std::string& path, const TraceOptions& options) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return not_found(concat(path, ": is a folder, not a trace file"));
  auto stream = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*stream) return not_found(concat("cannot read ", path, ": ", std::strerror(errno)));
  return read_trace(std::move(stream), path, options);
}

}  // namespace pagoda
