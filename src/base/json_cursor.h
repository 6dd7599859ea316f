#pragma once
// JsonCursor: walks over a complete JSON text without building a tree, for vocabularies of 10^5 entries and
// for the chunks of streams. Small values are passed as text to a real parser (raw_value). Strings that are
// read and containers that are entered are validated; in a skipped value only the brackets are matched.
// Threads: none.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  // on_member(key) must read the member's value with one of the readers below.
  template <class OnMember>
  Status read_object(const OnMember& on_member) {
    PAGODA_RETURN_IF_ERROR(expect('{'));
    if (accept('}')) return ok_status();
    std::string key;
    do {
      PAGODA_RETURN_IF_ERROR(read_string(key));
      PAGODA_RETURN_IF_ERROR(expect(':'));
      PAGODA_RETURN_IF_ERROR(on_member(key));
    } while (accept(','));
    return expect('}');
  }
  template <class OnElement>
  Status read_array(const OnElement& on_element) {
    PAGODA_RETURN_IF_ERROR(expect('['));
    if (accept(']')) return ok_status();
    do {
      PAGODA_RETURN_IF_ERROR(on_element());
    } while (accept(','));
    return expect(']');
  }
  Status read_string(std::string& out);
  // The raw text between a string's quotes, escape sequences included; not validated further.
  Status raw_string(std::string_view& out);
  Status read_integer(std::int64_t& out);
  Status read_number(double& out);
  // The value's raw text, without surrounding white space.
  Status raw_value(std::string_view& out);
  Status skip_value() {
    std::string_view unused;
    return raw_value(unused);
  }
  char peek();  // the next character that is not white space; 0 at the end
  Status expect_end();

 private:
  bool accept(char c);
  Status expect(char c);
  Status error(std::string_view what) const;
  std::string_view number_text();

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace pagoda
