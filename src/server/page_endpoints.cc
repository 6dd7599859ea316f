#include "server/page_endpoints.h"

#include "base/check.h"
#include "base/strings.h"
#include "page/page_files.h"

namespace pagoda {
namespace {

// Allows only scripts and styles from this server, nothing inline; text can never become markup or code.
constexpr std::string_view kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'";

bool takes_gzip(std::string_view accepted) {
  const std::size_t at = accepted.find("gzip");
  return at != std::string_view::npos && !accepted.substr(at + 4).starts_with(";q=0");
}

HttpResponse page_file(const ApiCall& call, ServerContext&) {
  const PageFile* file = find_page_file(call.path);
  CHECK(file != nullptr);
  const bool index = file->path == "/";
  const std::string tag = concat("\"", file->tag, "\"");
  HttpResponse response;
  response.content_type = file->content_type;
  auto& headers = response.headers;
  headers.emplace_back("etag", tag);
  headers.emplace_back("cache-control", index ? "no-cache" : "public, max-age=31536000, immutable");
  headers.emplace_back("vary", "accept-encoding");
  headers.emplace_back("cross-origin-resource-policy", "same-origin");
  if (index) {
    headers.emplace_back("content-security-policy", kContentPolicy);
    headers.emplace_back("cross-origin-opener-policy", "same-origin");
    headers.emplace_back("referrer-policy", "no-referrer");
    headers.emplace_back("permissions-policy", "camera=(), microphone=(), geolocation=()");
  }
  if (call.header("if-none-match").find(tag) != std::string_view::npos) {
    response.status = 304;
    return response;
  }
  const bool gzip = takes_gzip(call.header("accept-encoding"));
  if (gzip) headers.emplace_back("content-encoding", "gzip");
  response.body = gzip ? file->gzip : file->plain;
  return response;
}

}  // namespace

std::vector<Route> page_routes() {
  std::vector<Route> rows;
  for (const PageFile& file : page_files())
    rows.push_back(
        {{.method = "GET", .path = file.path, .role = Role::anyone, .form = AnswerForm::file}, page_file});
  return rows;
}

}  // namespace pagoda
