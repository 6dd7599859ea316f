#include "cli/flags/kv_events_flag.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/strings.h"
#include "cli/flags/flag_members.h"

namespace pagoda {
namespace {

constexpr std::int64_t kMaxOfAnything = 100'000'000;

}  // namespace

Result<KvEventsConfig> parse_kv_events_config(const std::string& json) {
  boost::system::error_code error;
  const boost::json::value parsed = boost::json::parse(json, error);
  if (error || !parsed.is_object())
    return invalid_argument(R"(must be a JSON object such as {"enable_kv_cache_events":true})");
  KvEventsConfig config;
  std::string publisher;
  const std::pair<const char*, std::string*> texts[] = {{"publisher", &publisher},
                                                        {"endpoint", &config.endpoint},
                                                        {"replay_endpoint", &config.replay_endpoint},
                                                        {"topic", &config.topic}};
  const std::pair<const char*, std::int64_t*> numbers[] = {{"buffer_steps", &config.buffer_steps},
                                                           {"hwm", &config.hwm},
                                                           {"max_queue_size", &config.max_queue_size}};
  for (const auto& member : parsed.as_object()) {
    const std::string name(member.key());
    const boost::json::value& value = member.value();
    if (value.is_null()) continue;  // null counts as absent
    if (name == "enable_kv_cache_events") {
      if (!value.is_bool()) return refuse_member(name, "must be true or false");
      config.enabled = value.as_bool();
    } else if (const auto text =
                   std::ranges::find(texts, name, [](const auto& t) { return std::string(t.first); });
               text != std::end(texts)) {
      if (!value.is_string() || value.as_string().size() > 4096)
        return refuse_member(name, "must be a string");
      *text->second = value.as_string();
    } else if (const auto number =
                   std::ranges::find(numbers, name, [](const auto& n) { return std::string(n.first); });
               number != std::end(numbers)) {
      *number->second = value.is_double() ? 0 : value.to_number<std::int64_t>(error);
      if (error || *number->second < 1 || *number->second > kMaxOfAnything)
        return refuse_member(name, "must be a whole number, at least 1");
    } else {
      return refuse_member(name, "is not a known field");
    }
  }
  if (!publisher.empty() && publisher != "null" && publisher != "zmq")
    return refuse_member("publisher", "must be \"zmq\" or \"null\"");
  if (config.endpoint.find("://") == std::string::npos)
    return refuse_member("endpoint", "must be a ZeroMQ endpoint such as tcp://*:5557");
  if (publisher == "null") config.enabled = false;
  return config;
}

}  // namespace pagoda
