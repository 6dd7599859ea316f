// Shared prefixes of EngineCore (§4.4): a prefix is computed like a request that wants no token, and pinned
// before its sequence gives its blocks back.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "engine/engine_core.h"

namespace pagoda {
namespace {

// No client's id reaches so far.
constexpr std::uint64_t kFirstPrefixRequest = std::uint64_t{1} << 63;
constexpr std::size_t kMaxNameBytes = 256, kMaxPrefixes = 1024;

Status refuse(std::string_view param, std::string message) {
  return invalid_argument(std::move(message)).with_param(std::string(param));
}

}  // namespace

Status EngineCore::add_prefix(const std::string& name, std::vector<TokenId> tokens,
                              std::shared_ptr<OutputSink> sink) {
  if (!status_.ok()) return status_;
  if (name.empty() || name.size() > kMaxNameBytes)
    return refuse("name", concat("A prefix needs a name of 1 to ", kMaxNameBytes, " bytes."));
  std::size_t num_known = prefixes_.size();
  bool taken = std::ranges::any_of(prefixes_, [&](const Prefix& p) { return p.info.name == name; });
  for (const auto& [id, state] : requests_) {
    num_known += state->prefix_name.empty() ? 0 : 1;
    taken |= state->prefix_name == name;
  }
  if (taken) {
    return already_exists(concat("There is a prefix of the name \"", name, "\" already."))
        .with_param("name")
        .with_reason("prefix_exists");
  }
  if (num_known >= kMaxPrefixes) return refuse("name", concat("There can be ", kMaxPrefixes, " prefixes."));
  Request request;
  request.id = RequestId{kFirstPrefixRequest + ++num_prefix_requests_};
  request.prompt_token_ids = std::move(tokens);
  request.sampling.max_tokens = 0;
  request.sampling.temperature = 0;
  PAGODA_RETURN_IF_ERROR(validate(request));
  const std::int64_t blocks = parts_.kv->geometry().pages_alone(std::ssize(request.prompt_token_ids));
  if (2 * (parts_.kv->sharing().num_pinned_blocks() + blocks) > parts_.kv->num_blocks()) {
    return refuse("prompt",
                  concat("The prefixes together would pin more than half of the KV cache, which has ",
                         parts_.kv->num_blocks(), " blocks."));
  }
  if (observer_ != nullptr) observer_->on_add_prefix(name, request.prompt_token_ids);
  auto state = make_state(std::move(request), std::move(sink));
  state->prefix_name = name;
  start(std::move(state));
  return ok_status();
}

// The group has just computed the prefix.
Status EngineCore::pin(const SequenceGroup& group, const std::string& name) {
  const Sequence& sequence = *group.sequences.front();
  Prefix prefix{.info = {.name = name, .num_tokens = sequence.num_tokens()}, .holder = ids_.next()};
  const std::int64_t pinned_before = parts_.kv->sharing().num_pinned_blocks();
  if (!parts_.kv->sharing().pin_prefix(sequence.id, prefix.holder, sequence.tokens))
    return invalid_argument("Shared prefixes need --kv-manager paged.");
  // Requests that were accepted with more room must still fit.
  const bool all_fit = std::ranges::all_of(requests_, [this](const auto& entry) {
    return parts_.scheduler->validate(entry.second->group.request).ok();
  });
  if (!all_fit || 2 * parts_.kv->sharing().num_pinned_blocks() > parts_.kv->num_blocks()) {
    parts_.kv->sharing().unpin_prefix(prefix.holder);
    return resource_exhausted("The requests being served need the space of this prefix. Try again later.");
  }
  prefix.info.num_blocks = parts_.kv->sharing().num_pinned_blocks() - pinned_before;
  std::lock_guard lock(prefixes_mutex_);
  prefixes_.push_back(std::move(prefix));
  return ok_status();
}

std::vector<PrefixInfo> EngineCore::prefixes() const {
  std::lock_guard lock(prefixes_mutex_);
  std::vector<PrefixInfo> out;
  for (const Prefix& prefix : prefixes_)
    if (!prefix.hidden) out.push_back(prefix.info);
  return out;
}

bool EngineCore::hide_prefix(const std::string& name) {
  std::lock_guard lock(prefixes_mutex_);
  for (Prefix& prefix : prefixes_)
    if (prefix.info.name == name) return !std::exchange(prefix.hidden, true);
  return false;
}

Status EngineCore::drop_prefix(const std::string& name) {
  if (observer_ != nullptr) observer_->on_drop_prefix(name);
  for (const auto& [id, state] : requests_) {
    if (state->prefix_name != name || name.empty()) continue;
    abort(id);
    return ok_status();
  }
  const auto it =
      std::ranges::find(prefixes_, name, [](const Prefix& p) -> const std::string& { return p.info.name; });
  if (it == prefixes_.end()) return not_found(concat("There is no prefix of the name \"", name, "\"."));
  parts_.kv->sharing().unpin_prefix(it->holder);
  std::lock_guard lock(prefixes_mutex_);
  prefixes_.erase(it);
  return ok_status();
}

}  // namespace pagoda
