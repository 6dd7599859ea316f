#pragma once
// The property that all tests of ops on recurrent states check: the bits of a row, and of the state, depend
// only on the sequence itself: not on the division of its rows into steps, on rejected drafts, on copies made
// along the way, on the rest of the batch, or on the threads.
#include <limits>

#include "kernels/sequence_state.h"
#include "kernels/testing.h"

namespace pagoda {

// One step's work on one sequence.
struct StatePart {
  std::size_t sequence = 0;
  std::int32_t rows = 0, drafts = 0;
  std::vector<std::int32_t> stores = {};  // copies of the state, each after this many rows
};

// Sequences whose rows depend only on (sequence, position), with their states.
class StateWorld {
 public:
  // A state is cut into pieces of `piece` floats; a row has `width` floats of output.
  StateWorld(std::size_t sequences, std::int32_t length, std::size_t width, std::size_t state_size,
             std::size_t piece)
      : width_(width), state_size_(state_size), piece_(piece), computed_(sequences) {
    states_.assign(sequences, std::vector<float>(state_size, std::numeric_limits<float>::quiet_NaN()));
    outputs_.assign(sequences, std::vector<float>(static_cast<std::size_t>(length) * width));
  }

  const std::vector<float>& output(std::size_t sequence) const { return outputs_[sequence]; }
  const std::vector<float>& state(std::size_t sequence) const { return states_[sequence]; }
  // The copies made by the last step.
  const std::vector<std::vector<float>>& stored() const { return stored_; }

 protected:
  // enter(sequence, position) creates the inputs of a row; run(states) runs the op and returns the outputs of
  // all rows. Drafts are wrong: their rows are those of other positions.
  template <class Enter, class Run>
  void step(const std::vector<StatePart>& parts, const Enter& enter, const Run& run) {
    std::vector<StateSequence> sequences;
    std::vector<std::vector<float*>> pieces, store_pieces;
    std::vector<std::vector<StateStore>> stores(parts.size());
    std::size_t num_stores = 0;
    std::int32_t num_rows = 0;
    for (const StatePart& part : parts) num_stores += part.stores.size();
    stored_.assign(num_stores, std::vector<float>(state_size_));
    for (std::vector<float>& state : stored_) store_pieces.push_back(pieces_of(state));
    for (const StatePart& part : parts) pieces.push_back(pieces_of(states_[part.sequence]));
    std::size_t store = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const StatePart& part = parts[p];
      for (const std::int32_t after : part.stores)
        stores[p].push_back({.num_rows = after, .pieces = store_pieces[store++].data()});
      sequences.push_back({.first_row = num_rows,
                           .num_rows = part.rows + part.drafts,
                           .num_drafts = part.drafts,
                           .fresh = computed_[part.sequence] == 0,
                           .pieces = pieces[p].data(),
                           .stores = stores[p]});
      num_rows += part.rows + part.drafts;
      for (std::int32_t i = 0; i < part.rows + part.drafts; ++i)
        enter(part.sequence,
              static_cast<std::uint64_t>(computed_[part.sequence] + i) + (i < part.rows ? 0 : 500));
    }
    const Buffer output = run({.sequences = sequences, .first_piece = 1}, num_rows);
    std::int64_t row = 0;
    for (const StatePart& part : parts) {
      for (std::int32_t i = 0; i < part.rows; ++i)
        std::copy_n(floats(output, row + i), width_,
                    outputs_[part.sequence].begin() +
                        static_cast<std::ptrdiff_t>(width_) * (computed_[part.sequence] + i));
      row += part.rows + part.drafts;
      computed_[part.sequence] += part.rows;
    }
  }

 private:
  std::vector<float*> pieces_of(std::vector<float>& state) const {
    std::vector<float*> out = {nullptr};  // another layer's piece
    for (std::size_t at = 0; at < state.size(); at += piece_) out.push_back(state.data() + at);
    return out;
  }

  std::size_t width_, state_size_, piece_;
  std::vector<std::vector<float>> states_, outputs_, stored_;
  std::vector<std::int32_t> computed_;
};

// World is a StateWorld that is constructed from a shape and has its own step().
template <class World, class Shape>
void expect_as_reference(const Shape& shape, float tolerance, float relative) {
  World expected(shape, 2, 30);
  const std::vector<StatePart> parts = {{.sequence = 1, .rows = 30, .drafts = 2},
                                        {.sequence = 0, .rows = 17}};
  expected.step({.backend = Backend::reference}, parts);
  for (const CpuLevel level : levels_here()) {
    SCOPED_TRACE(cpu_level_name(level));
    World actual(shape, 2, 30);
    actual.step({.backend = Backend::cpu, .level = level}, parts);
    const auto compare = [&](const std::vector<float>& made, const std::vector<float>& wanted) {
      for (std::size_t i = 0; i < wanted.size(); ++i)
        ASSERT_NEAR(made[i], wanted[i], tolerance + relative * std::fabs(wanted[i])) << "element " << i;
    };
    for (const std::size_t s : {0u, 1u}) {
      compare(actual.output(s), expected.output(s));
      compare(actual.state(s), expected.state(s));
    }
  }
}

// Computes a sequence in every division into steps, with rejected drafts and intermediate copies, beside
// other sequences, on several threads. `whole_step`: also for the step that computes the whole sequence.
template <class World, class Shape, class... WholeStep>
void expect_bits_of_the_sequence_alone(const Shape& shape, const WholeStep&... whole_step) {
  ThreadPool two(2), three(3);
  constexpr std::int32_t kLength = 12;
  for (const CpuLevel level : levels_here()) {
    SCOPED_TRACE(cpu_level_name(level));
    const auto context = [&](ThreadPool* pool) {
      return KernelContext{.backend = Backend::cpu, .level = level, .pool = pool};
    };
    World whole(shape, 1, kLength), steps(shape, 1, kLength);
    std::vector<std::vector<float>> after(1);  // the state after each number of rows
    for (std::int32_t i = 0; i < kLength; ++i) {
      steps.step(context(nullptr), {{.rows = 1}});
      after.push_back(steps.state(0));
    }
    whole.step(context(nullptr), {{.rows = kLength, .stores = {1, 5, kLength}}}, whole_step...);
    EXPECT_TRUE(same_bits(whole.output(0), steps.output(0)));
    EXPECT_TRUE(same_bits(whole.state(0), after[kLength]));
    ASSERT_EQ(whole.stored().size(), 3u);
    EXPECT_TRUE(same_bits(whole.stored()[0], after[1]));
    EXPECT_TRUE(same_bits(whole.stored()[1], after[5]));
    EXPECT_TRUE(same_bits(whole.stored()[2], after[kLength]));

    for (std::int32_t cut = 1; cut < kLength; ++cut) {
      SCOPED_TRACE(::testing::Message() << "cut at " << cut);
      const std::vector<float>& at_cut = after[static_cast<std::size_t>(cut)];
      World world(shape, 2, kLength);
      world.step(context(&two), {{.sequence = 1, .rows = 3}, {.rows = cut, .drafts = 3, .stores = {cut}}});
      EXPECT_TRUE(same_bits(world.stored()[0], at_cut));
      EXPECT_TRUE(same_bits(world.state(0), at_cut));
      world.step(context(&three), {{.rows = kLength - cut}, {.sequence = 1, .rows = 2, .drafts = 1}});
      EXPECT_TRUE(same_bits(world.output(0), steps.output(0)));
      EXPECT_TRUE(same_bits(world.state(0), after[kLength]));
    }
  }
}

}  // namespace pagoda
