#pragma once
// Connection: one client's socket, from accept to close: reads requests, answers them, streams. It is in one
// of the states of connection_state.h, and run() does each one's work. All of it runs on the connection's
// strand. Boost's sockets and parser are met only here and in server.cc.
// Threads: serve(), wake() and shut_down() start work on the strand (or on a loop of one thread, which is
// one); the server keeps connections by weak_ptr.
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

// One waiter, woken by set(); a set() without waiter is kept. All on one strand.
class StrandEvent {
 public:
  explicit StrandEvent(boost::asio::any_io_executor executor)
      : timer_(std::move(executor), std::chrono::steady_clock::time_point::max()) {}
  boost::asio::awaitable<void> wait();
  void set();

 private:
  boost::asio::steady_timer timer_;  // never due: only what cancels it ends a wait
  bool set_ = false;
};

// Whose wait is asked for.
struct QueueKey {
  std::string tenant;
  std::int32_t priority = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Origin {
    bool over_limit = false;   // one connection too many: only what is open to anyone is answered
    bool of_operator = false;  // by the operator's own socket: an administrator without a key
  };
  // The socket's executor must be such a strand. `tls`: null: plain. Borrows all else; they outlive the I/O
  // loop.
  // `memory`: of this connection; empty for one too many.
  Connection(Transport::Socket socket, std::shared_ptr<const TlsContext> tls, ServerContext& server,
             WakeList<Connection>& wakes, Origin origin, MemoryReservation memory);
  ~Connection();

  void serve();
  // Looks for news from the engine. On the I/O loop.
  void wake();
  // A running call ends with an error event; then, or at once if there is none, the connection closes.
  void shut_down();
  // Since when no request is being answered, a head that is still arriving included; 0: one is. Any thread.
  TimeNs idle_since() const { return idle_since_.load(std::memory_order_relaxed); }
  void close_if_idle();

 private:
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;
  using SteadyTime = std::chrono::steady_clock::time_point;
  enum class Next { keep_alive, close, gone };  // gone: nothing more can be sent

  Awaitable<void> run();
  void on(ConnectionEvent event);  // CHECKs that the state allows it
  bool gone() const { return is_gone(state_); }

  // The work of a state, which ends with an event.
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
  // The events of an answer that is made without this client, until its end or the client's.
  Awaitable<Next> follow(std::shared_ptr<AnswerLog> log, std::size_t first_event);
  // Puts the compiled grammar that a call asks for into its requests.
  Awaitable<Status> compile_grammar(ApiGeneration& generation);
  Awaitable<Next> generate(const Route& route, ApiGeneration parsed);
  Awaitable<Next> run_generation(const Route& route, ApiGeneration parsed, std::int64_t taken_tokens);
  Awaitable<Next> deliver(const Route& route, std::shared_ptr<Generation> call);
  void tell_span(RequestSpan span, const Generation& call) const;
  Awaitable<bool> build_piece(std::shared_ptr<Generation> call, std::string& piece);
  // Called on the engine thread. Weak: a connection that is gone needs no waking.
  std::function<void()> waker();
  // Runs `work` on the pool, or at once where it is a inline call, and waits for it; not for one that is
  // still waiting when the client goes. Not ok: it was not run to its end.
  Awaitable<Status> run_job(Cost cost, std::size_t bytes, std::function<void()> work);

  // Whose request it is: its key's, or its peer's.
  std::string_view tenant() const;

  Awaitable<Next> send(HttpResponse response);
  Awaitable<bool> write(std::string_view data);
  // At most `size` bytes, appended to buffer_; 0 when the peer is gone, or timed_out_.
  Awaitable<std::size_t> read_some(SteadyTime deadline, std::size_t size);

  void watch();  // notices the client hanging up while a call runs
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
  const Origin came_by_;
  MemoryReservation memory_;
  WakeList<Connection>& wakes_;
  Transport stream_;
  const std::string peer_;  // its address
  ConnectionState state_;
  StrandEvent event_;
  boost::asio::steady_timer read_timer_, write_timer_;
  std::uint64_t read_ticket_ = 0, write_ticket_ = 0;  // which wait the timer is for
  bool timed_out_ = false;
  std::string buffer_;              // received, not yet consumed
  std::atomic<TimeNs> idle_since_;  // not busy since then; 0: busy
  bool watching_ = false;           // a read is pending for watch()
  bool stop_watch_ = false;
  bool half_closed_ = false;  // the client has ended its side, and may still read
  char watch_buffer_[512];

  // The request being answered.
  std::shared_ptr<const ApiKey> key_;  // whose it is; null: nobody we know
  std::string warning_;                // the header's value: what of the request was left out
  bool metered_ = false;               // counts among the key's requests
  std::int64_t held_body_ = 0;
  std::string request_id_, origin_;
  const Protocol* protocol_ = nullptr;  // protocol of its route; null: the server's own, or not known yet
  std::string traceparent_;             // as the client sent it; kept where somebody traces
  ResponseFraming framing_;
  int status_ = 0;
  TimeNs begun_ = 0;                 // when its head was there
  std::optional<double> timeout_s_;  // how long the client waits for the answer
  Generation* call_ = nullptr;
};

}  // namespace pagoda
