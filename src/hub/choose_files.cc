#include "hub/choose_files.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/ascii.h"
#include "base/strings.h"
#include "loader/mistral_folder.h"
#include "loader/model_files.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxListed = 40;
constexpr std::string_view kUsualTag = "Q4_K_M";  // the default, as in llama.cpp

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < kMaxListed; ++i) out += concat(i > 0 ? ", " : "", names[i]);
  if (names.size() > kMaxListed) out += concat(" and ", names.size() - kMaxListed, " more");
  return out.empty() ? "nothing" : out;
}

// "NAME-00002-of-00003.gguf": the model's name and the number of parts; 0 for an unsplit file.
struct Part {
  std::string model;
  int count = 0;
};

Part part_of(const std::string& file) {
  constexpr std::size_t kTail = std::string_view("-00002-of-00003.gguf").size();
  if (file.size() <= kTail) return {file, 0};
  const std::string_view tail = std::string_view(file).substr(file.size() - kTail);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return {file, 0};
  int number = 0, count = 0;
  const auto read = [](std::string_view digits, int& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  if (!read(tail.substr(1, 5), number) || !read(tail.substr(10, 5), count) || count < 1) return {file, 0};
  return {file.substr(0, file.size() - kTail), count};
}

using Models = std::map<std::string, std::vector<std::string>>;

Models by_model(const std::vector<std::string>& files) {
  Models models;
  for (const std::string& file : files) models[part_of(file).model].push_back(file);
  return models;
}

Result<std::vector<std::string>> whole(std::vector<std::string> parts) {
  const int count = part_of(parts.front()).count;
  if (count > 0 && parts.size() != static_cast<std::size_t>(count))
    return invalid_argument(
        concat("a split model has ", parts.size(), " of its ", count, " parts: ", listed(parts)));
  return parts;
}

// Files that are used along with safetensors.
bool is_companion(std::string_view name) {
  for (const std::string_view end : {".json", ".jinja", ".txt", ".model", ".tiktoken"})
    if (name.ends_with(end)) return true;
  return false;
}

// Additional chat templates: "additional_chat_templates/tool_use.jinja".
bool is_chat_template(std::string_view file) {
  constexpr std::string_view kFolder = "additional_chat_templates/";
  return file.starts_with(kFolder) && file.find('/', kFolder.size()) == file.npos && file.ends_with(".jinja");
}

// A file of a sentence-transformers module listed in modules.json: "1_Pooling/config.json".
bool is_of_module(std::string_view file) {
  const std::size_t slash = file.find('/');
  if (slash == file.npos || file.find('_') > slash || file[0] < '0' || file[0] > '9') return false;
  const std::string_view name = file.substr(slash + 1);
  return name == "config.json" || name == "model.safetensors";
}

// "MODEL-imatrix.gguf" is not a model; "MODEL-imatrix-Q4_K_M.gguf" is one.
bool is_importance_matrix_name(std::string_view name) {
  return lowered(name).find("imatrix") != std::string::npos && tag_of(name) == name;
}

// A projector is omitted unless explicitly requested.
Result<std::vector<std::string>> choose_projector(const std::vector<std::string>& projectors,
                                                  std::string_view tag, const std::vector<std::string>& all) {
  std::vector<std::string> fitting;
  for (const std::string& file : projectors)
    if (file == tag || lowered(base_name(file)).find(lowered(tag)) != file.npos) fitting.push_back(file);
  if (fitting.size() == 1) return fitting;
  if (fitting.empty()) return not_found(concat("no GGUF file for ':", tag, "'; available: ", listed(all)));
  return not_found(concat("':", tag, "' matches several files; name one: ", listed(fitting)));
}

}  // namespace

bool safe_file_name(std::string_view name) {
  if (name.empty() || name.size() > 1024) return false;
  for (const char c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\') return false;
  for (;;) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
    if (slash == name.npos) return true;
    name.remove_prefix(slash + 1);
  }
}

bool has_tag(std::string_view file, std::string_view tag) {
  if (tag.empty()) return false;
  const std::string text = lowered(file), word = lowered(tag);
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if (at > 0 && is_word(text[at - 1])) continue;
    if (end < text.size() && (is_word(text[end]) || text[end] == '_')) continue;
    return true;
  }
  return false;
}

std::string tag_of(std::string_view file) {
  std::string name = part_of(std::string(file)).model;
  std::string_view stem = base_name(name);
  if (stem.ends_with(".gguf")) stem.remove_suffix(5);
  std::string found;
  for (std::string_view rest = stem; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find_first_of(".-"));
    const std::string small = lowered(word);
    const std::string_view number = std::string_view(small).substr(small.starts_with("iq") ? 2 : 1);
    const bool quantised = (small.starts_with('q') || small.starts_with("iq") || small.starts_with("tq")) &&
                           number.size() > 1 && number.find('_') == 1 + (small.starts_with("tq") ? 1u : 0u);
    if (quantised || small == "bf16" || small == "f16" || small == "f32" || small.starts_with("mxfp4"))
      found = word;
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  return found.empty() ? name : found;
}

Result<std::vector<std::string>> choose_files(const std::vector<std::string>& all, std::string_view tag) {
  std::vector<std::string> gguf, projectors, safetensors, mistral, companions, of_modules;
  bool config = false, params = false, pickles = false;
  for (const std::string& file : all) {
    if (!safe_file_name(file))
      return invalid_argument("the hub names a file that would lie outside of its folder");
    const std::string_view name = base_name(file);
    const bool top = file.find('/') == file.npos;
    if (name.ends_with(".gguf")) {
      if (is_importance_matrix_name(name) && file != tag) continue;
      (is_projector_name(name) ? projectors : gguf).push_back(file);
    } else if (top && name.ends_with(".safetensors")) {
      if (name.starts_with("consolidated"))
        mistral.push_back(file);
      else if (!name.starts_with("adapter"))
        safetensors.push_back(file);
    } else if ((top && is_companion(name)) || is_chat_template(file)) {
      companions.push_back(file);
      config = config || name == "config.json";
      params = params || name == kMistralConfig;
    } else if (is_of_module(file)) {
      of_modules.push_back(file);
    }
    pickles = pickles || name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth");
  }
  if (lowered(tag).find("mmproj") != tag.npos) return choose_projector(projectors, tag, all);
  std::ranges::sort(gguf);
  if (tag.empty() && config && !safetensors.empty()) {
    // If the unsplit model exists, its parts are not fetched too.
    if (std::ranges::find(safetensors, "model.safetensors") != safetensors.end())
      safetensors = {"model.safetensors"};
    safetensors.insert(safetensors.end(), companions.begin(), companions.end());
    if (std::ranges::find(companions, "modules.json") != companions.end())
      safetensors.insert(safetensors.end(), of_modules.begin(), of_modules.end());
    return safetensors;
  }
  if (tag.empty() && params && !mistral.empty()) {
    mistral.insert(mistral.end(), companions.begin(), companions.end());
    return mistral;
  }
  Models models = by_model(gguf);
  if (tag.empty() && models.size() == 1) return whole(models.begin()->second);
  std::vector<std::string> fitting;
  for (const std::string& file : gguf)
    if (file == tag || has_tag(file, tag.empty() ? kUsualTag : tag)) fitting.push_back(file);
  const Models chosen = by_model(fitting);
  if (chosen.size() == 1) return whole(chosen.begin()->second);
  if (gguf.empty() && !tag.empty())
    return not_found(concat("no GGUF file for ':", tag, "'; available: ", listed(all)));
  if (gguf.empty())
    return not_found(concat(pickles ? "only pickled weights (.bin, .pt), which are not supported"
                                    : "no safetensors or GGUF weights",
                            "; available: ", listed(all)));
  std::vector<std::string> names;
  for (const auto& [name, parts] : chosen.empty() ? models : chosen) names.push_back(name);
  if (!chosen.empty())
    return not_found(concat("':", tag, "' matches several models; name one: ", listed(names)));
  return not_found(concat(
      tag.empty() ? "there are several GGUF models; name one by its tag" : concat("none with ':", tag, "'"),
      "; available: ", listed(names)));
}

}  // namespace pagoda
