#include "hub/short_names.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr ShortName kNames[] = {
    {"smollm2", "1.7b", "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF:Q4_K_M"},
    {"smollm2", "360m", "HuggingFaceTB/SmolLM2-360M-Instruct-GGUF:Q8_0"},
    {"smollm2", "135m", "bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0"},
    {"smollm3", "3b", "ggml-org/SmolLM3-3B-GGUF:Q4_K_M"},
    {"qwen3", "8b", "Qwen/Qwen3-8B-GGUF:Q4_K_M"},
    {"qwen3", "0.6b", "Qwen/Qwen3-0.6B-GGUF:Q8_0"},
    {"qwen3", "1.7b", "Qwen/Qwen3-1.7B-GGUF:Q8_0"},
    {"qwen3", "4b", "Qwen/Qwen3-4B-GGUF:Q4_K_M"},
    {"qwen3", "14b", "Qwen/Qwen3-14B-GGUF:Q4_K_M"},
    {"qwen3", "32b", "Qwen/Qwen3-32B-GGUF:Q4_K_M"},
    {"qwen3", "30b-a3b", "Qwen/Qwen3-30B-A3B-GGUF:Q4_K_M"},
    {"qwen2.5", "7b", "bartowski/Qwen2.5-7B-Instruct-GGUF:Q4_K_M"},
    {"qwen2.5", "0.5b", "Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M"},
    {"qwen2.5-coder", "7b", "bartowski/Qwen2.5-Coder-7B-Instruct-GGUF:Q4_K_M"},
    {"llama3.2", "3b", "bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M"},
    {"llama3.2", "1b", "bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M"},
    {"llama3.1", "8b", "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M"},
    {"gemma3", "4b", "ggml-org/gemma-3-4b-it-GGUF:Q4_K_M"},
    {"gemma3", "270m", "ggml-org/gemma-3-270m-it-GGUF:Q8_0"},
    {"gemma3", "1b", "ggml-org/gemma-3-1b-it-GGUF:Q4_K_M"},
    {"gemma3", "12b", "ggml-org/gemma-3-12b-it-GGUF:Q4_K_M"},
    {"mistral", "7b", "bartowski/Mistral-7B-Instruct-v0.3-GGUF:Q4_K_M"},
    {"phi4-mini", "3.8b", "unsloth/Phi-4-mini-instruct-GGUF:Q4_K_M"},
    {"gpt-oss", "20b", "ggml-org/gpt-oss-20b-GGUF"},
    {"nomic-embed-text", "v1.5", "nomic-ai/nomic-embed-text-v1.5-GGUF:Q8_0"},
};

// With or without https://.
constexpr std::string_view kHosts[] = {"huggingface.co/", "www.huggingface.co/", "hf.co/"};

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

// "qwen3", "qwen3:8b", "qwen3:8b-q8_0"; empty if the table has no such name.
std::string from_table(const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string name = text.substr(0, colon);
  const std::string tag = lowered(text.substr(std::min(colon + 1, text.size())));
  for (const ShortName& row : kNames) {
    if (row.name != name) continue;
    if (tag.empty() || tag == "latest" || tag == row.size) return std::string(row.repository);
    // "8b-q8_0", or "8b-instruct-q8_0" as Ollama writes it.
    if (!tag.starts_with(concat(row.size, "-"))) continue;
    const std::string quant = tag.substr(tag.rfind('-') + 1);
    if (!quant.starts_with('q') && !quant.starts_with("iq") && !quant.ends_with("16")) continue;
    return concat(row.repository.substr(0, row.repository.find(':')), ":", upper(quant));
  }
  return {};
}

// "ORG/NAME/resolve/REV/FILE" and the like -> "ORG/NAME@REV:FILE".
std::string from_address(std::string_view path) {
  path = path.substr(0, path.find_first_of("?#"));
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::size_t org = path.find('/');
  const std::size_t name = org == path.npos ? path.npos : path.find('/', org + 1);
  if (name == path.npos) return std::string(path);
  const std::string_view repository = path.substr(0, name);
  std::string_view rest = path.substr(name + 1);
  const std::string_view kind = rest.substr(0, rest.find('/'));
  if (kind != "tree" && kind != "resolve" && kind != "blob") return std::string(path);
  rest.remove_prefix(std::min(kind.size() + 1, rest.size()));
  const std::string_view revision = rest.substr(0, rest.find('/'));
  rest.remove_prefix(std::min(revision.size() + 1, rest.size()));
  return concat(repository, revision.empty() || revision == "main" ? "" : concat("@", revision),
                rest.empty() || kind == "tree" ? "" : concat(":", rest));
}

}  // namespace

std::span<const ShortName> short_names() { return kNames; }

std::string full_name(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with("hf://")) return from_address(rest.substr(5));
  for (const std::string_view scheme : {"https://", "http://"})
    if (rest.starts_with(scheme)) rest.remove_prefix(scheme.size());
  for (const std::string_view host : kHosts)
    if (lowered(rest.substr(0, host.size())) == host) return from_address(rest.substr(host.size()));
  if (text.find('/') != text.npos) return std::string(text);
  std::string found = from_table(std::string(text));
  return found.empty() ? std::string(text) : found;
}

}  // namespace pagoda
