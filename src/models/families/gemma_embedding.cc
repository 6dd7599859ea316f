// EmbeddingGemma in GGUF: bidirectional Gemma 3. Folders say so in a Gemma 3 config.json.
#include "models/reading.h"

namespace pagoda::gemma_embedding {

extern const Family family = {
    .architecture = "gemma3",
    .ggufs = {{"gemma-embedding",
               {.activation = "gelu_new", .encoder = true},
               [](Hyperparameters& h, ModelInfo& model) {
                 read_windows_to_both_sides(h, 6, model);
                 h.without_effect("dense_2_feat_in dense_2_feat_out dense_3_feat_in dense_3_feat_out");
               }}},
    .shape = gemma3_shape,
    .row = {.name = "EmbeddingGemma",
            .differs = "Gemma 3, bidirectional windows, two matrices after the mean",
            .checked = "transformers; its Dense modules: numpy",
            .vectors = true,
            .note = "Gemma3TextModel with `use_bidirectional_attention`"}};

}  // namespace pagoda::gemma_embedding
