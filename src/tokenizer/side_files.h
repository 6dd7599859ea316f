#pragma once
// Applies tokenizer_config.json, special_tokens_map.json and added_tokens.json to a tokenizer: additional
// added tokens, changed white space rules, BOS and EOS.
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

// Reads an object of tokenizer.json's added_tokens or of added_tokens_decoder.
Result<AddedEntry> read_added_entry(const boost::json::value& value);

// Adds tokens as the reference implementation does: known spellings keep their id, others get the next free
// id, whatever id the file declares. `model_size` is the number of ids before the added ones.
Status add_entries(std::vector<AddedEntry> entries, std::size_t model_size, TokenizerParts& parts);

struct SideTokens {
  std::vector<AddedEntry> listed;       // added_tokens_decoder, or else added_tokens.json; by id
  bool listed_by_config = false;        // from added_tokens_decoder: takes precedence over tokenizer.json
  std::vector<AddedToken> named;        // bos_token, …
  std::vector<AddedToken> extra;        // added in the same way as `named`
  std::string bos, eos, unk, cls, sep;  // empty: none
  std::optional<bool> add_bos, add_eos;
};

// Parses one of the files as an object; empty if the file is absent. `name` is used in error messages.
Result<boost::json::object> parse_side_file(std::string_view text, std::string_view name);
// `own`: default fields, overridden by tokenizer_config.json.
Result<SideTokens> read_side_files(const TokenizerSideFiles& files, const boost::json::object& own = {});

// Hides future special tokens, so that the model never finds them in a text. Call before the model is
// created.
void hide_special(const SideTokens& side, Vocabulary& vocabulary);

// Applies `side` after the tokenizer's own tokens: its tokens, its BOS and EOS, and, if `side` specifies the
// tokens around a text, the post-processor. `keep_known`: tokens that the tokenizer already has keep their
// rules.
Status apply_side_tokens(const SideTokens& side, std::size_t model_size, bool keep_known,
                         TokenizerParts& parts);

}  // namespace pagoda
