#include "tokenizer/json_components.h"

#include <boost/json.hpp>

#include "base/assign_or_return.h"
#include "base/base64.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/decode_steps.h"
#include "tokenizer/json_vocabulary.h"

namespace pagoda {
namespace {

namespace json = boost::json;
constexpr int kMaxComponentDepth = 8;

const json::value* member(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value && !value->is_null() ? value : nullptr;
}

Result<const json::object*> component(const json::value& value, std::string_view kind, std::string& type) {
  const json::object* object = value.if_object();
  if (!object) return wrong_json(concat("a ", kind, " is not an object"));
  const json::value* name = member(*object, "type");
  if (!name || !name->is_string()) return wrong_json(concat("a ", kind, " has no type"));
  type.assign(name->get_string().data(), name->get_string().size());
  return object;
}

// `list` of a Sequence component.
template <class OnElement>
Status each(const json::object& object, std::string_view list, const OnElement& on_element) {
  const json::value* value = member(object, list);
  if (!value || !value->is_array()) return wrong_json(concat("a Sequence has no '", list, "'"));
  for (const json::value& element : value->get_array()) PAGODA_RETURN_IF_ERROR(on_element(element));
  return ok_status();
}

// {"String": s} or {"Regex": s}; a bare string counts as String.
struct Pattern {
  std::string text;
  bool is_regex = false;
};
Result<Pattern> pattern_member(const json::object& object) {
  const json::value* value = member(object, "pattern");
  if (value && value->is_string()) return Pattern{std::string(value->get_string()), false};
  if (value && value->is_object()) {
    for (const bool is_regex : {false, true}) {
      const json::value* text = member(value->get_object(), is_regex ? "Regex" : "String");
      if (text && text->is_string()) return Pattern{std::string(text->get_string()), is_regex};
    }
  }
  return wrong_json("a pattern is neither String nor Regex");
}

Result<std::size_t> size_member(const json::object& object, std::string_view key, std::size_t absent) {
  const json::value* value = member(object, key);
  if (!value) return absent;
  boost::system::error_code error;
  const auto number = value->to_number<std::uint32_t>(error);
  if (error) return wrong_json(concat("'", key, "' is not a small number"));
  return static_cast<std::size_t>(number);
}

// A member that must be exactly one character.
Result<std::string> char_member(const json::object& object, std::string_view key, std::string_view absent) {
  PAGODA_ASSIGN_OR_RETURN(auto text, string_member(object, key, absent));
  if (text.empty() || utf8_length(text[0]) != text.size())
    return wrong_json(concat("'", key, "' is not one character"));
  return text;
}

Result<SplitBehavior> behavior_member(const json::object& object, std::string_view absent) {
  PAGODA_ASSIGN_OR_RETURN(auto name, string_member(object, "behavior", absent));
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  return wrong_json(concat("split behavior '", name, "' is unknown"));
}

Result<PrependScheme> prepend_scheme(const json::object& object) {
  PAGODA_ASSIGN_OR_RETURN(auto prefix, bool_member(object, "add_prefix_space", true));
  PAGODA_ASSIGN_OR_RETURN(auto name, string_member(object, "prepend_scheme", prefix ? "always" : "never"));
  if (!prefix && name != "never") return wrong_json("add_prefix_space does not match prepend_scheme");
  if (name == "first") return PrependScheme::first;
  if (name == "never") return PrependScheme::never;
  if (name == "always") return PrependScheme::always;
  return wrong_json(concat("prepend_scheme '", name, "' is unknown"));
}

Status read_normalizer_at(const json::value& value, int depth, NormalizerPtr& out) {
  if (depth > kMaxComponentDepth) return wrong_json("its normalizers are nested too deep");
  std::string type;
  PAGODA_ASSIGN_OR_RETURN(auto found, component(value, "normalizer", type));
  const json::object& object = *found;
  if (type == "Sequence") {
    std::vector<NormalizerPtr> steps;
    PAGODA_RETURN_IF_ERROR(each(object, "normalizers", [&](const json::value& element) {
      steps.emplace_back();
      return read_normalizer_at(element, depth + 1, steps.back());
    }));
    out = make_sequence_normalizer(std::move(steps));
  } else if (type == "NFC") {
    out = make_unicode_normalizer(NormalForm::nfc);
  } else if (type == "NFD") {
    out = make_unicode_normalizer(NormalForm::nfd);
  } else if (type == "NFKC") {
    out = make_unicode_normalizer(NormalForm::nfkc);
  } else if (type == "NFKD") {
    out = make_unicode_normalizer(NormalForm::nfkd);
  } else if (type == "Lowercase") {
    out = make_lowercase_normalizer();
  } else if (type == "StripAccents") {
    out = make_strip_accents_normalizer();
  } else if (type == "Nmt") {
    out = make_nmt_normalizer();
  } else if (type == "ByteLevel") {
    out = make_byte_level_normalizer();
  } else if (type == "Strip") {
    PAGODA_ASSIGN_OR_RETURN(auto left, bool_member(object, "strip_left", true));
    PAGODA_ASSIGN_OR_RETURN(auto right, bool_member(object, "strip_right", true));
    out = make_strip_normalizer(left, right);
  } else if (type == "Prepend") {
    PAGODA_ASSIGN_OR_RETURN(auto prefix, string_member(object, "prepend", ""));
    out = make_prepend_normalizer(std::move(prefix));
  } else if (type == "Replace") {
    PAGODA_ASSIGN_OR_RETURN(auto pattern, pattern_member(object));
    PAGODA_ASSIGN_OR_RETURN(auto content, string_member(object, "content", ""));
    if (!pattern.is_regex) {
      out = make_replace_string_normalizer(std::move(pattern.text), std::move(content));
    } else {
      PAGODA_ASSIGN_OR_RETURN(Regex regex, Regex::compile(pattern.text));
      out = make_replace_normalizer(std::move(regex), std::move(content));
    }
  } else if (type == "Precompiled") {
    PAGODA_ASSIGN_OR_RETURN(auto encoded, string_member(object, "precompiled_charsmap", ""));
    const auto bytes = decode_base64(encoded);
    if (!bytes) return wrong_json("precompiled_charsmap is not base64");
    PAGODA_ASSIGN_OR_RETURN(auto normalizer, make_precompiled_normalizer(*bytes));
    out = std::move(normalizer);
  } else if (type == "BertNormalizer") {
    BertNormalizerOptions options;
    PAGODA_ASSIGN_OR_RETURN(auto clean, bool_member(object, "clean_text", true));
    PAGODA_ASSIGN_OR_RETURN(auto chinese, bool_member(object, "handle_chinese_chars", true));
    PAGODA_ASSIGN_OR_RETURN(auto lowercase, bool_member(object, "lowercase", true));
    PAGODA_ASSIGN_OR_RETURN(auto accents, bool_member(object, "strip_accents", lowercase));
    options = {.clean_text = clean,
               .handle_chinese_chars = chinese,
               .strip_accents = accents,
               .lowercase = lowercase};
    out = make_bert_normalizer(options);
  } else {
    return unimplemented(
        concat("tokenizer.json: the normalizer '", type,
               "' is not supported (supported: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, "
               "StripAccents, Nmt, Prepend, Replace, Precompiled, ByteLevel, BertNormalizer)"));
  }
  return ok_status();
}

// `last`: only the model follows this component.
Status read_pre_tokenizer_at(const json::value& value, int depth, bool last, bool& bytes_to_model,
                             bool& needs_origins, PreTokenizerPtr& out) {
  if (depth > kMaxComponentDepth) return wrong_json("its pre-tokenizers are nested too deep");
  std::string type;
  PAGODA_ASSIGN_OR_RETURN(auto found, component(value, "pre-tokenizer", type));
  const json::object& object = *found;
  const bool wants_bytes = bytes_to_model;
  bytes_to_model = false;
  if (type == "Sequence") {
    std::vector<PreTokenizerPtr> steps;
    const json::value* list = member(object, "pretokenizers");
    const std::size_t count = list && list->is_array() ? list->get_array().size() : 0;
    PAGODA_RETURN_IF_ERROR(each(object, "pretokenizers", [&](const json::value& element) {
      steps.emplace_back();
      const bool is_last = last && steps.size() == count;
      bool bytes = wants_bytes && is_last;
      Status status = read_pre_tokenizer_at(element, depth + 1, is_last, bytes, needs_origins, steps.back());
      if (is_last) bytes_to_model = bytes;
      return status;
    }));
    out = make_sequence_pre_tokenizer(std::move(steps));
  } else if (type == "ByteLevel") {
    PAGODA_ASSIGN_OR_RETURN(auto prefix, bool_member(object, "add_prefix_space", true));
    PAGODA_ASSIGN_OR_RETURN(auto use_regex, bool_member(object, "use_regex", true));
    bytes_to_model = wants_bytes && last;
    out = make_byte_level_pre_tokenizer(prefix, use_regex, !bytes_to_model);
  } else if (type == "Split") {
    PAGODA_ASSIGN_OR_RETURN(auto pattern, pattern_member(object));
    PAGODA_ASSIGN_OR_RETURN(auto behavior, behavior_member(object, ""));
    PAGODA_ASSIGN_OR_RETURN(auto invert, bool_member(object, "invert", false));
    if (pattern.is_regex) {
      out = make_known_split(pattern.text, behavior, invert);
      if (out) return ok_status();
    }
    PAGODA_ASSIGN_OR_RETURN(Regex regex,
                            pattern.is_regex ? Regex::compile(pattern.text) : Regex::literal(pattern.text));
    out = make_split(std::move(regex), behavior, invert);
  } else if (type == "Metaspace") {
    PAGODA_ASSIGN_OR_RETURN(auto replacement, char_member(object, "replacement", "\xE2\x96\x81"));
    PAGODA_ASSIGN_OR_RETURN(auto scheme, prepend_scheme(object));
    PAGODA_ASSIGN_OR_RETURN(auto split, bool_member(object, "split", true));
    needs_origins |= scheme == PrependScheme::first;
    out = make_metaspace(std::move(replacement), scheme, split);
  } else if (type == "Digits") {
    PAGODA_ASSIGN_OR_RETURN(auto individual, bool_member(object, "individual_digits", false));
    out = make_digits(individual);
  } else if (type == "Punctuation") {
    PAGODA_ASSIGN_OR_RETURN(auto behavior, behavior_member(object, "Isolated"));
    out = make_punctuation(behavior);
  } else if (type == "Whitespace") {
    out = make_whitespace();
  } else if (type == "WhitespaceSplit") {
    out = make_whitespace_split();
  } else if (type == "BertPreTokenizer") {
    out = make_bert_pre_tokenizer();
  } else if (type == "CharDelimiterSplit" || type == "Delimiter") {
    PAGODA_ASSIGN_OR_RETURN(auto delimiter, char_member(object, "delimiter", ""));
    out = make_char_delimiter_split(std::move(delimiter));
  } else if (type == "FixedLength") {
    PAGODA_ASSIGN_OR_RETURN(auto length, size_member(object, "length", 5));
    if (length == 0) return wrong_json("FixedLength has length 0");
    out = make_fixed_length(length);
  } else {
    return unimplemented(
        concat("tokenizer.json: the pre-tokenizer '", type,
               "' is not supported (supported: Sequence, ByteLevel, Split, Metaspace, Digits, "
               "Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer, CharDelimiterSplit, "
               "FixedLength)"));
  }
  return ok_status();
}

Result<TokenId> token_id(const json::value& value) {
  boost::system::error_code error;
  const auto id = value.to_number<std::int32_t>(error);
  if (error || id < 0 || id > Vocabulary::kMaxId)
    return wrong_json("a token id of the post-processor is out of bounds");
  return id;
}

// A placeholder for a text, or special tokens.
struct TemplatePiece {
  bool is_text = false;
  std::int64_t type = 0;
  std::vector<TokenId> ids;
};

Result<std::vector<TemplatePiece>> read_template(const json::array& list, const json::object& tokens) {
  std::vector<TemplatePiece> pieces;
  for (const json::value& each : list) {
    const json::object* entry = each.if_object();
    const json::value* text = entry ? member(*entry, "Sequence") : nullptr;
    const json::value* special = entry ? member(*entry, "SpecialToken") : nullptr;
    const json::value* inner = text ? text : special;
    if (!inner || !inner->is_object())
      return wrong_json("a template piece is neither Sequence nor SpecialToken");
    TemplatePiece& piece = pieces.emplace_back();
    piece.is_text = text != nullptr;
    const json::value* type = member(inner->get_object(), "type_id");
    if (type && type->is_int64()) piece.type = type->get_int64();
    if (piece.is_text) continue;
    PAGODA_ASSIGN_OR_RETURN(auto name, string_member(inner->get_object(), "id", ""));
    const json::value* token = member(tokens, name);
    const json::value* ids = token && token->is_object() ? member(token->get_object(), "ids") : nullptr;
    if (!ids || !ids->is_array()) return wrong_json(concat("the template's token '", name, "' has no ids"));
    for (const json::value& element : ids->get_array()) {
      PAGODA_ASSIGN_OR_RETURN(auto id, token_id(element));
      piece.ids.push_back(id);
    }
  }
  return pieces;
}

// nullopt unless the pieces contain both texts in order, once each.
std::optional<PostProcessor::PairWrap> pair_wrap(const std::vector<TemplatePiece>& pieces) {
  PostProcessor::PairWrap out;
  int num_texts = 0;
  for (const TemplatePiece& piece : pieces) {
    const bool begins = piece.type > 0 && !out.typed;
    if (begins && num_texts != 1) return std::nullopt;
    if (begins) out.second = out.between.size();
    out.typed = out.typed || piece.type > 0;
    num_texts += piece.is_text ? 1 : 0;
    std::vector<TokenId>& side = num_texts == 0 ? out.before : num_texts == 1 ? out.between : out.after;
    side.insert(side.end(), piece.ids.begin(), piece.ids.end());
  }
  return num_texts == 2 ? std::optional(std::move(out)) : std::nullopt;
}

Status read_post_processor_at(const json::value& value, int depth, PostProcessor& out) {
  if (depth > kMaxComponentDepth) return wrong_json("its post-processors are nested too deep");
  std::string type;
  PAGODA_ASSIGN_OR_RETURN(auto found, component(value, "post-processor", type));
  const json::object& object = *found;
  if (type == "Sequence") {
    return each(object, "processors",
                [&](const json::value& element) { return read_post_processor_at(element, depth + 1, out); });
  }
  if (type == "ByteLevel") return ok_status();  // it only trims offsets
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    PostProcessor::Wrap wrap;
    for (const bool is_cls : {true, false}) {
      const json::value* pair = member(object, is_cls ? "cls" : "sep");
      if (!pair || !pair->is_array() || pair->get_array().size() != 2)
        return wrong_json("cls or sep is no [token, id]");
      PAGODA_ASSIGN_OR_RETURN(auto id, token_id(pair->get_array()[1]));
      (is_cls ? wrap.before : wrap.after).push_back(id);
    }
    // RoBERTa's pairs: two separators, all of one type.
    PostProcessor::PairWrap both{.before = wrap.before, .between = wrap.after, .after = wrap.after};
    both.typed = type == "BertProcessing";
    if (!both.typed) both.between.insert(both.between.end(), wrap.after.begin(), wrap.after.end());
    both.second = both.between.size();
    out.add_pair(std::move(both));
    out.add(std::move(wrap));
    return ok_status();
  }
  if (type == "TemplateProcessing") {
    const json::value *single = member(object, "single"), *pair = member(object, "pair");
    const json::value* tokens = member(object, "special_tokens");
    const json::object special = tokens && tokens->is_object() ? tokens->get_object() : json::object();
    if (!single || !single->is_array()) return wrong_json("TemplateProcessing has no 'single' list");
    PAGODA_ASSIGN_OR_RETURN(auto pieces, read_template(single->get_array(), special));
    PostProcessor::Wrap wrap;
    bool seen_text = false;
    for (TemplatePiece& piece : pieces) {
      if (piece.is_text && seen_text)
        return unimplemented("tokenizer.json: a template that repeats the text is not supported");
      seen_text = seen_text || piece.is_text;
      std::vector<TokenId>& side = seen_text ? wrap.after : wrap.before;
      side.insert(side.end(), piece.ids.begin(), piece.ids.end());
    }
    if (!seen_text) return unimplemented("tokenizer.json: a template without the text is not supported");
    out.add(std::move(wrap));
    if (pair != nullptr && pair->is_array()) {
      PAGODA_ASSIGN_OR_RETURN(auto both, read_template(pair->get_array(), special));
      if (const auto joined = pair_wrap(both)) out.add_pair(*joined);
    }
    return ok_status();
  }
  return unimplemented(concat("tokenizer.json: the post-processor '", type,
                              "' is not supported (supported: Sequence, TemplateProcessing, BertProcessing, "
                              "RobertaProcessing, ByteLevel)"));
}

Status read_decoder_at(const json::value& value, int depth, std::vector<DecodeStepMakerPtr>& out,
                       TokenizerParts::Bytes& bytes) {
  if (depth > kMaxComponentDepth) return wrong_json("its decoders are nested too deep");
  std::string type;
  PAGODA_ASSIGN_OR_RETURN(auto found, component(value, "decoder", type));
  const json::object& object = *found;
  if (type == "Sequence") {
    return each(object, "decoders",
                [&](const json::value& element) { return read_decoder_at(element, depth + 1, out, bytes); });
  }
  if (type == "ByteLevel") {
    bytes = TokenizerParts::Bytes::byte_level;
    out.push_back(make_byte_level_decoder());
  } else if (type == "ByteFallback") {
    bytes = TokenizerParts::Bytes::byte_fallback;
    out.push_back(make_byte_fallback_decoder());
  } else if (type == "Fuse") {
    out.push_back(make_fuse_decoder());
  } else if (type == "Strip") {
    PAGODA_ASSIGN_OR_RETURN(auto content, char_member(object, "content", ""));
    PAGODA_ASSIGN_OR_RETURN(auto start, size_member(object, "start", 0));
    PAGODA_ASSIGN_OR_RETURN(auto stop, size_member(object, "stop", 0));
    out.push_back(make_strip_decoder(std::move(content), start, stop));
  } else if (type == "Metaspace") {
    PAGODA_ASSIGN_OR_RETURN(auto replacement, char_member(object, "replacement", "\xE2\x96\x81"));
    PAGODA_ASSIGN_OR_RETURN(auto scheme, prepend_scheme(object));
    out.push_back(make_metaspace_decoder(std::move(replacement), scheme != PrependScheme::never));
  } else if (type == "WordPiece") {
    PAGODA_ASSIGN_OR_RETURN(auto prefix, string_member(object, "prefix", "##"));
    PAGODA_ASSIGN_OR_RETURN(auto cleanup, bool_member(object, "cleanup", true));
    out.push_back(make_word_piece_decoder(std::move(prefix), cleanup));
  } else if (type == "BPEDecoder") {
    PAGODA_ASSIGN_OR_RETURN(auto suffix, string_member(object, "suffix", "</w>"));
    out.push_back(make_bpe_decoder(std::move(suffix)));
  } else if (type == "CTC") {
    PAGODA_ASSIGN_OR_RETURN(auto pad, string_member(object, "pad_token", "<pad>"));
    PAGODA_ASSIGN_OR_RETURN(auto delimiter, string_member(object, "word_delimiter_token", "|"));
    PAGODA_ASSIGN_OR_RETURN(auto cleanup, bool_member(object, "cleanup", true));
    out.push_back(make_ctc_decoder(std::move(pad), std::move(delimiter), cleanup));
  } else if (type == "Replace") {
    PAGODA_ASSIGN_OR_RETURN(auto pattern, pattern_member(object));
    PAGODA_ASSIGN_OR_RETURN(auto content, string_member(object, "content", ""));
    if (!pattern.is_regex) {
      out.push_back(make_replace_string_decoder(std::move(pattern.text), std::move(content)));
    } else {
      PAGODA_ASSIGN_OR_RETURN(Regex regex, Regex::compile(pattern.text));
      out.push_back(make_replace_decoder(std::move(regex), std::move(content)));
    }
  } else {
    return unimplemented(
        concat("tokenizer.json: the decoder '", type,
               "' is not supported (supported: Sequence, ByteLevel, ByteFallback, Fuse, Strip, "
               "Metaspace, WordPiece, BPEDecoder, CTC, Replace)"));
  }
  return ok_status();
}

}  // namespace

Result<bool> bool_member(const json::object& object, std::string_view key, bool absent) {
  const json::value* value = member(object, key);
  if (!value) return absent;
  if (!value->is_bool()) return wrong_json(concat("'", key, "' is not true or false"));
  return value->get_bool();
}

Result<std::string> string_member(const json::object& object, std::string_view key, std::string_view absent) {
  const json::value* value = member(object, key);
  if (!value) return std::string(absent);
  if (!value->is_string()) return wrong_json(concat("'", key, "' is not a string"));
  return std::string(value->get_string());
}

Status read_normalizer(const json::value& value, NormalizerPtr& out) {
  return read_normalizer_at(value, 0, out);
}

Status read_pre_tokenizer(const json::value& value, bool& bytes_to_model, bool& needs_origins,
                          PreTokenizerPtr& out) {
  return read_pre_tokenizer_at(value, 0, true, bytes_to_model, needs_origins, out);
}

Status read_post_processor(const json::value& value, PostProcessor& out) {
  return read_post_processor_at(value, 0, out);
}

Status read_decoder(const json::value& value, Decoder& out, TokenizerParts::Bytes& bytes) {
  std::vector<DecodeStepMakerPtr> steps;
  PAGODA_RETURN_IF_ERROR(read_decoder_at(value, 0, steps, bytes));
  out = Decoder(std::move(steps));
  return ok_status();
}

}  // namespace pagoda
