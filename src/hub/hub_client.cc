#include "hub/hub_client.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <optional>

#include "base/strings.h"
#include "hub/choose_files.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr int kMaxRedirects = 5;
constexpr int kMaxRetryAfterS = 60;
constexpr std::size_t kMaxList = std::size_t{16} << 20;
constexpr std::size_t kMaxFiles = 10000;

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0)
    return std::nullopt;
  return value;
}

// True if the text is a single safe path component, whatever the hub sends.
bool plain(std::string_view text) {
  return !text.empty() && text.size() <= 128 && text.front() != '.' && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

// An ETag without quotes and without the W/ of a weak one.
std::string_view bare_etag(std::string_view text) {
  if (text.starts_with("W/")) text.remove_prefix(2);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return text;
}

Status refusal(int status, std::string_view what) {
  if (status == 401 || status == 403)
    return {StatusCode::unauthenticated,
            concat(what, ": the hub answers ", status,
                   ": the name is wrong, or the model needs a token (--hf-token or HF_TOKEN)")};
  if (status == 404) return not_found(concat(what, ": not found on the hub"));
  if (status == 429) return resource_exhausted(concat(what, ": the hub answers 429, too many requests"));
  if (status == 408 || status >= 500) return unavailable(concat(what, ": the hub answers ", status));
  return invalid_argument(concat(what, ": the hub answers ", status));
}

// The start of a Content-Range: 5 for "bytes 5-9/10".
std::optional<std::int64_t> range_start(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  return number(text.substr(0, text.find('-')));
}

}  // namespace

Result<HubClient> HubClient::create(const std::string& endpoint, const std::string& token) {
  auto url = parse_url(endpoint);
  if (!url || url->target.find('?') != std::string::npos)
    return invalid_argument("HF_ENDPOINT is not an http or https address");
  while (url->target.ends_with('/')) url->target.pop_back();
  if (token.size() > 4096 || !std::ranges::all_of(token, [](char c) { return c > 0x20 && c < 0x7f; }))
    return invalid_argument(
        "HF_TOKEN cannot be a token: it has spaces, control characters or letters beyond ASCII");
  return HubClient(*std::move(url), token);
}

std::string HubClient::base() const { return endpoint_.origin() + endpoint_.target; }

Result<HttpHead> HubClient::get(HttpCall get, const BodyTaker& taker, std::vector<HttpHead>* heads) {
  const std::string what = get.url.target;
  retry_after_s_ = 0;
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    get.token = get.url.origin() == endpoint_.origin() ? token_ : std::string();
    const BodyTaker here = {.begin = [&](const HttpHead& head) -> Status {
                              if (is_redirect(head.status)) return ok_status();
                              if (head.status != 200 && head.status != 206) return refusal(head.status, what);
                              return taker.begin(head);
                            },
                            .piece = taker.piece};
    bool redirected = false;
    int after = 0;
    const BodyTaker watched = {
        .begin = [&](const HttpHead& head) -> Status {
          redirected = is_redirect(head.status);
          after = static_cast<int>(
              std::min<std::int64_t>(number(head.field("retry-after")).value_or(0), kMaxRetryAfterS));
          return here.begin(head);
        },
        .piece = [&](std::string_view bytes) { return redirected ? ok_status() : here.piece(bytes); }};
    auto head = http_call(get, watched);
    if (!head) {
      retry_after_s_ = after;
      const StatusCode code = head.error().code();
      // Name the host if it is not the hub itself but a redirect target.
      return hop == 0 || code != StatusCode::unavailable ? head.error() : head.error().annotate(get.url.host);
    }
    if (heads != nullptr) heads->push_back(*head);
    // The response already has all metadata, and the store behind it may not support HEAD.
    const bool described =
        get.head && !head->field("x-linked-etag").empty() && !head->field("x-linked-size").empty();
    if (!redirected || described) return head;
    auto next = follow(get.url, head->field("location"));
    if (!next) return invalid_argument(concat(what, ": the hub redirects to an invalid address"));
    if (get.url.tls && !next->tls)
      return invalid_argument(concat(what, ": the hub redirects from https to http, which is not followed"));
    get.url = *std::move(next);
  }
  return invalid_argument(concat(what, ": more than ", kMaxRedirects, " redirects"));
}

Result<HubRepository> HubClient::repository(const std::string& name, const std::string& revision) {
  const auto url = parse_url(
      concat(base(), "/api/models/", percent_encoded(name), "/revision/", percent_encoded(revision)));
  if (!url) return invalid_argument(concat(name, " cannot be part of a URL"));
  std::string body;
  const BodyTaker taker = {.begin = [](const HttpHead&) { return ok_status(); },
                           .piece = [&](std::string_view bytes) -> Status {
                             if (body.size() + bytes.size() > kMaxList)
                               return invalid_argument("the hub's list of files is larger than 16 MiB");
                             body += bytes;
                             return ok_status();
                           }};
  if (const auto head = get({.url = *url}, taker); !head) return head.error();
  json::error_code error;
  const json::value value = json::parse(body, error);
  const Status strange = corrupt_data(concat(name, ": the hub's answer is not a list of files"));
  const json::object* object = error ? nullptr : value.if_object();
  if (object == nullptr) return strange;
  const json::value* sha = object->if_contains("sha");
  const json::value* siblings = object->if_contains("siblings");
  if (sha == nullptr || !sha->is_string() || siblings == nullptr || !siblings->is_array()) return strange;
  HubRepository out{.commit = std::string(sha->get_string().c_str(), sha->get_string().size())};
  if (!plain(out.commit) || siblings->get_array().size() > kMaxFiles) return strange;
  for (const json::value& sibling : siblings->get_array()) {
    const json::object* one = sibling.if_object();
    const json::value* file = one == nullptr ? nullptr : one->if_contains("rfilename");
    if (file == nullptr || !file->is_string()) return strange;
    out.files.emplace_back(file->get_string().c_str(), file->get_string().size());
  }
  return out;
}

Result<HubFile> HubClient::describe(const std::string& name, const std::string& commit,
                                    const std::string& file) {
  const auto url =
      parse_url(concat(base(), "/", percent_encoded(name), "/resolve/", commit, "/", percent_encoded(file)));
  if (!url) return invalid_argument(concat(file, " cannot be part of a URL"));
  std::vector<HttpHead> heads;
  const BodyTaker taker = {.begin = [](const HttpHead&) { return ok_status(); },
                           .piece = [](std::string_view) { return ok_status(); }};
  if (const auto head = get({.url = *url, .head = true}, taker, &heads); !head) return head.error();
  // The hub's own headers, in its redirect, take precedence over those of the store behind it.
  const auto first = [&](std::initializer_list<std::string_view> names) {
    for (const std::string_view each : names)
      for (const HttpHead& head : heads)
        if (const auto field = head.field(each); !field.empty()) return field;
    return std::string_view();
  };
  const std::string_view etag = bare_etag(first({"x-linked-etag", "etag"}));
  std::optional<std::int64_t> size = number(first({"x-linked-size"}));
  if (!size) size = number(heads.back().field("content-length"));
  if (!plain(etag) || etag.ends_with(".incomplete") || !size)
    return corrupt_data(concat(file, ": the hub's answer has no ETag or size"));
  return HubFile{.etag = std::string(etag), .size = *size};
}

Status HubClient::fetch(const std::string& name, const std::string& commit, const std::string& file,
                        std::int64_t from, const std::function<Status(std::int64_t)>& start,
                        const std::function<Status(std::string_view)>& piece) {
  const auto url =
      parse_url(concat(base(), "/", percent_encoded(name), "/resolve/", commit, "/", percent_encoded(file)));
  if (!url) return invalid_argument(concat(file, " cannot be part of a URL"));
  const BodyTaker taker = {.begin = [&](const HttpHead& head) -> Status {
                             if (head.status == 200) return start(0);
                             const auto at = range_start(head.field("content-range"));
                             if (!at || *at != from)
                               return unavailable("the hub sends another range than the requested one");
                             return start(from);
                           },
                           .piece = piece};
  const auto head = get({.url = *url, .from = from}, taker);
  return head ? ok_status() : head.error();
}

}  // namespace pagoda
