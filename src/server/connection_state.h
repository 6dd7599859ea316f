#pragma once
// ConnectionState: what a connection is doing, and what it does next when something happens.
//
//   handshaking --> idle --> reading --> answering --> lingering --> closed
//                    ^          |         |     |                      ^
//                    |       refusing     |  draining, abandoned ------+
//                    +--------------------+
//
// The connection's coroutine does the work of a state and ends it with an event; the server and the socket
// cause other events meanwhile. Threads: plain functions.
#include <cstdint>
#include <optional>

namespace pagoda {

enum class ConnectionState : std::uint8_t {
  handshaking,  // TLS
  idle,         // no byte of the next request has arrived
  reading,      // a request's head is arriving
  refusing,     // the input is not a request; an error is being sent
  answering,    // reads the body of a request, generates and sends its answer
  draining,     // the same while the server shuts down: a running call ends with an error
  abandoned,    // the client has disconnected; its call is being ended
  lingering,    // all is sent; further input is dropped, so that the client receives the answer
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
  no_room,    // the connection limit is reached: close, unless a request is being answered
  shut_down,  // the server ends
};

// nullopt: this cannot happen in that state.
std::optional<ConnectionState> next_state(ConnectionState from, ConnectionEvent event);

// Whether a request is being answered, even if its client has disconnected.
bool is_busy(ConnectionState state);
// Whether nothing can be sent any more.
bool is_gone(ConnectionState state);

}  // namespace pagoda
