#include "server/keys/rate_limit.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"

namespace pagoda {
namespace {

std::string message(const char* what, std::int64_t limit, std::int64_t used, std::int64_t requested,
                    double wait_s) {
  return concat("Rate limit reached for this key on ", what, " per minute: limit ", limit, ", used ", used,
                ", requested ", requested, ". Please try again in ", duration_text(wait_s), ".");
}

}  // namespace

double RateLimit::Bucket::now(TimeNs time) const {
  const double gained = to_seconds(std::max<TimeNs>(time - at, 0)) * static_cast<double>(per_minute) / 60;
  return std::min(level + gained, static_cast<double>(per_minute));
}

void RateLimit::Bucket::fill(TimeNs time) {
  level = now(time);
  at = std::max(at, time);
}

double RateLimit::Bucket::wait(double amount, TimeNs time) const {
  return std::max(0.0, (amount - now(time)) * 60 / static_cast<double>(per_minute));
}

void RateLimit::change(Bucket& bucket, std::int64_t per_minute, TimeNs now) {
  if (per_minute == bucket.per_minute) return;
  bucket.fill(now);
  const double used = static_cast<double>(bucket.per_minute) - bucket.level;
  bucket = {.per_minute = per_minute, .level = static_cast<double>(per_minute) - used, .at = now};
}

void RateLimit::set(std::int64_t requests_per_minute, std::int64_t tokens_per_minute, TimeNs now) {
  std::lock_guard lock(mutex_);
  change(requests_, requests_per_minute, now);
  change(tokens_, tokens_per_minute, now);
}

std::optional<RateLimit::Refusal> RateLimit::take_request(TimeNs now) {
  std::lock_guard lock(mutex_);
  Bucket& bucket = requests_;
  if (bucket.per_minute == 0) return std::nullopt;
  bucket.fill(now);
  if (bucket.level < 1) {
    const double wait_s = bucket.wait(1, now);
    return Refusal{message("requests", bucket.per_minute, bucket.per_minute, 1, wait_s), wait_s};
  }
  bucket.level -= 1;
  return std::nullopt;
}

std::optional<RateLimit::Refusal> RateLimit::take_tokens(std::int64_t wanted, std::int64_t prompt, TimeNs now,
                                                         std::int64_t& taken) {
  std::lock_guard lock(mutex_);
  Bucket& bucket = tokens_;
  taken = 0;
  if (bucket.per_minute == 0) return std::nullopt;
  if (prompt > bucket.per_minute)
    return Refusal{concat("The request is too large for this key: its prompts have ", prompt,
                          " tokens, and it may have ", bucket.per_minute, " tokens per minute."),
                   0};
  bucket.fill(now);
  const std::int64_t amount = std::min(wanted, bucket.per_minute);
  if (bucket.level < static_cast<double>(amount)) {
    const double wait_s = bucket.wait(static_cast<double>(amount), now);
    const auto left = static_cast<std::int64_t>(std::floor(bucket.level));
    return Refusal{message("tokens", bucket.per_minute, bucket.per_minute - left, amount, wait_s), wait_s};
  }
  bucket.level -= static_cast<double>(amount);
  taken = amount;
  return std::nullopt;
}

void RateLimit::settle(std::int64_t taken, std::int64_t used, TimeNs now) {
  std::lock_guard lock(mutex_);
  if (tokens_.per_minute == 0) return;
  tokens_.fill(now);
  tokens_.level =
      std::min(tokens_.level + static_cast<double>(taken - used), static_cast<double>(tokens_.per_minute));
}

std::vector<std::pair<std::string, std::string>> RateLimit::headers(TimeNs now) const {
  std::vector<std::pair<std::string, std::string>> out;
  const auto add = [&](const Bucket& bucket, const char* what) {
    if (bucket.per_minute == 0) return;
    const auto left = static_cast<std::int64_t>(std::max(0.0, std::floor(bucket.now(now))));
    out.emplace_back(concat("x-ratelimit-limit-", what), std::to_string(bucket.per_minute));
    out.emplace_back(concat("x-ratelimit-remaining-", what), std::to_string(left));
    out.emplace_back(concat("x-ratelimit-reset-", what),
                     duration_text(bucket.wait(static_cast<double>(bucket.per_minute), now)));
  };
  std::lock_guard lock(mutex_);
  add(requests_, "requests");
  add(tokens_, "tokens");
  return out;
}

std::string duration_text(double seconds) {
  constexpr double kLongest = 1e9;
  const auto ms = static_cast<std::int64_t>(std::ceil(std::clamp(seconds, 0.0, kLongest) * 1000));
  if (ms == 0) return "0s";
  if (ms < 1000) return concat(ms, "ms");
  const std::int64_t whole = (ms + 999) / 1000, minutes = whole / 60 % 60, hours = whole / 3600;
  std::string out;
  if (hours > 0) out.append(concat(hours, "h"));
  if (hours > 0 || minutes > 0) out.append(concat(minutes, "m"));
  return out.append(concat(whole % 60, "s"));
}

}  // namespace pagoda
