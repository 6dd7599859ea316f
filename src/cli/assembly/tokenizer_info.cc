#include "cli/assembly/tokenizer_info.h"

#include <boost/json.hpp>
#include <filesystem>

#include "loader/json_object.h"
#include "loader/mapped_file.h"

namespace pagoda {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

json::object parsed(const std::string& text) {
  Result<json::object> object = parse_json_object(text, "tokenizer_config.json");
  return object ? *std::move(object) : json::object();
}

// Reads tokenizer_config.json beside the tokenizer.
json::object config_of(const ModelSource& source, const std::string& tokenizer_file) {
  constexpr const char* kName = "tokenizer_config.json";
  if (tokenizer_file.empty()) return parsed(source.side_file(kName).value_or(""));
  const fs::path path(tokenizer_file);
  std::error_code error;
  const auto text =
      read_text_file(((fs::is_directory(path, error) ? path : path.parent_path()) / kName).string());
  return text ? parsed(*text) : json::object();
}

// The transformers class for a tokenizer type of llama.cpp.
std::string_view class_of(const std::string& gguf_model) {
  if (gguf_model == "gpt2") return "GPT2TokenizerFast";
  if (gguf_model == "llama") return "LlamaTokenizerFast";
  return gguf_model == "bert" ? "BertTokenizerFast" : "PreTrainedTokenizerFast";
}

}  // namespace

std::string tokenizer_info(const ModelSource& source, const std::string& tokenizer_file,
                           const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                           std::int32_t max_model_len) {
  json::object info = config_of(source, tokenizer_file);
  info.erase("vocab_file");
  info.erase("merges_file");
  const auto name = [&](const char* key, TokenId id) {
    if (id >= 0 && !info.contains(key)) info[key] = tokenizer.token_string(id);
  };
  name("bos_token", tokenizer.bos());
  name("eos_token", tokenizer.eos());
  name("pad_token", tokenizer.eos());
  if (info.if_contains("tokenizer_class") == nullptr || !info["tokenizer_class"].is_string()) {
    const std::string* model =
        source.gguf() != nullptr ? source.gguf()->string("tokenizer.ggml.model") : nullptr;
    info["tokenizer_class"] = class_of(model != nullptr ? *model : "");
  }
  if (!info.contains("model_max_length")) info["model_max_length"] = max_model_len;
  info["vocab_size"] = tokenizer.vocab_size();
  if (chat_template != nullptr) info["chat_template"] = chat_template->source();
  return json::serialize(info);
}

}  // namespace pagoda
