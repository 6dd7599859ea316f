// LocalModelRunner where it makes vectors: what it takes at start, and what of a step differs.
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

void LocalModelRunner::flatten_pooled(const ScheduledSequence& sequence, std::int32_t start) {
  const Rows rows = pooled_rows(sequence);
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row)
    output_row_ids_.push_back(start + static_cast<std::int32_t>(row));
  if (sequence.second_text == 0) return;
  const auto count = static_cast<std::int32_t>(sequence.tokens.size());
  token_types_.resize(token_ids_.size(), 0);
  const std::int32_t second =
      start + std::clamp(sequence.second_text - sequence.num_computed_tokens, 0, count);
  std::fill(token_types_.begin() + second, token_types_.end(), 1);
}

// Blocks for each sequence, one behind the other, that all layers use in turn.
void LocalModelRunner::lay_out_whole_prompts() {
  const std::int32_t size = layout_.block_size;
  block_tables_.clear();
  for (std::int32_t block = 0; block < kv_.num_blocks(); ++block) block_tables_.push_back(block);
  const std::int32_t* next = block_tables_.data();
  for (AttentionSequence& sequence : sequences_)
    sequence.block_table = std::exchange(next, next + (sequence.context_len + size - 1) / size);
  kv_.note_used(BlockId{static_cast<std::int32_t>(next - block_tables_.data()) - 1});
  layer_kv_.assign(static_cast<std::size_t>(config().num_layers()),
                   {.layout = kv_page_layout(), .layer = 0, .sequences = sequences_});
}

}  // namespace pagoda
