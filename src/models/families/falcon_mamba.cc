// Falcon Mamba: Mamba with unweighted norms of steps, B and C. In GGUF it is "mamba" with a flag.
#include "models/reading.h"

namespace pagoda::falcon_mamba {

void read_falcon_mamba(Hyperparameters& h, ModelInfo& model) {
  read_scans(h, model, SelectiveScanConfig::Norms::unweighted, h.number("mixer_rms_eps", 1e-6f));
}

void falcon_mamba_names(WeightNames& names) {
  mamba1_names(names, "mixer");
  states_alone_names(names);
}

extern const Family family = {
    .architecture = "falcon-mamba",
    .configs = {{"FalconMambaForCausalLM", "falcon_mamba",
                 R"({"vocab_size":50280,"hidden_size":768,"num_hidden_layers":32,"layer_norm_epsilon":1e-5,
                     "bos_token_id":0,"eos_token_id":0,"pad_token_id":0,"tie_word_embeddings":true})",
                 read_falcon_mamba, Reads::all}},
    .names = falcon_mamba_names,
    .row = {.name = "Falcon Mamba 7B, Falcon3-Mamba 7B",
            .differs = "Mamba with norms of what its states read; as GGUF it is a `mamba`",
            .size = "7B",
            .config = R"({"model_type":"falcon_mamba","hidden_size":4096,"intermediate_size":8192,
                          "num_hidden_layers":64})"}};

}  // namespace pagoda::falcon_mamba
