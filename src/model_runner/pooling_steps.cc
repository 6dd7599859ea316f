// LocalModelRunner where it makes vectors: what it takes at start.
#include <algorithm>
#include <utility>

#include "model_runner/local_model_runner.h"

namespace pagoda {

Status LocalModelRunner::check_encoder(const DecoderConfig& config, const RunnerOptions& options) {
  if (is_encoder(config) && options.parallel.size() > 1)
    return unimplemented("an encoder runs on one rank: use --tensor-parallel-size 1");
  if (is_encoder(config) && !options.pooling)
    return invalid_argument("an encoder returns vectors and generates no text: use --runner pooling");
  return ok_status();
}

Status LocalModelRunner::prepare_pooling(const ModelSource& source) {
  if (keeps_nothing()) {
    // A whole step's keys and values, of one layer at a time; each sequence begins a block.
    const std::int64_t blocks = options_.max_num_batched_tokens / options_.block_size +
                                std::min(options_.max_num_seqs, options_.max_num_batched_tokens);
    PAGODA_RETURN_IF_ERROR(allocate_kv_cache(blocks, 0));
  }
  if (!samples()) return ok_status();
  auto pooler = VectorPooler::create(context_, source, *options_.pooling, *decoder_);
  if (!pooler) return pooler.error();
  pooler_ = *std::move(pooler);
  return ok_status();
}

}  // namespace pagoda
