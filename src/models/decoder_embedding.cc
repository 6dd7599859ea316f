// The input of the first layer of a DecoderModel.
#include <algorithm>
#include <cstring>

#include "kernels/elementwise.h"
#include "models/decoder.h"

namespace pagoda {

void DecoderModel::look_up_tokens(std::span<const std::int32_t> ids, float* out) const {
  if (weights_.token_embedding.data == nullptr)
    packed_rows(context_, weights_.head, ids, out);
  else
    embedding(context_, weights_.token_embedding, ids, out);
}

// Rows of the token embedding. Each rank has some tokens' rows and brings zeros for the others'.
Status DecoderModel::embed_tokens(std::span<const std::int32_t> ids, float* out) {
  if (shard_.size == 1) {
    look_up_tokens(ids, out);
    return ok_status();
  }
  const Range own = shard_.own_vocab();
  const auto is_own = [&](std::int32_t id) { return id >= own.first && id < own.end(); };
  own_ids_.clear();
  for (const std::int32_t id : ids)
    own_ids_.push_back(is_own(id) ? id - static_cast<std::int32_t>(own.first) : 0);
  look_up_tokens(own_ids_, out);
  const std::int64_t width = config_.embedding_size;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    float* values = out + static_cast<std::int64_t>(row) * width;
    if (!is_own(ids[row])) std::fill(values, values + width, 0.0f);
  }
  const std::int64_t length = static_cast<std::int64_t>(ids.size()) * width;
  return exchange_.sum({out, static_cast<std::size_t>(length)});
}

Status DecoderModel::embed(const DecoderBatch& batch) {
  const std::int64_t hidden = config_.hidden_size;
  if (config_.learned_positions) {
    shifted_positions_.assign(batch.positions.begin(), batch.positions.end());
    for (std::int32_t& position : shifted_positions_) position += config_.position_offset;
  }
  const Chunks all = chunks(batch.token_ids.size());
  for (std::int64_t i = 0; i < all.count(); ++i) {
    const Rows rows = all[i];
    const auto start = static_cast<std::size_t>(rows.first), count = static_cast<std::size_t>(rows.count);
    float* x = residual_ + rows.first * hidden;
    if (weights_.project_in) {
      PAGODA_RETURN_IF_ERROR(embed_tokens(batch.token_ids.subspan(start, count), normed_));
      linear(context_, *weights_.project_in, LinearInput::rows(normed_, config_.embedding_size), rows.count,
             x);
    } else {
      PAGODA_RETURN_IF_ERROR(embed_tokens(batch.token_ids.subspan(start, count), x));
    }
    if (embedding_scale_ != 1)
      for (std::int64_t j = 0; j < rows.count * hidden; ++j) x[j] *= embedding_scale_;
    if (config_.learned_positions) {
      embedding(context_, weights_.position_embedding, std::span(shifted_positions_).subspan(start, count),
                normed_);
      for (std::int64_t j = 0; j < rows.count * hidden; ++j) x[j] += normed_[j];
    }
    if (config_.token_types > 0) {
      types_.assign(static_cast<std::size_t>(rows.count), 0);
      if (!batch.token_types.empty())
        std::ranges::copy(batch.token_types.subspan(start, count), types_.begin());
      embedding(context_, weights_.type_embedding, types_, normed_);
      for (std::int64_t j = 0; j < rows.count * hidden; ++j) x[j] += normed_[j];
    }
    if (config_.embedding_norm) {
      normalize(*config_.embedding_norm, weights_.embedding_norm, x, rows.count, normed_);
      std::memcpy(x, normed_, static_cast<std::size_t>(rows.count * hidden) * sizeof(float));
    }
    if (weights_.streams) weights_.streams->begin(context_, rows.first, rows.count, x);
  }
  if (weights_.layer_inputs) {
    row_ids_.assign(batch.token_ids.begin(), batch.token_ids.end());
    std::memcpy(embedded_, residual_, row_ids_.size() * static_cast<std::size_t>(hidden) * sizeof(float));
  }
  return ok_status();
}

}  // namespace pagoda
