// Hunyuan (dense): Llama with an RMS norm of every query and key head behind the rotation.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_gguf(Hyperparameters& h, ModelInfo& model) { read_gguf_common(h, {}, model); }

}  // namespace

PAGODA_FAMILY(hunyuan) = {
    .architecture = "hunyuan-dense",
    .configs = {{"HunYuanDenseV1ForCausalLM", "HunYuanDenseV1Model", "hunyuan_v1_dense", read_hunyuan}},
    .ggufs = {{"hunyuan-dense", read_gguf}},
    .shape = norm_heads_behind_rotation,
    .names = hunyuan_names,
    .row = {.name = "Hunyuan: 0.5B to 7B, HY-MT",
            .differs = "norms of queries and keys behind the rotation",
            .checked = "transformers",
            .size = "7B",
            .config = R"({"model_type":"hunyuan_v1_dense","num_key_value_heads":8})"}};

}  // namespace pagoda
