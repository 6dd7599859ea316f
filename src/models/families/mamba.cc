// Mamba: layers with only a selective scan: no attention, no feed-forward.
#include "models/reading.h"

namespace pagoda::mamba {

void read_mamba_1(Hyperparameters& h, ModelInfo& model) {
  read_scans(h, model, SelectiveScanConfig::Norms::none, 1e-6f);
}

// Falcon Mamba's files have this name, too; the epsilon of these norms is the same in all its models.
void read_gguf_mamba(Hyperparameters& h, ModelInfo& model) {
  SelectiveScanConfig scan = read_gguf_scan(h);
  if (h.boolean("ssm.dt_b_c_rms", false)) scan.norms = SelectiveScanConfig::Norms::unweighted;
  use_states_alone(scan, model);
}

void mamba_names(WeightNames& names) {
  mamba1_names(names, "mixer");
  states_alone_names(names);
}

extern const Family family = {
    .configs = {{"MambaForCausalLM", "mamba",
                 R"({"vocab_size":50280,"hidden_size":768,"num_hidden_layers":32,"layer_norm_epsilon":1e-5,
                     "bos_token_id":0,"eos_token_id":0,"pad_token_id":0,"tie_word_embeddings":true})",
                 read_mamba_1, Reads::all}},
    .ggufs = {{"mamba", {.rotates = false}, read_gguf_mamba}},
    .names = mamba_names,
    .gguf_names = states_alone_gguf_names,
    .row = {.name = "Mamba: 130M to 2.8B",
            .differs = "Mamba-1 in every layer, no attention and no feed-forward; folders that end in -hf",
            .size = "2.8B",
            .config = R"({"model_type":"mamba","hidden_size":2560,"num_hidden_layers":64})"}};

}  // namespace pagoda::mamba
