// Computes the input of a DecoderModel's first layer.
#include <algorithm>

#include "kernels/elementwise.h"
#include "models/decoder/decoder.h"

namespace pagoda {

void DecoderModel::look_up_tokens(std::span<const std::int32_t> ids, const Buffer& out,
                                  const EmbeddedIds& own) const {
  if (weights_.token_embedding.data == nullptr)
    packed_rows(context_, weights_.head, ids, out, own);
  else
    embedding(context_, weights_.token_embedding, ids, out, own);
}

// Looks up rows of the token embedding. Each rank has some tokens' rows and contributes zeros for the others.
Status DecoderModel::embed_tokens(std::span<const std::int32_t> ids, const Buffer& out) {
  if (shard_.size == 1) {
    look_up_tokens(ids, out);
    return ok_status();
  }
  const Range own = shard_.own_vocab();
  look_up_tokens(ids, out, {.first_id = own.first, .num_ids = own.count});
  return exchange_.sum_rows(context_, {std::ssize(ids), config_.embedding_size}, out);
}

Status DecoderModel::embed(const DecoderBatch& batch) {
  const Chunks all = chunks(batch.token_ids.size());
  for (std::int64_t i = 0; i < all.count(); ++i) {
    const Rows rows = all[i];
    const auto start = static_cast<std::size_t>(rows.first), count = static_cast<std::size_t>(rows.count);
    const RowShape shape = hidden_rows(rows.count);
    const Buffer x = residual_.at(rows.first);
    if (weights_.project_in) {
      const Buffer narrow = normed_.with_stride(config_.embedding_size);
      PAGODA_RETURN_IF_ERROR(embed_tokens(batch.token_ids.subspan(start, count), narrow));
      linear(context_, *weights_.project_in, LinearInput::rows(narrow), rows.count, x);
    } else {
      PAGODA_RETURN_IF_ERROR(embed_tokens(batch.token_ids.subspan(start, count), x));
    }
    if (embedding_scale_ != 1) scale_rows(context_, shape, embedding_scale_, x);
    if (config_.learned_positions) {
      embedding(context_, weights_.position_embedding, batch.positions.subspan(start, count), normed_,
                {.first_id = -config_.position_offset});
      add_rows(context_, shape, 1, normed_, x);
    }
    if (config_.token_types > 0) {
      types_.assign(count, 0);
      if (!batch.token_types.empty())
        std::ranges::copy(batch.token_types.subspan(start, count), types_.begin());
      embedding(context_, weights_.type_embedding, types_, normed_);
      add_rows(context_, shape, 1, normed_, x);
    }
    if (config_.embedding_norm) {
      normalize(*config_.embedding_norm, weights_.embedding_norm, x, rows.count, x);
    }
    if (weights_.streams) weights_.streams->begin(context_, rows.first, rows.count, x);
  }
  if (weights_.layer_inputs) {
    row_ids_.assign(batch.token_ids.begin(), batch.token_ids.end());
    copy_rows(context_, hidden_rows(std::ssize(row_ids_)), residual_, embedded_);
  }
  return ok_status();
}

}  // namespace pagoda
