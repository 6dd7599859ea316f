#pragma once
// Reads a GGUF file with tokenizer model "t5" (XLM-R, T5): a SentencePiece Unigram model with its character
// map. Used only by Tokenizer::from_gguf.
#include "tokenizer/pipeline_tokenizer.h"

namespace pagoda {

// `parts` already has the vocabulary and added tokens; sets everything else except the special tokens around
// a single text.
Status read_gguf_unigram(const GgufVocabulary& source, TokenizerParts& parts);

// Sets how the cross-encoders of RoBERTa and ModernBERT encode two texts; does nothing for other files.
void add_encoder_pair(const GgufVocabulary& source, TokenizerParts& parts);

}  // namespace pagoda
