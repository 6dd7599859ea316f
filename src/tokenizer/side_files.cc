#include "tokenizer/side_files.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>

#include "base/assign_or_return.h"
#include "base/strict_json.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/json_components.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 7> kNamed = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                    "pad_token", "cls_token", "mask_token"};

// Reads a token given as a string or as an object. By default, special tokens are matched in the original
// text and others in the normalized text.
Result<AddedToken> read_token(const json::value& value, std::optional<bool> special) {
  AddedToken token;
  if (const json::string* text = value.if_string()) {
    token.content = std::string(*text);
    token.special = special.value_or(true);
    token.normalized = !token.special;
    return token;
  }
  PAGODA_ASSIGN_OR_RETURN(AddedEntry entry, read_added_entry(value));
  token = std::move(entry.token);
  if (special) token.special = *special;
  const json::value* normalized = value.get_object().if_contains("normalized");
  if (normalized == nullptr || normalized->is_null()) token.normalized = !token.special;
  return token;
}

Result<std::int64_t> read_id(std::string_view text) {
  std::int64_t id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id < 0)
    return corrupt_data(concat("tokenizer_config.json: an added token has the id '", text, "'"));
  return id;
}

const json::value* given(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string spelling_of(const json::value* value) {
  if (value != nullptr && value->is_object()) value = value->get_object().if_contains("content");
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

// Overrides tokenizer_config.json's members by special_tokens_map.json's; the lists of extra tokens are
// joined.
void merge_map(const json::object& map, json::object& config) {
  for (const auto& [key, value] : map) {
    json::value* old = config.if_contains(key);
    if (key == "extra_special_tokens" && value.is_array() && old != nullptr && old->is_array()) {
      json::array& list = old->get_array();
      for (const json::value& token : value.get_array())
        if (std::ranges::find(list, token) == list.end()) list.push_back(token);
    } else {
      config[key] = value;
    }
  }
}

Status read_special(const json::object& config, SideTokens& side) {
  const auto add = [&](const json::value& value, std::optional<bool> special, std::vector<AddedToken>& list) {
    if (!value.is_string() && !value.is_object()) return ok_status();
    PAGODA_ASSIGN_OR_RETURN(AddedToken token, read_token(value, special));
    list.push_back(std::move(token));
    return ok_status();
  };
  for (const std::string_view key : kNamed)
    if (const json::value* value = given(config, key)) PAGODA_RETURN_IF_ERROR(add(*value, true, side.named));
  // Names specific to the model, such as image_token.
  for (const auto& [key, value] : config)
    if (std::string_view(key).ends_with("_token") &&
        std::ranges::find(kNamed, std::string_view(key)) == kNamed.end())
      PAGODA_RETURN_IF_ERROR(add(value, true, side.named));
  const json::value* extra = given(config, "extra_special_tokens");
  if (extra != nullptr && extra->is_object()) {
    for (const auto& entry : extra->get_object())
      PAGODA_RETURN_IF_ERROR(add(entry.value(), true, side.named));
    extra = nullptr;
  }
  if (extra == nullptr) extra = given(config, "additional_special_tokens");
  if (extra != nullptr && extra->is_array())
    for (const json::value& token : extra->get_array())
      PAGODA_RETURN_IF_ERROR(add(token, std::nullopt, side.extra));
  return ok_status();
}

// additional_special_tokens is extra_special_tokens' old name.
void rename_extra(json::object& config) {
  const json::value* extra = given(config, "extra_special_tokens");
  const bool none = extra == nullptr || (extra->is_array() && extra->get_array().empty()) ||
                    (extra->is_object() && extra->get_object().empty());
  if (!none || given(config, "additional_special_tokens") == nullptr) return;
  config["extra_special_tokens"] = config["additional_special_tokens"];
  config.erase("additional_special_tokens");
}

Status read_listed(const json::object& decoder, SideTokens& side) {
  side.listed_by_config = true;
  for (const auto& [key, value] : decoder) {
    PAGODA_ASSIGN_OR_RETURN(std::int64_t id, read_id(key));
    if (!value.is_object()) return corrupt_data("tokenizer_config.json: an added token is not an object");
    Result<AddedToken> token = read_token(value, std::nullopt);
    if (!token) return token.error().annotate("tokenizer_config.json");
    side.listed.push_back({*std::move(token), id});
  }
  return ok_status();
}

Status read_old_list(const json::object& added, const json::object& config, SideTokens& side) {
  std::vector<json::value> special;
  for (const std::string_view key : kNamed)
    if (const json::value* value = given(config, key)) special.push_back(*value);
  if (const json::value* extra = given(config, "extra_special_tokens"); extra != nullptr && extra->is_array())
    special.insert(special.end(), extra->get_array().begin(), extra->get_array().end());
  for (const auto& [content, id] : added) {
    if (!id.is_int64() || id.get_int64() < 0) return corrupt_data("added_tokens.json: a token has no id");
    AddedToken token;
    token.content = std::string(content);
    token.special = std::ranges::any_of(
        special, [&](const json::value& value) { return spelling_of(&value) == token.content; });
    token.normalized = !token.special;
    side.listed.push_back({std::move(token), id.get_int64()});
  }
  return ok_status();
}

bool same_rules(const AddedToken& a, const AddedToken& b) {
  return a.single_word == b.single_word && a.lstrip == b.lstrip && a.rstrip == b.rstrip &&
         a.normalized == b.normalized && a.special == b.special;
}

Result<std::optional<bool>> optional_bool(const json::object& config, std::string_view key) {
  if (given(config, key) == nullptr) return std::optional<bool>();
  Result<bool> value = bool_member(config, key, false);
  if (!value) return value.error().annotate("tokenizer_config.json");
  return std::optional<bool>(*value);
}

// As in transformers: setting either add_bos or add_eos replaces the whole post-processor.
void replace_post_processor(const SideTokens& side, TokenizerParts& parts) {
  const bool bos = side.add_bos.value_or(false) && parts.bos >= 0,
             eos = side.add_eos.value_or(false) && parts.eos >= 0;
  PostProcessor::Wrap wrap;
  PostProcessor::PairWrap pair{
      .before = {}, .between = {}, .after = {}, .second = eos ? 1u : 0u, .typed = true};
  if (bos) wrap.before.push_back(parts.bos);
  if (eos) wrap.after.push_back(parts.eos);
  pair.before = wrap.before;
  pair.between = pair.after = wrap.after;
  if (bos) pair.between.push_back(parts.bos);
  parts.post_processor.clear();
  parts.post_processor.add(std::move(wrap));
  parts.post_processor.add_pair(std::move(pair));
}

}  // namespace

Result<AddedEntry> read_added_entry(const json::value& value) {
  AddedEntry entry;
  const json::object* object = value.if_object();
  if (!object) return corrupt_data("an added token is not an object");
  const json::value* content = object->if_contains("content");
  if (!content || !content->is_string()) return corrupt_data("an added token has no content");
  entry.token.content = std::string(content->get_string());
  struct Flag {
    std::string_view key;
    bool AddedToken::* member;
  };
  for (const Flag& flag : {Flag{"single_word", &AddedToken::single_word}, Flag{"lstrip", &AddedToken::lstrip},
                           Flag{"rstrip", &AddedToken::rstrip}, Flag{"normalized", &AddedToken::normalized},
                           Flag{"special", &AddedToken::special}}) {
    PAGODA_ASSIGN_OR_RETURN(bool set, bool_member(*object, flag.key, false));
    entry.token.*flag.member = set;
  }
  if (const json::value* id = object->if_contains("id"); id && id->is_int64())
    entry.declared_id = id->get_int64();
  return entry;
}

Status add_entries(std::vector<AddedEntry> entries, std::size_t model_size, TokenizerParts& parts) {
  auto next = static_cast<TokenId>(model_size);
  for (const AddedToken& token : parts.added.tokens()) next = std::max(next, token.id + 1);
  for (AddedEntry& entry : entries) {
    AddedToken& token = entry.token;
    if (token.content.empty()) continue;
    if (const AddedToken* known = parts.added.find(token.content)) {
      token.id = known->id;
    } else if (const auto id = parts.vocabulary->find(token.content)) {
      token.id = *id;
    } else {
      token.id = next++;
    }
    if (token.id > Vocabulary::kMaxId) return corrupt_data("the tokenizer has too many added tokens");
    token.normalized_content = token.content;
    if (token.normalized && parts.normalizer) {
      NormalizedText text = NormalizedText::of(token.content, false);
      PAGODA_RETURN_IF_ERROR(parts.normalizer->apply(text));
      token.normalized_content = text.text;
    }
    parts.added.add(std::move(token));
  }
  return ok_status();
}

Result<json::object> parse_side_file(std::string_view text, std::string_view name) {
  text = without_byte_order_mark(text);
  if (text.empty()) return json::object();
  boost::system::error_code error;
  json::value value = json::parse(json::string_view(text.data(), text.size()), error);
  if (error) value = json::parse(strict_json(text), error);
  if (error || !value.is_object())
    return corrupt_data(concat(name, " is not a JSON object", error ? ": " + error.message() : ""));
  return std::move(value.as_object());
}

Result<SideTokens> read_side_files(const TokenizerSideFiles& files, const json::object& own) {
  SideTokens side;
  PAGODA_ASSIGN_OR_RETURN(json::object config, parse_side_file(files.config, "tokenizer_config.json"));
  for (const auto& [key, value] : own) config.emplace(key, value);
  rename_extra(config);
  const json::value* decoder = given(config, "added_tokens_decoder");
  if (decoder != nullptr && decoder->is_object()) {
    PAGODA_RETURN_IF_ERROR(read_special(config, side));
    PAGODA_RETURN_IF_ERROR(read_listed(decoder->get_object(), side));
  } else {
    PAGODA_ASSIGN_OR_RETURN(json::object map,
                            parse_side_file(files.special_tokens_map, "special_tokens_map.json"));
    PAGODA_ASSIGN_OR_RETURN(json::object added, parse_side_file(files.added_tokens, "added_tokens.json"));
    merge_map(map, config);
    PAGODA_RETURN_IF_ERROR(read_special(config, side));
    PAGODA_RETURN_IF_ERROR(read_old_list(added, config, side));
  }
  std::ranges::sort(side.listed, {}, &AddedEntry::declared_id);
  side.bos = spelling_of(given(config, "bos_token"));
  side.eos = spelling_of(given(config, "eos_token"));
  side.unk = spelling_of(given(config, "unk_token"));
  side.cls = spelling_of(given(config, "cls_token"));
  side.sep = spelling_of(given(config, "sep_token"));
  PAGODA_ASSIGN_OR_RETURN(std::optional<bool> add_bos, optional_bool(config, "add_bos_token"));
  PAGODA_ASSIGN_OR_RETURN(std::optional<bool> add_eos, optional_bool(config, "add_eos_token"));
  side.add_bos = add_bos;
  side.add_eos = add_eos;
  return side;
}

void hide_special(const SideTokens& side, Vocabulary& vocabulary) {
  const auto hide = [&](const AddedToken& token) {
    // A single character is not hidden: some files use "!" as padding, and texts need it.
    std::size_t end = 0;
    if (!token.special || token.content.empty() ||
        (next_code_point(token.content, end), end == token.content.size()))
      return;
    if (const auto id = vocabulary.find(token.content)) vocabulary.hide(*id);
  };
  for (const AddedToken& token : side.named) hide(token);
  for (const AddedToken& token : side.extra) hide(token);
  for (const AddedEntry& entry : side.listed) hide(entry.token);
}

Status apply_side_tokens(const SideTokens& side, std::size_t model_size, bool keep_known,
                         TokenizerParts& parts) {
  std::vector<AddedEntry> more;
  for (const AddedEntry& entry : side.listed) {
    const AddedToken* known = parts.added.find(entry.token.content);
    if (known != nullptr && (keep_known || same_rules(*known, entry.token))) continue;
    if (!side.listed_by_config && parts.added.find(static_cast<TokenId>(entry.declared_id)) != nullptr)
      continue;
    more.push_back(entry);
  }
  for (AddedEntry& entry : more)
    if (std::ranges::find(side.named, entry.token.content, &AddedToken::content) != side.named.end())
      entry.token.special = true;
  const auto is_listed = [&, count = more.size()](std::string_view content) {
    return std::any_of(more.begin(), more.begin() + static_cast<std::ptrdiff_t>(count),
                       [&](const AddedEntry& entry) { return entry.token.content == content; });
  };
  // The rules of a token's last name apply.
  for (const std::vector<AddedToken>* list : {&side.named, &side.extra})
    for (const AddedToken& token : *list)
      if (parts.added.find(token.content) == nullptr && !is_listed(token.content))
        more.push_back({token, -1});
  PAGODA_RETURN_IF_ERROR(add_entries(std::move(more), model_size, parts));
  const auto id_of = [&](std::string_view spelling, TokenId absent) -> TokenId {
    if (spelling.empty()) return absent;
    if (const AddedToken* token = parts.added.find(spelling)) return token->id;
    return parts.vocabulary->find(spelling).value_or(absent);
  };
  parts.bos = id_of(side.bos, parts.bos);
  parts.eos = id_of(side.eos, parts.eos);
  if (side.add_bos || side.add_eos) replace_post_processor(side, parts);
  return ok_status();
}

}  // namespace pagoda
