// Start-up of models that make vectors.
#include <algorithm>
#include <utility>

#include "base/assign_or_return.h"
#include "model_runner/local_model_runner.h"

namespace pagoda {

Status check_encoder(const DecoderConfig& config, const RunnerOptions& options) {
  if (is_encoder(config) && options.parallel.size() > 1)
    return unimplemented("an encoder runs on one rank: use --tensor-parallel-size 1");
  if (is_encoder(config) && !options.pooling)
    return invalid_argument("an encoder returns vectors and generates no text: use --runner pooling");
  return ok_status();
}

std::int64_t blocks_of_a_step(const RunnerOptions& options) {
  return options.max_num_batched_tokens / options.block_size +
         std::min(options.max_num_seqs, options.max_num_batched_tokens);
}

Status LocalModelRunner::prepare_pooling(const ModelSource& source) {
  if (keeps_nothing()) {
    PAGODA_RETURN_IF_ERROR(allocate_kv_cache(blocks_of_a_step(options_), 0));
  }
  if (!samples()) return ok_status();
  PAGODA_ASSIGN_OR_RETURN(pooler_, VectorPooler::create(context_, source, *options_.pooling, *decoder_));
  return ok_status();
}

}  // namespace pagoda
