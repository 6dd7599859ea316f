#pragma once
// Reads a GGUF file of tokenizer model "t5" (XLM-R, T5): a SentencePiece Unigram with its character map. Used
// by Tokenizer::from_gguf alone.
#include "tokenizer/pipeline_tokenizer.h"

namespace pagoda {

// Vocabulary and added tokens are in `parts` already; sets all else but the order of special tokens around
// one text.
Status read_gguf_unigram(const GgufVocabulary& source, TokenizerParts& parts);

// How RoBERTa's and ModernBERT's cross-encoders read two texts; nothing of other files.
void add_encoder_pair(const GgufVocabulary& source, TokenizerParts& parts);

}  // namespace pagoda
