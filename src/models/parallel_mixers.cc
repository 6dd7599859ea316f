// Two mixers that read the same and whose results are added: attention beside linear attention (Falcon-H1).
// Each has a part of the room for what it made of the rows before it mixes; what they mixed stands side by
// side in each row.
#include <algorithm>

#include "kernels/rows.h"
#include "models/layer_part.h"

namespace pagoda {
namespace {

class ParallelMixers final : public Mixer {
 public:
  ParallelMixers(std::unique_ptr<Mixer> first, std::unique_ptr<Mixer> second)
      : first_(std::move(first)), second_(std::move(second)) {}

  // Behind what each enters, room for what one of them mixes.
  std::int64_t entered_width() const override {
    return first_->entered_width() + second_->entered_width() +
           std::max(first_->mixed_width(), second_->mixed_width());
  }
  std::int64_t inner_width() const override {
    return std::max(first_->mixed_width(), second_->mixed_width());
  }
  std::int64_t mixed_width() const override { return first_->mixed_width() + second_->mixed_width(); }
  Products entering() override { return both(first_->entering(), second_->entering()); }
  Products leaving() override { return both(first_->leaving(), second_->leaving()); }

  void enter(const Workspace& room, const DecoderBatch& batch, Rows rows, const LinearInput& input) override {
    first_->enter(room, batch, rows, input);
    second_->enter(behind_first(room, batch), batch, rows, input);
  }
  void mix(const Workspace& room, const DecoderBatch& batch) override {
    mix_one(*first_, room, batch, room, 0);
    mix_one(*second_, behind_first(room, batch), batch, room, first_->mixed_width());
  }
  void list_ahead(const Workspace& room, const DecoderBatch& batch, ReadAhead& out) const override {
    first_->list_ahead(room, batch, out);
  }
  Status leave(const Workspace& room, Rows rows, bool accumulate, const Buffer& y) override {
    PAGODA_RETURN_IF_ERROR(leave_one(*first_, room, rows, 0, accumulate, y));
    return leave_one(*second_, room, rows, first_->mixed_width(), true, y);
  }

 private:
  static Products both(Products first, const Products& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }
  Workspace behind_first(const Workspace& room, const DecoderBatch& batch) const {
    Workspace own = room;
    own.entered = room.entered.at(0, std::ssize(batch.token_ids) * first_->entered_width());
    return own;
  }
  // Into the columns of each row of room.mixed that begin at `column`.
  void mix_one(Mixer& mixer, Workspace own, const DecoderBatch& batch, const Workspace& room,
               std::int64_t column) {
    const std::int64_t tokens = std::ssize(batch.token_ids), width = mixer.mixed_width();
    own.mixed = room.entered.at(0, tokens * (first_->entered_width() + second_->entered_width()));
    own.all_leave = false;
    mixer.mix(own, batch);
    copy_rows(*room.context, {tokens, width}, own.mixed.with_stride(width),
              room.mixed.with_stride(mixed_width()).at(0, column));
  }

  // Out of them, through room.inner.
  Status leave_one(Mixer& mixer, const Workspace& room, Rows rows, std::int64_t column, bool accumulate,
                   const Buffer& y) {
    const std::int64_t width = mixer.mixed_width();
    copy_rows(*room.context, {rows.count, width},
              room.mixed.with_stride(mixed_width()).at(rows.first, column), room.inner.with_stride(width));
    Workspace own = room;
    own.mixed = room.inner;
    return mixer.leave(own, {0, rows.count}, accumulate, y);
  }

  std::unique_ptr<Mixer> first_, second_;
};

}  // namespace

std::unique_ptr<Mixer> make_part(const ParallelMixersConfig& config, const LayerPlace& place) {
  return std::make_unique<ParallelMixers>(make_part(config.attention, place),
                                          make_part(config.linear, place));
}

}  // namespace pagoda
