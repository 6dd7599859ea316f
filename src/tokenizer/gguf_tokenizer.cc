// Tokenizer::from_gguf: the vocabularies in GGUF files.
#include <algorithm>
#include <array>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/decode_steps.h"
#include "tokenizer/gguf_pre_tokenizers.h"
#include "tokenizer/gguf_unigram.h"
#include "tokenizer/pieces.h"
#include "tokenizer/pipeline_tokenizer.h"

namespace pagoda {
namespace {

// Files that name their tokenizer "gpt2" although it has SentencePiece's pieces, such as Gemma 4's.
bool holds_pieces(std::string_view pre) {
  return pre == "gemma4" || pre == "granite-embed-multi-311m" || pre == "sarvam-moe";
}

class GgufBuilder {
 public:
  explicit GgufBuilder(const GgufVocabulary& source) : source_(source) {}

  Result<std::unique_ptr<Tokenizer>> build() {
    if (Status status = read(); !status.ok()) return status;
    parts_.bos = known(source_.bos);
    parts_.eos = known(source_.eos);
    parts_.added.build();
    return std::unique_ptr<Tokenizer>(std::make_unique<PipelineTokenizer>(std::move(parts_)));
  }

 private:
  Status read() {
    parts_.vocabulary = std::make_unique<Vocabulary>();
    Vocabulary& vocabulary = *parts_.vocabulary;
    if (source_.tokens.empty()) return corrupt_data("GGUF: tokenizer.ggml.tokens is missing or empty");
    if (source_.tokens.size() > Vocabulary::kMaxId)
      return corrupt_data("GGUF: tokenizer.ggml.tokens is too long");
    std::size_t num_bytes = 0;
    for (const std::string_view token : source_.tokens) num_bytes += token.size();
    vocabulary.reserve(source_.tokens.size(), num_bytes);
    for (std::size_t i = 0; i < source_.tokens.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      // The first of equal spellings keeps its id, as the later one could never be encoded.
      if (!vocabulary.add_if_new(source_.tokens[i], id))
        return corrupt_data("GGUF: tokenizer.ggml.tokens is too large");
      const int type = type_of(id);
      if (type == kControl || type == kUnknown) vocabulary.hide(id);
      if (type == kControl || type == kUnknown || type == kUserDefined) {
        AddedToken token;
        token.id = id;
        token.content = token.normalized_content = source_.tokens[i];
        token.special = type != kUserDefined;
        // SentencePiece matches its white space symbols after spaces have become U+2581.
        token.normalized = type == kUserDefined && token.content.find(kMetaspace) != std::string::npos;
        strip_around(token);
        if (is_valid_utf8(token.content)) parts_.added.add(std::move(token));
      }
    }
    if (source_.model == "gpt2" && holds_pieces(source_.pre)) return read_ranked_pieces(false);
    if (source_.model == "gpt2") return read_byte_level();
    if (source_.model == "llama") return read_sentencepiece();
    if (source_.model == "gemma4") return read_ranked_pieces(true);
    if (source_.model == "bert") return read_word_piece();
    if (source_.model == "t5") {
      wrap(source_.bos, source_.eos, false, true);
      return read_gguf_unigram(source_, parts_);
    }
    return unimplemented(concat("GGUF: the tokenizer model '", source_.model,
                                "' is not supported (supported: gpt2, llama, gemma4, bert, t5)"));
  }

  // The file does not record which tokens absorb the white space around them; tokenizer.json does.
  void strip_around(AddedToken& token) const {
    if (source_.strips_behind_special)
      token.rstrip = token.content != "<unk>" && token.content != "<s>" && token.content != "<|endoftext|>";
    const bool roberta =
        source_.model == "t5" || source_.pre == "roberta-bpe" || source_.pre.starts_with("jina-v2-");
    token.lstrip =
        (roberta && token.content == "<mask>") || (source_.pre == "modern-bert" && token.content == "[MASK]");
  }

  int type_of(TokenId id) const {
    const auto at = static_cast<std::size_t>(id);
    return at < source_.types.size() ? source_.types[at] : kNormal;
  }
  TokenId known(TokenId id) const { return parts_.vocabulary->contains(id) ? id : -1; }

  void wrap(TokenId before, TokenId after, bool add_before, bool add_after) {
    PostProcessor::Wrap wrap;
    if (source_.add_bos.value_or(add_before) && known(before) >= 0) wrap.before.push_back(before);
    if (source_.add_eos.value_or(add_after) && known(after) >= 0) wrap.after.push_back(after);
    parts_.post_processor.add(std::move(wrap));
  }

  Status read_byte_level() {
    PAGODA_ASSIGN_OR_RETURN(GgufPreTokenizer pre, make_gguf_pre_tokenizer(source_.pre));
    parts_.pre_tokenizer = std::move(pre.pre_tokenizer);
    if (pre.nfc) parts_.normalizer = make_unicode_normalizer(NormalForm::nfc);
    if (source_.add_space_prefix.value_or(false)) {
      std::vector<PreTokenizerPtr> steps;
      steps.push_back(make_byte_level_pre_tokenizer(true, false, false));
      steps.push_back(std::move(parts_.pre_tokenizer));
      parts_.pre_tokenizer = make_sequence_pre_tokenizer(std::move(steps));
    }
    PAGODA_ASSIGN_OR_RETURN(const MergeList merges, read_merges());
    PAGODA_ASSIGN_OR_RETURN(parts_.model, make_bpe(*parts_.vocabulary, merges,
                                                   {.byte_level = pre.bytes_to_model,
                                                    .ignore_merges = pre.ignore_merges,
                                                    .skip_bad_merges = true}));
    std::vector<DecodeStepMakerPtr> steps;
    steps.push_back(make_byte_level_decoder());
    parts_.decoder = Decoder(std::move(steps));
    parts_.bytes = TokenizerParts::Bytes::byte_level;
    wrap(source_.bos, source_.eos, pre.add_bos, false);
    add_encoder_pair(source_, parts_);
    return ok_status();
  }

  Result<MergeList> read_merges() const {
    MergeList merges;
    merges.reserve(source_.merges.size());
    for (const std::string_view merge : source_.merges) {
      // Either part may begin with the space character of a non-byte-level alphabet: search after the first
      // character.
      const std::size_t space = merge.find(' ', 1);
      if (space == std::string::npos)
        return corrupt_data(concat("GGUF: merge '", merge, "' is not two tokens"));
      merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
    }
    return merges;
  }

  // Gemma 4: SentencePiece's pieces, formed by ranked merges instead of scores, over the whole text.
  Status read_ranked_pieces(bool add_bos) {
    PAGODA_ASSIGN_OR_RETURN(const MergeList merges, read_merges());
    const TokenId unknown = known(source_.unk >= 0 ? source_.unk : 3);
    Result<TokenModelPtr> model =
        make_bpe(*parts_.vocabulary, merges,
                 {.byte_fallback = true,
                  .fuse_unknown = true,
                  .skip_bad_merges = true,
                  .unknown_token = unknown >= 0 ? std::string(parts_.vocabulary->token(unknown)) : ""});
    if (!model) return model.error();
    parts_.model = *std::move(model);
    decode_pieces(source_.add_space_prefix.value_or(false));
    wrap(source_.bos, source_.eos, add_bos, false);
    return ok_status();
  }

  // Text to pieces and back: spaces are U+2581, bytes without a token <0xNN>.
  void decode_pieces(bool prefix) {
    std::vector<NormalizerPtr> normalizers;
    if (prefix) normalizers.push_back(make_prepend_normalizer(std::string(kMetaspace)));
    normalizers.push_back(make_replace_string_normalizer(" ", std::string(kMetaspace)));
    parts_.normalizer = make_sequence_normalizer(std::move(normalizers));
    std::vector<DecodeStepMakerPtr> steps;
    steps.push_back(make_replace_string_decoder(std::string(kMetaspace), " "));
    steps.push_back(make_byte_fallback_decoder());
    steps.push_back(make_fuse_decoder());
    if (prefix) steps.push_back(make_strip_decoder(" ", 1, 0));
    parts_.decoder = Decoder(std::move(steps));
    parts_.bytes = TokenizerParts::Bytes::byte_fallback;
  }

  Status read_sentencepiece() {
    ScoredBpeOptions options;
    options.scores = source_.scores;
    const std::size_t count = source_.tokens.size();
    options.can_merge.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const int type = type_of(static_cast<TokenId>(i));
      options.can_merge[i] = type != kControl && type != kUnknown && type != kByte;
    }
    options.unknown = known(source_.unk >= 0 ? source_.unk : 0);
    options.byte_fallback = true;
    parts_.model = make_scored_bpe(*parts_.vocabulary, std::move(options));
    decode_pieces(source_.add_space_prefix.value_or(true));
    wrap(source_.bos, source_.eos, true, false);
    return ok_status();
  }

  // BERT's WordPiece; the file marks the first piece of a word (U+2581), not the others (##).
  Status read_word_piece() {
    WordPieceOptions options;
    options.unknown_token = parts_.vocabulary->contains(source_.unk)
                                ? std::string(parts_.vocabulary->token(source_.unk))
                                : "[UNK]";
    options.word_prefix = kMetaspace;
    options.continuing_subword_prefix.clear();
    if (const auto id = parts_.vocabulary->find(options.unknown_token)) parts_.vocabulary->hide(*id);
    parts_.model = make_word_piece(*parts_.vocabulary, std::move(options));
    parts_.normalizer = make_bert_normalizer({.strip_accents = true});
    parts_.pre_tokenizer = make_bert_pre_tokenizer();
    std::vector<DecodeStepMakerPtr> steps;
    steps.push_back(make_replace_string_decoder(std::string(kMetaspace), " "));
    steps.push_back(make_fuse_decoder());
    steps.push_back(make_strip_decoder(" ", 1, 0));
    parts_.decoder = Decoder(std::move(steps));
    const TokenId cls = source_.cls >= 0 ? source_.cls : source_.bos,
                  sep = source_.sep >= 0 ? source_.sep : source_.eos;
    wrap(cls, sep, true, true);
    if (known(cls) >= 0 && known(sep) >= 0)
      parts_.post_processor.add_pair(
          {.before = {cls}, .between = {sep}, .after = {sep}, .second = 1, .typed = true});
    return ok_status();
  }

  const GgufVocabulary& source_;
  TokenizerParts parts_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_gguf(const GgufVocabulary& vocabulary) {
  return GgufBuilder(vocabulary).build();
}

}  // namespace pagoda
