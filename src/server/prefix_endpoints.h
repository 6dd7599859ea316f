#pragma once
// GET and POST /admin/prefixes, DELETE /admin/prefixes/{name}: what the provider keeps in the KV cache for
// all (§4.4 of the paper). No sockets; waiting is left to the caller.
// Threads: any.
#include <atomic>
#include <functional>
#include <string_view>

#include "api/openai/prefix_parser.h"
#include "server/http_response.h"
#include "server/server_context.h"

namespace pagoda {

// Learns on the engine thread whether a prefix was pinned, and calls `wake` there, once.
class PrefixSink final : public OutputSink {
 public:
  explicit PrefixSink(std::function<void()> wake) : wake_(std::move(wake)) {}
  void on_output(RequestOutput output) override;
  bool done() const { return done_.load(std::memory_order_acquire); }
  const Status& status() const { return status_; }  // once done

 private:
  const std::function<void()> wake_;
  Status status_;
  std::atomic<bool> done_{false};
};

HttpResponse list_prefixes(const ServerContext& server);
// `rest`: the name, percent-encoded.
HttpResponse drop_prefix(std::string_view rest, const ServerContext& server);
// `status`: what came of it.
HttpResponse prefix_added(const PrefixSpec& prefix, Status status, const ServerContext& server);

}  // namespace pagoda
