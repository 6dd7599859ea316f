#include "server/connection_state.h"

#include <algorithm>
#include <iterator>

namespace pagoda {
namespace {

using State = ConnectionState;
using Event = ConnectionEvent;

struct Transition {
  State from;
  Event event;
  State to;
};

constexpr Transition kTransitions[] = {
    {State::handshaking, Event::handshake_done, State::idle},
    {State::handshaking, Event::peer_left, State::closed},
    {State::handshaking, Event::no_room, State::closed},
    {State::handshaking, Event::shut_down, State::closed},

    {State::idle, Event::bytes_arrived, State::reading},
    {State::idle, Event::peer_left, State::closed},
    {State::idle, Event::no_room, State::closed},
    {State::idle, Event::shut_down, State::closed},

    {State::reading, Event::head_complete, State::answering},
    {State::reading, Event::head_refused, State::refusing},
    {State::reading, Event::peer_left, State::closed},
    {State::reading, Event::no_room, State::closed},
    {State::reading, Event::shut_down, State::closed},

    {State::refusing, Event::answered_last, State::lingering},
    {State::refusing, Event::peer_left, State::closed},
    {State::refusing, Event::no_room, State::closed},
    {State::refusing, Event::shut_down, State::closed},

    {State::answering, Event::answered, State::idle},
    {State::answering, Event::answered_last, State::lingering},
    {State::answering, Event::peer_left, State::abandoned},
    {State::answering, Event::no_room, State::answering},
    {State::answering, Event::shut_down, State::draining},

    {State::draining, Event::answered, State::closed},
    {State::draining, Event::answered_last, State::lingering},
    {State::draining, Event::peer_left, State::abandoned},
    {State::draining, Event::no_room, State::draining},
    {State::draining, Event::shut_down, State::draining},

    {State::abandoned, Event::answered, State::closed},
    {State::abandoned, Event::answered_last, State::closed},
    {State::abandoned, Event::peer_left, State::abandoned},
    {State::abandoned, Event::no_room, State::abandoned},
    {State::abandoned, Event::shut_down, State::abandoned},

    {State::lingering, Event::lingered, State::closed},
    {State::lingering, Event::no_room, State::closed},
    {State::lingering, Event::shut_down, State::closed},
};

}  // namespace

std::optional<ConnectionState> next_state(State from, Event event) {
  // A connection may be closed while its coroutine still runs; later events of the coroutine have no effect.
  if (from == State::closed) return State::closed;
  const auto* const found = std::ranges::find_if(
      kTransitions, [&](const Transition& row) { return row.from == from && row.event == event; });
  return found == std::end(kTransitions) ? std::nullopt : std::optional(found->to);
}

bool is_busy(State state) {
  return state == State::answering || state == State::draining || state == State::abandoned;
}

bool is_gone(State state) { return state == State::abandoned || state == State::closed; }

}  // namespace pagoda
