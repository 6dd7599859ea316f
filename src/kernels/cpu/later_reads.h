#pragma once
// LaterReads: memory that a tile of a product prefetches for later readers (KernelContext::read_ahead),
// divided among its panels and their steps. No step requests many lines at once, since the memory system
// drops some. Each line is requested once, whatever the length of the pieces and the number of panels and
// steps. Lines are 64 bytes.
#include <cstddef>
#include <cstdint>

namespace pagoda::cpu {
namespace {  // compiled once for each instruction set

inline std::int64_t lines_per_step(std::int64_t lines, std::int64_t steps) {
  return (lines + steps - 1) / steps;
}

// Pieces of memory of equal length, a multiple of a line.
struct LaterPieces {
  const std::byte* const* first = nullptr;
  std::int64_t bytes = 0;  // bytes of each
};

// The lines of one panel: `per_step` at a time, piece after piece, until none are left.
struct LaterLines {
  const std::byte* const* piece = nullptr;
  const std::byte *at = nullptr, *end = nullptr;  // in the piece
  std::int64_t piece_bytes = 0, left = 0, per_step = 0;
};
template <class Use>
inline void for_lines_of_step(LaterLines& lines, const Use& use) {
  std::int64_t count = lines.left < lines.per_step ? lines.left : lines.per_step;
  lines.left -= count;
  for (; count > 0; --count, lines.at += 64) {
    if (lines.at == lines.end) {
      lines.at = *++lines.piece;
      lines.end = lines.at + lines.piece_bytes;
    }
    use(lines.at);
  }
}

class LaterReads {
 public:
  // Bytes [begin, end) of the concatenated pieces; both at the start of a line.
  LaterReads(const LaterPieces& pieces, std::int64_t begin, std::int64_t end, std::int64_t panels)
      : lines_left_((end - begin) / 64), panels_left_(panels), piece_bytes_(pieces.bytes) {
    if (lines_left_ <= 0) return;
    piece_ = pieces.first + begin / piece_bytes_;
    offset_ = begin % piece_bytes_;
  }

  // The lines of the next panel, which has `steps` steps.
  LaterLines take(std::int64_t steps) {
    if (lines_left_ <= 0) return {};
    const std::int64_t panels = panels_left_ > 1 ? panels_left_ : 1;
    const std::int64_t per_step = lines_per_step(lines_left_, steps * panels);
    const std::int64_t count = lines_left_ < per_step * steps ? lines_left_ : per_step * steps;
    const LaterLines lines = {.piece = piece_,
                              .at = *piece_ + offset_,
                              .end = *piece_ + piece_bytes_,
                              .piece_bytes = piece_bytes_,
                              .left = count,
                              .per_step = per_step};
    --panels_left_;
    lines_left_ -= count;
    offset_ += 64 * count;
    for (; offset_ >= piece_bytes_ && lines_left_ > 0; offset_ -= piece_bytes_) ++piece_;
    return lines;
  }

 private:
  std::int64_t lines_left_, panels_left_, piece_bytes_;
  const std::byte* const* piece_ = nullptr;
  std::int64_t offset_ = 0;  // in the piece
};

}  // namespace
}  // namespace pagoda::cpu
