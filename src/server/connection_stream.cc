// Connection: answers of the server itself that continue until either side ends them.
#include "server/connection.h"

namespace pagoda {
namespace {

namespace asio = boost::asio;
constexpr std::string_view kNothing = ": ping\n\n";  // a comment that keeps proxies from closing the stream

class FollowedAnswer final : public EngineStream {
 public:
  FollowedAnswer(AnswerLog& log, std::size_t first_event, std::size_t max_bytes, std::function<void()> wake)
      : reader_(log.follow(first_event, std::move(wake))), max_bytes_(max_bytes) {}
  bool take(std::string& out) override { return reader_->take(out, max_bytes_); }

 private:
  const std::unique_ptr<AnswerLog::Reader> reader_;
  const std::size_t max_bytes_;
};

}  // namespace

StreamBeat Connection::make_beat() {
  std::function<void()> wake = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->event_.set();
  };
  return StreamBeat(stream_.get_executor(), server_.config.stream_ping_interval, std::move(wake));
}

asio::awaitable<Connection::Next> Connection::answer_stream(const Route& route, StreamHandler handler,
                                                            std::shared_ptr<ApiCall> call) {
  Result<std::shared_ptr<EngineStream>> stream = handler(*call, server_, waker());
  if (!stream) co_return co_await send(error_response(stream.error(), route.protocol));
  co_return co_await this->stream(route.facts.form, *std::move(stream));
}

asio::awaitable<Connection::Next> Connection::follow(std::shared_ptr<AnswerLog> log,
                                                     std::size_t first_event) {
  co_return co_await stream(
      AnswerForm::sse,
      std::make_shared<FollowedAnswer>(*log, first_event, server_.config.max_unsent_bytes, waker()));
}

asio::awaitable<Connection::Next> Connection::stream(AnswerForm form, std::shared_ptr<EngineStream> from) {
  std::string out = stream_head(form);
  StreamBeat beat = make_beat();
  bool more = !framing_.head_only;
  const bool chunked = framing_.minor_version == 1;
  // Nothing may be sent for a long time, so a half-closed client cannot be probed and counts as gone.
  while (!gone() && !half_closed_) {
    std::string piece;
    if (more) more = from->take(piece) && state_ != ConnectionState::draining && server_.engine.healthy();
    if (piece.empty() && more && beat.is_due()) piece = kNothing;
    if (!piece.empty()) beat.restart();
    if (chunked)
      append_chunk(out, piece);
    else
      out.append(piece);
    if (!more && chunked && !framing_.head_only) out.append(kLastChunk);
    if (!out.empty() && !co_await write(out)) {
      on(ConnectionEvent::peer_left);
      break;
    }
    out.clear();
    if (!more) co_return chunked&& framing_.keep_alive ? Next::keep_alive : Next::close;
    beat.arm();
    co_await event_.wait();
  }
  on(ConnectionEvent::peer_left);
  co_return Next::gone;
}

}  // namespace pagoda
