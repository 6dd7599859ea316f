#pragma once
// ConnectionState: the states of a connection and the transitions between them.
//
//   handshaking --> idle --> reading --> answering --> lingering --> closed
//                    ^          |         |     |                      ^
//                    |       refusing     |  draining, abandoned ------+
//                    +--------------------+
//
// The connection's coroutine does the work of a state and ends it with an event; the server and the socket
// may cause other events in the meantime. Threads: any; plain functions.
#include <cstdint>
#include <optional>

namespace pagoda {

enum class ConnectionState : std::uint8_t {
  handshaking,  // TLS
  idle,         // no byte of the next request has arrived
  reading,      // a request's head is arriving
  refusing,     // the input is not a request; an error is being sent
  answering,    // reads the body of a request, generates and sends its answer
  draining,     // answering while the server shuts down: a running call ends with an error
  abandoned,    // the client has disconnected; its call is being ended
  lingering,    // everything is sent; further input is dropped, so that the client gets the answer
  closed,
};

enum class ConnectionEvent : std::uint8_t {
  handshake_done,
  bytes_arrived,
  head_complete,
  head_refused,
  answered,       // the client may send another request
  answered_last,  // the connection ends after this answer
  peer_left,      // the client disconnected, or sent nothing in time
  lingered,
  no_room,    // connection limit reached: close unless a request is being answered
  shut_down,  // the server is shutting down
};

// nullopt if `event` cannot happen in state `from`.
std::optional<ConnectionState> next_state(ConnectionState from, ConnectionEvent event);

// True if a request is being answered, even if its client has disconnected.
bool is_busy(ConnectionState state);
// True if nothing can be sent any more.
bool is_gone(ConnectionState state);

}  // namespace pagoda
