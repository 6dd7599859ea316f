#include "device/emulated/cluster_copies.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/random.h"
#include "base/strings.h"

namespace pagoda::device::emulated {
namespace {

constexpr std::size_t kPiece = 16;
constexpr std::uint32_t kLanes = 32;

template <class T>
bool contains(const std::vector<T>& all, const T& one) {
  return std::ranges::find(all, one) != all.end();
}

}  // namespace

void ClusterCopies::begin(std::uint32_t blocks, std::uint32_t threads, std::size_t shared_bytes,
                          std::uint64_t order) {
  pieces_.assign(blocks, std::vector<Piece>((shared_bytes + kPiece - 1) / kPiece));
  barriers_.assign(blocks, {});
  waits_.assign(threads, {});
  known_.assign(threads, Known(blocks + 2 * threads + 2 * (threads / kLanes)));
  later_.clear();
  reads_.assign(blocks, {});
  has_fences_ = false;
  running_.assign(blocks, threads / blocks);
  copies_.clear();
  threads_ = threads;
  threads_of_block_ = threads / blocks;
  order_ = order;
}

ClusterCopies::Barrier* ClusterCopies::at(std::uint32_t rank, std::size_t barrier) {
  const auto found = std::ranges::find(barriers_[rank], barrier, &Barrier::offset);
  return found == barriers_[rank].end() ? nullptr : &*found;
}

std::string ClusterCopies::make(const Thread& thread, std::size_t barrier, std::uint32_t count) {
  std::vector<Piece>& pieces = pieces_[thread.rank];
  if (barrier % 8 != 0 || barrier / kPiece >= pieces.size())
    return "a barrier of copies that does not lie in shared memory, at a multiple of 8";
  if (count == 0 || at(thread.rank, barrier) != nullptr)
    return "a barrier of copies that is made twice, or for none";
  pieces[barrier / kPiece].holds_barrier = true;
  const Known none(known_[0].size());
  barriers_[thread.rank].push_back({.offset = barrier,
                                    .made = thread.arrivals,
                                    .count = count,
                                    .arriving = none,
                                    .known = none,
                                    .seen = std::vector<std::uint32_t>(threads_)});
  return {};
}

void ClusterCopies::end_phase(Barrier& barrier) {
  if (barrier.arrived < barrier.count || barrier.bytes != 0) return;
  barrier.arrived = 0;
  barrier.known = barrier.arriving;
  ++barrier.phase;
}

std::string ClusterCopies::signalled(const Thread& thread, std::uint32_t rank, std::size_t barrier) {
  const Barrier* const there = at(rank, barrier);
  if (there == nullptr || there->made >= thread.waits)
    return concat("signals a barrier of block ", rank,
                  " of the cluster, which the cluster's barrier has not shown");
  if (running_[rank] == 0)
    return concat("signals a barrier of block ", rank, " of the cluster, which has ended");
  return {};
}

std::string ClusterCopies::expect(const Thread& thread, std::size_t barrier, std::uint32_t bytes) {
  if (Barrier* const here = at(thread.rank, barrier)) here->bytes += bytes;
  return arrive(thread, barrier, thread.rank);
}

std::string ClusterCopies::arrive(const Thread& thread, std::size_t barrier, std::uint32_t rank) {
  if (rank >= pieces_.size()) return "arrives in a block that the cluster has not";
  if (std::string fault = signalled(thread, rank, barrier); !fault.empty()) return fault;
  Known& mine = known_[thread.number];
  mine[thread.rank] = thread.phase;
  mine[met_by(thread.number)] = thread.warp_phase;
  ++mine[clock_of(thread.number)];
  return arrive(*at(rank, barrier), mine);
}

std::string ClusterCopies::arrive(Barrier& there, const Known& known) {
  if (there.arrived == there.count) return "arrives at a barrier of copies once more than it was made for";
  ++there.arrived;
  learn(there.arriving, known);
  end_phase(there);
  return {};
}

std::string ClusterCopies::arrive_later(const Thread& thread, std::size_t barrier) {
  if (std::string fault = signalled(thread, thread.rank, barrier); !fault.empty()) return fault;
  later_.push_back({.thread = thread, .barrier = barrier, .known = known_[thread.number]});
  later_.back().known[thread.rank] = thread.phase;
  later_.back().known[met_by(thread.number)] = thread.warp_phase;
  return {};
}

std::string ClusterCopies::end_later(std::uint32_t thread) {
  const auto found = std::ranges::find(later_, thread, [](const Later& of) { return of.thread.number; });
  Later later = std::move(*found);
  later_.erase(found);
  later.known[clock_of(thread)] = ++known_[thread][clock_of(thread)];
  return arrive(*at(later.thread.rank, later.barrier), later.known);
}

std::string ClusterCopies::start(const Thread& thread, Copy copy, std::uint32_t ranks) {
  if (copy.bytes == 0 || copy.bytes % kPiece != 0 || copy.offset % kPiece != 0 ||
      reinterpret_cast<std::uintptr_t>(copy.from) % kPiece != 0)
    return "a bulk copy that is not aligned to 16 bytes, or of none";
  if (ranks == 0 || ranks >> pieces_.size() != 0) return "a bulk copy to blocks that the cluster has not";
  if (copy.offset / kPiece >= pieces_[0].size() ||
      copy.bytes / kPiece > pieces_[0].size() - copy.offset / kPiece)
    return "a bulk copy into what is not the block's shared memory";
  for (std::uint32_t rank = 0; rank < pieces_.size(); ++rank) {
    if ((ranks >> rank & 1) == 0) continue;
    if (std::string fault = signalled(thread, rank, copy.barrier); !fault.empty()) return fault;
    const std::uint32_t known = rank == thread.rank ? thread.phase : known_[thread.number][rank];
    for (std::size_t i = 0; i < copy.bytes / kPiece; ++i) {
      Piece& piece = pieces_[rank][copy.offset / kPiece + i];
      const std::size_t offset = copy.offset + i * kPiece;
      if (piece.under_way || piece.holds_barrier)
        return concat("a bulk copy to offset ", offset, " of shared memory of block ", rank,
                      " of the cluster, where another is under way or a barrier lies");
      if (piece.touched > known || may_be_read(thread, rank, copy.offset / kPiece + i))
        return concat("a bulk copy to offset ", offset, " of shared memory of block ", rank,
                      " of the cluster, which a thread may still read or write");
      piece.under_way = true;
    }
    copy.rank = rank;
    copies_.push_back(copy);
  }
  return {};
}

void ClusterCopies::learn(Known& of, const Known& more) {
  for (std::size_t i = 0; i < of.size(); ++i) of[i] = std::max(of[i], more[i]);
}

bool ClusterCopies::may_be_read(const Thread& thread, std::uint32_t rank, std::size_t piece) const {
  if (reads_[rank].empty()) return false;
  const std::uint32_t warps = threads_of_block_ / kLanes;
  for (std::uint32_t warp = 0; warp < warps; ++warp)
    if (reads_[rank][piece * warps + warp] > known_[thread.number][products_of(rank * warps + warp)])
      return true;
  return false;
}

void ClusterCopies::show_writes(const Thread& thread) {
  has_fences_ = true;
  Known& mine = known_[thread.number];
  ++mine[clock_of(thread.number)];
  for (std::uint32_t i = 0; i < threads_; ++i)
    mine[shown_of(i)] = std::max(mine[shown_of(i)], mine[clock_of(i)]);
}

std::string ClusterCopies::read_by_product(const Thread& thread, std::size_t offset, std::size_t size,
                                           std::uint32_t group) {
  const std::uint32_t warps = threads_of_block_ / kLanes, warp = thread.number % threads_of_block_ / kLanes;
  std::vector<Piece>& pieces = pieces_[thread.rank];
  if (offset % kPiece != 0 || size == 0 || (offset + size - 1) / kPiece >= pieces.size())
    return "a product of what does not lie in shared memory, at a multiple of 16";
  if (reads_[thread.rank].empty()) reads_[thread.rank].resize(pieces.size() * warps);
  for (std::size_t i = offset / kPiece; i <= (offset + size - 1) / kPiece; ++i) {
    const Piece& piece = pieces[i];
    if (piece.under_way) return "which a bulk copy may still write";
    if (unseen(thread, piece)) return "which a bulk copy wrote that the thread has not waited for";
    if (piece.writer > 0) {
      const std::uint32_t writer = piece.writer - 1;
      if (known_[thread.number][shown_of(writer)] <= piece.clock)
        return known_[writer][shown_of(writer)] <= piece.clock
                   ? "which a thread wrote without showing it to the asynchronous proxy"
                   : "which another thread wrote for whose arrival the thread has not waited";
    }
    reads_[thread.rank][i * warps + warp] = group;
  }
  return {};
}

void ClusterCopies::end_products(const Thread& thread, std::uint32_t group) {
  known_[thread.number][products_of(thread.number / kLanes)] = group;
}

// Only needed for reads of products.
void ClusterCopies::meet(std::uint32_t rank) {
  if (!has_fences_ && reads_[rank].empty()) return;
  const std::uint32_t first = rank * threads_of_block_;
  Known all(known_[0].size());
  for (std::uint32_t i = first; i < first + threads_of_block_; ++i) {
    ++known_[i][clock_of(i)];
    learn(all, known_[i]);
  }
  for (std::uint32_t i = first; i < first + threads_of_block_; ++i) known_[i] = all;
}

std::string ClusterCopies::touch(const Thread& thread, std::size_t offset, std::size_t size, bool writes) {
  for (std::size_t i = offset / kPiece; i <= (offset + size - 1) / kPiece; ++i) {
    Piece& piece = pieces_[thread.rank][i];
    if (piece.holds_barrier) return "where a barrier of copies lies";
    if (piece.under_way) return "which a bulk copy may still write";
    if (unseen(thread, piece)) return "which a bulk copy wrote that the thread has not waited for";
    if (writes) {
      if (may_be_read(thread, thread.rank, i)) return "which a product may still read";
      piece.writer = thread.number + 1;
      piece.clock = known_[thread.number][clock_of(thread.number)];
    }
    piece.touched = thread.phase + 1;
  }
  return {};
}

std::string ClusterCopies::wait(const Thread& thread, std::size_t barrier, std::uint32_t parity) {
  Barrier* const here = at(thread.rank, barrier);
  if (here == nullptr) return "waits at a barrier of copies that was not made";
  if (here->made >= thread.waits)
    return "waits at a barrier of copies that the cluster's barrier has not shown";
  waits_[thread.number] = {.barrier = barrier, .rank = thread.rank, .parity = parity & 1, .waits = true};
  if (here->phase % 2 != waits_[thread.number].parity && here->seen[thread.number] == here->phase)
    return "waits for a phase of a barrier of copies that it has seen end";
  return {};
}

bool ClusterCopies::arrived(std::uint32_t thread) const {
  const Wait& wait = waits_[thread];
  return std::ranges::find(barriers_[wait.rank], wait.barrier, &Barrier::offset)->phase % 2 != wait.parity;
}

void ClusterCopies::see(std::uint32_t thread) {
  Wait& wait = waits_[thread];
  wait.waits = false;
  Barrier& barrier = *at(wait.rank, wait.barrier);
  barrier.seen[thread] = barrier.phase;
  learn(known_[thread], barrier.known);
}

std::optional<ClusterCopies::Arrival> ClusterCopies::arrive_one() {
  // Barriers for which threads wait: few, each by many threads.
  std::vector<std::pair<std::uint32_t, std::size_t>> awaited;
  for (const Wait& wait : waits_)
    if (const std::pair barrier(wait.rank, wait.barrier); wait.waits && !contains(awaited, barrier))
      awaited.push_back(barrier);
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < copies_.size(); ++i)
    if (contains(awaited, std::pair(copies_[i].rank, copies_[i].barrier))) wanted.push_back(i);
  for (std::size_t i = 0; i < later_.size(); ++i)
    if (contains(awaited, std::pair(later_[i].thread.rank, later_[i].barrier)))
      wanted.push_back(copies_.size() + i);
  if (wanted.empty()) return std::nullopt;
  const std::size_t which = wanted[random_bits(order_, 2, drawn_++) % wanted.size()];
  if (which >= copies_.size()) return Arrival{std::nullopt, later_[which - copies_.size()].thread.number};
  const Copy copy = copies_[which];
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(which));
  Barrier& barrier = *at(copy.rank, copy.barrier);
  const auto place = static_cast<std::uint32_t>(&barrier - barriers_[copy.rank].data());
  const auto written = std::span(pieces_[copy.rank]).subspan(copy.offset / kPiece, copy.bytes / kPiece);
  for (Piece& piece : written) {
    piece.under_way = false;
    piece.barrier = place;
    piece.phase = barrier.phase + 1;
    piece.writer = 0;
  }
  barrier.bytes -= copy.bytes;
  end_phase(barrier);
  return Arrival{copy, copy.thread};
}

std::string ClusterCopies::end(const Thread& thread) {
  --running_[thread.rank];
  for (const Copy& copy : copies_)
    if (copy.rank == thread.rank || copy.thread / threads_of_block_ == thread.rank)
      return "ends with copies of its block, or into it, under way";
  if (running_[thread.rank] > 0) return {};
  for (const Barrier& barrier : barriers_[thread.rank])
    if (barrier.arrived > 0 || barrier.bytes != 0 || std::ranges::max(barrier.seen) < barrier.phase)
      return "ends, the last of its block, with arrivals that nobody has waited for";
  return {};
}

}  // namespace pagoda::device::emulated
