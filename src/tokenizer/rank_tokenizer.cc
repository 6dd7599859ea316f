// Tokenizer::from_tekken and from_tiktoken: byte-level BPE whose file lists tokens by rank and no merges; the
// pairs to merge follow from the tokens. Source: mistral_common's tekken.py; OpenAI's tiktoken; the
// tokenization_*.py of the models that ship its files.
#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <map>

#include "base/assign_or_return.h"
#include "base/base64.h"
#include "base/json_cursor.h"
#include "base/strings.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/decode_steps.h"
#include "tokenizer/gguf_pre_tokenizers.h"
#include "tokenizer/side_files.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// Control tokens of Mistral's older files; later files list them.
constexpr std::array<std::string_view, 20> kTekkenSpecial = {"<unk>",
                                                             "<s>",
                                                             "</s>",
                                                             "[INST]",
                                                             "[/INST]",
                                                             "[AVAILABLE_TOOLS]",
                                                             "[/AVAILABLE_TOOLS]",
                                                             "[TOOL_RESULTS]",
                                                             "[/TOOL_RESULTS]",
                                                             "[TOOL_CALLS]",
                                                             "[IMG]",
                                                             "<pad>",
                                                             "[IMG_BREAK]",
                                                             "[IMG_END]",
                                                             "[PREFIX]",
                                                             "[MIDDLE]",
                                                             "[SUFFIX]",
                                                             "[SYSTEM_PROMPT]",
                                                             "[/SYSTEM_PROMPT]",
                                                             "[TOOL_CONTENT]"};
constexpr std::int64_t kMaxSpecial = 1 << 16;
constexpr std::size_t kMaxTokenBytes = 512;  // bounds the work: every split of a token into two is tried

Status add_token(Vocabulary& vocabulary, std::string_view base64, std::int64_t id, std::string_view file) {
  const std::optional<std::string> bytes = decode_base64(base64);
  if (!bytes || bytes->empty() || bytes->size() > kMaxTokenBytes || id < 0 || id > Vocabulary::kMaxId)
    return corrupt_data(concat(file, ": token ", id, " is malformed"));
  std::string spelled;
  append_byte_level(spelled, *bytes);
  if (vocabulary.find(spelled)) return corrupt_data(concat(file, ": token ", id, " appears twice"));
  if (!vocabulary.add(spelled, static_cast<TokenId>(id))) return corrupt_data(concat(file, " is too large"));
  return ok_status();
}

// A control token is identified by its id: an ordinary token may have the same spelling.
void add_special(TokenizerParts& parts, TokenId id, std::string content) {
  AddedToken token{.id = id, .content = content, .special = true};
  token.normalized_content = std::move(content);
  parts.added.add(std::move(token));
}

std::unique_ptr<Tokenizer> finish(TokenizerParts parts) {
  parts.model = make_ranked_bpe(*parts.vocabulary, {.byte_level = true, .ignore_merges = true});
  std::vector<DecodeStepMakerPtr> steps;
  steps.push_back(make_byte_level_decoder());
  parts.decoder = Decoder(std::move(steps));
  parts.bytes = TokenizerParts::Bytes::byte_level;
  parts.added.build();
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

Status wrong_ranks(std::string_view what) { return corrupt_data(concat("tekken.json: ", what)); }

struct TekkenFile {
  std::string pattern;
  std::int64_t size = 0, num_special = 0;
  std::string_view vocab;
  std::vector<std::string> special;
};

Result<TekkenFile> read_tekken(std::string_view text) {
  TekkenFile file;
  std::string_view config_text, special_text;
  JsonCursor cursor(text);
  Status status = cursor.read_object([&](const std::string& key) {
    if (key == "vocab") return cursor.raw_value(file.vocab);
    if (key == "config") return cursor.raw_value(config_text);
    return key == "special_tokens" ? cursor.raw_value(special_text) : cursor.skip_value();
  });
  if (status.ok()) status = cursor.expect_end();
  if (!status.ok()) return status.annotate("tekken.json");
  boost::system::error_code error;
  const json::value config = json::parse(config_text, error);
  if (error || !config.is_object() || file.vocab.empty()) return wrong_ranks("it has no config and vocab");
  const auto integer = [&](std::string_view key) {
    const json::value* value = config.get_object().if_contains(key);
    return value != nullptr && value->is_int64() ? value->get_int64() : -1;
  };
  const json::value* pattern = config.get_object().if_contains("pattern");
  if (pattern == nullptr || !pattern->is_string()) return wrong_ranks("config has no pattern");
  file.pattern = std::string(pattern->get_string());
  file.size = integer("default_vocab_size");
  file.num_special = integer("default_num_special_tokens");
  if (file.num_special < 0 || file.num_special > kMaxSpecial || file.size <= file.num_special ||
      file.size > Vocabulary::kMaxId)
    return wrong_ranks("config has no usable default_vocab_size and default_num_special_tokens");
  file.special.resize(static_cast<std::size_t>(file.num_special));
  for (std::size_t i = 0; i < file.special.size(); ++i) file.special[i] = concat("<SPECIAL_", i, ">");
  if (special_text.empty() || special_text == "null") {
    std::copy_n(kTekkenSpecial.begin(), std::min(kTekkenSpecial.size(), file.special.size()),
                file.special.begin());
    return file;
  }
  const json::value list = json::parse(special_text, error);
  if (error || !list.is_array()) return wrong_ranks("special_tokens is not a list");
  for (const json::value& one : list.get_array()) {
    const json::value* rank = one.is_object() ? one.get_object().if_contains("rank") : nullptr;
    const json::value* spelling = one.is_object() ? one.get_object().if_contains("token_str") : nullptr;
    if (rank == nullptr || spelling == nullptr || !rank->is_int64() || !spelling->is_string() ||
        rank->get_int64() < 0 || rank->get_int64() >= file.num_special)
      return wrong_ranks("a special token has no usable rank and token_str");
    file.special[static_cast<std::size_t>(rank->get_int64())] = std::string(spelling->get_string());
  }
  return file;
}

Status read_tekken_vocab(const TekkenFile& file, Vocabulary& vocabulary) {
  vocabulary.reserve(static_cast<std::size_t>(file.size), file.vocab.size() / 8);
  JsonCursor cursor(file.vocab);
  std::string bytes;
  return cursor.read_array([&]() {
    std::int64_t rank = -1;
    bytes.clear();
    PAGODA_RETURN_IF_ERROR(cursor.read_object([&](const std::string& key) {
      if (key == "rank") return cursor.read_integer(rank);
      return key == "token_bytes" ? cursor.read_string(bytes) : cursor.skip_value();
    }));
    if (rank < 0) return wrong_ranks("a token has no rank");
    if (rank >= file.size - file.num_special) return ok_status();  // beyond the model's vocabulary
    return add_token(vocabulary, bytes, rank + file.num_special, "tekken.json");
  });
}

// "base64 rank" lines.
Status read_ranks(std::string_view text, std::string_view file, Vocabulary& vocabulary) {
  vocabulary.reserve(text.size() / 16, text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::size_t space = line.find(' ');
    std::int64_t rank = -1;
    const std::string_view number = space == line.npos ? std::string_view() : line.substr(space + 1);
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), rank);
    if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size())
      return corrupt_data(concat(file, ": a line is not a token and its rank"));
    PAGODA_RETURN_IF_ERROR(add_token(vocabulary, line.substr(0, space), rank, file));
  }
  return vocabulary.num_tokens() > 0 ? ok_status() : corrupt_data(concat(file, " has no tokens"));
}

// The model families that ship such a file: the pre-tokenizer, by its name in GGUF files, and the control
// tokens that follow the ordinary ones, `num_special` in total.
struct TiktokenFamily {
  std::string_view file;
  std::string_view pre;
  std::vector<std::string_view> special;
  std::string_view reserved;  // name of unnamed control tokens, with N for their number
  int first_reserved = 0;
  std::size_t num_special = 0;
  bool reserved_by_id = false;
  std::string_view bos, eos;
  bool add_bos = false;
};

const std::vector<TiktokenFamily>& tiktoken_families() {
  static const std::vector<TiktokenFamily> all = {
      {"qwen.tiktoken",
       "qwen2",
       {"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
       "<|extra_N|>",
       0,
       208,
       false,
       "",
       "<|endoftext|>"},
      {"tiktoken.model", "kimi-k2", {}, "<|reserved_token_N|>", 0, 256, true, "[BOS]", "[EOS]"},
      {"tokenizer.model",
       "llama-bpe",
       {"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
        "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>",
        "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>", "<|image|>"},
       "<|reserved_special_token_N|>",
       2,
       256,
       false,
       "<|begin_of_text|>",
       "<|end_of_text|>",
       true}};
  return all;
}

std::string reserved_name(std::string_view form, std::int64_t number) {
  const std::size_t at = form.find('N');
  return concat(form.substr(0, at), number, form.substr(at + 1));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_tekken(std::string_view text) {
  PAGODA_ASSIGN_OR_RETURN(TekkenFile file, read_tekken(text));
  TokenizerParts parts;
  parts.vocabulary = std::make_unique<Vocabulary>();
  if (Status status = read_tekken_vocab(file, *parts.vocabulary); !status.ok())
    return status.annotate("tekken.json");
  if (PreTokenizerPtr known = make_known_split(file.pattern)) {
    parts.pre_tokenizer = std::move(known);
  } else {
    Result<Regex> regex = Regex::compile(file.pattern);
    if (!regex) return regex.error().annotate("tekken.json");
    parts.pre_tokenizer = make_split(*std::move(regex), SplitBehavior::isolated, false);
  }
  for (std::size_t i = 0; i < file.special.size(); ++i)
    add_special(parts, static_cast<TokenId>(i), file.special[i]);
  const auto id_of = [&](std::string_view content) {
    const AddedToken* token = parts.added.find(content);
    return token != nullptr ? token->id : -1;
  };
  parts.bos = id_of("<s>");
  parts.eos = id_of("</s>");
  if (parts.bos >= 0) parts.post_processor.add({.before = {parts.bos}, .after = {}});
  return finish(std::move(parts));
}

bool Tokenizer::is_rank_list(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::size_t space = line.find(' ');
  return space != line.npos && space > 0 && decode_base64(line.substr(0, space)).has_value();
}

std::vector<std::string_view> Tokenizer::tiktoken_files() {
  std::vector<std::string_view> names;
  for (const TiktokenFamily& family : tiktoken_families()) names.push_back(family.file);
  return names;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_tiktoken(std::string_view file, std::string_view text,
                                                            const TokenizerSideFiles& files) {
  const std::vector<TiktokenFamily>& families = tiktoken_families();
  const auto family = std::ranges::find(families, file, &TiktokenFamily::file);
  if (family == families.end())
    return unimplemented(concat(file,
                                ": which rule cuts its text is not known; known are those of "
                                "qwen.tiktoken, tiktoken.model and Llama 3's tokenizer.model"));
  PAGODA_ASSIGN_OR_RETURN(SideTokens side, read_side_files(files));
  TokenizerParts parts;
  parts.vocabulary = std::make_unique<Vocabulary>();
  if (Status status = read_ranks(text, file, *parts.vocabulary); !status.ok()) return status;
  PAGODA_ASSIGN_OR_RETURN(GgufPreTokenizer pre, make_gguf_pre_tokenizer(family->pre));
  parts.pre_tokenizer = std::move(pre.pre_tokenizer);
  if (pre.nfc) parts.normalizer = make_unicode_normalizer(NormalForm::nfc);

  // tokenizer_config.json names control tokens by id; the family names the others.
  const TokenId base = parts.vocabulary->end_id();
  std::map<TokenId, AddedToken> listed;
  for (AddedEntry& entry : side.listed)
    if (entry.declared_id >= base && entry.declared_id < base + kMaxSpecial)
      listed[static_cast<TokenId>(entry.declared_id)] = entry.token;
  const std::size_t count = std::max(
      family->num_special, listed.empty() ? 0 : static_cast<std::size_t>(listed.rbegin()->first - base + 1));
  for (std::size_t i = 0; i < count; ++i) {
    const TokenId id = base + static_cast<TokenId>(i);
    if (const auto named = listed.find(id); named != listed.end()) {
      AddedToken token = named->second;
      token.id = id;
      token.normalized = false;
      token.normalized_content = token.content;
      parts.added.add(std::move(token));
      continue;
    }
    std::string name;
    if (listed.empty() && i < family->special.size())
      name = family->special[i];
    else
      name = reserved_name(
          family->reserved,
          family->reserved_by_id
              ? id
              : static_cast<std::int64_t>(i - std::min(i, family->special.size())) + family->first_reserved);
    if (parts.added.find(name) == nullptr) add_special(parts, id, std::move(name));
  }
  side.listed.clear();
  if (side.bos.empty()) side.bos = family->bos;
  if (side.eos.empty()) side.eos = family->eos;
  if (Status status = apply_side_tokens(side, static_cast<std::size_t>(base) + count, true, parts);
      !status.ok())
    return status;
  if (!side.add_bos && !side.add_eos && family->add_bos && parts.bos >= 0)
    parts.post_processor.add({.before = {parts.bos}, .after = {}});
  return finish(std::move(parts));
}

}  // namespace pagoda
