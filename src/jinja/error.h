#pragma once
// TemplateError: the failure of a template; used only inside this folder, since ChatTemplate converts it to a
// Status. The kinds are Python's exception classes, as far as templates can distinguish them (`|int` catches
// type and value errors; item lookup catches type and lookup errors).
#include <exception>
#include <string>
#include <utility>

namespace pagoda::jinja {

enum class ErrorKind {
  syntax,
  type,
  value,
  lookup,
  undefined,
  security,
  overflow,
  zero_division,
  runtime,
  raised,  // the template called raise_exception
  limit,   // a sandbox limit, or something Pagoda does not implement
};

class TemplateError : public std::exception {
 public:
  TemplateError(ErrorKind kind, std::string message, int line = 0)
      : kind_(kind), line_(line), message_(std::move(message)) {}
  ErrorKind kind() const { return kind_; }
  int line() const { return line_; }  // 0: unknown
  void set_line(int line) { line_ = line; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  int line_;
  std::string message_;
};

[[noreturn]] inline void fail(ErrorKind kind, std::string message) {
  throw TemplateError(kind, std::move(message));
}
[[noreturn]] inline void type_error(std::string message) { fail(ErrorKind::type, std::move(message)); }
[[noreturn]] inline void value_error(std::string message) { fail(ErrorKind::value, std::move(message)); }

}  // namespace pagoda::jinja
