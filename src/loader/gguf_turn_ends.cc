#include "loader/gguf_turn_ends.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_set>

namespace pagoda {
namespace {

constexpr std::int64_t kControlType = 3;  // value of tokenizer.ggml.token_type
constexpr std::string_view kStrikeThrough = "</s>";

const std::unordered_set<std::string_view>& turn_end_names() {
  static const std::unordered_set<std::string_view> names = {
      "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
      "<end_of_turn>", "<|endoftext|>", kStrikeThrough, "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
      "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
      "<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
      "[e~[",
      // Code models end infilled code with padding, or with the next file or repository.
      "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>",
      "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>"};
  return names;
}

}  // namespace

std::vector<std::int32_t> gguf_turn_ends(const GgufFile& file) {
  std::vector<std::int32_t> ends;
  const GgufArray* tokens = file.array("tokenizer.ggml.tokens");
  if (tokens == nullptr) return ends;
  const GgufArray* types = file.array("tokenizer.ggml.token_type");
  const auto is_control = [&](std::size_t id) {
    return types != nullptr && id < types->integers.size() && types->integers[id] == kControlType;
  };
  const std::unordered_set<std::string_view>& names = turn_end_names();
  const std::size_t longest =
      std::ranges::max_element(names, {}, [](std::string_view name) { return name.size(); })->size();
  std::unordered_set<std::string_view> found;
  const std::size_t count =
      std::min<std::size_t>(tokens->strings.size(), std::numeric_limits<std::int32_t>::max());
  for (std::size_t id = 0; id < count; ++id) {
    const std::string_view token = tokens->strings[id];
    if (token.size() > longest || !names.contains(token)) continue;
    // HTML's tag is an ordinary token in many vocabularies.
    if (token == kStrikeThrough && !is_control(id)) continue;
    if (found.insert(token).second) ends.push_back(static_cast<std::int32_t>(id));
  }
  const auto drop = [&](std::string_view name) {
    std::erase_if(ends,
                  [&](std::int32_t id) { return tokens->strings[static_cast<std::size_t>(id)] == name; });
  };
  // Harmony and Solar end messages with <|end|>, but turns with the other tokens.
  const bool calls = found.contains("<|call|>") || found.contains("<|calls|>");
  if (calls && (found.contains("<|return|>") || found.contains("<|flush|>"))) drop("<|end|>");
  // Gemma 4 writes HTML.
  if (found.contains("<|tool_response>")) drop(kStrikeThrough);
  return ends;
}

}  // namespace pagoda
