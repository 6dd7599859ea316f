#pragma once
// The steps from which a Decoder can be built. Source of the definitions: Hugging Face `tokenizers`,
// decoders/.
#include <cstddef>
#include <string>

#include "tokenizer/decoder.h"
#include "tokenizer/regex.h"

namespace pagoda {

// Bytes and characters: decode_bytes.cc.
DecodeStepMakerPtr make_byte_level_decoder();
DecodeStepMakerPtr make_byte_fallback_decoder();
// SentencePiece's rule for runs of byte tokens: complete characters become text, every other byte U+FFFD.
DecodeStepMakerPtr make_byte_run_decoder();

// These work on one token in chunks as well as on many tokens: decode_chunks.cc.
// SentencePiece's rule for the start of a text: the first piece loses one leading `space`; with `all`, so
// does every piece until text has been produced.
DecodeStepMakerPtr make_leading_space_decoder(std::string space, bool all);
DecodeStepMakerPtr make_fuse_decoder();
DecodeStepMakerPtr make_strip_decoder(std::string content, std::size_t start, std::size_t stop);
DecodeStepMakerPtr make_replace_string_decoder(std::string pattern, std::string content);

// Words: decode_words.cc.
DecodeStepMakerPtr make_metaspace_decoder(std::string replacement, bool drops_first);
DecodeStepMakerPtr make_word_piece_decoder(std::string prefix, bool cleanup);
DecodeStepMakerPtr make_bpe_decoder(std::string suffix);
DecodeStepMakerPtr make_ctc_decoder(std::string pad_token, std::string word_delimiter, bool cleanup);
DecodeStepMakerPtr make_replace_decoder(Regex pattern, std::string content);
DecodeStepMakerPtr make_join_decoder(std::string separator);  // `separator` between tokens

}  // namespace pagoda
