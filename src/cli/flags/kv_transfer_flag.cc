#include "cli/flags/kv_transfer_flag.h"

#include <boost/json.hpp>
#include <charconv>
#include <cmath>

#include "base/strings.h"
#include "cli/flags/flag_members.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxText = 4096, kMaxPeers = 32;
constexpr double kMaxBuffer = 1e15, kMaxLease = 3600;

Status read_text(std::string_view name, const json::value& value, std::string& out) {
  if (!value.is_string() || value.as_string().size() > kMaxText)
    return refuse_member(name, "must be a string");
  out = value.as_string();
  return ok_status();
}

// Parses HOST:PORT or [v6]:PORT.
std::optional<PeerAddress> address_of(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    return std::nullopt;
  PeerAddress out{.host = std::string(host)};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (error != std::errc() || end != port.data() + port.size() || out.port == 0 || host.empty())
    return std::nullopt;
  return out;
}

Status read_role(const json::value& value, KvTransferConfig& config) {
  const std::string role = value.is_string() ? std::string(value.as_string()) : "";
  config.serves = role == "kv_producer" || role == "kv_both";
  config.fetches = role == "kv_consumer" || role == "kv_both";
  return config.enabled() ? ok_status()
                          : refuse_member("kv_role", R"(must be "kv_producer", "kv_consumer" or "kv_both")");
}

Status read_port(const json::value& value, KvTransferConfig& config) {
  boost::system::error_code error;
  const auto port = value.is_double() ? -1 : value.to_number<std::int64_t>(error);
  if (error || port < 0 || port > 65535) return refuse_member("kv_port", "must be a port number");
  config.listen.port = static_cast<std::uint16_t>(port);
  return ok_status();
}

Status read_seconds_or_bytes(std::string_view name, const json::value& value, double least, double most,
                             double& out) {
  boost::system::error_code error;
  out = value.is_number() ? value.to_number<double>(error) : -1;
  if (error || !(out >= least) || out > most)
    return refuse_member(name, concat("must be a number from ", least, " to ", most));
  return ok_status();
}

Status read_peers(const json::value& value, KvTransferConfig& config) {
  if (!value.is_array() || value.as_array().size() > kMaxPeers)
    return refuse_member("peers",
                         concat("must be an array of at most ", kMaxPeers, " strings \"HOST:PORT\""));
  for (const json::value& each : value.as_array()) {
    const auto address = each.is_string() ? address_of(std::string_view(each.as_string())) : std::nullopt;
    if (!address) return refuse_member("peers", "must be an array of strings \"HOST:PORT\"");
    config.peers.push_back(*address);
  }
  return ok_status();
}

Status read_extra(const json::value& value, KvTransferConfig& config) {
  if (!value.is_object()) return refuse_member("kv_connector_extra_config", "must be an object");
  for (const auto& member : value.as_object()) {
    const std::string_view name = member.key();
    if (member.value().is_null()) continue;
    if (name == "peers") {
      PAGODA_RETURN_IF_ERROR(read_peers(member.value(), config));
    } else if (name == "secret_file") {
      PAGODA_RETURN_IF_ERROR(read_text(name, member.value(), config.secret_file));
    } else if (name == "lease_s") {
      PAGODA_RETURN_IF_ERROR(read_seconds_or_bytes(name, member.value(), 0, kMaxLease, config.lease_s));
    } else {
      return refuse_member(name, "is not a known field of kv_connector_extra_config");
    }
  }
  return ok_status();
}

Status read_member(std::string_view name, const json::value& value, std::string& connector,
                   KvTransferConfig& config) {
  std::string text;
  if (name == "kv_connector") return read_text(name, value, connector);
  if (name == "kv_role") return read_role(value, config);
  if (name == "kv_connector_extra_config") return read_extra(value, config);
  if (name == "kv_ip") return read_text(name, value, config.listen.host);
  if (name == "kv_port") return read_port(value, config);
  if (name == "engine_id") return read_text(name, value, config.engine_id);
  if (name == "kv_buffer_size") {
    double bytes = 0;
    PAGODA_RETURN_IF_ERROR(read_seconds_or_bytes(name, value, 1 << 20, kMaxBuffer, bytes));
    config.buffer_bytes = static_cast<std::int64_t>(bytes);
    return ok_status();
  }
  if (name == "kv_buffer_device") {
    PAGODA_RETURN_IF_ERROR(read_text(name, value, text));
    return text == "cpu" ? ok_status() : refuse_member(name, "must be \"cpu\"");
  }
  if (name == "kv_load_failure_policy") {
    PAGODA_RETURN_IF_ERROR(read_text(name, value, text));
    return text == "recompute"
               ? ok_status()
               : refuse_member(name, "must be \"recompute\": K/V that does not come is computed");
  }
  return refuse_member(name, "is not a known field");
}

}  // namespace

Result<KvTransferConfig> parse_kv_transfer_config(const std::string& text) {
  boost::system::error_code error;
  const json::value parsed = json::parse(text, error);
  if (error || !parsed.is_object())
    return invalid_argument(
        R"(must be a JSON object such as {"kv_connector":"PagodaConnector","kv_role":"kv_both"})");
  KvTransferConfig config;
  std::string connector;
  for (const auto& member : parsed.as_object())
    if (!member.value().is_null())
      PAGODA_RETURN_IF_ERROR(read_member(member.key(), member.value(), connector, config));
  if (connector != "PagodaConnector")
    return refuse_member("kv_connector",
                         "must be \"PagodaConnector\": servers share K/V with their own kind alone");
  if (!config.enabled())
    return refuse_member("kv_role", R"(must be "kv_producer", "kv_consumer" or "kv_both")");
  if (config.fetches && config.peers.empty())
    return refuse_member("peers", "must name the servers to fetch from, in kv_connector_extra_config");
  if (!config.fetches && !config.peers.empty())
    return refuse_member("peers", "need kv_role \"kv_consumer\" or \"kv_both\"");
  return config;
}

}  // namespace pagoda
