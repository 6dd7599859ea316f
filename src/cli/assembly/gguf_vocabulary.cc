#include "cli/assembly/gguf_vocabulary.h"

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/assembly/load_chat_template.h"
#include "cli/assembly/load_tokenizer.h"
#include "loader/json_object.h"
#include "loader/printable.h"
#include "tokenizer/gguf_pre_tokenizers.h"

namespace pagoda {
namespace {

namespace json = boost::json;

enum TokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// The probe contains everything by which splitting rules differ: runs of digits, white space and punctuation;
// contractions in upper and lower case; words of several scripts and in mixed case; combining marks;
// non-ASCII numbers.
constexpr std::string_view kProbe =
    "The quick brown fox can't, won't; I'M SURE they'LL say we've 1 12 123 1234 12345678 3.14159 x2y 0xFF\n"
    "\n\n \n  two  spaces   three    four\t\ttabs \r\n\r\n   end   \n"
    "camelCase HTTPServer XMLHttpRequest snake_case __init__ (a+b)*[c]={d}; // \xE2\x80\xA6 !!?? ... --> <= "
    "\"q\" 'q'\n"
    "\xC3\x9C"
    "ber stra\xC3\x9F"
    "e na\xC3\xAFve caf\xC3\xA9 e\xCC\x81t\xC3\xA9 "
    "\xE4\xBD\xA0\xE5\xA5\xBD\xE4\xB8\x96\xE7\x95\x8C\xE3\x80\x82"
    "\xE3\x81\x93\xE3\x82\x93\xE3\x81\xAB\xE3\x81\xA1\xE3\x81\xAF "
    "\xE3\x82\xAB\xE3\x82\xBF\xE3\x82\xAB\xE3\x83\x8A \xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4 "
    "\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 "
    "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87 "
    "\xF0\x9F\x98\x80\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD "
    "\xD9\xA1\xD9\xA2\xD9\xA3 \xC2\xBD \xE2\x85\xA7 $100 50% #tag @user a-b a/b C++ 'tis y'all'd've\n"
    "def f(x):\n    return x ** 2  # note\n\n\nclass A { int b = 0; }\n";

// The probe, extended by words on both sides of possible split points, and by enough numbers to have each
// pair of digits at each distance from their ends.
std::string probe() {
  std::string text(kProbe);
  for (const std::string_view word : {"emoji", "the", "on", "and", "is", "it", "When", "HTTP", "code", "x"})
    for (const std::string_view cut :
         {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'M", "\"", "-", "_", ".", "  "})
      text += concat(word, cut, word, " ", cut, word, "\n");
  for (std::uint64_t i = 1; i < 500; ++i) text += concat(i * i * i * 7919, i % 3 == 0 ? "\n" : " ");
  return text;
}

// The parts of tokenizer.json that a GGUF file can represent.
struct Read {
  std::vector<std::string> tokens, merges;
  std::vector<std::int32_t> types;
  std::vector<float> scores;
  bool byte_fallback = false, ignore_merges = false, normalized = false, words = false;
  TokenId unknown = -1;
};

std::string_view text_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string()) : std::string_view();
}
bool is_true(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_bool() && value->get_bool();
}

Status wrong(std::string_view what) { return corrupt_data(concat("tokenizer.json: ", what)); }

Status read_tokens(const json::object& file, const json::object& model, std::size_t count, Read& out) {
  out.tokens.resize(count);
  out.types.assign(count, kUnused);
  const auto put = [&](std::string_view token, std::int64_t id, TokenType type) {
    if (id < 0 || id >= static_cast<std::int64_t>(count))
      return unimplemented(
          concat("the tokenizer's token ", id, " is beyond the model's vocabulary of ", count));
    out.tokens[static_cast<std::size_t>(id)] = token;
    out.types[static_cast<std::size_t>(id)] = type;
    return ok_status();
  };
  const json::value* vocab = model.if_contains("vocab");
  if (vocab == nullptr || !vocab->is_object()) return wrong("'model.vocab' is not an object");
  for (const auto& [token, id] : vocab->get_object()) {
    if (!id.is_int64()) return wrong("'model.vocab' has an id that is not a number");
    const bool byte =
        out.byte_fallback && token.size() == 6 && token.starts_with("<0x") && token.ends_with(">");
    PAGODA_RETURN_IF_ERROR(put(token, id.get_int64(), byte ? kByte : kNormal));
  }
  if (const json::value* added = file.if_contains("added_tokens"); added != nullptr && added->is_array())
    for (const json::value& each : added->get_array()) {
      const json::object* token = each.if_object();
      const json::value* id = token == nullptr ? nullptr : token->if_contains("id");
      if (id == nullptr || !id->is_int64()) return wrong("'added_tokens' has one without an id");
      PAGODA_RETURN_IF_ERROR(put(text_of(*token, "content"), id->get_int64(),
                                 is_true(*token, "special") ? kControl : kUserDefined));
    }
  for (std::size_t id = 0; id < count; ++id)
    if (out.types[id] == kUnused) out.tokens[id] = concat("[PAD", id, "]");
  const std::string_view unknown = text_of(model, "unk_token");
  if (const auto found = std::ranges::find(out.tokens, unknown);
      !unknown.empty() && found != out.tokens.end()) {
    out.unknown = static_cast<TokenId>(found - out.tokens.begin());
    if (out.byte_fallback) out.types[static_cast<std::size_t>(out.unknown)] = kUnknown;
  }
  return ok_status();
}

// SentencePiece's pieces have scores: the earlier a merge, the higher the score of its token.
void score_pieces(const std::vector<std::string>& merged, Read& out) {
  std::unordered_map<std::string_view, float> ranks;
  for (std::size_t i = 0; i < merged.size(); ++i) ranks.emplace(merged[i], -static_cast<float>(i));
  for (std::size_t id = 0; id < out.tokens.size(); ++id) {
    const auto rank = ranks.find(out.tokens[id]);
    const float least = -static_cast<float>(merged.size() + id);
    out.scores.push_back(rank != ranks.end() ? rank->second : out.types[id] == kNormal ? least : 0);
  }
}

Status read_merges(const json::object& model, Read& out) {
  const json::value* merges = model.if_contains("merges");
  if (merges == nullptr || !merges->is_array()) return wrong("'model.merges' is not a list");
  std::vector<std::string> merged;
  for (const json::value& each : merges->get_array()) {
    std::string left, right;
    if (const auto* text = each.if_string()) {
      const std::string_view whole = *text;
      const std::size_t space = whole.find(' ', 1);
      if (space == whole.npos) return wrong("a merge is not two tokens");
      left = whole.substr(0, space), right = whole.substr(space + 1);
    } else if (const auto* pair = each.if_array();
               pair != nullptr && pair->size() == 2 && (*pair)[0].is_string() && (*pair)[1].is_string()) {
      left = (*pair)[0].get_string(), right = (*pair)[1].get_string();
    } else {
      return wrong("a merge is not two tokens");
    }
    if (left.find(' ') != left.npos || right.find(' ') != right.npos)
      return unimplemented("tokenizer.json has merges of tokens with spaces, which GGUF files cannot have");
    out.merges.push_back(concat(left, " ", right));
    if (out.byte_fallback) merged.push_back(left + right);
  }
  if (out.byte_fallback) score_pieces(merged, out);
  return ok_status();
}

// GGUF marks the first piece of a word; WordPiece marks the others.
void mark_words(Read& out) {
  for (std::size_t id = 0; id < out.tokens.size(); ++id) {
    if (out.types[id] != kNormal) continue;
    std::string& token = out.tokens[id];
    token = token.starts_with("##") ? token.substr(2) : concat("\xE2\x96\x81", token);
  }
}

Result<Read> read_tokenizer_json(std::string_view text, std::size_t count) {
  PAGODA_ASSIGN_OR_RETURN(const json::object file, parse_json_object(text, "tokenizer.json"));
  const json::value* model = file.if_contains("model");
  if (model == nullptr || !model->is_object()) return wrong("'model' is not an object");
  const json::object& object = model->get_object();
  const std::string_view type = text_of(object, "type");
  Read out;
  out.words = type == "WordPiece";
  if (type != "BPE" && !out.words && !(type.empty() && object.contains("merges")))
    return unimplemented(concat("tokenizer.json's model '", printable(type, 40),
                                "' cannot be written into a GGUF file; BPE and WordPiece can"));
  out.byte_fallback = is_true(object, "byte_fallback");
  out.ignore_merges = is_true(object, "ignore_merges");
  const json::value* normalizer = file.if_contains("normalizer");
  out.normalized = normalizer != nullptr && !normalizer->is_null();
  PAGODA_RETURN_IF_ERROR(read_tokens(file, object, count, out));
  if (out.words)
    mark_words(out);
  else
    PAGODA_RETURN_IF_ERROR(read_merges(object, out));
  return out;
}

// True if the vocabulary gives the same tokens as `own` for the probe.
bool agrees(const Tokenizer& own, const GgufVocabulary& vocabulary) {
  static const std::string text = probe();
  const auto made = Tokenizer::from_gguf(vocabulary);
  if (!made) return false;
  for (const bool special : {false, true}) {
    const EncodeOptions how = {.add_special_tokens = special};
    const auto expected = own.encode(text, how), actual = (*made)->encode(text, how);
    if (!expected || !actual || *expected != *actual) return false;
  }
  return true;
}

// Sets the splitting rule. Returns false if no rule name of GGUF files matches.
bool choose_splitting(const Tokenizer& own, const Read& read, GgufVocabulary& vocabulary) {
  if (read.words) {
    vocabulary.model = "bert";
    return agrees(own, vocabulary);
  }
  if (read.byte_fallback) {
    vocabulary.model = "llama";
    return std::ranges::any_of(std::initializer_list<bool>{true, false}, [&](bool prefix) {
      vocabulary.add_space_prefix = prefix;
      return agrees(own, vocabulary);
    });
  }
  vocabulary.model = "gpt2";
  return std::ranges::any_of(gguf_pre_tokenizer_names(), [&](std::string_view name) {
    const auto rule = make_gguf_pre_tokenizer(name);
    if (!rule || rule->ignore_merges != read.ignore_merges || rule->nfc != read.normalized) return false;
    vocabulary.pre = name;
    return agrees(own, vocabulary);
  });
}

void put_ends(const Tokenizer& own, const ModelInfo& info, GgufVocabulary& vocabulary,
              std::vector<GgufEntry>& out) {
  const std::vector<std::int32_t>& ends = info.eos_token_ids;
  if (vocabulary.bos < 0) vocabulary.bos = info.bos_token_id;
  const bool known = ends.empty() || std::ranges::find(ends, own.eos()) != ends.end();
  vocabulary.eos = known ? own.eos() : ends.front();
  if (ends.size() > 1) out.push_back(integers_entry("tokenizer.ggml.eos_token_ids", ends));
  const auto id = [&](std::string_view name, TokenId token) {
    if (token >= 0)
      out.push_back(
          integer_entry(concat("tokenizer.ggml.", name, "_token_id"), static_cast<std::uint32_t>(token)));
  };
  id("bos", vocabulary.bos);
  id("eos", vocabulary.eos);
  id("padding", info.pad_token_id);
  id("unknown", vocabulary.unk);
}

// BERT-style vocabularies wrap a text in two tokens.
void put_word_ends(const std::vector<TokenId>& wrapped, GgufVocabulary& vocabulary,
                   std::vector<GgufEntry>& out) {
  if (!*vocabulary.add_bos || !*vocabulary.add_eos) return;
  vocabulary.cls = wrapped.front(), vocabulary.sep = wrapped.back();
  out.push_back(integer_entry("tokenizer.ggml.cls_token_id", static_cast<std::uint32_t>(vocabulary.cls)));
  out.push_back(
      integer_entry("tokenizer.ggml.seperator_token_id", static_cast<std::uint32_t>(vocabulary.sep)));
}

}  // namespace

Result<std::vector<GgufEntry>> gguf_vocabulary(const ModelSource& folder, const ModelInfo& info) {
  const auto own = load_tokenizer(folder);
  if (!own && own.error().code() == StatusCode::not_found) return std::vector<GgufEntry>();
  if (!own) return own.error();
  const auto text = folder.side_file("tokenizer.json");
  if (!text)
    return unimplemented("the folder's tokenizer is not in tokenizer.json, of which a GGUF file is made");
  PAGODA_ASSIGN_OR_RETURN(auto read,
                          read_tokenizer_json(*text, static_cast<std::size_t>(info.decoder.vocab_size)));
  const std::vector<std::string_view> tokens(read.tokens.begin(), read.tokens.end()),
      merges(read.merges.begin(), read.merges.end());
  GgufVocabulary vocabulary;
  vocabulary.tokens = tokens, vocabulary.merges = merges;
  vocabulary.scores = read.scores, vocabulary.types = read.types;
  vocabulary.unk = read.unknown;
  std::vector<GgufEntry> out;
  const auto plain = (*own)->encode("a"), wrapped = (*own)->encode("a", {.add_special_tokens = true});
  if (!plain || !wrapped || plain->empty()) return internal_error("the tokenizer does not encode 'a'");
  vocabulary.add_bos = wrapped->front() != plain->front();
  vocabulary.add_eos = wrapped->back() != plain->back();
  vocabulary.bos = *vocabulary.add_bos ? wrapped->front() : (*own)->bos();
  put_ends(**own, info, vocabulary, out);
  if (read.words) put_word_ends(*wrapped, vocabulary, out);
  if (!choose_splitting(**own, read, vocabulary))
    return unimplemented("GGUF files have no name for how tokenizer.json splits text");
  out.push_back(text_entry("tokenizer.ggml.model", vocabulary.model));
  out.push_back(
      text_entry("tokenizer.ggml.pre", read.byte_fallback || read.words ? "default" : vocabulary.pre));
  out.push_back(texts_entry("tokenizer.ggml.tokens", tokens));
  out.push_back(integers_entry("tokenizer.ggml.token_type", read.types));
  if (read.byte_fallback)
    out.push_back(numbers_entry("tokenizer.ggml.scores", read.scores));
  else if (!read.words)
    out.push_back(texts_entry("tokenizer.ggml.merges", merges));
  out.push_back(flag_entry("tokenizer.ggml.add_bos_token", *vocabulary.add_bos));
  out.push_back(flag_entry("tokenizer.ggml.add_eos_token", *vocabulary.add_eos));
  if (vocabulary.add_space_prefix)
    out.push_back(flag_entry("tokenizer.ggml.add_space_prefix", *vocabulary.add_space_prefix));
  const ChatTemplateTexts templates = chat_template_texts(folder);
  if (!templates.usual.empty()) out.push_back(text_entry("tokenizer.chat_template", templates.usual));
  if (!templates.tool_use.empty())
    out.push_back(text_entry("tokenizer.chat_template.tool_use", templates.tool_use));
  return out;
}

}  // namespace pagoda
