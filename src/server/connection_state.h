#pragma once
// ConnectionState: what a connection is doing, and what it does next when something happens.
//
//   handshaking --> idle --> reading --> answering --> lingering --> closed
//                    ^          |         |     |                      ^
//                    |       refusing     |  draining, abandoned ------+
//                    +--------------------+
//
// The connection's coroutine does a state's work and ends it with an event; the server and the socket bring
// others meanwhile. Threads: plain functions.
#include <cstdint>
#include <optional>

namespace pagoda {

enum class ConnectionState : std::uint8_t {
  handshaking,  // TLS
  idle,         // nothing of the next request has come
  reading,      // a request's head is arriving
  refusing,     // something else than a request has come, and an error is being sent
  answering,    // a request's body is read, and its answer made and sent
  draining,     // the same, but the server shuts down: a call of the engine ends with an error
  abandoned,    // the client has gone, and what was begun for it is being ended
  lingering,    // all is sent; what still comes is dropped, so that the client gets to see the answer
  closed,
};

enum class ConnectionEvent : std::uint8_t {
  handshake_done,
  bytes_arrived,
  head_complete,
  head_refused,
  answered,       // and the client may ask again
  answered_last,  // and the connection ends
  peer_left,      // it hung up, or sent nothing in time
  lingered,
  no_room,    // others need the place, unless a request is being answered
  shut_down,  // the server ends
};

// nullopt: this cannot happen in that state.
std::optional<ConnectionState> next_state(ConnectionState from, ConnectionEvent event);

// A request is being answered, even if nobody waits for it.
bool is_busy(ConnectionState state);
// Nothing can be sent any more.
bool is_gone(ConnectionState state);

}  // namespace pagoda
