#include "cli/assembly/kv_peers.h"

#include <boost/json.hpp>

#include "base/assign_or_return.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/kv_fingerprint.h"
#include "cli/assembly/runner_options.h"
#include "kv_peer/peer_server.h"
#include "kv_peer/peer_tier.h"
#include "loader/mapped_file.h"

namespace pagoda {
namespace {

Result<std::shared_ptr<const PeerSecret>> read_secret(const std::string& path) {
  if (path.empty()) return std::shared_ptr<const PeerSecret>();
  constexpr std::size_t kMaxBytes = 4096;
  const auto text = read_text_file(path, kMaxBytes);
  if (!text) return text.error().annotate("secret_file");
  auto secret = PeerSecret::from_text(*text);
  if (!secret) return secret.error().annotate(concat("secret_file ", path));
  return std::shared_ptr<const PeerSecret>(*std::move(secret));
}

}  // namespace

Result<KvPeers> open_kv_peers(const EngineFlags& flags, const ModelSource& source, const LoadedRunner& runner,
                              std::int32_t rank, MetricsRegistry& metrics) {
  const KvTransferConfig config = config_of_rank(flags.kv_transfer, rank);
  PAGODA_ASSIGN_OR_RETURN(auto secret, read_secret(config.secret_file));
  ThreadPool pool(num_threads(flags));
  PAGODA_ASSIGN_OR_RETURN(const auto fingerprint, kv_fingerprint(flags, source, runner, pool));
  KvPeers out;
  if (config.serves) {
    PeerServerConfig serving{.listen = config.listen,
                             .secret = secret,
                             .fingerprint = fingerprint,
                             .row_bytes = {},
                             .lease_s = config.lease_s};
    for (const KvGroup& group : runner.kv_plan().groups)
      serving.row_bytes.push_back(static_cast<std::size_t>(group.pages_per_row) * runner.kv_block_bytes());
    PAGODA_ASSIGN_OR_RETURN(auto server, PeerServer::open(std::move(serving), metrics));
    log_info("kv", concat("other servers can fetch K/V from ",
                          text_of({.host = config.listen.host, .port = server->port()}),
                          secret == nullptr ? ", without a secret" : ""));
    out.server = std::move(server);
  }
  if (config.fetches) {
    auto tier =
        PeerTier::open({.peers = config.peers, .secret = secret, .fingerprint = fingerprint}, metrics);
    if (!tier) return tier.error();
    out.tier = *std::move(tier);
  }
  return out;
}

std::string kv_transfer_params(const KvTransferConfig& config) {
  if (!config.serves) return {};
  const std::string name = config.engine_id.empty() ? text_of(config.listen) : config.engine_id;
  return boost::json::serialize(boost::json::object{{"do_remote_prefill", true},
                                                    {"do_remote_decode", false},
                                                    {"remote_engine_id", name},
                                                    {"remote_block_ids", nullptr},
                                                    {"remote_host", config.listen.host},
                                                    {"remote_port", config.listen.port}});
}

}  // namespace pagoda
