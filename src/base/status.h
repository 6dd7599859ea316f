#pragma once
// Status and Result<T>: how an operation on the outside world (a request, a file, a device) fails.
// Not for expected answers (use optional or bool), not for our own bugs (use CHECK).
// The codes map one-to-one to HTTP statuses in api/errors.h; the CLI prints message() and exits with 2.
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace pagoda {

enum class StatusCode {
  ok,
  invalid_argument,    // 400: the caller sent something wrong
  unauthenticated,     // 401
  not_found,           // 404
  already_exists,      // 409: the name is taken
  resource_exhausted,  // 429: a bounded queue is full; trying later may work
  cancelled,           // 499: the client went away
  deadline_exceeded,   // 408 / 504
  unimplemented,       // 501: this build lacks the feature
  unavailable,         // 503: draining, engine dead
  corrupt_data,        // a file is malformed
  internal,            // 500: a device or system call failed
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::ok; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // Dotted path of the offending request field ("messages.0.content"); empty if none.
  const std::string& param() const { return param_; }
  // Machine-readable error code of the OpenAI body ("context_length_exceeded"); empty if none.
  const std::string& reason() const { return reason_; }

  Status&& with_param(std::string param) && {
    param_ = std::move(param);
    return std::move(*this);
  }
  Status&& with_reason(std::string reason) && {
    reason_ = std::move(reason);
    return std::move(*this);
  }
  // The same status with `context` and ": " before the message.
  Status annotate(const std::string& context) const {
    Status copy = *this;
    copy.message_ = context + ": " + message_;
    return copy;
  }

 private:
  StatusCode code_ = StatusCode::ok;
  std::string message_;
  std::string param_;
  std::string reason_;
};

inline Status ok_status() { return {}; }
inline Status invalid_argument(std::string message) {
  return {StatusCode::invalid_argument, std::move(message)};
}
inline Status not_found(std::string message) { return {StatusCode::not_found, std::move(message)}; }
inline Status already_exists(std::string message) { return {StatusCode::already_exists, std::move(message)}; }
inline Status resource_exhausted(std::string message) {
  return {StatusCode::resource_exhausted, std::move(message)};
}
inline Status unavailable(std::string message) { return {StatusCode::unavailable, std::move(message)}; }
inline Status unimplemented(std::string message) { return {StatusCode::unimplemented, std::move(message)}; }
inline Status corrupt_data(std::string message) { return {StatusCode::corrupt_data, std::move(message)}; }
inline Status internal_error(std::string message) { return {StatusCode::internal, std::move(message)}; }

// A value, or the Status that says why there is none. Member names follow std::expected.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}        // NOLINT: implicit by design
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {  // NOLINT: implicit by design
    CHECK(!error().ok());
  }

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & {
    CHECK(has_value());
    return std::get<0>(state_);
  }
  const T& value() const& {
    CHECK(has_value());
    return std::get<0>(state_);
  }
  T&& value() && {
    CHECK(has_value());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Status& error() const {
    CHECK(!has_value());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Status> state_;
};

// Returns the error from the enclosing function, if there is one.
#define PAGODA_RETURN_IF_ERROR(expression)                                      \
  do {                                                                          \
    if (::pagoda::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

}  // namespace pagoda
