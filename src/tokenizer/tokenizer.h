#pragma once
// Tokenizer: text <-> token ids, id for id what Hugging Face `tokenizers` gives. Byte-level BPE,
// SentencePiece-style BPE (with byte fallback) and Unigram; normalizers, pre-tokenizers, added tokens,
// decoders. Immutable once made.
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
  // Ascending, disjoint parts of the text in which no special token is recognised: what a user typed. A
  // match that reaches into one is none; ordinary text merges across the borders as
  // usual. (Added tokens that are nothing but white space are ordinary text and count everywhere.)
  std::span<const ByteRange> plain_ranges = {};
};

// The text of a growing row of ids, piece by piece; Tokenizer::text_stream makes one.
class TokenTextStream {
 public:
  virtual ~TokenTextStream() = default;
  // Each appends to `out` what has become certain.
  virtual void push(TokenId id, std::string& out) = 0;
  virtual void finish(std::string& out) = 0;
  // Ends the prompt: passes on text that waits only for the end, so that it is no part of the answer. The
  // beginning of a character keeps waiting for its end.
  virtual void settle(std::string& out) = 0;
};

// The tokenizer.ggml.* metadata of a GGUF file, as plain data. The strings are looked at during from_gguf
// only.
struct GgufVocabulary {
  std::string model;  // "gpt2" (byte-level BPE), "llama" (SentencePiece), "bert" (WordPiece), "t5" (Unigram)
  std::string pre;    // "default", "llama-bpe", "qwen2", "smollm", …
  std::span<const std::string_view> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> types;  // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::span<const std::string_view> merges;
  TokenId bos = -1, eos = -1, unk = -1;
  TokenId sep = -1, cls = -1;  // "bert": put around a text in place of bos and eos
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  bool strips_behind_special = false;  // Phi-3: special tokens take the white space behind them
  std::string charsmap;                // "t5": SentencePiece's, may be empty
  bool remove_extra_whitespaces = false;
};

// The files beside a vocabulary that add tokens to it or say more about those it has; empty where absent.
struct TokenizerSideFiles {
  std::string_view config = {};              // tokenizer_config.json
  std::string_view special_tokens_map = {};  // special_tokens_map.json
  std::string_view added_tokens = {};        // added_tokens.json
};

// Two texts as a cross-encoder reads them.
struct EncodedPair {
  std::vector<TokenId> ids;
  std::int32_t second = 0;  // first token of type 1; 0: the tokenizer does not tell them apart
};

class Tokenizer {
 public:
  // tokenizer.json. A component that is not supported is refused by name.
  static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view json,
                                                      const TokenizerSideFiles& files = {});
  // A SentencePiece tokenizer.model (protobuf).
  static Result<std::unique_ptr<Tokenizer>> from_sentencepiece(std::string_view bytes,
                                                               const TokenizerSideFiles& files = {});
  // Mistral's tekken.json.
  static Result<std::unique_ptr<Tokenizer>> from_tekken(std::string_view json);
  // Lines of tokens and their ranks. The rest is known by the file's name, which is one of tiktoken_files():
  // unimplemented for others.
  static Result<std::unique_ptr<Tokenizer>> from_tiktoken(std::string_view file_name, std::string_view text,
                                                          const TokenizerSideFiles& files = {});
  static std::vector<std::string_view> tiktoken_files();
  // Whether a tokenizer.model is such a list (Llama 3's own form) and not SentencePiece's.
  static bool is_rank_list(std::string_view text);
  // `unimplemented` naming the model or pre-tokenizer, and those that are known.
  static Result<std::unique_ptr<Tokenizer>> from_gguf(const GgufVocabulary& vocabulary);
  // A folder with vocab.json and merges.txt alone. How text is cut follows from tokenizer_config.json's
  // tokenizer_class, or else from config.json's model_type; unimplemented for a class that is not known.
  static Result<std::unique_ptr<Tokenizer>> from_vocab_and_merges(std::string_view vocab_json,
                                                                  std::string_view merges_txt,
                                                                  const TokenizerSideFiles& files = {},
                                                                  std::string_view model_type = {});
  virtual ~Tokenizer() = default;

  // invalid_argument: not UTF-8 (callers check first where they can name the field).
  virtual Result<std::vector<TokenId>> encode(std::string_view text,
                                              const EncodeOptions& options = {}) const = 0;
  // The tokenizer's own form of a pair, with its special tokens; where it has none, one text after the other.
  virtual Result<EncodedPair> encode_pair(std::string_view first, std::string_view second) const;
  // Ids out of range are skipped. The result may hold U+FFFD for bytes that are no character.
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const = 0;

  // A stream whose pieces joined equal decode() of all its ids. It must not outlive the tokenizer.
  virtual std::unique_ptr<TokenTextStream> text_stream(bool skip_special_tokens) const;

  virtual std::int32_t vocab_size() const = 0;             // largest id + 1
  virtual std::string token_string(TokenId id) const = 0;  // the vocabulary's own spelling
  virtual std::string token_bytes(TokenId id) const = 0;   // the raw bytes it stands for, in mid-text
  virtual std::optional<TokenId> find(std::string_view token) const = 0;
  virtual bool is_special(TokenId id) const = 0;
  virtual TokenId bos() const = 0;  // -1: none
  virtual TokenId eos() const = 0;
};

}  // namespace pagoda
