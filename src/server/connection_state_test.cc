#include "server/connection_state.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <vector>

namespace pagoda {
namespace {

using State = ConnectionState;
using Event = ConnectionEvent;

constexpr std::array kStates = {State::handshaking, State::idle,      State::reading,
                                State::refusing,    State::answering, State::draining,
                                State::abandoned,   State::lingering, State::closed};
constexpr std::array kEvents = {
    Event::handshake_done, Event::bytes_arrived, Event::head_complete, Event::head_refused, Event::answered,
    Event::answered_last,  Event::peer_left,     Event::lingered,      Event::no_room,      Event::shut_down};

// A letter for each state, in their order; '.': it cannot happen.
char letter(std::optional<State> state) {
  constexpr std::string_view kLetters = "hirfadxlc";
  return state ? kLetters[static_cast<std::size_t>(*state)] : '.';
}

TEST(ConnectionState, TheTable) {
  // Columns: handshake_done, bytes_arrived, head_complete, head_refused, answered, answered_last, peer_left,
  // lingered, no_room, shut_down.
  const std::vector<std::string> wanted = {
      "i.....c.cc",  // handshaking
      ".r....c.cc",  // idle
      "..af..c.cc",  // reading
      ".....lc.cc",  // refusing
      "....ilx.ad",  // answering
      "....clx.dd",  // draining
      "....ccx.xx",  // abandoned
      ".......ccc",  // lingering
      "cccccccccc",  // closed
  };
  for (std::size_t i = 0; i < kStates.size(); ++i) {
    std::string row;
    for (const Event event : kEvents) row += letter(next_state(kStates[i], event));
    EXPECT_EQ(row, wanted[i]) << letter(kStates[i]);
  }
}

TEST(ConnectionState, WhileARequestIsAnsweredNothingButItsEndClosesTheConnection) {
  for (const State state : kStates) {
    if (!is_busy(state)) continue;
    for (const Event event : kEvents) {
      const auto next = next_state(state, event);
      if (next && !is_busy(*next)) EXPECT_TRUE(event == Event::answered || event == Event::answered_last);
    }
  }
}

TEST(ConnectionState, WithoutARequestTheServerClosesAtOnce) {
  for (const State state : kStates) {
    if (is_busy(state)) continue;
    EXPECT_EQ(next_state(state, Event::shut_down), State::closed);
    EXPECT_EQ(next_state(state, Event::no_room), State::closed);
  }
}

TEST(ConnectionState, AClientThatHasGoneNeverComesBack) {
  for (const State state : kStates) {
    if (!is_gone(state)) continue;
    for (const Event event : kEvents)
      if (const auto next = next_state(state, event)) EXPECT_TRUE(is_gone(*next));
  }
}

TEST(ConnectionState, EveryStateIsReachedAndLeadsToTheEnd) {
  const auto reached = [](State from) {
    std::set<State> seen = {from};
    std::vector<State> open = {from};
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      for (const Event event : kEvents) {
        const auto next = next_state(state, event);
        if (next && seen.insert(*next).second) open.push_back(*next);
      }
    }
    return seen;
  };
  EXPECT_EQ(reached(State::handshaking).size(), kStates.size());
  for (const State state : kStates) EXPECT_TRUE(reached(state).contains(State::closed));
}

}  // namespace
}  // namespace pagoda
