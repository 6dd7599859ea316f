#include "cli/assembly/load_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>

#include "base/assign_or_return.h"
#include "base/log.h"
#include "base/strings.h"
#include "loader/gguf_turn_ends.h"
#include "loader/json_object.h"
#include "loader/mapped_file.h"
#include "loader/model_files.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;
constexpr std::int32_t kNormalToken = 1, kControlToken = 3;  // values of tokenizer.ggml.token_type
using Made = Result<std::unique_ptr<Tokenizer>>;

Made named(Made made, const std::string& path) {
  if (!made) return made.error().annotate(path);
  return made;
}

std::string_view view(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

using TextOf = std::function<std::optional<std::string>(std::string_view name)>;

// The texts of the files beside a vocabulary file.
class SideTexts {
 public:
  explicit SideTexts(const TextOf& text_of)
      : config_(text_of("tokenizer_config.json").value_or("")),
        special_tokens_map_(text_of("special_tokens_map.json").value_or("")),
        added_tokens_(text_of("added_tokens.json").value_or("")) {}
  TokenizerSideFiles files() const {
    return {.config = config_, .special_tokens_map = special_tokens_map_, .added_tokens = added_tokens_};
  }

 private:
  const std::string config_, special_tokens_map_, added_tokens_;
};

// Returns model_type of config.json; empty if it has none.
std::string model_type(const TextOf& text_of) {
  const auto config = parse_json_object(text_of("config.json").value_or("{}"), "config.json");
  if (!config) return {};  // reported when the model is read
  const boost::json::value* type = config->if_contains("model_type");
  return type != nullptr && type->is_string() ? std::string(type->get_string()) : std::string();
}

// Returns the tokenizer of a folder whose files `text_of` returns; not_found if there is none.
Made from_folder(const std::string& path, const TextOf& text_of) {
  const SideTexts texts(text_of);
  const TokenizerSideFiles files = texts.files();
  if (const auto json = text_of("tokenizer.json"))
    return named(Tokenizer::from_json(*json, files), path + "/tokenizer.json");
  if (const auto tekken = text_of("tekken.json"))
    return named(Tokenizer::from_tekken(*tekken), path + "/tekken.json");
  if (const auto model = text_of("tokenizer.model"); model && !Tokenizer::is_rank_list(*model))
    return named(Tokenizer::from_sentencepiece(*model, files), path + "/tokenizer.model");
  for (const std::string_view name : Tokenizer::tiktoken_files())
    if (const auto ranks = text_of(name)) return named(Tokenizer::from_tiktoken(name, *ranks, files), path);
  const auto vocab = text_of("vocab.json"), merges = text_of("merges.txt");
  if (vocab && merges)
    return named(Tokenizer::from_vocab_and_merges(*vocab, *merges, files, model_type(text_of)), path);
  return not_found(concat(path,
                          ": no tokenizer.json, tekken.json, tokenizer.model, tiktoken file, or vocab.json "
                          "with merges.txt"));
}

std::optional<std::string> read_if_there(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  Result<std::shared_ptr<MappedFile>> file = MappedFile::open(path.string());
  if (!file) return std::nullopt;
  return std::string(view(**file));
}

TokenId token_id(const GgufFile& file, std::string_view key) {
  const auto value = file.integer(key);
  return value && *value >= 0 && *value <= std::numeric_limits<TokenId>::max() ? static_cast<TokenId>(*value)
                                                                               : -1;
}

}  // namespace

Made load_tokenizer(const GgufFile& file) {
  GgufVocabulary vocabulary;
  const auto text = [&](std::string_view key) {
    const std::string* value = file.string(key);
    return value ? *value : std::string();
  };
  vocabulary.model = text("tokenizer.ggml.model");
  vocabulary.pre = text("tokenizer.ggml.pre");
  if (vocabulary.model.empty())
    return not_found("the GGUF file has no tokenizer (tokenizer.ggml.model): give one with --tokenizer");
  if (const GgufArray* tokens = file.array("tokenizer.ggml.tokens")) vocabulary.tokens = tokens->strings;
  const bool is_bpe = vocabulary.model == "gpt2" || vocabulary.model == "gemma4";
  if (const GgufArray* merges = file.array("tokenizer.ggml.merges"))
    vocabulary.merges = merges->strings;
  else if (is_bpe)
    return corrupt_data(
        "the GGUF file has no tokenizer.ggml.merges, which its tokenizer needs: convert the model again");
  if (vocabulary.model == "gpt2" && vocabulary.pre.empty())
    log_warning("tokenizer",
                "the GGUF file has no tokenizer.ggml.pre: text is split by the rule 'default', and answers "
                "are worse if "
                "the model was trained with another one; convert the model again with a current converter");
  if (const GgufArray* scores = file.array("tokenizer.ggml.scores")) {
    vocabulary.scores.assign(scores->floats.begin(), scores->floats.end());
    for (const std::int64_t score : scores->integers) vocabulary.scores.push_back(static_cast<float>(score));
  }
  if (const GgufArray* types = file.array("tokenizer.ggml.token_type")) {
    vocabulary.types.reserve(types->integers.size());
    for (const std::int64_t type : types->integers)
      vocabulary.types.push_back(type >= 0 && type <= 100 ? static_cast<std::int32_t>(type) : 0);
  }
  // End-of-turn tokens are control tokens, even if an old converter marked them otherwise.
  for (const std::int32_t end : gguf_turn_ends(file)) {
    const auto at = static_cast<std::size_t>(end);
    if (vocabulary.types.size() <= at) vocabulary.types.resize(at + 1, kNormalToken);
    vocabulary.types[at] = kControlToken;
  }
  const std::string architecture = text("general.architecture");
  vocabulary.strips_behind_special =
      vocabulary.model == "llama" && (architecture == "phi3" || architecture == "phimoe");
  vocabulary.bos = token_id(file, "tokenizer.ggml.bos_token_id");
  vocabulary.eos = token_id(file, "tokenizer.ggml.eos_token_id");
  vocabulary.unk = token_id(file, "tokenizer.ggml.unknown_token_id");
  vocabulary.sep = token_id(file, "tokenizer.ggml.seperator_token_id");  // the misspelling is part of the key
  vocabulary.cls = token_id(file, "tokenizer.ggml.cls_token_id");
  vocabulary.add_bos = file.boolean("tokenizer.ggml.add_bos_token");
  vocabulary.add_eos = file.boolean("tokenizer.ggml.add_eos_token");
  vocabulary.add_space_prefix = file.boolean("tokenizer.ggml.add_space_prefix");
  vocabulary.remove_extra_whitespaces =
      file.boolean("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
  if (const GgufArray* map = file.array("tokenizer.ggml.precompiled_charsmap"))
    for (const std::int64_t byte : map->integers) vocabulary.charsmap.push_back(static_cast<char>(byte));
  return Tokenizer::from_gguf(vocabulary);
}

Made load_tokenizer(const ModelSource& model) {
  if (model.gguf()) return named(load_tokenizer(*model.gguf()), model.path());
  return from_folder(model.path(), [&](std::string_view name) { return model.side_file(name); });
}

Made load_tokenizer(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    Made made =
        from_folder(path, [&](std::string_view name) { return read_if_there(fs::path(path) / name); });
    if (made || made.error().code() != StatusCode::not_found) return made;
    std::vector<std::string> files;
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
      if (it->path().extension() == ".gguf" && !is_projector_name(it->path().filename().string()))
        files.push_back(it->path().string());
    return files.size() == 1 ? load_tokenizer(files[0]) : std::move(made);
  }
  PAGODA_ASSIGN_OR_RETURN(std::shared_ptr<MappedFile> file, MappedFile::open(path));
  const std::string_view bytes = view(*file);
  if (bytes.starts_with("GGUF")) {
    PAGODA_ASSIGN_OR_RETURN(GgufFile gguf, GgufFile::open(path));
    return named(load_tokenizer(gguf), path);
  }
  const TextOf beside = [&](std::string_view name) {
    return read_if_there(fs::path(path).parent_path() / name);
  };
  const std::string name = fs::path(path).filename().string();
  if (name.starts_with("tekken") && name.ends_with(".json"))
    return named(Tokenizer::from_tekken(bytes), path);
  if (Tokenizer::is_rank_list(bytes)) {
    const SideTexts texts(beside);
    return named(Tokenizer::from_tiktoken(name, bytes, texts.files()), path);
  }
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && bytes[first] == '{') {
    const SideTexts texts(beside);
    return named(Tokenizer::from_json(bytes, texts.files()), path);
  }
  const SideTexts texts(beside);
  return named(Tokenizer::from_sentencepiece(bytes, texts.files()), path);
}

}  // namespace pagoda
