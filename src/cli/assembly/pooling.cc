#include "cli/assembly/pooling.h"

#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/assembly/memory_modes.h"
#include "cli/assembly/virtual_memory.h"

namespace pagoda {

Result<std::optional<PoolingModel>> pooling_model(const EngineFlags& flags, const ModelSource& source,
                                                  const ModelInfo& model, const Tokenizer* tokenizer) {
  TokenLookup find_token;
  if (tokenizer != nullptr) find_token = [tokenizer](std::string_view text) { return tokenizer->find(text); };
  const bool encoder = is_encoder(model.decoder);
  PAGODA_ASSIGN_OR_RETURN(auto pooling, read_pooling_model(source, encoder,
                                                           {.runner = flags.runner,
                                                            .pooler_config = flags.pooler_config,
                                                            .overrides = flags.hf_overrides},
                                                           find_token));
  if (pooling) PAGODA_RETURN_IF_ERROR(check_pooling_flags(flags, encoder));
  return pooling;
}

VectorModel vector_model(const PoolingModel& pooling, const ModelInfo& model, std::int32_t size) {
  VectorModel out;
  out.kind = pooling.kind;
  out.pooling = {.type = pooling.type, .normalize = pooling.kind == WorkKind::score || pooling.normalize};
  out.whole_prompt = is_encoder(model.decoder);
  out.token_types = model.decoder.token_types > 1;
  out.size = size;
  if (pooling.kind == WorkKind::score) {
    out.labels = pooling.labels;
    while (std::cmp_less(out.labels.size(), size)) out.labels.push_back(concat("LABEL_", out.labels.size()));
  }
  return out;
}

Status check_pooling_flags(const EngineFlags& flags, bool keeps_nothing) {
  if (flags.speculative)
    return invalid_argument("--speculative-config does not apply to this model, which returns vectors");
  if (!flags.prefix_file.empty())
    return invalid_argument("--prefix-file does not apply to this model, which returns vectors");
  if (keeps_nothing && (is_virtual(flags) || is_baseline(flags)))
    return invalid_argument("an encoder has no KV cache: it needs --kv-manager paged and --scheduler vllm");
  return ok_status();
}

}  // namespace pagoda
