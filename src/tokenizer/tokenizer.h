#pragma once
// Tokenizer: text <-> token ids, with exactly the ids of Hugging Face `tokenizers`. Byte-level BPE,
// SentencePiece-style BPE (with byte fallback) and Unigram; normalizers, pre-tokenizers, added tokens,
// decoders. Immutable once created.
// Threads: any; all const.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_range.h"
#include "base/status.h"
#include "request/ids.h"

namespace pagoda {

struct EncodeOptions {
  bool parse_special = true;        // added tokens in the text become their ids
  bool add_special_tokens = false;  // the post-processor's BOS/EOS
  // Ascending, disjoint parts of the text, such as user input, in which no special token is recognised. A
  // match that overlaps such a part does not count; ordinary text merges across its borders as usual. (Added
  // tokens that consist only of white space are ordinary text and count everywhere.)
  std::span<const ByteRange> plain_ranges = {};
};

// The text of a growing sequence of ids, piece by piece; created by Tokenizer::text_stream.
class TokenTextStream {
 public:
  virtual ~TokenTextStream() = default;
  // Each call appends to `out` the text that has become certain.
  virtual void push(TokenId id, std::string& out) = 0;
  virtual void finish(std::string& out) = 0;
  // Ends the prompt: passes on text that is only waiting for the end, so that it does not become part of the
  // answer. The beginning of a character is still held back.
  virtual void settle(std::string& out) = 0;
};

// The tokenizer.ggml.* metadata of a GGUF file, as plain data. The strings only need to live during
// from_gguf.
struct GgufVocabulary {
  std::string model;  // "gpt2" (byte-level BPE), "llama" (SentencePiece), "bert" (WordPiece), "t5" (Unigram)
  std::string pre;    // "default", "llama-bpe", "qwen2", "smollm", …
  std::span<const std::string_view> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> types;  // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::span<const std::string_view> merges;
  TokenId bos = -1, eos = -1, unk = -1;
  TokenId sep = -1, cls = -1;  // "bert": surround a text in place of bos and eos
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  bool strips_behind_special = false;  // Phi-3: special tokens absorb the white space after them
  std::string charsmap;                // "t5": SentencePiece's, may be empty
  bool remove_extra_whitespaces = false;
};

// Files beside a vocabulary that add tokens to it or describe its tokens; empty if absent.
struct TokenizerSideFiles {
  std::string_view config = {};              // tokenizer_config.json
  std::string_view special_tokens_map = {};  // special_tokens_map.json
  std::string_view added_tokens = {};        // added_tokens.json
};

// Two texts encoded for a cross-encoder.
struct EncodedPair {
  std::vector<TokenId> ids;
  std::int32_t second = 0;  // index of the first token of type 1; 0: the tokenizer does not distinguish them
};

class Tokenizer {
 public:
  // From tokenizer.json. An unsupported component is refused by name.
  static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view json,
                                                      const TokenizerSideFiles& files = {});
  // From a SentencePiece tokenizer.model (protobuf).
  static Result<std::unique_ptr<Tokenizer>> from_sentencepiece(std::string_view bytes,
                                                               const TokenizerSideFiles& files = {});
  // From Mistral's tekken.json.
  static Result<std::unique_ptr<Tokenizer>> from_tekken(std::string_view json);
  // From lines of tokens and their ranks. Everything else follows from the file's name, which must be one of
  // tiktoken_files(): unimplemented for others.
  static Result<std::unique_ptr<Tokenizer>> from_tiktoken(std::string_view file_name, std::string_view text,
                                                          const TokenizerSideFiles& files = {});
  static std::vector<std::string_view> tiktoken_files();
  // True if a tokenizer.model is such a list (Llama 3's own form), rather than SentencePiece's format.
  static bool is_rank_list(std::string_view text);
  // From GGUF metadata. unimplemented for an unknown model or pre-tokenizer; the message lists the known
  // ones.
  static Result<std::unique_ptr<Tokenizer>> from_gguf(const GgufVocabulary& vocabulary);
  // From a folder with only vocab.json and merges.txt. The way of splitting text follows from
  // tokenizer_config.json's tokenizer_class, or else from config.json's model_type; unimplemented for an
  // unknown class.
  static Result<std::unique_ptr<Tokenizer>> from_vocab_and_merges(std::string_view vocab_json,
                                                                  std::string_view merges_txt,
                                                                  const TokenizerSideFiles& files = {},
                                                                  std::string_view model_type = {});
  virtual ~Tokenizer() = default;

  // invalid_argument if `text` is not UTF-8 (callers that can name the field check first).
  virtual Result<std::vector<TokenId>> encode(std::string_view text,
                                              const EncodeOptions& options = {}) const = 0;
  // Encodes a pair in the tokenizer's own form, with its special tokens; if it has none, one text after the
  // other.
  virtual Result<EncodedPair> encode_pair(std::string_view first, std::string_view second) const;
  // Ids out of range are skipped. The result may contain U+FFFD for bytes that are not a character.
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const = 0;

  // A stream whose concatenated pieces equal decode() of all its ids. Must not outlive the tokenizer.
  virtual std::unique_ptr<TokenTextStream> text_stream(bool skip_special_tokens) const;

  virtual std::int32_t vocab_size() const = 0;             // largest id + 1
  virtual std::string token_string(TokenId id) const = 0;  // the vocabulary's own spelling
  virtual std::string token_bytes(TokenId id) const = 0;   // the raw bytes that it represents in mid-text
  virtual std::optional<TokenId> find(std::string_view token) const = 0;
  virtual bool is_special(TokenId id) const = 0;
  virtual TokenId bos() const = 0;  // -1 if none
  virtual TokenId eos() const = 0;
};

}  // namespace pagoda
