#include "server/live_endpoints.h"

#include <charconv>

#include "api/query.h"
#include "base/strings.h"
#include "server/server_context.h"

namespace pagoda {
namespace {

class LiveStream final : public EngineStream {
 public:
  explicit LiveStream(std::shared_ptr<LiveReader> reader) : reader_(std::move(reader)) {}
  bool take(std::string& out) override { return reader_->take(out); }

 private:
  const std::shared_ptr<LiveReader> reader_;
};

Result<std::shared_ptr<EngineStream>> debug_live(const ApiCall& call, ServerContext& server,
                                                 std::function<void()> wake) {
  // Pages of other sites could not read the stream, but could use up the readers' places.
  const std::string_view site = call.header("sec-fetch-site");
  if (!site.empty() && site != "same-origin" && site != "none")
    return invalid_argument("The live view can only be opened by this server's own page.");
  const std::optional<std::string> every = query_value(call.query, "every");
  if (every && *every != "step")
    return invalid_argument("'every' must be 'step'; without it a frame is sent every tenth of a second.")
        .with_param("every");
  const std::string rank = query_value(call.query, "engine").value_or("0");
  std::size_t engine = 0;
  const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), engine);
  if (error != std::errc() || end != rank.data() + rank.size() || engine >= server.live.size())
    return invalid_argument(concat("'engine' must be a number from 0 to ", server.live.size() - 1, "."))
        .with_param("engine");
  Result<std::shared_ptr<LiveReader>> reader =
      server.live[engine].subscribe(every ? LivePace::every_step : LivePace::tenths, std::move(wake));
  if (!reader) return reader.error();
  return std::shared_ptr<EngineStream>(std::make_shared<LiveStream>(*std::move(reader)));
}

constexpr Route kLiveRoutes[] = {
    {{.method = "GET", .path = "/debug/live", .role = Role::admin, .form = AnswerForm::sse}, debug_live},
};

}  // namespace

std::span<const Route> live_routes() { return kLiveRoutes; }

}  // namespace pagoda
