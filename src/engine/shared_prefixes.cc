#include "engine/shared_prefixes.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::uint64_t kFirstPrefixRequest = std::uint64_t{1} << 63;  // clients' ids are below this
constexpr std::size_t kMaxNameBytes = 256, kMaxPrefixes = 1024;

Status refuse(std::string_view param, std::string message) {
  return invalid_argument(std::move(message)).with_param(std::string(param));
}

const std::string& name_of_prefix(const SharedPrefixes::Prefix& prefix) { return prefix.info.name; }

}  // namespace

SharedPrefixes::SharedPrefixes(const EngineParts& parts, RequestIntake& intake, RequestTable& requests,
                               RequestEnds& ends, SequenceIds& ids, const StepObservers& observers,
                               const Status& runner_status)
    : parts_(parts),
      intake_(intake),
      requests_(requests),
      ends_(ends),
      ids_(ids),
      observers_(observers),
      runner_status_(runner_status) {}

RequestState* SharedPrefixes::find_computing(const std::string& name) const {
  if (name.empty()) return nullptr;
  for (const auto& [id, state] : requests_)
    if (state->prefix_name == name) return state.get();
  return nullptr;
}

Status SharedPrefixes::check_name(const std::string& name) const {
  if (name.empty() || name.size() > kMaxNameBytes)
    return refuse("name", concat("A prefix needs a name of 1 to ", kMaxNameBytes, " bytes."));
  if (std::ranges::find(prefixes_, name, name_of_prefix) != prefixes_.end() ||
      find_computing(name) != nullptr) {
    return already_exists(concat("There is already a prefix with the name \"", name, "\"."))
        .with_param("name")
        .with_reason("prefix_exists");
  }
  const auto num_computing =
      std::ranges::count_if(requests_, [](const auto& entry) { return !entry.second->prefix_name.empty(); });
  if (prefixes_.size() + static_cast<std::size_t>(num_computing) >= kMaxPrefixes)
    return refuse("name", concat("There can be at most ", kMaxPrefixes, " prefixes."));
  return ok_status();
}

Status SharedPrefixes::add(const std::string& name, std::vector<TokenId> tokens,
                           std::shared_ptr<OutputSink> sink) {
  PAGODA_RETURN_IF_ERROR(runner_status_);
  PAGODA_RETURN_IF_ERROR(check_name(name));
  Request request;
  request.id = RequestId{kFirstPrefixRequest + ++num_requests_};
  request.prompt_token_ids = std::move(tokens);
  request.sampling.max_tokens = 0;
  request.sampling.temperature = 0;
  PAGODA_RETURN_IF_ERROR(intake_.validate(request));
  const KvManager& kv = *parts_.kv;
  const std::int64_t blocks = kv.geometry().pages_alone(std::ssize(request.prompt_token_ids));
  if (2 * (kv.sharing().num_pinned_blocks() + blocks) > kv.num_blocks()) {
    return refuse("prompt", concat("The prefixes would pin more than half of the KV cache, which has ",
                                   kv.num_blocks(), " blocks."));
  }
  observers_.notify(&StepObserver::on_add_prefix, name, std::span<const TokenId>(request.prompt_token_ids));
  intake_.start(std::move(request), std::move(sink), name);
  return ok_status();
}

Status SharedPrefixes::pin(const SequenceGroup& group, const std::string& name) {
  KvManager& kv = *parts_.kv;
  const Sequence& sequence = *group.sequences.front();
  Prefix prefix{.info = {.name = name, .num_tokens = sequence.num_tokens()}, .holder = ids_.next()};
  const std::int64_t pinned_before = kv.sharing().num_pinned_blocks();
  if (!kv.sharing().pin_prefix(sequence.id, prefix.holder, sequence.tokens))
    return invalid_argument("Shared prefixes need --kv-manager paged.");
  // Requests that were accepted when more space was available must still fit.
  const bool all_fit = std::ranges::all_of(requests_, [this](const auto& entry) {
    return parts_.scheduler->validate(entry.second->group.request).ok();
  });
  if (!all_fit || 2 * kv.sharing().num_pinned_blocks() > kv.num_blocks()) {
    kv.sharing().unpin_prefix(prefix.holder);
    return resource_exhausted("Running requests need the space of this prefix. Try again later.");
  }
  prefix.info.num_blocks = kv.sharing().num_pinned_blocks() - pinned_before;
  std::lock_guard lock(mutex_);
  prefixes_.push_back(std::move(prefix));
  return ok_status();
}

Status SharedPrefixes::drop(const std::string& name) {
  observers_.notify(&StepObserver::on_drop_prefix, name);
  if (const RequestState* const computing = find_computing(name)) {
    ends_.abort({.id = computing->group.request.id, .index = std::nullopt, .error = ok_status()});
    return ok_status();
  }
  const auto it = std::ranges::find(prefixes_, name, name_of_prefix);
  if (it == prefixes_.end()) return not_found(concat("There is no prefix with the name \"", name, "\"."));
  parts_.kv->sharing().unpin_prefix(it->holder);
  std::lock_guard lock(mutex_);
  prefixes_.erase(it);
  return ok_status();
}

std::vector<PrefixInfo> SharedPrefixes::list() const {
  std::lock_guard lock(mutex_);
  std::vector<PrefixInfo> out;
  for (const Prefix& prefix : prefixes_)
    if (!prefix.hidden) out.push_back(prefix.info);
  return out;
}

bool SharedPrefixes::hide(const std::string& name) {
  std::lock_guard lock(mutex_);
  for (Prefix& prefix : prefixes_)
    if (prefix.info.name == name) return !std::exchange(prefix.hidden, true);
  return false;
}

}  // namespace pagoda
