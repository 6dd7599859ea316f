#pragma once
// Applies tokenizer_config.json, special_tokens_map.json and added_tokens.json to a tokenizer: more added
// tokens, other white space rules, BOS and EOS.
// Source: transformers 5, PreTrainedTokenizerBase._from_pretrained and TokenizersBackend.__init__.
// Threads: any.
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/pipeline_tokenizer.h"

namespace pagoda {

struct AddedEntry {
  AddedToken token;
  std::int64_t declared_id = -1;
};

// An object of tokenizer.json's added_tokens or of added_tokens_decoder.
Result<AddedEntry> read_added_entry(const boost::json::value& value);

// Adds tokens the way the reference does: known spellings keep their id, others get the next free one,
// whatever id the file declares. `model_size` is the number of ids before the added ones.
Status add_entries(std::vector<AddedEntry> entries, std::size_t model_size, TokenizerParts& parts);

struct SideTokens {
  std::vector<AddedEntry> listed;       // added_tokens_decoder, or else added_tokens.json; by id
  bool listed_by_config = false;        // the former: they win over tokenizer.json's
  std::vector<AddedToken> named;        // bos_token, …
  std::vector<AddedToken> extra;        // added as the named ones are
  std::string bos, eos, unk, cls, sep;  // empty: none
  std::optional<bool> add_bos, add_eos;
};

// One of the files as an object, empty where there is none. `name` is for what may be wrong with it.
Result<boost::json::object> parse_side_file(std::string_view text, std::string_view name);
// `own`: fields that tokenizer_config.json has where it does not say otherwise.
Result<SideTokens> read_side_files(const TokenizerSideFiles& files, const boost::json::object& own = {});

// Hides what becomes a special token: what the model reads in a text never finds it. Before the model is
// made.
void hide_special(const SideTokens& side, Vocabulary& vocabulary);

// After the tokenizer's own tokens: those of `side`, its BOS and EOS, and the post-processor where `side`
// says what surrounds a text. `keep_known`: tokens that the tokenizer has keep their rules.
Status apply_side_tokens(const SideTokens& side, std::size_t model_size, bool keep_known,
                         TokenizerParts& parts);

}  // namespace pagoda
