#pragma once
// Reads the components of tokenizer.json (normalizer, pre-tokenizer, post-processor, decoder) into parts.
// Only for json_tokenizer.cc. An unknown component is refused by name.
#include <boost/json/value.hpp>

#include "tokenizer/pipeline_tokenizer.h"

namespace pagoda {

Status read_normalizer(const boost::json::value& json, NormalizerPtr& out);
// `bytes_to_model`: the model takes raw bytes, so a final ByteLevel does not map them; set to false if the
// components do not end with one.
Status read_pre_tokenizer(const boost::json::value& json, bool& bytes_to_model, bool& needs_origins,
                          PreTokenizerPtr& out);
Status read_post_processor(const boost::json::value& json, PostProcessor& out);
Status read_decoder(const boost::json::value& json, Decoder& out, TokenizerParts::Bytes& bytes);

// Members of an object; `absent` is the default if a member is missing or null. corrupt_data if it has
// another type.
Result<bool> bool_member(const boost::json::object& object, std::string_view key, bool absent);
Result<std::string> string_member(const boost::json::object& object, std::string_view key,
                                  std::string_view absent);

}  // namespace pagoda
