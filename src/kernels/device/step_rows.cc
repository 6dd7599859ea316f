// Copies to the device, once per step, everything that ops read about its rows, sequences and states except
// for its image.
#include <algorithm>

#include "base/strings.h"
#include "kernels/device/device_ops.h"

namespace pagoda {

void DeviceOps::begin_step(std::span<const std::int32_t> image, const std::int32_t* there,
                           const std::optional<StepBucket>& bucket) {
  image_ = std::as_bytes(image);
  image_there_ = reinterpret_cast<const std::byte*>(there);
  bucket_ = bucket;
  num_rows_there_ = nullptr;
  shown_.clear();
  shown_rows_.clear();
  shown_states_.clear();
  shown_adapters_.clear();
  normed_.reset();
  rounded_.reset();
  attended_.reset();
  unfinished_.reset();
}

void DeviceOps::bring(std::span<const std::vector<AttentionSequence>> lanes,
                      std::span<const LayerStates> states) {
  CHECK(bucket_);
  num_rows_there_ = there(std::vector<std::int32_t>{static_cast<std::int32_t>(lanes.front().size())});
  show_rows(lanes.front(), 0);
  for (const std::vector<AttentionSequence>& lane : lanes) show(lane);
  places_ = {image_there_, num_rows_there_, shown_rows_.front().second.positions};
  for (const auto& [of, shown] : shown_) places_.insert(places_.end(), {shown.tables, shown.sequences});
  if (states.empty()) return;
  const device::StatesArgs args = show(states.front(), 0).args;
  places_.insert(places_.end(), {args.sequences, args.stores, static_cast<const void*>(args.pieces)});
}

void DeviceOps::begin_capture() {
  captures_ = true;
  refused_.clear();
  normed_.reset();
  rounded_.reset();
  attended_.reset();
}

std::string DeviceOps::end_capture() {
  captures_ = false;
  normed_.reset();
  rounded_.reset();
  attended_.reset();
  return std::exchange(refused_, {});
}

void DeviceOps::refuse_capture(std::string_view why) {
  if (refused_.empty()) refused_ = why;
}

DeviceOps::Sequences DeviceOps::show(std::span<const AttentionSequence> sequences) {
  for (const auto& [of, shown] : shown_)
    if (of == sequences.data()) return shown;
  const std::int64_t rows = sequences.back().query_start + sequences.back().num_queries;
  Sequences shown = {.num_rows = bucket_ ? bucket_->rows : rows};
  const auto num_rows = static_cast<std::size_t>(shown.num_rows);
  std::vector<device::SequenceRows> of_sequences;
  std::vector<std::int32_t> words(2 * num_rows, -1);  // each row's table, then each row's sequence
  const auto* const image = reinterpret_cast<const std::int32_t*>(image_.data());
  for (const AttentionSequence& sequence : sequences) {
    const auto first = static_cast<std::size_t>(sequence.query_start),
               count = static_cast<std::size_t>(sequence.num_queries);
    const auto table = static_cast<std::int32_t>(sequence.block_table - image);
    std::fill_n(words.begin() + static_cast<std::ptrdiff_t>(first), count, table);
    std::fill_n(words.begin() + static_cast<std::ptrdiff_t>(num_rows + first), count,
                static_cast<std::int32_t>(of_sequences.size()));
    // Its offset in the image gives the location of all of its blocks.
    of_sequences.push_back({.first_row = sequence.query_start,
                            .num_rows = sequence.num_queries,
                            .context = sequence.context_len,
                            .table = there(std::span(sequence.block_table, 1))});
  }
  if (bucket_) of_sequences.resize(num_rows);
  shown.block_tables = reinterpret_cast<const std::int32_t*>(image_there_);
  shown.tables = there(words);
  shown.of_rows = shown.tables == nullptr ? nullptr : shown.tables + num_rows;
  shown.sequences = there(of_sequences);
  shown_.emplace_back(sequences.data(), shown);
  return shown;
}

DeviceOps::AttentionRows DeviceOps::show_rows(std::span<const AttentionSequence> sequences,
                                              std::int32_t rows_of_tile) {
  // A sequence with at most this many new tokens has the splits of its context computed in parallel.
  constexpr std::int32_t kFewTokens = 8;
  for (const auto& [rows_of, shown] : shown_rows_)
    if (rows_of == rows_of_tile || bucket_) return shown;
  AttentionRows shown;
  std::vector<std::int32_t> positions, split_rows, whole_rows, tiles;
  for (const AttentionSequence& sequence : sequences) {
    const std::int32_t count = sequence.num_queries;
    CHECK(std::cmp_equal(sequence.query_start, positions.size()));
    const bool few = count <= kFewTokens;
    if (few) {
      const std::int32_t splits = device::splits_of(sequence.context_len);
      shown.splits = std::max(shown.splits, splits);
      shown.all_splits += std::int64_t{count} * splits;
    }
    for (std::int32_t row = 0; row < count; ++row) {
      if (!few && rows_of_tile > 0 && row % rows_of_tile == 0)
        tiles.push_back(static_cast<std::int32_t>(whole_rows.size()));
      (few ? split_rows : whole_rows).push_back(sequence.query_start + row);
      positions.push_back(sequence.context_len - count + row);
    }
  }
  if (bucket_) {
    CHECK(whole_rows.empty() && std::cmp_less_equal(positions.size(), bucket_->rows) &&
          shown.splits <= bucket_->splits);
    positions.resize(static_cast<std::size_t>(bucket_->rows));
    for (auto row = static_cast<std::int32_t>(split_rows.size()); row < bucket_->rows; ++row)
      split_rows.push_back(row);
    shown.splits = bucket_->splits;
    shown.all_splits = bucket_->alike ? 0 : 1;
  }
  shown.one_each = std::ranges::all_of(
      sequences, [](const AttentionSequence& sequence) { return sequence.num_queries == 1; });
  shown.num_rows = std::ssize(positions);
  shown.num_split_rows = std::ssize(split_rows);
  shown.num_whole_rows = std::ssize(whole_rows);
  shown.num_tiles = std::ssize(tiles);
  if (!tiles.empty()) tiles.push_back(static_cast<std::int32_t>(whole_rows.size()));
  std::vector<std::int32_t> all;
  for (const auto* part : {&positions, &split_rows, &whole_rows, &tiles})
    all.insert(all.end(), part->begin(), part->end());
  const std::int32_t* next = there(all);
  const auto take = [&](const std::vector<std::int32_t>& part) {
    return next == nullptr ? nullptr : std::exchange(next, next + part.size());
  };
  shown.positions = take(positions);
  shown.split_rows = take(split_rows);
  shown.whole_rows = take(whole_rows);
  shown.tiles = take(tiles);
  shown_rows_.emplace_back(rows_of_tile, shown);
  return shown;
}

// All layers' states at once. The pieces of sequences come first, so that they are at the same place in every
// step of a bucket.
DeviceOps::States DeviceOps::show(const LayerStates& states, std::int32_t piece) {
  const auto of_layer = [&](States shown) {
    if (shown.args.pieces != nullptr) shown.args.pieces += states.first_piece + piece;
    return shown;
  };
  for (const auto& [of, shown] : shown_states_)
    if (of == states.sequences.data()) return of_layer(shown);
  std::vector<device::StateRows> rows;
  std::vector<device::StoreRows> stores;
  std::vector<float*> pieces;
  const auto put_pieces = [&](float* const* own) {
    const auto at = static_cast<std::int32_t>(pieces.size());
    pieces.insert(pieces.end(), own, own + states.num_pieces);
    return at;
  };
  for (const StateSequence& sequence : states.sequences)
    rows.push_back({.first_row = sequence.first_row,
                    .num_rows = sequence.num_rows,
                    .num_drafts = sequence.num_drafts,
                    .fresh = sequence.fresh ? 1 : 0,
                    .num_stores = static_cast<std::int32_t>(sequence.stores.size()),
                    .first_piece = put_pieces(sequence.pieces)});
  for (std::size_t i = 0; i < states.sequences.size(); ++i) {
    rows[i].first_store = static_cast<std::int32_t>(stores.size());
    for (const StateStore& store : states.sequences[i].stores)
      stores.push_back({.num_rows = store.num_rows, .first_piece = put_pieces(store.pieces)});
  }
  if (bucket_) {
    const auto count = static_cast<std::size_t>(bucket_->rows);
    CHECK(stores.size() <= count);  // a row has at most one
    rows.resize(count);
    stores.resize(count);
    pieces.resize(std::max(pieces.size(), count * static_cast<std::size_t>(states.num_pieces)));
  }
  States shown = {.args = {.sequences = there(rows), .stores = there(stores)},
                  .num_sequences = std::ssize(rows)};
  shown.args.pieces = there(pieces);
  shown_states_.emplace_back(states.sequences.data(), shown);
  return of_layer(shown);
}

}  // namespace pagoda
