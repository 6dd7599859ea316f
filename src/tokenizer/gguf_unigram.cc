#include "tokenizer/gguf_unigram.h"

#include "base/assign_or_return.h"
#include "tokenizer/decode_steps.h"
#include "tokenizer/pieces.h"

namespace pagoda {

void add_encoder_pair(const GgufVocabulary& source, TokenizerParts& parts) {
  if (!parts.vocabulary->contains(source.bos) || !parts.vocabulary->contains(source.eos)) return;
  if (source.model == "t5" || source.pre == "roberta-bpe")
    parts.post_processor.add_pair(
        {.before = {source.bos}, .between = {source.eos, source.eos}, .after = {source.eos}});
  if (source.pre == "modern-bert")
    parts.post_processor.add_pair({.before = {source.bos}, .between = {source.eos}, .after = {source.eos}});
}

Status read_gguf_unigram(const GgufVocabulary& source, TokenizerParts& parts) {
  const std::size_t count = source.tokens.size();
  if (source.scores.size() != count)
    return corrupt_data("GGUF: tokenizer.ggml.scores does not have a number for each token");
  UnigramOptions options;
  SentencePieceOptions normalizer;
  normalizer.charsmap = source.charsmap;
  normalizer.add_dummy_prefix = source.add_space_prefix.value_or(true);
  normalizer.remove_extra_whitespaces = source.remove_extra_whitespaces;
  options.scores.assign(source.scores.begin(), source.scores.end());
  for (std::size_t i = 0; i < count; ++i) {
    const int type = i < source.types.size() ? source.types[i] : kNormal;
    options.usable.push_back((type == kNormal || type == kUserDefined) && !source.tokens[i].empty());
    options.user_defined.push_back(type == kUserDefined);
    if (type == kUserDefined) normalizer.user_defined.emplace_back(source.tokens[i]);
  }
  if (normalizer.user_defined.empty()) options.user_defined.clear();
  options.unknown = parts.vocabulary->contains(source.unk) ? source.unk : TokenId{2};
  if (!parts.vocabulary->contains(options.unknown))
    return corrupt_data("GGUF: the tokenizer has no unknown token");
  options.single_precision = true;
  parts.model = make_unigram(*parts.vocabulary, std::move(options));
  const bool strips_all = normalizer.remove_extra_whitespaces;
  const bool strips = normalizer.add_dummy_prefix || strips_all;
  PAGODA_ASSIGN_OR_RETURN(parts.normalizer, make_sentencepiece_normalizer(std::move(normalizer)));
  std::vector<DecodeStepMakerPtr> steps;
  if (strips) steps.push_back(make_leading_space_decoder(std::string(kMetaspace), strips_all));
  steps.push_back(make_replace_string_decoder(std::string(kMetaspace), " "));
  steps.push_back(make_fuse_decoder());
  parts.decoder = Decoder(std::move(steps));
  add_encoder_pair(source, parts);
  return ok_status();
}

}  // namespace pagoda
