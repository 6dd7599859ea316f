// Tokenizer::from_json: Hugging Face's tokenizer.json. Vocabulary and merges are read directly from the text
// (base/json_cursor.h); the small remainder goes through Boost.JSON.
#include <algorithm>
#include <boost/json.hpp>
#include <map>

#include "base/assign_or_return.h"
#include "base/json_cursor.h"
#include "base/strict_json.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/json_components.h"
#include "tokenizer/json_vocabulary.h"
#include "tokenizer/side_files.h"

namespace pagoda {
namespace {

namespace json = boost::json;

Result<json::value> parse_small(std::string_view text, std::string_view what) {
  boost::system::error_code error;
  json::value value = json::parse(json::string_view(text.data(), text.size()), error);
  if (error) value = json::parse(strict_json(text), error);
  if (error) return wrong_json(concat(what, " is not JSON: ", error.message()));
  return value;
}

// The members of the file, or of its model, as raw text.
using Members = std::map<std::string, std::string_view, std::less<>>;

std::string_view find_member(const Members& members, std::string_view key) {
  const auto it = members.find(key);
  return it == members.end() || it->second == "null" ? std::string_view() : it->second;
}

Result<bool> model_bool(const Members& model, std::string_view key) {
  const std::string_view text = find_member(model, key);
  if (text.empty() || text == "false") return false;
  if (text == "true") return true;
  return wrong_json(concat("the model's '", key, "' is not true or false"));
}

Result<std::string> model_string(const Members& model, std::string_view key, std::string_view absent) {
  const std::string_view text = find_member(model, key);
  if (text.empty()) return std::string(absent);
  std::string out;
  JsonCursor cursor(text);
  if (Status status = cursor.read_string(out); !status.ok()) return status.annotate("tokenizer.json");
  return out;
}

std::string model_type(const Members& model) {
  if (const Result<std::string> type = model_string(model, "type", ""); type && !type->empty()) return *type;
  // Old files do not state the type.
  if (model.contains("merges")) return "BPE";
  if (find_member(model, "vocab").starts_with('[')) return "Unigram";
  return model.contains("continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

class JsonTokenizerBuilder {
 public:
  Result<std::unique_ptr<Tokenizer>> build(std::string_view text, const TokenizerSideFiles& files) {
    PAGODA_ASSIGN_OR_RETURN(SideTokens side, read_side_files(files));
    side.add_bos = side.add_eos = std::nullopt;  // the file's post-processor decides
    if (Status status = read(text, side); !status.ok()) return status;
    parts_.added.build();
    return std::unique_ptr<Tokenizer>(std::make_unique<PipelineTokenizer>(std::move(parts_)));
  }

 private:
  Status read(std::string_view text, const SideTokens& side) {
    parts_.vocabulary = std::make_unique<Vocabulary>();
    Members file, model;
    JsonCursor cursor(without_byte_order_mark(text));
    Status status = cursor.read_object([&](const std::string& key) {
      if (key != "model" || cursor.peek() != '{') return cursor.raw_value(file[key]);
      model.clear();
      return cursor.read_object([&](const std::string& member) { return cursor.raw_value(model[member]); });
    });
    if (status.ok()) status = cursor.expect_end();
    if (!status.ok()) return status.annotate("tokenizer.json");
    if (model.empty()) return wrong_json("it has no model");

    std::vector<AddedEntry> added;
    if (const std::string_view list = find_member(file, "added_tokens"); !list.empty()) {
      PAGODA_ASSIGN_OR_RETURN(json::value value, parse_small(list, "added_tokens"));
      if (!value.is_array()) return wrong_json("added_tokens is not a list");
      for (const json::value& element : value.get_array()) {
        Result<AddedEntry> entry = read_added_entry(element);
        if (!entry) return entry.error().annotate("tokenizer.json");
        added.push_back(*std::move(entry));
      }
    }
    if (const std::string_view part = find_member(file, "normalizer"); !part.empty()) {
      PAGODA_ASSIGN_OR_RETURN(json::value value, parse_small(part, "normalizer"));
      PAGODA_RETURN_IF_ERROR(read_normalizer(value, parts_.normalizer));
    }
    const std::string type = model_type(model);
    bool bytes_to_model = false;
    if (const std::string_view part = find_member(file, "pre_tokenizer"); !part.empty()) {
      PAGODA_ASSIGN_OR_RETURN(json::value value, parse_small(part, "pre_tokenizer"));
      PAGODA_ASSIGN_OR_RETURN(bool fallback, model_bool(model, "byte_fallback"));
      Result<std::string> prefix = model_string(model, "continuing_subword_prefix", "");
      Result<std::string> suffix = model_string(model, "end_of_word_suffix", "");
      if (!prefix) return prefix.error();
      if (!suffix) return suffix.error();
      bytes_to_model = type == "BPE" && !fallback && prefix->empty() && suffix->empty();
      PAGODA_RETURN_IF_ERROR(
          read_pre_tokenizer(value, bytes_to_model, parts_.needs_origins, parts_.pre_tokenizer));
    }
    PAGODA_RETURN_IF_ERROR(read_model(type, model, bytes_to_model, added, side));
    const std::string_view post_processor = find_member(file, "post_processor");
    if (!post_processor.empty()) {
      PAGODA_ASSIGN_OR_RETURN(json::value value, parse_small(post_processor, "post_processor"));
      PAGODA_RETURN_IF_ERROR(read_post_processor(value, parts_.post_processor));
    }
    if (const std::string_view part = find_member(file, "decoder"); !part.empty()) {
      PAGODA_ASSIGN_OR_RETURN(json::value value, parse_small(part, "decoder"));
      PAGODA_RETURN_IF_ERROR(read_decoder(value, parts_.decoder, parts_.bytes));
    }
    PAGODA_RETURN_IF_ERROR(add_entries(std::move(added), model_size_, parts_));
    return apply_side_tokens(side, model_size_, false, parts_);
  }

  Status read_model(std::string_view type, const Members& model, bool bytes_to_model,
                    const std::vector<AddedEntry>& added, const SideTokens& side) {
    const std::string_view vocab = find_member(model, "vocab");
    if (vocab.empty()) return wrong_json("the model has no vocab");
    std::vector<double> scores;
    Status status = type == "Unigram" ? read_scored_vocabulary(vocab, *parts_.vocabulary, scores)
                                      : read_vocabulary(vocab, *parts_.vocabulary);
    if (!status.ok()) return status.annotate("tokenizer.json");
    model_size_ = type == "Unigram" ? scores.size() : parts_.vocabulary->num_tokens();
    for (const AddedEntry& entry : added) {
      if (!entry.token.special) continue;
      if (const auto id = parts_.vocabulary->find(entry.token.content)) parts_.vocabulary->hide(*id);
    }
    hide_special(side, *parts_.vocabulary);
    if (type == "BPE") return read_bpe(model, bytes_to_model);
    if (type == "Unigram") return read_unigram(model, std::move(scores));
    if (type == "WordPiece") {
      WordPieceOptions options;
      PAGODA_ASSIGN_OR_RETURN(std::string unknown, model_string(model, "unk_token", "[UNK]"));
      PAGODA_ASSIGN_OR_RETURN(std::string prefix, model_string(model, "continuing_subword_prefix", "##"));
      options.unknown_token = std::move(unknown);
      options.continuing_subword_prefix = std::move(prefix);
      if (const std::string_view text = find_member(model, "max_input_chars_per_word"); !text.empty()) {
        std::int64_t count = 0;
        PAGODA_RETURN_IF_ERROR(JsonCursor(text).read_integer(count));
        options.max_input_chars_per_word = count < 0 ? 0 : static_cast<std::size_t>(count);
      }
      parts_.model = make_word_piece(*parts_.vocabulary, std::move(options));
      return ok_status();
    }
    if (type == "WordLevel") {
      PAGODA_ASSIGN_OR_RETURN(std::string unknown, model_string(model, "unk_token", "<unk>"));
      parts_.model = make_word_level(*parts_.vocabulary, std::move(unknown));
      return ok_status();
    }
    return unimplemented(concat("tokenizer.json: the model '", type,
                                "' is not supported (supported: BPE, Unigram, WordPiece, WordLevel)"));
  }

  Status read_bpe(const Members& model, bool bytes_to_model) {
    BpeOptions options;
    options.byte_level = bytes_to_model;
    struct Flag {
      std::string_view key;
      bool BpeOptions::* member;
    };
    for (const Flag& flag :
         {Flag{"byte_fallback", &BpeOptions::byte_fallback}, Flag{"fuse_unk", &BpeOptions::fuse_unknown},
          Flag{"ignore_merges", &BpeOptions::ignore_merges}}) {
      PAGODA_ASSIGN_OR_RETURN(bool set, model_bool(model, flag.key));
      options.*flag.member = set;
    }
    struct Text {
      std::string_view key;
      std::string BpeOptions::* member;
    };
    for (const Text& text : {Text{"unk_token", &BpeOptions::unknown_token},
                             Text{"continuing_subword_prefix", &BpeOptions::continuing_subword_prefix},
                             Text{"end_of_word_suffix", &BpeOptions::end_of_word_suffix}}) {
      PAGODA_ASSIGN_OR_RETURN(std::string value, model_string(model, text.key, ""));
      options.*text.member = std::move(value);
    }
    const std::string_view list = find_member(model, "merges");
    if (list.empty()) return wrong_json("the BPE model has no merges");
    std::string arena;
    MergeList merges;
    if (Status status = read_merges(list, arena, merges); !status.ok())
      return status.annotate("tokenizer.json");
    PAGODA_ASSIGN_OR_RETURN(parts_.model, make_bpe(*parts_.vocabulary, merges, std::move(options)));
    return ok_status();
  }

  Status read_unigram(const Members& model, std::vector<double> scores) {
    UnigramOptions options;
    options.scores = std::move(scores);
    if (const std::string_view text = find_member(model, "unk_id"); !text.empty()) {
      std::int64_t id = 0;
      PAGODA_RETURN_IF_ERROR(JsonCursor(text).read_integer(id));
      if (id < 0 || static_cast<std::size_t>(id) >= options.scores.size())
        return wrong_json("unk_id is not in the vocabulary");
      options.unknown = static_cast<TokenId>(id);
    }
    PAGODA_ASSIGN_OR_RETURN(options.byte_fallback, model_bool(model, "byte_fallback"));
    parts_.model = make_unigram(*parts_.vocabulary, std::move(options));
    return ok_status();
  }

  TokenizerParts parts_;
  std::size_t model_size_ = 0;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view json,
                                                        const TokenizerSideFiles& files) {
  return JsonTokenizerBuilder().build(json, files);
}

}  // namespace pagoda
