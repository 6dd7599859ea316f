#include "server/server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/strings.h"
#include "base/thread_turns.h"
#include "server/connection.h"
#include "server/http_response.h"
#include "server/keys/key_file.h"
#include "server/server_context.h"
#include "server/transport/listener.h"

namespace pagoda {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using std::chrono::milliseconds;

constexpr auto kAwaited = asio::as_tuple(asio::use_awaitable);
constexpr milliseconds kAfterAbort{2000};  // time to send error events after the drain limit
constexpr milliseconds kEngineCheck{1000};
constexpr milliseconds kKeyCheck{1000};
constexpr int kForcedExit = 130;
constexpr std::size_t kWokenAtOnce = 8;
constexpr std::size_t kReserve = 16;  // connections beyond the limit, for /health

// Many connections need many file descriptors; raises the limit to the operator's hard limit.
void raise_fd_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Sends 503 to a connection over the limit, if its socket accepts it without waiting.
void refuse_connection(Transport::Socket& socket) {
  HttpResponse response = error_response(unavailable("Too many connections."));
  response.close = true;
  const std::string text = write_response(response, ResponseFraming{});
  ErrorCode ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(text), ignored);
  socket.shutdown(Transport::Socket::shutdown_send, ignored);
}

// A listener, and whether its clients are operators.
struct Door {
  std::unique_ptr<Listener> listener;
  bool of_operator = false;
};

// The clients' listener comes first.
Result<std::vector<Door>> bind_all(asio::io_context& io, const ServerConfig& config) {
  constexpr unsigned kForAll = 0666, kForOwner = 0600;
  std::vector<Door> doors;
  auto first = config.uds.empty() ? Listener::tcp(io, config.host, config.port)
                                  : Listener::local(io, config.uds, kForAll);
  if (!first) return first.error();
  doors.push_back({.listener = *std::move(first)});
  if (config.admin_socket.empty()) return doors;
  auto second = Listener::local(io, config.admin_socket, kForOwner);
  if (!second) return second.error();
  doors.push_back({.listener = *std::move(second), .of_operator = true});
  return doors;
}

}  // namespace

struct Server::Impl {
  Impl(ServerConfig config, bool loopback, EngineClient& engine, const ApiContext& api,
       MetricsRegistry& metrics)
      : server(std::move(config), loopback, engine, api, metrics),
        io(std::max(server.config.io_threads, 1)) {}
  ~Impl() {
    // The pool must stop first: its jobs refer to connections, which are destroyed with the loop.
    server.jobs.stop();
  }

  asio::awaitable<void> accept(const Door& door);
  asio::awaitable<void> drain();
  asio::awaitable<void> heed_signals();
  asio::awaitable<void> watch_engine();
  asio::awaitable<void> watch_key_file();
  void reload_keys();
  void keys_reloaded(const std::vector<std::string>& gone);
  void begin_drain();
  void close_oldest_idle();
  template <class Function>
  void for_each_connection(Function function);

  using Waiting = std::vector<std::weak_ptr<Connection>>;
  void wake_connections(std::shared_ptr<const Waiting> waiting, std::size_t first);

  ServerContext server;
  WakeList<Connection> wakes{[this] {
    asio::post(io, [this] { wake_connections(std::make_shared<const Waiting>(wakes.take()), 0); });
  }};
  asio::io_context io;      // its destruction ends the calls, which use the members above
  std::vector<Door> doors;  // fixed before run()
  TlsStore tls;
  asio::signal_set signals{io};
  // Serialises accepting, reloading and shutdown, regardless of the number of threads.
  asio::strand<asio::io_context::executor_type> control{io.get_executor()};
  asio::steady_timer key_check{control};
  bool reload_wanted = false, reloading = false;
  std::uint16_t port = 0;
  std::string host;
  Status ended;  // written before the loop ends, read afterwards

  std::mutex mutex;
  std::vector<std::weak_ptr<Connection>> connections;  // guarded by mutex; swept as it grows
  std::size_t sweep_at = 64;
};

Result<std::unique_ptr<Server>> Server::create(ServerConfig config, EngineClient& engine,
                                               const ApiContext& context, MetricsRegistry& metrics) {
  raise_fd_limit();
  asio::io_context lookup;  // needed first, to know whether the address is a loopback address
  Result<std::vector<Door>> probe = bind_all(lookup, config);
  if (!probe) return probe.error();
  const bool loopback = probe->front().listener->is_loopback();
  probe->clear();

  std::unique_ptr<Server> server(new Server);
  server->impl_ = std::make_unique<Impl>(std::move(config), loopback, engine, context, metrics);
  Impl& impl = *server->impl_;
  const ServerConfig& settings = impl.server.config;
  PAGODA_RETURN_IF_ERROR(impl.server.keys.load(settings.api_keys, settings.api_key_file));
  PAGODA_RETURN_IF_ERROR(impl.tls.load(settings.tls));
  Result<std::vector<Door>> doors = bind_all(impl.io, settings);
  if (!doors) return doors.error();
  impl.doors = *std::move(doors);
  for (Door& door : impl.doors) PAGODA_RETURN_IF_ERROR(door.listener->listen());
  impl.port = impl.doors.front().listener->port();
  impl.host = settings.host;
  return server;
}

Status Server::check(const ServerConfig& config) {
  asio::io_context io;
  const Result<std::vector<Door>> doors = bind_all(io, config);
  if (!doors) return doors.error();
  PAGODA_RETURN_IF_ERROR(config.tls.check());
  if (config.tls.wanted())
    if (const auto context = TlsContext::load(config.tls); !context) return context.error();
  if (config.api_key_file.empty()) return ok_status();
  const auto keys = read_key_file(config.api_key_file);
  return keys ? ok_status() : keys.error();
}

Server::Server() = default;
Server::~Server() = default;

template <class Function>
void Server::Impl::for_each_connection(Function function) {
  std::vector<std::shared_ptr<Connection>> alive;
  {
    std::lock_guard lock(mutex);
    for (const auto& weak : connections)
      if (auto connection = weak.lock()) alive.push_back(std::move(connection));
  }
  for (const auto& connection : alive) function(*connection);
}

// Wakes a few at a time and lets the loop check its sockets in between, so that a new request does not wait
// until a step's tokens have been sent to all connections.
void Server::Impl::wake_connections(std::shared_ptr<const Waiting> waiting, std::size_t first) {
  const std::size_t end = std::min(first + kWokenAtOnce, waiting->size());
  for (std::size_t i = first; i < end; ++i)
    if (const std::shared_ptr<Connection> connection = (*waiting)[i].lock()) connection->wake();
  if (end < waiting->size())
    asio::post(io, [this, waiting = std::move(waiting), end] { wake_connections(waiting, end); });
}

// Closes several at once, so that a flood of new connections does not scan all connections each time.
void Server::Impl::close_oldest_idle() {
  std::vector<std::pair<TimeNs, std::shared_ptr<Connection>>> idle;
  for_each_connection([&idle](Connection& connection) {
    if (const TimeNs since = connection.idle_since(); since != 0)
      idle.emplace_back(since, connection.shared_from_this());
  });
  const std::size_t count = std::min(idle.size(), idle.size() / 64 + 1);
  std::ranges::partial_sort(idle, idle.begin() + static_cast<std::ptrdiff_t>(count), {},
                            [](const auto& entry) { return entry.first; });
  for (std::size_t i = 0; i < count; ++i) idle[i].second->close_if_idle();
}

asio::awaitable<void> Server::Impl::accept(const Door& door) {
  asio::steady_timer pause(control);
  Listener::Acceptor& acceptor = door.listener->acceptor();
  while (acceptor.is_open()) {
    // With one I/O thread, the loop itself is a strand.
    asio::any_io_executor strand = io.get_executor();
    if (server.config.io_threads > 1) strand = asio::make_strand(io);
    auto [error, socket] = co_await acceptor.async_accept(strand, kAwaited);
    if (error == asio::error::operation_aborted) break;
    if (error) {  // out of file descriptors, or the client has left: keep accepting
      pause.expires_after(milliseconds(50));
      co_await pause.async_wait(kAwaited);
      continue;
    }
    const std::size_t count = server.num_connections.load();
    std::optional<MemoryReservation> memory = server.memory.connection();
    const bool over_limit = count >= server.config.max_connections || !memory;
    if (over_limit) close_oldest_idle();
    const bool too_many = count >= server.config.max_connections + kReserve ||
                          (!memory && server.num_beyond.load() >= kReserve);
    if (!door.of_operator && too_many) {
      refuse_connection(socket);
      continue;
    }
    const std::shared_ptr<const TlsContext> context = door.of_operator ? nullptr : tls.current();
    const Connection::Origin origin{.over_limit = over_limit && !door.of_operator,
                                    .of_operator = door.of_operator};
    auto connection = std::make_shared<Connection>(std::move(socket), context, server, wakes, origin,
                                                   std::move(memory).value_or(MemoryReservation()));
    {
      std::lock_guard lock(mutex);
      if (connections.size() >= sweep_at) {
        std::erase_if(connections, [](const auto& weak) { return weak.expired(); });
        sweep_at = std::max<std::size_t>(64, connections.size() * 2);
      }
      connections.push_back(connection);
    }
    connection->serve();
  }
}

asio::awaitable<void> Server::Impl::drain() {
  asio::steady_timer timer(control);
  const auto wait_until_idle = [&](milliseconds limit) -> asio::awaitable<void> {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (server.num_active.load() > 0 && std::chrono::steady_clock::now() < deadline) {
      timer.expires_after(milliseconds(10));
      co_await timer.async_wait(kAwaited);
    }
  };
  // Meanwhile new connections get 503, also for /health, so that a load balancer removes the server.
  co_await wait_until_idle(server.config.shutdown_timeout);
  for (Door& door : doors) door.listener->close();
  if (const auto left = server.num_active.load(); left > 0)
    log_warning("server",
                concat("aborting ", left, " requests that did not finish within --shutdown-timeout"));
  for_each_connection([](Connection& connection) { connection.shut_down(); });
  co_await wait_until_idle(kAfterAbort);
  log_info("server", "Application shutdown complete.");
  io.stop();
}

void Server::Impl::begin_drain() {
  if (server.draining.exchange(true)) return;
  if (server.config.on_drain) server.config.on_drain();
  log_info("server", concat("Shutting down: waiting for ", server.num_active.load(), " running requests."));
  asio::co_spawn(control, drain(), asio::detached);
}

asio::awaitable<void> Server::Impl::heed_signals() {
  for (;;) {
    const auto [error, number] = co_await signals.async_wait(kAwaited);
    if (error) co_return;
    if (number == SIGHUP) {
      log_info("server", "SIGHUP: reloading");
      if (server.config.reload) server.config.reload();
      if (const Status status = tls.reload(); !status.ok())
        log_error("server", concat("the certificates were not reloaded: ", status.message()));
      else if (tls.wanted())
        log_info("server", "certificates reloaded");
      reload_wanted = server.keys.has_file();
      key_check.cancel();
      continue;
    }
    if (server.draining.load()) {
      log_warning("server", "second signal: exiting immediately");
      _exit(kForcedExit);
    }
    begin_drain();
  }
}

// The job pool reads the file; an invalid file is only logged.
void Server::Impl::reload_keys() {
  auto outcome = std::make_shared<Result<std::vector<std::string>>>(std::vector<std::string>{});
  JobPool::Job job{.owner = {}, .cost = 0, .work = nullptr, .done = nullptr};
  job.work = [this, outcome] { *outcome = server.keys.reload(); };
  job.done = [this, outcome](JobPool::End end) {
    asio::post(control, [this, outcome, end] {
      reloading = false;
      if (end != JobPool::End::done)
        reload_wanted = true;
      else if (!*outcome)
        log_error("server", concat("the API keys were not reloaded: ", outcome->error().message()));
      else
        keys_reloaded(**outcome);
    });
  };
  reloading = server.jobs.submit(std::move(job)).has_value();
  reload_wanted = !reloading;
}

// Erases the K/V of removed keys from the prefix cache.
void Server::Impl::keys_reloaded(const std::vector<std::string>& gone) {
  log_info("server", concat("API keys reloaded: ", server.keys.num_keys()));
  for (const std::string& name : gone) {
    server.engine.erase_cached(
        {.tenant = CacheOwner::number_of(name), .session = 0}, [name](const Status& status) {
          if (!status.ok() && status.code() != StatusCode::unimplemented)
            log_error("server", concat("the K/V of key '", name, "' is not erased: ", status.message()));
        });
  }
}

asio::awaitable<void> Server::Impl::watch_key_file() {
  while (!server.draining.load()) {
    key_check.expires_after(kKeyCheck);
    co_await key_check.async_wait(kAwaited);  // ended early by SIGHUP
    if (!reloading && (server.keys.file_has_changed() || reload_wanted)) reload_keys();
  }
}

// Ends the server when its engine has failed, so that a supervisor can restart it.
asio::awaitable<void> Server::Impl::watch_engine() {
  asio::steady_timer timer(control);
  while (server.engine.healthy()) {
    timer.expires_after(kEngineCheck);
    co_await timer.async_wait(kAwaited);
  }
  log_error("server", "the engine has stopped");
  for_each_connection([](Connection& connection) { connection.wake(); });
  timer.expires_after(server.config.dead_engine_grace);
  co_await timer.async_wait(kAwaited);
  ended = unavailable("the engine has stopped; see the log above");
  begin_drain();
}

Status Server::run() {
  Impl& impl = *impl_;
  if (impl.server.config.handle_signals) {
    ErrorCode ignored;
    impl.signals.add(SIGINT, ignored);
    impl.signals.add(SIGTERM, ignored);
    impl.signals.add(SIGHUP, ignored);
    asio::co_spawn(impl.control, impl.heed_signals(), asio::detached);
  }
  for (const Door& door : impl.doors) asio::co_spawn(impl.control, impl.accept(door), asio::detached);
  if (impl.server.keys.has_file()) asio::co_spawn(impl.control, impl.watch_key_file(), asio::detached);
  asio::co_spawn(impl.control, impl.watch_engine(), asio::detached);
  const std::string& uds = impl.server.config.uds;
  log_info("server", concat("Listening on ", uds.empty() ? url() : concat("unix:", uds)));
  log_info("server", "Application startup complete.");
  std::vector<std::thread> threads;
  for (std::int32_t i = 1; i < impl.server.config.io_threads; ++i)
    threads.emplace_back([&impl] {
      prefer_short_turns();
      impl.io.run();
    });
  prefer_short_turns();
  impl.io.run();
  for (std::thread& thread : threads) thread.join();
  return impl.ended;
}

void Server::stop() {
  asio::post(impl_->control, [impl = impl_.get()] { impl->begin_drain(); });
}

std::uint16_t Server::port() const { return impl_->port; }

std::string Server::url() const {
  const bool v6 = impl_->host.find(':') != std::string::npos;
  const char* scheme = impl_->tls.wanted() ? "https://" : "http://";
  if (!impl_->server.config.uds.empty()) return concat(scheme, "localhost");
  return concat(scheme, v6 ? "[" : "", impl_->host, v6 ? "]" : "", ":", impl_->port);
}

}  // namespace pagoda
