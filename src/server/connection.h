#pragma once
// Connection: one client's socket, from accept to close: reads requests, answers them, streams. It is in one
// of the states of connection_state.h; run() does the work of each state. Everything runs on the connection's
// strand. Only this file and server.cc use Boost's sockets and parser.
// Threads: serve(), wake() and shut_down() start work on the strand (or on a single-threaded loop); the
// server refers to connections by weak_ptr.
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/protocol.h"
#include "server/connection_state.h"
#include "server/generation.h"
#include "server/http_request.h"
#include "server/http_response.h"
#include "server/routes.h"
#include "server/server_context.h"
#include "server/stream_beat.h"
#include "server/transport/transport.h"
#include "server/wake_list.h"

namespace pagoda {

// An event with one waiter, woken by set(); a set() without a waiter is remembered. All calls on one strand.
class StrandEvent {
 public:
  explicit StrandEvent(boost::asio::any_io_executor executor)
      : timer_(std::move(executor), std::chrono::steady_clock::time_point::max()) {}
  boost::asio::awaitable<void> wait();
  void set();

 private:
  boost::asio::steady_timer timer_;  // never expires: cancelling it ends a wait
  bool set_ = false;
};

// The place in the queue for which a wait is estimated.
struct QueueKey {
  std::string tenant;
  std::int32_t priority = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Origin {
    bool over_limit = false;   // over the connection limit: only routes that need no key are served
    bool of_operator = false;  // accepted on the admin socket: administrator without a key
  };
  // The socket's executor must be such a strand. `tls` null: no TLS. Borrows all other arguments, which must
  // outlive the I/O loop.
  // `memory`: the reservation of this connection; empty if over the limit.
  Connection(Transport::Socket socket, std::shared_ptr<const TlsContext> tls, ServerContext& server,
             WakeList<Connection>& wakes, Origin origin, MemoryReservation memory);
  ~Connection();

  void serve();
  // Checks for engine output. Called on the I/O loop.
  void wake();
  // Ends a running call with an error event, then closes the connection.
  void shut_down();
  // Time since which the connection has been idle (a request's head may be arriving); 0 if a request is being
  // answered. Any thread.
  TimeNs idle_since() const { return idle_since_.load(std::memory_order_relaxed); }
  void close_if_idle();

 private:
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;
  using SteadyTime = std::chrono::steady_clock::time_point;
  static SteadyTime after(std::chrono::milliseconds duration) {
    return std::chrono::steady_clock::now() + duration;
  }
  enum class Next { keep_alive, close, gone };  // gone: nothing can be sent any more

  Awaitable<void> run();
  void on(ConnectionEvent event);  // CHECKs that the state allows it
  bool gone() const { return is_gone(state_); }

  // The work of each state; ends with an event.
  Awaitable<void> shake_hands();
  Awaitable<void> wait_for_request();
  Awaitable<void> read_head(HttpRequest& request, std::optional<HttpError>& error);
  Awaitable<void> refuse(const HttpRequest& request, const HttpError& error);
  Awaitable<void> serve_request(const HttpRequest& request);
  Awaitable<void> linger();

  void cancel_at(SteadyTime deadline);
  Awaitable<std::optional<HttpError>> read_body(const HttpRequest& request, std::size_t limit,
                                                std::string& body);
  Awaitable<Next> answer(const HttpRequest& request, const RouteTable::Match& match);
  Awaitable<Next> answer_call(const Route& route, std::shared_ptr<ApiCall> call);
  Awaitable<Next> answer_whole(const Route& route, std::shared_ptr<ApiCall> call);
  Awaitable<Next> answer_when_ready(const Route& route, WaitHandler handler, std::shared_ptr<ApiCall> call);
  Awaitable<Next> answer_generation(const Route& route, GenerationHandler handler,
                                    std::shared_ptr<ApiCall> call);
  Awaitable<Next> answer_stream(const Route& route, StreamHandler handler, std::shared_ptr<ApiCall> call);
  Awaitable<Next> stream(AnswerForm form, std::shared_ptr<EngineStream> from);
  StreamBeat make_beat();
  // Streams the events of a background answer, until it ends or the client disconnects.
  Awaitable<Next> follow(std::shared_ptr<AnswerLog> log, std::size_t first_event);
  // Compiles the grammars of a call and adds them to its requests.
  Awaitable<Status> compile_grammar(ApiGeneration& generation);
  Awaitable<Next> generate(const Route& route, ApiGeneration parsed);
  Awaitable<Next> run_generation(const Route& route, ApiGeneration parsed, std::int64_t taken_tokens);
  Awaitable<Next> deliver(const Route& route, std::shared_ptr<Generation> call);
  void describe_call(RequestSpan span, const Generation& call) const;
  Awaitable<bool> build_piece(std::shared_ptr<Generation> call, std::string& piece);
  // Called on the engine thread. Weak: a closed connection is not woken.
  std::function<void()> waker();
  // Runs `work` on the pool, or immediately for an inlined route, and waits for it. Queued work is cancelled
  // if the client disconnects. Returns an error if `work` did not run to completion.
  Awaitable<Status> run_job(Cost cost, std::size_t bytes, std::function<void()> work);

  // The tenant of the request: its key, or its peer address.
  std::string_view tenant() const;

  Awaitable<Next> send(HttpResponse response);
  Awaitable<bool> write(std::string_view data);
  // Reads at most `size` bytes and appends them to buffer_. Returns 0 if the peer is gone, or on timeout
  // (timed_out_).
  Awaitable<std::size_t> read_some(SteadyTime deadline, std::size_t size);

  void watch();  // notices if the client disconnects while a call runs
  Awaitable<void> look_after_half_closed();
  Awaitable<void> stop_watching();
  Awaitable<void> yield();
  bool still_over_limit();
  bool hold_body(std::size_t count);
  void release_body();
  void begin_request(const HttpRequest& request);
  HttpResponse refusal(const Status& status, const Protocol* protocol, const QueueKey& whose) const;
  static HttpResponse refusal_after(const Status& status, const Protocol* protocol, double wait_s);
  void end_request();
  void add_common_headers(HttpResponse& response) const;
  std::optional<HttpResponse> take_request(const RouteTable::Match& match);
  std::string stream_head(AnswerForm form);

  ServerContext& server_;
  const Origin listener_;
  MemoryReservation memory_;
  WakeList<Connection>& wakes_;
  Transport stream_;
  const std::string peer_;  // the peer's address
  ConnectionState state_;
  StrandEvent event_;
  boost::asio::steady_timer read_timer_, write_timer_;
  std::uint64_t read_ticket_ = 0, write_ticket_ = 0;  // identify the wait that the timer is for
  bool timed_out_ = false;
  std::string buffer_;              // received but not yet consumed
  std::atomic<TimeNs> idle_since_;  // see idle_since()
  bool watching_ = false;           // a read is pending for watch()
  bool stop_watch_ = false;
  bool half_closed_ = false;  // the client has shut down its sending side but may still read
  char watch_buffer_[512];

  // The request being answered.
  std::shared_ptr<const ApiKey> key_;  // null: no key or an unknown one
  std::string warning_;                // value of the Warning header (api/warnings.h)
  bool metered_ = false;               // counts towards the key's requests
  std::int64_t held_body_ = 0;
  std::string request_id_, origin_;
  const Protocol* protocol_ = nullptr;  // the route's protocol; null: the server's, or not known yet
  std::string traceparent_;             // as sent by the client; kept if traces are exported
  ResponseFraming framing_;
  int status_ = 0;
  TimeNs begun_ = 0;                 // time at which its head was complete
  std::optional<double> timeout_s_;  // how long the client waits for the answer
  Generation* call_ = nullptr;
};

}  // namespace pagoda
